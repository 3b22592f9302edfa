// How the queries of all devices that share a sequence meet its keys.
#ifndef RINGMAX_ATTENTION_STRATEGY_H_
#define RINGMAX_ATTENTION_STRATEGY_H_

#include "ringmax/base/option.h"

namespace ringmax::attention {

enum class Strategy {
  kAuto,       // the cheapest of the others (cost_model.h)
  kSingle,     // one device has it all
  kRing,       // keys and values travel
  kAllGather,  // keys and values are gathered
  kUlysses,    // heads instead of tokens, by all-to-all
  kUsp,        // a ring of groups that are Ulysses inside
};
inline constexpr Named<Strategy> kStrategies[] = {
    {Strategy::kAuto, "auto"},       {Strategy::kSingle, "single"},
    {Strategy::kRing, "ring"},       {Strategy::kAllGather, "all_gather"},
    {Strategy::kUlysses, "ulysses"}, {Strategy::kUsp, "usp"},
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_STRATEGY_H_
