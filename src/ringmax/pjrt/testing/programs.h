// Small programs that tests of several plugins compile.
#ifndef RINGMAX_PJRT_TESTING_PROGRAMS_H_
#define RINGMAX_PJRT_TESTING_PROGRAMS_H_

namespace ringmax::pjrt::testing {

// Twice its argument.
inline constexpr char kDouble[] = R"(
module @double {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

// The same, into the argument's memory.
inline constexpr char kDonating[] = R"(
module @donating {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32})
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

}  // namespace ringmax::pjrt::testing

#endif  // RINGMAX_PJRT_TESTING_PROGRAMS_H_
