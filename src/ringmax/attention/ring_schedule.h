// The ring as a value: which shard of keys and values meets which device, in
// which step, and what is sent to bring it there.
//
// In the step with shift s, ring device d works with the shard that belongs
// to device (d - s) mod R. `attend`, `plan`, the cost model and the tests all
// read this one value; nothing here knows a graph, a kernel or a mesh (device
// numbers are coordinates along the context axis).
#ifndef RINGMAX_ATTENTION_RING_SCHEDULE_H_
#define RINGMAX_ATTENTION_RING_SCHEDULE_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"

namespace ringmax::attention {

// (source, target) of every transfer of one collective permute.
using SourceTargetPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

// Every device of a ring of `ring_size` sends to the one `by` further on.
SourceTargetPairs rotation(std::int64_t ring_size, std::int64_t by);

struct RingStep {
  std::int64_t shift = 0;
  // How far the payload moves from where the step before left it (from home,
  // for the first step); 0 when nothing moves.
  std::int64_t hop = 0;
  // What is sent to bring the payload of this step: only transfers whose
  // target works with it, in this step or in a later one that it passes it on
  // to. A device that receives nothing has no work here. Empty when hop is 0.
  SourceTargetPairs source_target_pairs;
  // Visible (query, key) pairs of every device in this step.
  std::vector<std::int64_t> pairs;

  bool active(std::int64_t device) const {
    return pairs[static_cast<std::size_t>(device)] > 0;
  }
  std::vector<std::int64_t> active_devices() const;
  std::int64_t total_pairs() const;
};

struct RingSchedule {
  std::int64_t ring_size = 1;
  // By ascending shift, only steps in which some device has work. Empty when
  // the mask shows nothing at all.
  std::vector<RingStep> steps;

  // Steps in which a payload leaves a device.
  std::int64_t steps_sent() const;
  std::vector<std::int64_t> pairs_per_device() const;
  std::int64_t total_pairs() const;
  // Work of the busiest device over the mean; 1 when there is none.
  double max_over_mean() const;
  // How far what travelled to the last step is from home, going on in the
  // ring's direction: rotation(ring_size, home_hop()) brings gradients that
  // travelled with it back. 0 when it is home.
  std::int64_t home_hop() const;
};

// The schedule of queries laid out by `queries` and keys by `keys`, over as
// many ring devices as both have shards. Throws kInvalidArgument when their
// shard counts differ. Padding has no pairs.
RingSchedule make_ring_schedule(const Mask& mask, const Layout& queries,
                                const Layout& keys);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_RING_SCHEDULE_H_
