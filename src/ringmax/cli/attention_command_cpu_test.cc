// `ringmax attention` from file to file: padding, dtypes, metadata, and every
// wrong input by name with exit code 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "ringmax/attention/reference.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/base/file.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/base/testing/temp_dir.h"
#include "ringmax/cli/commands.h"

namespace ringmax::cli {
namespace {

using attention::attention_error;
using attention::Mask;
using attention::reference_attention;
using attention::ReferenceOutputs;
using ::testing::HasSubstr;
using Case = attention::testing::Case;
using Tensors = std::map<std::string, HostArray>;

// See attend_cpu_test.cc: float32 and bfloat16 against float64.
constexpr double kForwardTolerance = 2e-5;
constexpr double kGradientTolerance = 5e-5;
constexpr double kBf16Tolerance = 3e-2;

Tensors tensors_of(const Case& c, DType dtype, bool gradients = true) {
  const attention::ReferenceInputs& in = c.inputs;
  const auto array = [&](const std::vector<double>& values, std::int64_t length,
                         std::int64_t heads) {
    return HostArray::from<double>({in.batch, length, heads, in.head_dim},
                                   values)
        .convert(dtype);
  };
  Tensors tensors = {{"q", array(in.q, in.queries, in.query_heads)},
                     {"k", array(in.k, in.keys, in.kv_heads)},
                     {"v", array(in.v, in.keys, in.kv_heads)}};
  if (gradients) {
    tensors["do"] = array(in.dout, in.queries, in.query_heads);
  }
  return tensors;
}

std::vector<double> values_of(const SafetensorsFile& file,
                              const std::string& name) {
  const HostArray wide = file.tensor(name).convert(DType::kF64);
  const auto values = wide.data<double>();
  return {values.begin(), values.end()};
}

class AttentionCommandTest : public ::testing::Test {
 protected:
  void write(const Tensors& tensors) {
    std::vector<TensorSource> sources;
    for (const auto& [name, array] : tensors) {
      sources.push_back(tensor_source(name, array));
    }
    write_safetensors(in(), std::move(sources), {});
  }
  std::string in() const { return dir_.path() + "/in.safetensors"; }
  std::string out() const { return dir_.path() + "/out.safetensors"; }

  int run(std::vector<std::string> words) {
    words.insert(words.begin(), {"attention", "--in", in(), "--out", out()});
    ::testing::internal::CaptureStderr();
    const int code = run_cli(words);
    error_ = ::testing::internal::GetCapturedStderr();
    return code;
  }
  void expect_refused(std::vector<std::string> words, const char* message) {
    EXPECT_EQ(run(std::move(words)), 2) << error_;
    EXPECT_THAT(error_, HasSubstr(message));
    EXPECT_FALSE(path_exists(out()));
  }
  void expect_result(const ReferenceOutputs& want, double forward,
                     double gradient) {
    const SafetensorsFile file(out());
    EXPECT_LE(attention_error(values_of(file, "out"), want.out), forward);
    EXPECT_LE(attention_error(values_of(file, "lse"), want.lse), forward);
    EXPECT_LE(attention_error(values_of(file, "max_logits"), want.max_logits),
              forward);
    EXPECT_LE(attention_error(values_of(file, "dq"), want.dq), gradient);
    EXPECT_LE(attention_error(values_of(file, "dk"), want.dk), gradient);
    EXPECT_LE(attention_error(values_of(file, "dv"), want.dv), gradient);
  }

  TempDir dir_;
  std::string error_;
};

Case small(const Mask& mask, std::int64_t queries = 13,
           std::int64_t keys = 13) {
  return attention::testing::random_case("cli", mask, 2, queries, keys, 4, 2, 8,
                                         2, 3);
}

TEST_F(AttentionCommandTest, PadsWhatTheRingDoesNotDivide) {
  for (const auto& [queries, keys] : {std::pair{13, 13}, std::pair{9, 14}}) {
    for (const char* mask : {"full", "causal:-3"}) {
      const Case c = small(attention::parse_mask(mask), queries, keys);
      write(tensors_of(c, DType::kF32));
      const ReferenceOutputs want = reference_attention(c.inputs);
      for (const char* strategy : {"strategy=ring", "strategy=all_gather"}) {
        SCOPED_TRACE(std::string(mask) + " " + strategy);
        ASSERT_EQ(run({std::string("mask=") + mask, "context_parallel=4",
                       strategy, "block_q=3", "block_kv=2"}),
                  0)
            << error_;
        expect_result(want, kForwardTolerance, kGradientTolerance);
      }
    }
  }
}

TEST_F(AttentionCommandTest, TellsWhatWasSentAndComputed) {
  write(tensors_of(small(Mask::causal(), 16, 16), DType::kF32, false));
  const std::string dump = dir_.path() + "/dump/here";
  ASSERT_EQ(run({"mask=causal", "context_parallel=4", "--dump", dump}), 0)
      << error_;
  const SafetensorsFile file(out());
  StringMap got = file.metadata();
  EXPECT_GT(std::stoll(got["temporaries_bytes"]), 0);
  got.erase("temporaries_bytes");
  // A shard of keys and values: 2 x 4 tokens x 2 heads x 8, twice, 4 bytes.
  const StringMap want = {{"kernel", "native"},
                          {"strategy", "ring"},
                          {"layout", "contiguous"},
                          {"devices", "4"},
                          {"ring_steps_sent", "3"},
                          {"bytes_sent_per_device", "3072"},
                          {"pairs_per_device", "[10, 26, 42, 58]"}};
  EXPECT_EQ(got, want);
  EXPECT_FALSE(file.contains("dq"));
  EXPECT_THAT(read_file(dump + "/program.mlir"),
              HasSubstr("stablehlo.collective_permute"));
  // Shards that nobody sees do not travel.
  ASSERT_EQ(run({"mask=causal:-12", "context_parallel=4"}), 0) << error_;
  EXPECT_EQ(SafetensorsFile(out()).metadata().at("ring_steps_sent"), "1");
}

TEST_F(AttentionCommandTest, ReferenceTakesF64AndResultsKeepTheDtypeOfQ) {
  const Case c = small(Mask::causal());
  const ReferenceOutputs want = reference_attention(c.inputs);
  write(tensors_of(c, DType::kF64));
  ASSERT_EQ(run({"mask=causal", "kernel=reference"}), 0) << error_;
  expect_result(want, 1e-6, 0);  // statistics are written as F32
  EXPECT_EQ(SafetensorsFile(out()).shapes().at("dk").dtype, DType::kF64);
  EXPECT_EQ(SafetensorsFile(out()).shapes().at("lse").dtype, DType::kF32);

  write(tensors_of(c, DType::kF32));
  ASSERT_EQ(run({"mask=causal", "dtype=bfloat16"}), 0) << error_;
  const SafetensorsFile rounded(out());
  EXPECT_EQ(rounded.shapes().at("out").dtype, DType::kF32);
  const double error = attention_error(values_of(rounded, "out"), want.out);
  EXPECT_GT(error, kForwardTolerance);
  EXPECT_LE(error, kBf16Tolerance);
}

TEST_F(AttentionCommandTest, ScaleIsTaken) {
  Case c = small(Mask::full());
  c.inputs.scale = -0.25;
  write(tensors_of(c, DType::kF32));
  ASSERT_EQ(run({"scale=-0.25"}), 0) << error_;
  expect_result(reference_attention(c.inputs), kForwardTolerance,
                kGradientTolerance);
}

TEST_F(AttentionCommandTest, RefusesSettingsByName) {
  write(tensors_of(small(Mask::causal()), DType::kF32));
  expect_refused({"contxt_parallel=2"}, "context_parallel");
  expect_refused({"context_parallel=0"}, "context_parallel");
  expect_refused({"context_parallel=14"}, "context_parallel=14");
  expect_refused({"context_parallel=2", "strategy=single"}, "strategy=single");
  expect_refused({"context_parallel=3", "strategy=ulysses"},
                 "4 query heads a device do not divide over 3 devices");
  expect_refused({"context_parallel=6", "strategy=usp", "ulysses_size=3"},
                 "4 query heads a device do not divide over 3 devices");
  expect_refused({"context_parallel=6", "ulysses_size=4"}, "ulysses_size=4");
  expect_refused({"context_parallel=4", "ulysses_size=2", "strategy=ulysses"},
                 "ulysses_size=2 is for strategy=usp");
  expect_refused({"mask=local:3"}, "mask=local:3");
  expect_refused({"mask=local:-1,0"}, "mask local:-1,0");
  expect_refused({"mask=chunked:0"}, "mask chunked:0");
  expect_refused({"mask=causal&"}, "mask=causal&");
  expect_refused({"mask=dense"}, "mask=dense");
  expect_refused({"layout=zigzagged"}, "layout=zigzagged");
  expect_refused({"kernel=nativ"}, "kernel=nativ");
  expect_refused({"kernel=reference", "context_parallel=2"},
                 "kernel=reference");
  expect_refused({"kernel=reference", "strategy=ring"}, "strategy=ring");
  expect_refused({"kernel=reference", "bidirectional=true"},
                 "bidirectional=true");
  expect_refused({"kernel=reference", "--dump", dir_.path()}, "--dump");
  expect_refused(
      {"bidirectional=true", "context_parallel=2", "strategy=all_gather"},
      "bidirectional=true asks for a ring");
  expect_refused({"bidirectional=true", "context_parallel=13"},
                 "cannot be halved");
  for (const char* wrong : {"-1", "nan", "inf"}) {
    expect_refused({std::string("logit_soft_cap=") + wrong}, "logit_soft_cap");
  }
  expect_refused({"scale=nan"}, "scale");
  expect_refused({"ring_scan_unroll=-1"}, "ring_scan_unroll");
  expect_refused({"scale=0"}, "scale=0");
  expect_refused({"block_q=0"}, "block_q");
  expect_refused({"dtype=float16"}, "dtype");
  expect_refused({"pjrt_plugin=/no/such.so"}, "/no/such.so");
}

TEST_F(AttentionCommandTest, RefusesTensorsByNameAndShape) {
  const Tensors good = tensors_of(small(Mask::causal()), DType::kF32);
  const auto refused = [&](const char* name, std::optional<Shape> shape,
                           const char* message) {
    Tensors bad = good;
    if (shape) {
      bad[name] = HostArray(*shape);
    } else {
      bad.erase(name);
    }
    write(bad);
    SCOPED_TRACE(name);
    expect_refused({}, message);
  };
  refused("v", std::nullopt, "tensor v is missing");
  refused("q", Shape(DType::kF32, {13, 4, 8}), "q is f32[13,4,8]");
  refused("q", Shape(DType::kI32, {2, 13, 4, 8}), "i32[2,13,4,8]");
  refused("q", Shape(DType::kBF16, {2, 13, 4, 8}), "must have one dtype");
  refused("q", Shape(DType::kF32, {2, 0, 4, 8}), "no dimension may be 0");
  refused("q", Shape(DType::kF32, {2, 13, 3, 8}), "multiple");
  refused("k", Shape(DType::kF32, {1, 13, 2, 8}), "batch");
  refused("k", Shape(DType::kF32, {2, 12, 2, 8}), "f32[2,12,2,8]");
  refused("k", Shape(DType::kF32, {2, 13, 2, 6}), "head size");
  refused("do", Shape(DType::kF32, {2, 13, 4, 6}), "do f32[2,13,4,6]");
  refused("sinks", Shape(DType::kF32, {3}), "sinks f32[3]");
  refused("sinks", Shape(DType::kBF16, {4}), "sinks bf16[4]");
  refused("mask", Shape(DType::kU8, {13, 13}), "does not use it");
  refused("mask", Shape(DType::kF32, {13, 13}), "mask is f32[13,13]");
  refused("q_segment_ids", Shape(DType::kI32, {2, 13}),
          "without kv_segment_ids");
  refused("kv_segment_ids", Shape(DType::kI32, {2, 13}),
          "without q_segment_ids");
  refused("q_segment_ids", Shape(DType::kI64, {2, 13}),
          "q_segment_ids i64[2,13]");
  refused("kv_segment_ids", Shape(DType::kI32, {2, 12}),
          "kv_segment_ids i32[2,12]");
  refused("d0", Shape(DType::kF32, {2, 13, 4, 8}), "did you mean do?");
  write(tensors_of(small(Mask::causal()), DType::kF64));
  expect_refused({}, "kernel=reference");

  Tensors bad = good;
  bad["mask"] = HostArray(Shape(DType::kU8, {13, 12}));
  write(bad);
  expect_refused({"mask=dense"}, "12");
  bad = good;
  bad["q_segment_ids"] = HostArray(Shape(DType::kI32, {2, 13}));
  bad["kv_segment_ids"] = HostArray(Shape(DType::kI32, {2, 13}));
  bad["q_segment_ids"].data<std::int32_t>()[3] = -1;
  write(bad);
  expect_refused({}, "q_segment_ids holds -1");
  bad = good;
  bad["sinks"] = HostArray(Shape(DType::kF32, {4}));
  bad["sinks"].data<float>()[2] = std::numeric_limits<float>::quiet_NaN();
  write(bad);
  expect_refused({}, "tensor sinks holds nan");
}

TEST_F(AttentionCommandTest, TakesEveryFeature) {
  Case c = small(Mask::full());
  attention::ReferenceInputs& in = c.inputs;
  in.soft_cap = 2.5;
  in.sinks = {1, -1, 0.5, 2};
  std::vector<std::uint8_t> visible;
  for (std::int64_t i = 0; i < 13 * 13; ++i) visible.push_back(i % 5 != 0);
  in.mask = [&](std::int64_t i, std::int64_t j) {
    return j <= i + 2 && visible[static_cast<std::size_t>(i * 13 + j)] != 0;
  };
  for (std::int64_t i = 0; i < 26; ++i) {
    in.query_segments.push_back(static_cast<std::int32_t>(i % 13 < 6 ? 1 : 2));
  }
  in.kv_segments = in.query_segments;
  Tensors tensors = tensors_of(c, DType::kF32);
  tensors["sinks"] =
      HostArray::from<double>({4}, in.sinks).convert(DType::kF32);
  tensors["mask"] = HostArray::from<std::uint8_t>({13, 13}, visible);
  tensors["q_segment_ids"] =
      HostArray::from<std::int32_t>({2, 13}, in.query_segments);
  tensors["kv_segment_ids"] = tensors["q_segment_ids"];
  write(tensors);
  const ReferenceOutputs want = reference_attention(in);
  const std::vector<std::string> words = {"mask=dense&causal:2",
                                          "logit_soft_cap=2.5", "block_q=4"};
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"kernel=reference"},
        {"context_parallel=4", "strategy=usp", "ulysses_size=2",
         "layout=zigzag"},
        {"context_parallel=3", "bidirectional=true", "layout=striped"}}) {
    SCOPED_TRACE(how.front());
    std::vector<std::string> all = words;
    all.insert(all.end(), how.begin(), how.end());
    ASSERT_EQ(run(all), 0) << error_;
    expect_result(want, kForwardTolerance, kGradientTolerance);
    EXPECT_LE(attention_error(values_of(SafetensorsFile(out()), "dsinks"),
                              want.dsinks),
              kGradientTolerance);
  }
}

TEST_F(AttentionCommandTest, RefusesFilesByPath) {
  expect_refused({}, "in.safetensors");
  dir_.write("in.safetensors", "this is not a tensor file");
  expect_refused({}, "in.safetensors");
  EXPECT_EQ(run_cli(std::vector<std::string>{"attention"}), 2);
}

}  // namespace
}  // namespace ringmax::cli
