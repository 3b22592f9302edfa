// Settings of attention inside a model: which algorithm, and how the sequence
// is spread over the context axis. Names and meaning are MaxText's.
#ifndef RINGMAX_ATTENTION_OPTIONS_H_
#define RINGMAX_ATTENTION_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/base/option.h"

namespace ringmax::attention {

enum class AttentionKind { kAutoselected, kFlash };
inline constexpr Named<AttentionKind> kAttentionKinds[] = {
    {AttentionKind::kAutoselected, "autoselected"},
    {AttentionKind::kFlash, "flash"},
};

enum class ContextStrategy { kAuto, kRing, kAllGather };
inline constexpr Named<ContextStrategy> kContextStrategies[] = {
    {ContextStrategy::kAuto, "auto"},
    {ContextStrategy::kRing, "ring"},
    {ContextStrategy::kAllGather, "all_gather"},
};

enum class ReorderStrategy { kAuto };
inline constexpr Named<ReorderStrategy> kReorderStrategies[] = {
    {ReorderStrategy::kAuto, "auto"},
};

struct AttentionOptions {
  AttentionKind attention = AttentionKind::kAutoselected;
  bool use_tokamax_splash = false;
  // kAuto means ring until there is a choice to make.
  ContextStrategy context_parallel_strategy = ContextStrategy::kAuto;
  bool context_parallel_load_balance = true;
  ReorderStrategy context_parallel_reorder_strategy = ReorderStrategy::kAuto;
  std::string context_sharding = "context";
  // Queries and keys of one block, in tokens.
  std::int64_t sa_block_q = 512;
  std::int64_t sa_block_kv = 512;
};

void declare_options(OptionSet& set, AttentionOptions& options);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_OPTIONS_H_
