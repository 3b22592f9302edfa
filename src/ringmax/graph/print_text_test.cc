#include "ringmax/graph/print_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>

namespace ringmax::graph {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(PrintText, TypesAndLists) {
  EXPECT_EQ(type_text(Shape(DType::kBF16, {2, 3})), "tensor<2x3xbf16>");
  EXPECT_EQ(type_text(Shape(DType::kU32, {})), "tensor<ui32>");
  EXPECT_EQ(type_text(Shape(DType::kBool, {0})), "tensor<0xi1>");
  EXPECT_EQ(list_text({}), "");
  EXPECT_EQ(list_text({4, 0}), "4, 0");
}

TEST(PrintText, StringsEscapeWhatMlirEscapes) {
  EXPECT_EQ(quoted_text("a/b"), "\"a/b\"");
  EXPECT_EQ(quoted_text("a\"b\\c\n"), "\"a\\22b\\5Cc\\0A\"");
}

TEST(PrintText, FloatsAlwaysHaveAPoint) {
  EXPECT_EQ(float_text(1, DType::kF32), "1.0");
  EXPECT_EQ(float_text(-0.0, DType::kF32), "-0.0");
  EXPECT_EQ(float_text(1e-5, DType::kF32), "1.0e-05");
  EXPECT_EQ(float_text(1e300, DType::kF64), "1.0e+300");
  EXPECT_EQ(float_text(0.1, DType::kF32), "0.1");
}

TEST(PrintText, FloatsOutOfRangeAreBitPatterns) {
  EXPECT_EQ(float_text(kInf, DType::kF16), "0x7C00");
  EXPECT_EQ(float_text(-kInf, DType::kBF16), "0xFF80");
  EXPECT_EQ(float_text(kNan, DType::kBF16), "0x7FC0");
  EXPECT_EQ(float_text(kNan, DType::kF32), "0x7FC00000");
  EXPECT_EQ(float_text(-kInf, DType::kF64), "0xFFF0000000000000");
  EXPECT_EQ(float_text(1e39, DType::kF32), "0x7F800000");
  EXPECT_EQ(float_text(65519.9, DType::kF16), "65519.9");
  EXPECT_EQ(float_text(-65520, DType::kF16), "0xFC00");
  EXPECT_EQ(float_text(3.4e38, DType::kBF16), "0x7F80");
}

TEST(PrintText, FloatsReadBackAsTheSameValue) {
  std::uint32_t bits = 12345;
  for (int i = 0; i < 2000; ++i) {
    bits = bits * 1664525u + 1013904223u;
    const std::uint32_t b = bits;
    float f;
    std::memcpy(&f, &b, sizeof(f));
    if (!std::isfinite(f)) continue;
    EXPECT_EQ(static_cast<float>(
                  std::strtod(float_text(f, DType::kF32).c_str(), nullptr)),
              f);
    const std::uint16_t half = static_cast<std::uint16_t>(bits >> 16);
    const float brain = bf16_to_float(half);
    if (!std::isfinite(brain)) continue;
    EXPECT_EQ(float_to_bf16(static_cast<float>(std::strtod(
                  float_text(brain, DType::kBF16).c_str(), nullptr))),
              half);
    const double d = static_cast<double>(f) * 1.000000001;
    EXPECT_EQ(std::strtod(float_text(d, DType::kF64).c_str(), nullptr), d);
  }
}

ConstantAttr literal(const HostArray& array) {
  ConstantAttr attr;
  attr.splat = false;
  attr.dense = array;
  return attr;
}

TEST(PrintText, LiteralsAreNestedListsOrBytes) {
  const std::vector<std::int32_t> few = {1, -2, 3, 4};
  const auto small = HostArray::from<std::int32_t>({2, 2}, few);
  EXPECT_EQ(constant_text(literal(small), small.shape()),
            "dense<[[1, -2], [3, 4]]>");
  const std::vector<std::uint8_t> many(17, 0xAB);
  const auto large = HostArray::from<std::uint8_t>({17}, many);
  EXPECT_EQ(constant_text(literal(large), large.shape()),
            "dense<\"0xABABABABABABABABABABABABABABABABAB\">");
  const auto scalar = HostArray::from<float>({}, std::vector<float>{0.5f});
  EXPECT_EQ(constant_text(literal(scalar), scalar.shape()), "dense<0.5>");
  const HostArray empty(Shape(DType::kF32, {2, 0}));
  EXPECT_EQ(constant_text(literal(empty), empty.shape()), "dense<>");
}

TEST(PrintText, SplatsFollowTheDtype) {
  ConstantAttr attr;
  attr.number = 1;
  attr.integer = -1;
  EXPECT_EQ(constant_text(attr, Shape(DType::kF32, {2})), "dense<1.0>");
  EXPECT_EQ(constant_text(attr, Shape(DType::kBool, {2})), "dense<true>");
  EXPECT_EQ(constant_text(attr, Shape(DType::kI8, {2})), "dense<-1>");
  EXPECT_EQ(constant_text(attr, Shape(DType::kU64, {2})),
            "dense<18446744073709551615>");
}

TEST(PrintText, ReductionsBeginWithTheirIdentity) {
  EXPECT_EQ(reduce_init_text(ReduceKind::kSum, DType::kI32), "0");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMax, DType::kI32), "-2147483648");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMin, DType::kI8), "127");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMax, DType::kU16), "0");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMin, DType::kU64),
            "18446744073709551615");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMax, DType::kI64),
            "-9223372036854775808");
  EXPECT_EQ(reduce_init_text(ReduceKind::kMax, DType::kBF16), "0xFF80");
  EXPECT_EQ(reduce_init_text(ReduceKind::kAnd, DType::kBool), "true");
}

const mesh::Mesh& test_mesh() {
  static const mesh::Mesh mesh({{"data", 2}, {"one", 1}, {"context", 4}});
  return mesh;
}

TEST(PrintText, ShardingsLeaveOutAxesOfSizeOne) {
  const mesh::PartitionSpec spec({{"data", "one"}, {"one"}});
  EXPECT_EQ(sharding_text(spec, 3, test_mesh()), "@mesh, [{\"data\"}, {}, {}]");
  EXPECT_EQ(mesh_text(test_mesh()), "<[\"data\"=2, \"context\"=4]>");
  EXPECT_EQ(manual_axes_text(test_mesh()), "{\"data\", \"context\"}");
}

TEST(PrintText, GroupsAreDeviceNumbersInAxisOrder) {
  EXPECT_EQ(device_groups(test_mesh(), {"context"}),
            (DeviceGroups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(device_groups(test_mesh(), {"data"}),
            (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(device_groups(test_mesh(), {"context", "data"}),
            (DeviceGroups{{0, 4, 1, 5, 2, 6, 3, 7}}));
  EXPECT_EQ(device_pairs(device_groups(test_mesh(), {"data"}), {{0, 1}}),
            (DeviceGroups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

// Laws of device_groups for any axes: a partition of the devices, members of
// one group differ along the axes only and are in row-major order of them.
TEST(PrintText, GroupsPartitionTheDevices) {
  const mesh::Mesh mesh({{"a", 2}, {"b", 3}, {"c", 2}, {"d", 1}});
  const std::vector<std::vector<std::string>> cases = {
      {"a"}, {"b"}, {"c"}, {"a", "c"}, {"c", "b"}, {"a", "b", "c"}, {"d"}};
  for (const auto& axes : cases) {
    std::set<std::int64_t> seen;
    for (const auto& group : device_groups(mesh, axes)) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        EXPECT_TRUE(seen.insert(group[i]).second);
        std::int64_t place = 0;
        for (const std::string& axis : axes) {
          place = place * mesh.size(axis) + mesh.coordinate(group[i], axis);
        }
        EXPECT_EQ(place, static_cast<std::int64_t>(i));
        for (const mesh::MeshAxis& axis : mesh.axes()) {
          if (std::count(axes.begin(), axes.end(), axis.name) == 0) {
            EXPECT_EQ(mesh.coordinate(group[i], axis.name),
                      mesh.coordinate(group[0], axis.name));
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), 12u);
  }
}

}  // namespace
}  // namespace ringmax::graph
