#include "ringmax/base/proto.h"

#include <bit>

#include "ringmax/base/error.h"

namespace ringmax {
namespace {

constexpr int kVarint = 0;
constexpr int kFixed64 = 1;
constexpr int kBytes = 2;
constexpr int kFixed32 = 5;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

}  // namespace

void ProtoWriter::raw_varint(std::uint64_t value) {
  while (value >= 0x80) {
    data_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  data_.push_back(static_cast<char>(value));
}

void ProtoWriter::tag(int field, int wire_type) {
  raw_varint(static_cast<std::uint64_t>(field) << 3 |
             static_cast<std::uint64_t>(wire_type));
}

void ProtoWriter::varint(int field, std::int64_t value) {
  tag(field, kVarint);
  raw_varint(static_cast<std::uint64_t>(value));
}

void ProtoWriter::real(int field, double value) {
  tag(field, kFixed64);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int shift = 0; shift < 64; shift += 8) {
    data_.push_back(static_cast<char>(bits >> shift));
  }
}

void ProtoWriter::bytes(int field, std::string_view value) {
  tag(field, kBytes);
  raw_varint(value.size());
  data_.append(value);
}

std::uint64_t ProtoReader::raw_varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (data_.empty()) fail_invalid("protobuf: a number is cut off");
    const auto byte = static_cast<unsigned char>(data_.front());
    data_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  fail_invalid("protobuf: a number is longer than ten bytes");
}

std::string_view ProtoReader::take(std::uint64_t size) {
  if (size > data_.size()) {
    fail_invalid("protobuf: field {} needs {} bytes, {} are left", field_, size,
                 data_.size());
  }
  const std::string_view taken = data_.substr(0, size);
  data_.remove_prefix(size);
  return taken;
}

bool ProtoReader::next() {
  if (data_.empty()) return false;
  const std::uint64_t tag = raw_varint();
  // 29 bits of field number are all the format has.
  if (tag >> 3 == 0 || tag >> 32 != 0) {
    fail_invalid("protobuf: {} is no field number", tag >> 3);
  }
  field_ = static_cast<int>(tag >> 3);
  wire_type_ = static_cast<int>(tag & 7);
  switch (wire_type_) {
    case kVarint:
      number_ = raw_varint();
      return true;
    case kFixed64:
      number_ = little_endian(take(8));
      return true;
    case kBytes:
      bytes_ = take(raw_varint());
      return true;
    case kFixed32:
      number_ = little_endian(take(4));
      return true;
    default:
      fail_invalid("protobuf: field {} has unknown wire type {}", field_,
                   wire_type_);
  }
}

void ProtoReader::expect(int wire_type) const {
  if (wire_type_ != wire_type) {
    fail_invalid("protobuf: field {} has wire type {}, expected {}", field_,
                 wire_type_, wire_type);
  }
}

std::int64_t ProtoReader::varint() const {
  expect(kVarint);
  return static_cast<std::int64_t>(number_);
}

double ProtoReader::real() const {
  expect(kFixed64);
  return std::bit_cast<double>(number_);
}

float ProtoReader::real32() const {
  expect(kFixed32);
  return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
}

void ProtoReader::append_varints(std::vector<std::int64_t>& to) const {
  if (wire_type_ == kVarint) {
    to.push_back(varint());
    return;
  }
  for (ProtoReader packed(bytes()); !packed.data_.empty();) {
    to.push_back(static_cast<std::int64_t>(packed.raw_varint()));
  }
}

std::string_view ProtoReader::bytes() const {
  expect(kBytes);
  return bytes_;
}

}  // namespace ringmax
