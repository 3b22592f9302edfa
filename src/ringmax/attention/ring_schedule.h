// The ring as a value: which shard of keys and values meets which device, in
// which step, and what is sent to bring it there.
//
// In the step with shift s, ring device d works with the shard that belongs
// to device (d - s) mod R. `attend`, `plan`, the cost model and the tests all
// read this one value; nothing here knows a graph, a kernel or a mesh (device
// numbers are coordinates along the context axis).
//
// Steps without work are left out, and a payload jumps straight to the next
// shift that anybody needs. Steps form trips: a trip starts from home, where
// every device still has its own shard, and each later step of it passes on
// what the step before received. A new trip starts where home is nearer.
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
  std::int64_t shift = 0;  // 0 <= shift < R
  // Ring places that the payload moves for this step, negative against the
  // ring's direction, never more than R / 2 either way; 0 when nothing moves
  // (shift 0).
  std::int64_t hop = 0;
  // Whether it comes from home, or from where the step before left it.
  bool from_home = true;
  // The transfers: only those whose target works with it, in this step or a
  // later one of the trip. A device that receives nothing has no work here.
  SourceTargetPairs source_target_pairs;
  // Visible (query, key) pairs of every device in this step.
  std::vector<std::int64_t> pairs;

  // Backward: where a shard's gradient, summed over the trip so far, goes after
  // this step: to where the trip's next step works with the shard, or home when
  // `ends_trip`. Only gradients that some device has added to move. At shift 0
  // it is at home already.
  bool ends_trip = true;
  std::int64_t gradient_hop = 0;
  SourceTargetPairs gradient_pairs;

  bool active(std::int64_t device) const {
    return pairs[static_cast<std::size_t>(device)] > 0;
  }
  std::vector<std::int64_t> active_devices() const;
  std::int64_t total_pairs() const;
};

// What travels one way round: all slots of a shard, or one half of them.
struct RingTrack {
  // +1: shifts 0, 1, 2, ...; -1: shifts 0, R - 1, R - 2, ...
  int direction = 1;
  // Slots of every key shard that travel on this track.
  PositionRange key_slots;
  // In the order of the walk, only steps in which some device has work. Empty
  // when the mask shows nothing of these keys.
  std::vector<RingStep> steps;

  // Steps in which a payload leaves a device.
  std::int64_t steps_sent() const;
  // Whether the track is a plain rotation: steps with shifts 0, 1, 2, ... (or
  // 0, -1, -2, ...), one trip, as a loop would run it.
  bool is_rotation() const;
};

struct RingSchedule {
  std::int64_t ring_size = 1;
  // One, or two when bidirectional: the first half of the key slots forward,
  // the second half backward, both at once.
  std::vector<RingTrack> tracks;

  // Steps in which a payload leaves a device, each direction by itself.
  std::int64_t steps_sent() const;
  std::vector<std::int64_t> pairs_per_device() const;
  std::int64_t total_pairs() const;
  // Work of the busiest device over the mean; 1 when there is none.
  double max_over_mean() const;
};

struct RingOptions {
  bool bidirectional = false;
  // Neighbouring shards of the layouts that are one ring device's: what devices
  // that share out heads have together. Key slots are counted over all of them.
  std::int64_t shards_per_device = 1;
};

// The schedule of queries laid out by `queries` and keys by `keys`, over as
// many ring devices as both have shards, or groups of shards. Throws
// kInvalidArgument when their shard counts differ or are no multiple of a
// group, or when a dense mask has another shape. Padding has no pairs. A single
// slot a shard cannot be halved: it goes one way.
RingSchedule make_ring_schedule(const Mask& mask, const Layout& queries,
                                const Layout& keys, RingOptions options = {});

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_RING_SCHEDULE_H_
