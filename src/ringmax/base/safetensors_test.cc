#include "ringmax/base/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ringmax/base/error.h"
#include "ringmax/base/philox.h"
#include "ringmax/base/testing/temp_dir.h"

namespace ringmax {
namespace {

using ::testing::HasSubstr;

std::string file_text(std::string header, std::string_view data) {
  std::string text(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data);
}

std::string fault_of(const std::string& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message(), HasSubstr(path));
    return error.message();
  }
  return "accepted";
}

std::vector<TensorSource> example() {
  std::vector<float> floats(6);
  std::iota(floats.begin(), floats.end(), 0.5F);
  const std::uint8_t bytes[] = {1, 2, 3};
  const std::int64_t scalar[] = {-7};
  return {tensor_source("z", HostArray::from<std::uint8_t>({3}, bytes)),
          tensor_source("b", HostArray::from<float>({2, 3}, floats)),
          tensor_source("a", HostArray(Shape(DType::kBF16, {0, 4}))),
          tensor_source("s", HostArray::from<std::int64_t>({}, scalar))};
}

TEST(Safetensors, RoundTrip) {
  const TempDir dir;
  const std::string path = dir.path() + "/x.safetensors";
  const StringMap metadata = {{"kernel", "ring"}, {"quote\"", "\xC3\xA9\n"}};
  write_safetensors(path, example(), metadata);
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.shapes().size(), 4u);
  EXPECT_EQ(file.shapes().at("a"), Shape(DType::kBF16, {0, 4}));
  const HostArray b = file.tensor("b");
  EXPECT_EQ(b.shape(), Shape(DType::kF32, {2, 3}));
  EXPECT_EQ(b.data<float>()[5], 5.5F);
  EXPECT_EQ(file.tensor("s").data<std::int64_t>()[0], -7);
  EXPECT_EQ(file.tensor("z").data<std::uint8_t>()[2], 3);
  EXPECT_EQ(file.tensor("a").bytes().size(), 0u);
}

TEST(Safetensors, BytesAreThoseOfTheFormat) {
  const TempDir dir;
  const std::string path = dir.path() + "/x.safetensors";
  const std::uint8_t bytes[] = {1, 2};
  write_safetensors(
      path, {tensor_source("t", HostArray::from<std::uint8_t>({2}, bytes))},
      {{"k", "v"}});
  std::string header =
      R"({"__metadata__":{"k":"v"},)"
      R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(path), file_text(header, "\x01\x02"));
}

TEST(Safetensors, OrderGivenDoesNotMatterAndDataIsAligned) {
  const TempDir dir;
  std::vector<TensorSource> tensors = example();
  write_safetensors(dir.path() + "/1", tensors, {});
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(dir.path() + "/2", tensors, {});
  EXPECT_EQ(read_file(dir.path() + "/1"), read_file(dir.path() + "/2"));
  const SafetensorsFile file(dir.path() + "/1");
  for (const auto& [name, shape] : file.shapes()) {
    const HostArray view = file.tensor(name);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.bytes().data()) %
                  dtype_size(shape.dtype),
              0u);
  }
}

TEST(Safetensors, EmptyFileAndEmptyMetadata) {
  const TempDir dir;
  write_safetensors(dir.path() + "/x", {}, {});
  const SafetensorsFile file(dir.path() + "/x");
  EXPECT_TRUE(file.shapes().empty());
  EXPECT_TRUE(file.metadata().empty());
}

TEST(Safetensors, ViewsOutliveTheReader) {
  const TempDir dir;
  write_safetensors(dir.path() + "/x", example(), {});
  const HostArray b = SafetensorsFile(dir.path() + "/x").tensor("b");
  EXPECT_EQ(b.data<float>()[0], 0.5F);
}

TEST(Safetensors, MisalignedTensorIsCopied) {
  const TempDir dir;
  const float value = 2.5F;
  std::string data(5, '\x07');
  std::memcpy(data.data() + 1, &value, 4);
  // A header of 8 n bytes makes the data start aligned, so that byte 1 is not.
  std::string header =
      R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const SafetensorsFile file(dir.write("x", file_text(header, data)));
  EXPECT_EQ(file.tensor("f").data<float>()[0], 2.5F);
  EXPECT_EQ(file.tensor("u").data<std::uint8_t>()[0], 7);
}

TEST(Safetensors, MissingTensorNamesTheOthers) {
  const TempDir dir;
  write_safetensors(dir.path() + "/x", example(), {});
  try {
    SafetensorsFile(dir.path() + "/x").tensor("q");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.message(), HasSubstr("'q'"));
    EXPECT_THAT(error.message(), HasSubstr("a, b, s, z"));
  }
}

TEST(Safetensors, WriterChecksNamesAndSources) {
  const TempDir dir;
  const std::string path = dir.write("x", "old");
  const HostArray one(Shape(DType::kF32, {1}));
  const auto write = [&](std::vector<TensorSource> tensors) {
    write_safetensors(path, std::move(tensors), {});
  };
  EXPECT_THROW(write({tensor_source("a", one), tensor_source("a", one)}),
               Error);
  EXPECT_THROW(write({tensor_source("__metadata__", one)}), Error);
  EXPECT_THROW(write({tensor_source("\xFF", one)}), Error);
  const std::vector<std::byte> eight(8);
  EXPECT_THROW(write({{"a", Shape(DType::kF32, {1}),
                       [&](const ByteSink& sink) { sink(eight); }}}),
               Error);
  EXPECT_THROW(write({{"a", Shape(DType::kF32, {1}), [](const ByteSink&) {}}}),
               Error);
  EXPECT_THROW(write({{"a", Shape(DType::kF32, {1}),
                       [](const ByteSink&) { throw std::bad_alloc(); }}}),
               std::bad_alloc);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(list_files(dir.path()).size(), 1u);
}

TEST(Safetensors, SourcesMayWriteInPieces) {
  const TempDir dir;
  const std::vector<std::byte> four(4, std::byte{1});
  write_safetensors(dir.path() + "/x",
                    {{"a", Shape(DType::kI32, {3}),
                      [&](const ByteSink& sink) {
                        for (int i = 0; i < 3; ++i) sink(four);
                      }}},
                    {});
  EXPECT_EQ(
      SafetensorsFile(dir.path() + "/x").tensor("a").data<std::int32_t>()[2],
      0x01010101);
}

struct Hostile {
  std::string header;
  std::size_t data_bytes;
  std::string fault;
};

TEST(Safetensors, HostileHeaders) {
  const TempDir dir;
  const auto tensor = [](std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
    return fmt::format(R"({{"t":{{"dtype":{},"shape":{},"data_offsets":{}}}}})",
                       dtype, shape, offsets);
  };
  const std::vector<Hostile> cases = {
      {"", 0, "not valid JSON"},
      {"{", 0, "not valid JSON"},
      {"[]", 0, "not a JSON object"},
      {"{} x", 0, "not valid JSON"},
      {"{\"\xFF\":1}", 0, "not valid JSON"},
      {R"({"t":1})", 0, "not a JSON object"},
      {R"({"t":{}})", 0, "has no \"dtype\""},
      {R"({"__metadata__":[]})", 0, "strings to strings"},
      {R"({"__metadata__":{"a":1}})", 0, "strings to strings"},
      {tensor("4", "[1]", "[0,4]"), 4, "dtype is not a string"},
      {tensor("\"F7\"", "[1]", "[0,4]"), 4, "F7 is not supported"},
      {tensor("\"F32\"", "1", "[0,4]"), 4, "shape is not a list"},
      {tensor("\"F32\"", "[-1]", "[0,4]"), 4, "something else than sizes"},
      {tensor("\"F32\"", "[1.5]", "[0,4]"), 4, "something else than sizes"},
      {tensor("\"F32\"", "[18446744073709551615]", "[0,4]"), 4,
       "something else than sizes"},
      {tensor("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, "too large"},
      {tensor("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "too large"},
      {tensor("\"F32\"", "[1]", "[0]"), 4, "not two offsets"},
      {tensor("\"F32\"", "[1]", "[0,\"4\"]"), 4, "not two offsets"},
      {tensor("\"F32\"", "[1]", "[-4,0]"), 4, "not two offsets"},
      {tensor("\"F32\"", "[1]", "[8,4]"), 8, "run backwards"},
      {tensor("\"F32\"", "[2]", "[0,4]"), 4, "needs 8 bytes"},
      {tensor("\"F32\"", "[1]", "[4,8]"), 8, "there is a hole"},
      {tensor("\"F32\"", "[1]", "[0,4]"), 5, "the file holds 5"},
      {tensor("\"F32\"", "[1]", "[0,4]"), 3, "the file holds 3"},
      {tensor("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]"),
       4, "span 3"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1,
       "unknown field"},
      {R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensors overlap"},
      {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
       R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "stands twice"},
      {R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
       1, "stands twice"},
      {std::string(200000, '['), 0, "not valid JSON"},
  };
  for (const Hostile& hostile : cases) {
    const std::string path = dir.write(
        "x", file_text(hostile.header, std::string(hostile.data_bytes, 'd')));
    EXPECT_THAT(fault_of(path), HasSubstr(hostile.fault))
        << hostile.header.substr(0, 200);
  }
}

TEST(Safetensors, HostileLengths) {
  const TempDir dir;
  EXPECT_THAT(fault_of(dir.write("x", "")), HasSubstr("too few"));
  EXPECT_THAT(fault_of(dir.write("x", "1234567")), HasSubstr("too few"));
  EXPECT_THAT(fault_of(dir.write("x", std::string(8, '\xFF'))),
              HasSubstr("does not fit"));
  EXPECT_THAT(fault_of(dir.write("x", std::string("\x03\0\0\0\0\0\0\0{}", 10))),
              HasSubstr("does not fit"));
}

TEST(Safetensors, MutatedFilesNeverCrash) {
  const TempDir dir;
  write_safetensors(dir.path() + "/good", example(), {{"k", "v"}});
  const std::string good = read_file(dir.path() + "/good");
  const std::string alphabet = "{}[]\",:0129-eE.\\ut \n\xFF";
  int accepted = 0;
  for (std::uint64_t round = 0; round < 3000; ++round) {
    std::string bad = good;
    const std::uint64_t edits = 1 + random_below(7, 0, round, 3);
    for (std::uint64_t edit = 0; edit < edits; ++edit) {
      const std::uint64_t draw = round * 8 + edit;
      const std::size_t at = random_below(7, 1, draw, bad.size());
      switch (random_below(7, 2, draw, 4)) {
        case 0:
          bad[at] = static_cast<char>(random_bits(7, 3, draw));
          break;
        case 1:
          bad[at] = alphabet[random_below(7, 3, draw, alphabet.size())];
          break;
        case 2:
          bad.erase(at, 1 + random_below(7, 3, draw, 9));
          break;
        default:
          bad.insert(at, bad, random_below(7, 3, draw, bad.size()), 5);
      }
      if (bad.empty()) break;
    }
    const std::string path = dir.write("bad", bad);
    try {
      const SafetensorsFile file(path);
      for (const auto& [name, shape] : file.shapes()) {
        // Touch every byte a view promises.
        for (const std::byte byte : file.tensor(name).bytes()) {
          accepted += byte == std::byte{1};
        }
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.message();
    }
  }
  EXPECT_GT(accepted, 0);  // some mutations only touch the data
}

}  // namespace
}  // namespace ringmax
