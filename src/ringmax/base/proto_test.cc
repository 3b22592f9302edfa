#include "ringmax/base/proto.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

TEST(ProtoTest, WhatIsWrittenIsReadAgain) {
  ProtoWriter inner;
  inner.varint(1, -1);
  inner.real(2, -0.5);
  ProtoWriter writer;
  writer.varint(1, 300);
  writer.bytes(2, "text");
  writer.message(3, inner);
  writer.packed(2000, std::vector<int>{1, 128, 70000});

  ProtoReader reader(writer.data());
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(), 1);
  EXPECT_EQ(reader.varint(), 300);
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.bytes(), "text");
  EXPECT_THROW(reader.varint(), Error);
  ASSERT_TRUE(reader.next());
  ProtoReader nested(reader.bytes());
  ASSERT_TRUE(nested.next());
  EXPECT_EQ(nested.varint(), -1);
  ASSERT_TRUE(nested.next());
  EXPECT_EQ(nested.real(), -0.5);
  EXPECT_FALSE(nested.next());
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.field(), 2000);
  std::vector<std::int64_t> values;
  reader.append_varints(values);
  EXPECT_EQ(values, (std::vector<std::int64_t>{1, 128, 70000}));
  EXPECT_FALSE(reader.next());
}

// "150" as field 1, from the format's own description.
TEST(ProtoTest, BytesAreThoseOfTheFormat) {
  ProtoWriter writer;
  writer.varint(1, 150);
  EXPECT_EQ(writer.data(), "\x08\x96\x01");
}

TEST(ProtoTest, NothingIsReadBeyondTheEnd) {
  ProtoWriter writer;
  writer.bytes(2, "twelve bytes");
  const std::string whole = writer.data();
  for (std::size_t size = 1; size < whole.size(); ++size) {
    ProtoReader reader(std::string_view(whole).substr(0, size));
    EXPECT_THROW(reader.next(), Error) << size;
  }
  ProtoReader group("\x0b");
  EXPECT_THROW(group.next(), Error);
  ProtoReader endless("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
  EXPECT_THROW(endless.next(), Error);
}

}  // namespace
}  // namespace ringmax
