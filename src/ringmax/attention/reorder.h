// Host arrays between the order of the sequence and the order of a layout.
#ifndef RINGMAX_ATTENTION_REORDER_H_
#define RINGMAX_ATTENTION_REORDER_H_

#include "ringmax/attention/layout.h"
#include "ringmax/base/array.h"

namespace ringmax::attention {

// [B, tokens, ...] -> [B, padded_tokens, ...]: the token of every slot, zeros
// in padding. Throws kInvalidArgument when dimension 1 is not layout.tokens().
HostArray to_slots(const HostArray& tokens, const Layout& layout);
// And back: [B, padded_tokens, ...] -> [B, tokens, ...].
HostArray from_slots(const HostArray& slots, const Layout& layout);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_REORDER_H_
