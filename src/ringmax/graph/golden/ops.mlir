module @"ops" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32} loc(#loc1), %arg1: tensor<8x3xbf16> loc(#loc2), %arg2: tensor<2xi32> loc(#loc3)) -> (tensor<2x3xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x3xf32>, tensor<8x3xbf16>, tensor<4x3x2xf32>, tensor<2x3xui32>) {
    %0 = stablehlo.constant dense<1> : tensor<i32>
    %1 = "stablehlo.gather"(%arg1, %arg2) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 3>} : (tensor<8x3xbf16>, tensor<2xi32>) -> tensor<2x3xbf16> loc(#loc4)
    %2 = stablehlo.convert %1 : (tensor<2x3xbf16>) -> tensor<2x3xf32> loc(#loc4)
    %3 = stablehlo.constant dense<0.5> : tensor<2x3xf32> loc(#loc5)
    %4 = stablehlo.multiply %arg0, %3 : tensor<2x3xf32> loc(#loc5)
    %5 = stablehlo.compare LT, %arg0, %2, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1> loc(#loc5)
    %6 = stablehlo.select %5, %arg0, %4 : tensor<2x3xi1>, tensor<2x3xf32> loc(#loc5)
    %7 = stablehlo.dot_general %arg0, %2, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32> loc(#loc5)
    %8 = stablehlo.constant dense<0xFF800000> : tensor<f32> loc(#loc5)
    %9 = stablehlo.reduce(%arg0 init: %8) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32> loc(#loc5)
    %10 = stablehlo.slice %arg0 [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32> loc(#loc5)
    %11 = stablehlo.constant dense<-1.0> : tensor<f32> loc(#loc5)
    %12 = stablehlo.pad %10, %11, low = [0, 1], high = [0, 0], interior = [0, 0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x3xf32> loc(#loc5)
    %13 = stablehlo.reverse %arg0, dims = [0] : tensor<2x3xf32> loc(#loc5)
    %14 = stablehlo.concatenate %arg0, %13, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32> loc(#loc5)
    %15 = stablehlo.constant dense<0> : tensor<i32> loc(#loc5)
    %16 = stablehlo.dynamic_slice %arg0, %0, %15, sizes = [1, 3] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x3xf32> loc(#loc5)
    %17 = stablehlo.dynamic_update_slice %arg0, %16, %0, %15 : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32> loc(#loc5)
    %18 = "stablehlo.scatter"(%arg1, %arg2, %1) ({
    ^bb0(%arg3: tensor<bf16>, %arg4: tensor<bf16>):
      %19 = stablehlo.add %arg3, %arg4 : tensor<bf16> loc(#loc5)
      stablehlo.return %19 : tensor<bf16> loc(#loc5)
    }) {indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false} : (tensor<8x3xbf16>, tensor<2xi32>, tensor<2x3xbf16>) -> tensor<8x3xbf16> loc(#loc5)
    %20 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32> loc(#loc5)
    %21 = stablehlo.broadcast_in_dim %20, dims = [1, 2] : (tensor<3x2xf32>) -> tensor<4x3x2xf32> loc(#loc5)
    %22 = stablehlo.iota dim = 1 : tensor<2x3xui32> loc(#loc5)
    return %6, %7, %9, %12, %14, %17, %18, %21, %22 : tensor<2x3xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x3xf32>, tensor<8x3xbf16>, tensor<4x3x2xf32>, tensor<2x3xui32>
  }
}
#loc1 = loc("x")
#loc2 = loc("table")
#loc3 = loc("rows")
#loc4 = loc("embed")
#loc5 = loc("body")
