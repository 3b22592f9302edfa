// The door to XLA: programs that call the kernels by name on the CPU plugin.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ringmax/attention/cpu/ffi.h"
#include "ringmax/attention/cpu/testing/run_kernel.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/base/error.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/testing/run_graph.h"
#include "ringmax/train/native_kernels.h"

namespace ringmax::attention::cpu {
namespace {

using ::ringmax::testing::cpu_client;
using ::testing::HasSubstr;

struct CallTypes {
  std::string q = "1x2x2x40x16xf32", k = "1x2x48x16xf32", v = "1x2x48x16xf32",
              q_positions = "40xi32", kv_positions = "48xi32",
              out = "1x2x2x40x16xf32", row = "1x2x2x40xf32";
};

std::string program(const CallTypes& t, const std::string& attributes) {
  return fmt::format(
      R"(
module @call {{
  func.func public @main(%q: tensor<{}>, %k: tensor<{}>, %v: tensor<{}>,
      %qp: tensor<{}>, %kp: tensor<{}>)
      -> (tensor<{}>, tensor<{}>, tensor<{}>) {{
    %0:3 = stablehlo.custom_call @ringmax_splash_forward(%q, %k, %v, %qp, %kp)
        {{api_version = 4 : i32, backend_config = {}}}
        : (tensor<{}>, tensor<{}>, tensor<{}>, tensor<{}>, tensor<{}>)
        -> (tensor<{}>, tensor<{}>, tensor<{}>)
    return %0#0, %0#1, %0#2 : tensor<{}>, tensor<{}>, tensor<{}>
  }}
}})",
      t.q, t.k, t.v, t.q_positions, t.kv_positions, t.out, t.row, t.row,
      attributes, t.q, t.k, t.v, t.q_positions, t.kv_positions, t.out, t.row,
      t.row, t.out, t.row, t.row);
}

Shape shape_of(const std::string& type) {
  Shape shape;
  std::size_t begin = 0;
  for (std::size_t x = type.find('x'); x != std::string::npos;
       x = type.find('x', begin)) {
    shape.dims.push_back(std::stoll(type.substr(begin, x - begin)));
    begin = x + 1;
  }
  const std::string dtype = type.substr(begin);
  shape.dtype = dtype == "i32"    ? DType::kI32
                : dtype == "bf16" ? DType::kBF16
                : dtype == "f64"  ? DType::kF64
                                  : DType::kF32;
  return shape;
}

std::vector<HostArray> call(const CallTypes& types,
                            const std::string& attributes) {
  EXPECT_TRUE(train::register_native_kernels(cpu_client().plugin()));
  const auto executable = cpu_client().compile(program(types, attributes), {});
  std::vector<std::vector<pjrt::Buffer>> in(1);
  float x = 0.1F;
  for (const std::string* type : {&types.q, &types.k, &types.v,
                                  &types.q_positions, &types.kv_positions}) {
    HostArray array(shape_of(*type));
    if (array.shape().dtype == DType::kI32) {
      std::int32_t i = 0;
      for (std::int32_t& p : array.data<std::int32_t>()) p = i++;
    } else if (array.shape().dtype == DType::kF32) {
      for (float& y : array.data<float>()) y = (x = 3.7F * x * (1 - x));
    }
    in[0].push_back(cpu_client().to_device(array, 0));
  }
  std::vector<HostArray> out;
  const auto made = executable.execute(in);
  for (const pjrt::Buffer& b : made.outputs[0]) out.push_back(b.to_host());
  return out;
}

std::string error_of(const CallTypes& types, const std::string& attributes) {
  try {
    call(types, attributes);
  } catch (const Error& error) {
    return error.message();
  }
  return "none";
}

TEST(FfiTest, AProgramCallsTheKernel) {
  CallAttributes attributes;
  attributes.mask = Mask::causal(3) & Mask::local(9, 2);
  attributes.scale = 0.25;
  const CallTypes types;
  const std::vector<HostArray> got = call(types, attributes_text(attributes));
  // The same through the function itself, in [B, S, H, D] order.
  ASSERT_EQ(got.size(), 3U);
  for (const HostArray& array : got) {
    for (const float x : array.data<float>()) ASSERT_TRUE(std::isfinite(x));
  }
  // A mean of values in (0, 1).
  EXPECT_GT(got[0].data<float>()[5], 0.F);
  EXPECT_LT(got[0].data<float>()[5], 1.F);
}

TEST(FfiTest, TokensMayComeFirst) {
  CallAttributes attributes;
  attributes.mask = Mask::causal(8);
  const std::vector<HostArray> heads = call({}, attributes_text(attributes));
  attributes.tokens_first = true;
  CallTypes t;
  t.q = t.out = "1x40x2x2x16xf32";
  t.k = t.v = "1x48x2x16xf32";
  const std::vector<HostArray> tokens = call(t, attributes_text(attributes));
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_EQ(tokens[0].shape().dims, (Dims{1, 40, 2, 2, 16}));
  EXPECT_EQ(tokens[1].shape(), heads[1].shape());
  for (const float x : tokens[0].data<float>()) ASSERT_TRUE(std::isfinite(x));
  t.k = "1x2x48x16xf32";
  EXPECT_THAT(error_of(t, attributes_text(attributes)),
              HasSubstr("not [B,S,K,G,D], [B,T,K,D] and [B,T,K,V] of"));
}

TEST(FfiTest, BuffersThatDoNotFitAreErrors) {
  const std::string good = attributes_text({});
  EXPECT_EQ(error_of({}, good), "none");
  CallTypes t;
  t.k = "1x2x48x8xf32";
  EXPECT_THAT(error_of(t, good),
              HasSubstr("q, k and v are f32[1,2,2,40,16], f32[1,2,48,8]"));
  t = {};
  t.v = "1x2x47x16xf32";
  EXPECT_THAT(error_of(t, good), HasSubstr("f32[1,2,47,16], not"));
  t = {};
  t.q = "1x2x2x40x16xbf16";
  EXPECT_THAT(error_of(t, good), HasSubstr("bf16[1,2,2,40,16]"));
  t = {};
  t.q = "1x2x2x40x16xf64";
  t.k = t.v = "1x2x48x16xf64";
  EXPECT_THAT(error_of(t, good), HasSubstr("of f32 or bf16"));
  t = {};
  t.kv_positions = "40xi32";
  EXPECT_THAT(error_of(t, good),
              HasSubstr("kv_positions is s32[40], not s32[48]"));
  t = {};
  t.out = "1x2x2x40x8xf32";
  EXPECT_THAT(error_of(t, good), HasSubstr("out is f32[1,2,2,40,8]"));
  t = {};
  t.row = "1x2x2x41xf32";
  EXPECT_THAT(error_of(t, good), HasSubstr("sum is f32[1,2,2,41]"));
}

TEST(FfiTest, AttributesThatDoNotFitAreErrors) {
  CallAttributes attributes;
  attributes.segments = true;
  EXPECT_THAT(error_of({}, attributes_text(attributes)),
              HasSubstr("operand q_segments is missing"));
  EXPECT_THAT(error_of({}, R"({mask = "causal"})"),
              HasSubstr("attribute scale is missing"));
  std::string text = attributes_text({});
  text.replace(text.find("\"full\""), 6, "\"fulll\"");
  EXPECT_THAT(error_of({}, text), HasSubstr("fulll"));
}

}  // namespace
}  // namespace ringmax::attention::cpu
