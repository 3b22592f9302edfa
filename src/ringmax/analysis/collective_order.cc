#include "ringmax/analysis/collective_order.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>

#include "ringmax/analysis/hlo_collectives.h"

namespace ringmax::analysis {
namespace {

class Order {
 public:
  explicit Order(const HloModule& module) : module_(module) {}

  std::vector<std::string> overtaking() {
    for (const HloComputation& each : module_.computations) check(each);
    return std::move(found_);
  }

 private:
  bool has_collectives(std::int64_t computation) {
    const auto known = known_.find(computation);
    if (known != known_.end()) return known->second;
    bool has = false;
    for (const HloInstruction& i : module_.at(computation).instructions) {
      has = has || collective_kind(module_, i).has_value() || is_loop(i);
    }
    known_.emplace(computation, has);
    return has;
  }

  // Anything that runs a computation with collectives in it.
  bool is_loop(const HloInstruction& i) {
    if (i.opcode != "while" && i.opcode != "conditional" && i.opcode != "call")
      return false;
    for (const std::int64_t called : i.called) {
      if (has_collectives(called)) return true;
    }
    return false;
  }

  void check(const HloComputation& computation) {
    if (!has_collectives(computation.id)) return;
    // Of every value, the loops that it comes after.
    std::unordered_map<std::int64_t, std::set<const HloInstruction*>> after;
    std::vector<const HloInstruction*> loops;
    for (const HloInstruction& i : computation.instructions) {
      std::set<const HloInstruction*>& mine = after[i.id];
      for (const std::int64_t operand : i.operands) {
        const auto& theirs = after[operand];
        mine.insert(theirs.begin(), theirs.end());
      }
      const bool loop = is_loop(i);
      if (loop || collective_kind(module_, i)) {
        for (const HloInstruction* before : loops) {
          if (mine.count(before) == 0) {
            found_.push_back(
                fmt::format("{} may overtake {}", i.name, before->name));
          }
        }
      }
      if (loop) {
        loops.push_back(&i);
        mine.insert(&i);
      }
    }
  }

  const HloModule& module_;
  std::unordered_map<std::int64_t, bool> known_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> overtaking_collectives(const HloModule& module) {
  return Order(module).overtaking();
}

}  // namespace ringmax::analysis
