// What a ring step brings: a list of tensors, and what a kernel sees of it.
//
// The ring sends tensors and sums gradients; it does not know that they are
// keys and values. Compact kv heads travel, with the segment ids of their
// slots where there are any; positions are formulas and travel with nobody.
#ifndef RINGMAX_ATTENTION_PAYLOAD_H_
#define RINGMAX_ATTENTION_PAYLOAD_H_

#include <cstdint>

#include "ringmax/graph/control.h"
#include "ringmax/graph/graph.h"

namespace ringmax::attention {

struct KeyValues {
  graph::Value k_BKTD;
  graph::Value v_BKTV;
  graph::Value segments_BT;  // int32, or invalid
};

// float32 gradients of keys and values.
struct KeyValueGradients {
  graph::Value dk_BKTD;
  graph::Value dv_BKTV;
};

class Payload {
 public:
  explicit Payload(const KeyValues& home) : home_(home) {}

  // What is sent, of some of this device's own slots.
  graph::Values tensors(std::int64_t begin, std::int64_t end) const;
  // What a kernel sees of tensors that came from anywhere.
  KeyValues expand(const graph::Values& tensors) const;
  // The gradient that travels: zeros for `slots` slots; as the kernel adds to
  // it; as the kernel has left it (the transpose of expand).
  graph::Values zero_gradients(std::int64_t slots) const;
  KeyValueGradients expand_gradients(const graph::Values& travelling) const;
  graph::Values collect_gradients(const KeyValueGradients& gradients) const;

 private:
  KeyValues home_;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_PAYLOAD_H_
