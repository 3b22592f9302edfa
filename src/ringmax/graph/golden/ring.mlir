module @"ring" attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "context"=4]>
  func.func public @main(%arg0: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "context"}, {}]>} loc(#loc1), %arg1: tensor<2x2xf32> loc(#loc2)) -> (tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data", "context"}, {}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"data", "context"}, {}]> : tensor<8x2xf32> loc(#loc3)
    %1 = sdy.manual_computation(%0, %arg1) in_shardings=[<@mesh, [{"data", "context"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"data", "context"}, {}]>] manual_axes={"data", "context"} (%arg2: tensor<1x2xf32>, %arg3: tensor<2x2xf32>) {
      %2 = stablehlo.partition_id : tensor<ui32> loc(#loc3)
      %3 = stablehlo.convert %2 : (tensor<ui32>) -> tensor<i32> loc(#loc3)
      %4 = stablehlo.constant dense<4> : tensor<i32> loc(#loc3)
      %5 = stablehlo.constant dense<1> : tensor<i32> loc(#loc3)
      %6 = stablehlo.divide %3, %5 : tensor<i32> loc(#loc3)
      %7 = stablehlo.remainder %6, %4 : tensor<i32> loc(#loc3)
      %8 = stablehlo.convert %7 : (tensor<i32>) -> tensor<f32> loc(#loc3)
      %9 = "stablehlo.collective_permute"(%arg2) {channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 7], [7, 4]]> : tensor<8x2xi64>} : (tensor<1x2xf32>) -> tensor<1x2xf32> loc(#loc4)
      %10 = "stablehlo.all_reduce"(%9) ({
      ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
        %11 = stablehlo.add %arg4, %arg5 : tensor<f32> loc(#loc4)
        stablehlo.return %11 : tensor<f32> loc(#loc4)
      }) {channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, replica_groups = dense<[[0, 4], [1, 5], [2, 6], [3, 7]]> : tensor<4x2xi64>, use_global_device_ids} : (tensor<1x2xf32>) -> tensor<1x2xf32> loc(#loc4)
      %12 = "stablehlo.all_gather"(%9) {all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, use_global_device_ids} : (tensor<1x2xf32>) -> tensor<4x2xf32> loc(#loc4)
      %13 = "stablehlo.reduce_scatter"(%12) ({
      ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
        %14 = stablehlo.add %arg6, %arg7 : tensor<f32> loc(#loc4)
        stablehlo.return %14 : tensor<f32> loc(#loc4)
      }) {channel_handle = #stablehlo.channel_handle<handle = 4, type = 1>, replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]> : tensor<2x4xi64>, scatter_dimension = 0 : i64, use_global_device_ids} : (tensor<4x2xf32>) -> tensor<1x2xf32> loc(#loc4)
      %15 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<1x2xf32> loc(#loc4)
      %16 = stablehlo.add %10, %13 : tensor<1x2xf32> loc(#loc4)
      %17 = stablehlo.reshape %16 : (tensor<1x2xf32>) -> tensor<2xf32> loc(#loc4)
      %18 = stablehlo.dot_general %17, %arg3, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32> loc(#loc4)
      %19 = stablehlo.reshape %18 : (tensor<2xf32>) -> tensor<1x2xf32> loc(#loc4)
      %20 = stablehlo.multiply %19, %15 : tensor<1x2xf32> loc(#loc4)
      sdy.return %20 : tensor<1x2xf32> loc(#loc3)
    } : (tensor<8x2xf32>, tensor<2x2xf32>) -> tensor<8x2xf32> loc(#loc3)
    return %1 : tensor<8x2xf32>
  }
}
#loc1 = loc("x")
#loc2 = loc("w")
#loc3 = loc("attention")
#loc4 = loc("attention/ring_send")
