// For tests: HloModuleProto bytes, written field by field.
#ifndef RINGMAX_ANALYSIS_TESTING_HLO_BUILDER_H_
#define RINGMAX_ANALYSIS_TESTING_HLO_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ringmax/base/proto.h"

namespace ringmax::analysis::testing {

inline constexpr std::int64_t kS32 = 4;
inline constexpr std::int64_t kF32 = 11;
inline constexpr std::int64_t kBF16 = 16;
inline constexpr std::int64_t kPred = 1;

inline ProtoWriter shape(std::int64_t type, std::vector<std::int64_t> dims) {
  ProtoWriter writer;
  writer.varint(2, type);
  writer.packed(3, dims);
  return writer;
}

inline ProtoWriter tuple(const std::vector<ProtoWriter>& parts) {
  ProtoWriter writer;
  writer.varint(2, 13);
  for (const ProtoWriter& part : parts) writer.message(4, part);
  return writer;
}

// Instructions are numbered 1, 2, ... within the whole module.
class ModuleBuilder {
 public:
  using Extra = std::function<void(ProtoWriter&)>;

  // Begins a computation; the one begun last is the entry.
  void begin(std::int64_t id, const std::string& name) {
    flush();
    computation_ = {};
    computation_.bytes(1, name);
    computation_.varint(5, id);
    id_ = id;
    open_ = true;
    order_.clear();
  }
  std::int64_t add(const std::string& opcode, const ProtoWriter& shape_in,
                   const std::vector<std::int64_t>& operands = {},
                   const Extra& extra = nullptr,
                   const std::string& op_name = "") {
    ++next_;
    ProtoWriter i;
    i.bytes(1, opcode + "." + std::to_string(next_));
    i.bytes(2, opcode);
    i.message(3, shape_in);
    ProtoWriter metadata;
    metadata.bytes(2, op_name);
    i.message(7, metadata);
    i.varint(35, next_);
    i.packed(36, operands);
    if (extra) extra(i);
    computation_.message(2, i);
    order_.push_back(next_);
    return next_;
  }
  void end(std::int64_t root) { computation_.varint(6, root); }
  // The order of issue of the computation that is open; else as added.
  void schedule(std::vector<std::int64_t> order) { order_ = std::move(order); }

  // A scalar s32.
  std::int64_t constant(std::int64_t value) {
    return add("constant", shape(kS32, {}), {}, [&](ProtoWriter& i) {
      ProtoWriter literal;
      literal.message(1, shape(kS32, {}));
      literal.packed(4, std::vector<std::int64_t>{value});
      i.message(8, literal);
    });
  }
  std::int64_t element(const ProtoWriter& shape_in, std::int64_t of,
                       std::int64_t index) {
    return add("get-tuple-element", shape_in, {of},
               [&](ProtoWriter& i) { i.varint(13, index); });
  }

  // An HloModuleProto with its config behind it, as plugins give it.
  std::string finish() {
    flush();
    module_.bytes(1, "test");
    module_.varint(6, id_);
    module_.message(7, schedule_);
    ProtoWriter with_config;
    with_config.message(1, module_);
    with_config.bytes(2, "");
    return with_config.data();
  }

 private:
  void flush() {
    if (!open_) return;
    module_.message(3, computation_);
    ProtoWriter sequence;
    sequence.packed(1, order_);
    ProtoWriter entry;
    entry.varint(1, id_);
    entry.message(2, sequence);
    schedule_.message(1, entry);
    open_ = false;
  }

  ProtoWriter module_, schedule_, computation_;
  std::vector<std::int64_t> order_;
  std::int64_t id_ = 0;
  std::int64_t next_ = 0;
  bool open_ = false;
};

// A loop around `in_loop`, and after it an all-reduce of what the loop made, or
// of what was there before.
inline std::string loop_then_sum(const std::string& in_loop, bool sum_of_loop) {
  constexpr std::int64_t kBody = 1;
  constexpr std::int64_t kCondition = 2;
  constexpr std::int64_t kMain = 3;
  const ProtoWriter scalar = shape(kF32, {});
  ModuleBuilder m;
  m.begin(kBody, "body");
  const std::int64_t state = m.add("parameter", scalar);
  m.end(m.add(in_loop, scalar, {state}));
  m.begin(kCondition, "condition");
  m.add("parameter", scalar);
  m.end(m.add("constant", shape(kPred, {})));
  m.begin(kMain, "main");
  const std::int64_t x = m.add("parameter", scalar);
  const std::int64_t first = m.add("all-gather", scalar, {x});
  const std::int64_t loop = m.add("while", scalar, {first}, [](ProtoWriter& i) {
    i.packed(38, std::vector<std::int64_t>{kBody, kCondition});
  });
  const std::int64_t y = m.add("negate", scalar, {sum_of_loop ? loop : x});
  m.end(m.add("all-reduce", scalar, {y}));
  return m.finish();
}

}  // namespace ringmax::analysis::testing

#endif  // RINGMAX_ANALYSIS_TESTING_HLO_BUILDER_H_
