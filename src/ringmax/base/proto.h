// Just enough of protobuf's wire format to write XLA's options and to walk
// messages that compilers hand out. No schema: field numbers are the caller's.
//
// Source: https://protobuf.dev/programming-guides/encoding
#ifndef RINGMAX_BASE_PROTO_H_
#define RINGMAX_BASE_PROTO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax {

// Appends fields; the order of calls is the order of bytes.
class ProtoWriter {
 public:
  // int32, int64, uint64, bool and enum fields; negative values take ten bytes.
  void varint(int field, std::int64_t value);
  void real(int field, double value);
  // string, bytes and message fields.
  void bytes(int field, std::string_view value);
  void message(int field, const ProtoWriter& value) {
    bytes(field, value.data_);
  }
  // Packed repeated integers; nothing when the range is empty.
  template <typename Range>
  void packed(int field, const Range& values) {
    ProtoWriter inner;
    for (const auto value : values) {
      inner.raw_varint(static_cast<std::uint64_t>(value));
    }
    if (!inner.data_.empty()) message(field, inner);
  }

  const std::string& data() const { return data_; }

 private:
  void tag(int field, int wire_type);
  void raw_varint(std::uint64_t value);
  std::string data_;
};

// Walks the fields of one message:
//   for (ProtoReader reader(bytes); reader.next();) switch (reader.field()) ...
// Throws kInvalidArgument on bytes that are not a message. Views into `data`.
class ProtoReader {
 public:
  explicit ProtoReader(std::string_view data) : data_(data) {}

  // False at the end.
  bool next();
  int field() const { return field_; }
  // Value of the current field; throw when it is of another kind.
  std::int64_t varint() const;
  double real() const;
  float real32() const;
  std::string_view bytes() const;
  // Appends the integers of a repeated field, packed or not.
  void append_varints(std::vector<std::int64_t>& to) const;

 private:
  std::uint64_t raw_varint();
  void expect(int wire_type) const;
  std::string_view take(std::uint64_t size);

  std::string_view data_;
  int field_ = 0;
  int wire_type_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace ringmax

#endif  // RINGMAX_BASE_PROTO_H_
