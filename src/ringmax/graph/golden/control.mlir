module @"control" attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2xf32> loc(#loc1), %arg1: tensor<4x2xf32> loc(#loc2)) -> (tensor<2xf32>, tensor<4x2xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32> loc(#loc3)
    %1 = stablehlo.constant dense<0.0> : tensor<4x2xf32> loc(#loc3)
    %2:5 = stablehlo.while(%arg2 = %0, %arg3 = %arg0, %arg4 = %1, %arg5 = %arg1, %arg6 = %arg0) : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<2xf32>
      cond {
        %3 = stablehlo.constant dense<4> : tensor<i32> loc(#loc3)
        %4 = stablehlo.compare LT, %arg2, %3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc3)
        stablehlo.return %4 : tensor<i1> loc(#loc3)
      } do {
        %5 = stablehlo.constant dense<1> : tensor<i32> loc(#loc3)
        %6 = stablehlo.constant dense<0> : tensor<i32> loc(#loc3)
        %7 = stablehlo.constant dense<3> : tensor<i32> loc(#loc3)
        %8 = stablehlo.subtract %7, %arg2 : tensor<i32> loc(#loc3)
        %9 = stablehlo.dynamic_slice %arg5, %8, %6, sizes = [1, 2] : (tensor<4x2xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32> loc(#loc3)
        %10 = stablehlo.reshape %9 : (tensor<1x2xf32>) -> tensor<2xf32> loc(#loc3)
        %11 = stablehlo.constant dense<0> : tensor<i32> loc(#loc3)
        %12 = stablehlo.constant dense<2> : tensor<i32> loc(#loc3)
        %13 = stablehlo.remainder %8, %12 : tensor<i32> loc(#loc3)
        %14 = stablehlo.compare EQ, %13, %11, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> loc(#loc3)
        %15 = "stablehlo.if"(%14) ({
          %16 = stablehlo.add %arg3, %arg6 : tensor<2xf32> loc(#loc3)
          stablehlo.return %16 : tensor<2xf32> loc(#loc3)
        }, {
          stablehlo.return %arg3 : tensor<2xf32> loc(#loc3)
        }) : (tensor<i1>) -> (tensor<2xf32>) loc(#loc3)
        %17 = stablehlo.multiply %arg3, %10 : tensor<2xf32> loc(#loc3)
        %18 = stablehlo.add %arg2, %5 : tensor<i32> loc(#loc3)
        %19 = stablehlo.reshape %17 : (tensor<2xf32>) -> tensor<1x2xf32> loc(#loc3)
        %20 = stablehlo.dynamic_update_slice %arg4, %19, %8, %6 : (tensor<4x2xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<4x2xf32> loc(#loc3)
        stablehlo.return %18, %15, %20, %arg5, %arg6 : tensor<i32>, tensor<2xf32>, tensor<4x2xf32>, tensor<4x2xf32>, tensor<2xf32> loc(#loc3)
      } loc(#loc3)
    %21:2 = stablehlo.while(%arg7 = %2#1, %arg8 = %arg0) : tensor<2xf32>, tensor<2xf32>
      cond {
        %22 = stablehlo.constant dense<9.0> : tensor<f32> loc(#loc3)
        %23 = stablehlo.constant dense<0.0> : tensor<f32> loc(#loc3)
        %24 = stablehlo.reduce(%arg7 init: %23) applies stablehlo.add across dimensions = [0] : (tensor<2xf32>, tensor<f32>) -> tensor<f32> loc(#loc3)
        %25 = stablehlo.compare LT, %24, %22, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1> loc(#loc3)
        stablehlo.return %25 : tensor<i1> loc(#loc3)
      } do {
        %26 = stablehlo.add %arg7, %arg8 : tensor<2xf32> loc(#loc3)
        stablehlo.return %26, %arg8 : tensor<2xf32>, tensor<2xf32> loc(#loc3)
      } loc(#loc3)
    return %21#0, %2#2 : tensor<2xf32>, tensor<4x2xf32>
  }
}
#loc1 = loc("x")
#loc2 = loc("xs")
#loc3 = loc("layers")
