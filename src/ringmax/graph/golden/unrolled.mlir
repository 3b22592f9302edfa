module @"unrolled" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> loc(#loc1), %arg1: tensor<3x2xf32> loc(#loc2)) -> (tensor<2xf32>, tensor<3x2xf32>) {
    %0 = stablehlo.constant dense<2> : tensor<i32>
    %1 = stablehlo.slice %arg1 [2:3, 0:2] : (tensor<3x2xf32>) -> tensor<1x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x2xf32>) -> tensor<2xf32>
    %3 = stablehlo.convert %0 : (tensor<i32>) -> tensor<f32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %5 = stablehlo.multiply %2, %4 : tensor<2xf32>
    %6 = stablehlo.add %arg0, %5 : tensor<2xf32>
    %7 = stablehlo.reshape %5 : (tensor<2xf32>) -> tensor<1x2xf32>
    %8 = stablehlo.constant dense<1> : tensor<i32>
    %9 = stablehlo.slice %arg1 [1:2, 0:2] : (tensor<3x2xf32>) -> tensor<1x2xf32>
    %10 = stablehlo.reshape %9 : (tensor<1x2xf32>) -> tensor<2xf32>
    %11 = stablehlo.convert %8 : (tensor<i32>) -> tensor<f32>
    %12 = stablehlo.broadcast_in_dim %11, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %13 = stablehlo.multiply %10, %12 : tensor<2xf32>
    %14 = stablehlo.add %6, %13 : tensor<2xf32>
    %15 = stablehlo.reshape %13 : (tensor<2xf32>) -> tensor<1x2xf32>
    %16 = stablehlo.constant dense<0> : tensor<i32>
    %17 = stablehlo.slice %arg1 [0:1, 0:2] : (tensor<3x2xf32>) -> tensor<1x2xf32>
    %18 = stablehlo.reshape %17 : (tensor<1x2xf32>) -> tensor<2xf32>
    %19 = stablehlo.convert %16 : (tensor<i32>) -> tensor<f32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %21 = stablehlo.multiply %18, %20 : tensor<2xf32>
    %22 = stablehlo.add %14, %21 : tensor<2xf32>
    %23 = stablehlo.reshape %21 : (tensor<2xf32>) -> tensor<1x2xf32>
    %24 = stablehlo.concatenate %23, %15, %7, dim = 0 : (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
    return %22, %24 : tensor<2xf32>, tensor<3x2xf32>
  }
}
#loc1 = loc("x")
#loc2 = loc("xs")
