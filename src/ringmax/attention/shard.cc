#include "ringmax/attention/shard.h"

#include <algorithm>
#include <utility>

#include "ringmax/attention/layout_graph.h"
#include "ringmax/attention/native.h"
#include "ringmax/graph/control.h"
#include "ringmax/graph/ops.h"
#include "ringmax/graph/parallel.h"

namespace ringmax::attention {
namespace {

using graph::Graph;
using graph::Scope;
using graph::Value;
using graph::Values;

std::int64_t keys_of(const KeyValues& kv) { return kv.k_BKTD.dim(2); }

// The device's place among those that share the sequence, the ulysses axis
// left out: its queries are slots place * S .. place * S + S - 1.
Value sequence_place(Graph& g, const AttendPlan& plan) {
  Value place = graph::constant(g, Shape(DType::kI32, {}), 0);
  for (const std::string& axis : plan.sequence_axes) {
    if (axis == plan.ulysses_axis) continue;
    place = place * static_cast<double>(g.mesh().size(axis)) +
            graph::axis_index(g, axis);
  }
  return place;
}

// Calls of the kernel for this device's queries.
class Kernel {
 public:
  Kernel(const AttendPlan& plan, const ShardInputs& in)
      : plan_(plan),
        in_(in),
        place_(sequence_place(*in.q_BKGSD.graph, plan)),
        q_positions_(slot_positions(
            plan.q_layout, place_ * static_cast<double>(plan.request.queries),
            plan.request.queries)) {}

  Value place() const { return place_; }

  // With the keys of all devices of the ring, where they lie.
  KernelPartial forward_together() const {
    return attention::forward_together(request(in_.kv), own_operands(),
                                       plan_.ring_axis);
  }
  KernelGradients backward_together(Value dout, Value lse, Value delta) const {
    return attention::backward_together(request(in_.kv), own_operands(), dout,
                                        lse, delta, plan_.ring_axis);
  }

  // `first` is the first key slot, counted over the whole sequence.
  KernelPartial forward(const KeyValues& kv, Value first) const {
    return plan_.backend->forward(request(kv), operands(kv, first));
  }
  KernelGradients backward(const KeyValues& kv, Value first, Value dout,
                           Value lse, Value delta,
                           const KernelGradients& so_far) const {
    return plan_.backend->backward(request(kv), operands(kv, first), dout, lse,
                                   delta, so_far);
  }

 private:
  KernelRequest request(const KeyValues& kv) const {
    KernelRequest r = plan_.request;
    r.keys = keys_of(kv);
    return r;
  }
  KernelOperands own_operands() const {
    KernelOperands o =
        operands(in_.kv, place_ * static_cast<double>(keys_of(in_.kv)));
    o.tile_ST = in_.tile_ST;
    return o;
  }
  KernelOperands operands(const KeyValues& kv, Value first) const {
    KernelOperands o;
    o.q_BKGSD = in_.q_BKGSD;
    o.k_BKTD = kv.k_BKTD;
    o.v_BKTV = kv.v_BKTV;
    o.q_positions_S = q_positions_;
    o.kv_positions_T = slot_positions(plan_.kv_layout, first, keys_of(kv));
    o.q_segments_BS = in_.q_segments_BS;
    o.kv_segments_BT = kv.segments_BT;
    if (in_.tile_ST.valid()) {
      o.tile_ST = graph::dynamic_slice_dim(in_.tile_ST, 1, first, keys_of(kv));
    }
    return o;
  }

  const AttendPlan& plan_;
  const ShardInputs& in_;
  Value place_;
  Value q_positions_;
};

// One track of the ring: its sends, and whose keys are where.
class Track {
 public:
  Track(const AttendPlan& plan, const RingTrack& track, const Payload& payload,
        Value place)
      : plan_(plan),
        track_(track),
        place_(place),
        home_(payload.tensors(track.key_slots.begin, track.key_slots.end)) {}

  std::size_t steps() const { return track_.steps.size(); }
  const RingStep& step(std::size_t i) const { return track_.steps[i]; }
  std::int64_t slots() const { return track_.key_slots.size(); }
  std::int64_t slots_begin() const { return track_.key_slots.begin; }
  const Values& home() const { return home_; }

  // The payload of step i, from home or from where the step before left it.
  // Devices that have no use for it get zeros, of which they see no key.
  Values bring(const Values& before, std::size_t i) const {
    const RingStep& to = step(i);
    if (to.hop == 0) return home_;
    return send(to.from_home ? home_ : before, to.source_target_pairs);
  }
  // In a loop: one place on, everybody.
  Values pass_on(const Values& tensors) const {
    return send(tensors, rotation(plan_.ring_size, track_.direction));
  }
  Values send(const Values& tensors, const SourceTargetPairs& pairs) const {
    const Scope scope(*place_.graph, "ring_send");
    Values sent;
    for (const Value& x : tensors) {
      sent.push_back(graph::collective_permute(x, plan_.ring_axis, pairs));
    }
    return sent;
  }
  // First key slot of what this device holds at a shift: that of the device
  // `shift` places before it.
  Value first_slot(std::int64_t shift) const {
    return first_slot(graph::full_like(place_, static_cast<double>(shift)));
  }
  Value first_slot(Value shift) const {
    const Value ring =
        graph::full_like(place_, static_cast<double>(plan_.ring_size));
    const Value owner = graph::remainder(place_ + (ring - shift), ring);
    return owner * static_cast<double>(plan_.request.keys) +
           static_cast<double>(track_.key_slots.begin);
  }
  // The shift of step `i` of a loop, counted on from `first`.
  Value loop_shift(Value i, std::int64_t first) const {
    const Value forward = i + static_cast<double>(first);
    if (track_.direction > 0) return forward;
    const Value ring =
        graph::full_like(place_, static_cast<double>(plan_.ring_size));
    return graph::remainder(ring - forward, ring);
  }

 private:
  const AttendPlan& plan_;
  const RingTrack& track_;
  Value place_;
  Values home_;
};

std::vector<Track> make_tracks(const AttendPlan& plan, const Payload& payload,
                               Value place) {
  std::vector<Track> tracks;
  for (const RingTrack& track : plan.schedule.tracks) {
    tracks.emplace_back(plan, track, payload, place);
  }
  return tracks;
}

std::size_t most_steps(const std::vector<Track>& tracks) {
  std::size_t most = 0;
  for (const Track& track : tracks) most = std::max(most, track.steps());
  return most;
}

// How steps [begin, end) are cut into a loop of `passes` times `unroll` steps
// and what follows it.
struct Loop {
  std::int64_t passes = 0;
  std::size_t unroll = 1;
  std::size_t steps() const {
    return static_cast<std::size_t>(passes) * unroll;
  }
};
Loop loop_over(const AttendPlan& plan, std::size_t steps) {
  if (plan.ring_scan_unroll == 0) return {};
  Loop loop;
  loop.unroll = static_cast<std::size_t>(plan.ring_scan_unroll);
  loop.passes = static_cast<std::int64_t>(steps / loop.unroll);
  if (loop.passes < 2) loop.passes = 0;
  return loop;
}

// --- Forward ---------------------------------------------------------------

class RingForward {
 public:
  RingForward(const AttendPlan& plan, const ShardInputs& in)
      : plan_(plan),
        in_(in),
        kernel_(plan, in),
        payload_(in.kv),
        tracks_(make_tracks(plan, payload_, kernel_.place())) {}

  KernelPartial run() {
    const std::size_t steps = most_steps(tracks_);
    if (steps == 0) {
      return empty_partial(in_.q_BKGSD, plan_.request.value_dim);
    }
    for (const Track& track : tracks_) {
      held_.push_back(track.steps() > 0 ? track.bring(track.home(), 0)
                                        : Values{});
    }
    // The last step sends nothing, so it is never in the loop.
    const Loop loop = loop_over(plan_, steps - 1);
    if (loop.passes > 0) run_loop(loop);
    for (std::size_t i = loop.steps(); i < steps; ++i) {
      // Sends first: the compute hides them.
      std::vector<Values> next(tracks_.size());
      for (std::size_t t = 0; t < tracks_.size(); ++t) {
        if (i + 1 < tracks_[t].steps()) {
          next[t] = tracks_[t].bring(held_[t], i + 1);
        }
      }
      for (std::size_t t = 0; t < tracks_.size(); ++t) {
        if (i < tracks_[t].steps()) {
          add(held_[t], tracks_[t].first_slot(tracks_[t].step(i).shift));
        }
      }
      held_ = std::move(next);
    }
    return sum_;
  }

 private:
  void add(const Values& payload, Value first) {
    const KernelPartial part = kernel_.forward(payload_.expand(payload), first);
    sum_ = sum_.out_BKGSV.valid() ? merge(sum_, part) : part;
  }

  void run_loop(const Loop& loop) {
    const KernelPartial none =
        empty_partial(in_.q_BKGSD, plan_.request.value_dim);
    Values init = {none.out_BKGSV, none.sum_BKGS, none.max_BKGS};
    for (const Values& each : held_) {
      init.insert(init.end(), each.begin(), each.end());
    }
    const auto unpack = [&](const Values& carry) {
      sum_ = {carry[0], carry[1], carry[2]};
      auto at = carry.begin() + 3;
      for (Values& each : held_) {
        const auto size = static_cast<std::ptrdiff_t>(each.size());
        each.assign(at, at + size);
        at += size;
      }
    };
    const graph::ScanValues out = graph::scan(
        *in_.q_BKGSD.graph, init, {}, {.length = loop.passes, .remat = {}},
        [&](Value pass, const Values& carry, const Values&) {
          unpack(carry);
          for (std::size_t u = 0; u < loop.unroll; ++u) {
            const std::vector<Values> now = held_;
            for (std::size_t t = 0; t < tracks_.size(); ++t) {
              held_[t] = tracks_[t].pass_on(now[t]);
            }
            for (std::size_t t = 0; t < tracks_.size(); ++t) {
              const Value step = pass * static_cast<double>(loop.unroll);
              add(now[t], tracks_[t].first_slot(tracks_[t].loop_shift(
                              step, static_cast<std::int64_t>(u))));
            }
          }
          Values next = {sum_.out_BKGSV, sum_.sum_BKGS, sum_.max_BKGS};
          for (const Values& each : held_) {
            next.insert(next.end(), each.begin(), each.end());
          }
          return graph::ScanValues{std::move(next), {}};
        });
    unpack(out.carry);
  }

  const AttendPlan& plan_;
  const ShardInputs& in_;
  Kernel kernel_;
  Payload payload_;
  std::vector<Track> tracks_;
  std::vector<Values> held_;  // of every track, what has arrived
  KernelPartial sum_;
};

// --- Backward --------------------------------------------------------------

class RingBackward {
 public:
  RingBackward(const AttendPlan& plan, const ShardInputs& in, Value dout,
               Value lse, Value delta)
      : plan_(plan),
        in_(in),
        dout_(dout),
        lse_(lse),
        delta_(delta),
        kernel_(plan, in),
        payload_(in.kv),
        tracks_(make_tracks(plan, payload_, kernel_.place())) {}

  KernelGradients run() {
    Graph& g = *in_.q_BKGSD.graph;
    dq_ = graph::constant(g, Shape(DType::kF32, in_.q_BKGSD.dims()), 0);
    for (const Track& track : tracks_) {
      held_.push_back(track.steps() > 0 ? track.bring(track.home(), 0)
                                        : Values{});
      home_.push_back(payload_.zero_gradients(track.slots()));
      travelling_.emplace_back();
    }
    const std::size_t steps = most_steps(tracks_);
    std::size_t i = 0;
    // Steps 0 and 1 find no gradient to send on, and the last one no payload.
    const Loop loop = steps > 3 ? loop_over(plan_, steps - 3) : Loop{};
    if (loop.passes > 0) {
      run_step(i++);
      run_step(i++);
      run_loop(loop, static_cast<std::int64_t>(i));
      i += loop.steps();
    }
    while (i < steps) run_step(i++);
    for (std::size_t t = 0; t < tracks_.size(); ++t) send_gradient(t, i);
    std::vector<Value> dk;
    std::vector<Value> dv;
    for (const Values& each : home_) {
      const KeyValueGradients made = payload_.expand_gradients(each);
      dk.push_back(made.dk_BKTD);
      dv.push_back(made.dv_BKTV);
    }
    return {dq_, graph::concatenate(dk, 2), graph::concatenate(dv, 2)};
  }

 private:
  // Step i. What is sent while it computes: the payload of the next step, and
  // the gradient of the steps before, which the step's own part is added to
  // when both are there. So only the last gradient's way home is left over.
  void run_step(std::size_t i) {
    std::vector<Values> next(tracks_.size());
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      if (i + 1 < tracks_[t].steps()) {
        next[t] = tracks_[t].bring(held_[t], i + 1);
      }
      send_gradient(t, i);
    }
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      const Track& track = tracks_[t];
      if (i >= track.steps()) continue;
      const RingStep& step = track.step(i);
      if (step.from_home) {
        travelling_[t] = payload_.zero_gradients(track.slots());
      }
      add(t, held_[t], track.first_slot(step.shift));
    }
    held_ = std::move(next);
  }

  // Sends the gradient on from where step i - 1 left it: to where step i works
  // with the same keys, or home.
  void send_gradient(std::size_t t, std::size_t i) {
    const Track& track = tracks_[t];
    if (i == 0 || i > track.steps()) return;
    const RingStep& before = track.step(i - 1);
    if (before.gradient_hop != 0) {
      travelling_[t] = track.send(travelling_[t], before.gradient_pairs);
    }
    if (before.ends_trip) {
      for (std::size_t n = 0; n < home_[t].size(); ++n) {
        home_[t][n] = home_[t][n] + travelling_[t][n];
      }
    }
  }

  void add(std::size_t t, const Values& payload, Value first) {
    const KeyValueGradients before = payload_.expand_gradients(travelling_[t]);
    const KernelGradients after =
        kernel_.backward(payload_.expand(payload), first, dout_, lse_, delta_,
                         {dq_, before.dk_BKTD, before.dv_BKTV});
    dq_ = after.dq_BKGSD;
    travelling_[t] = payload_.collect_gradients({after.dk_BKTD, after.dv_BKTV});
  }

  // Steps `first`, ... of a rotation: payload and gradient go on together.
  void run_loop(const Loop& loop, std::int64_t first) {
    const auto pack = [&] {
      Values carry = {dq_};
      for (std::size_t t = 0; t < tracks_.size(); ++t) {
        carry.insert(carry.end(), held_[t].begin(), held_[t].end());
        carry.insert(carry.end(), travelling_[t].begin(), travelling_[t].end());
      }
      return carry;
    };
    const auto unpack = [&](const Values& carry) {
      dq_ = carry[0];
      auto at = carry.begin() + 1;
      const auto take = [&](Values& values) {
        const auto size = static_cast<std::ptrdiff_t>(values.size());
        values.assign(at, at + size);
        at += size;
      };
      for (std::size_t t = 0; t < tracks_.size(); ++t) {
        take(held_[t]);
        take(travelling_[t]);
      }
    };
    const graph::ScanValues out = graph::scan(
        *in_.q_BKGSD.graph, pack(), {}, {.length = loop.passes, .remat = {}},
        [&](Value pass, const Values& carry, const Values&) {
          unpack(carry);
          const Value step = pass * static_cast<double>(loop.unroll);
          for (std::size_t u = 0; u < loop.unroll; ++u) {
            const std::vector<Values> now = held_;
            for (std::size_t t = 0; t < tracks_.size(); ++t) {
              held_[t] = tracks_[t].pass_on(now[t]);
              travelling_[t] = tracks_[t].pass_on(travelling_[t]);
            }
            for (std::size_t t = 0; t < tracks_.size(); ++t) {
              const Track& track = tracks_[t];
              add(t, now[t],
                  track.first_slot(track.loop_shift(
                      step, first + static_cast<std::int64_t>(u))));
            }
          }
          return graph::ScanValues{pack(), {}};
        });
    unpack(out.carry);
  }

  const AttendPlan& plan_;
  const ShardInputs& in_;
  Value dout_, lse_, delta_;
  Kernel kernel_;
  Payload payload_;
  std::vector<Track> tracks_;
  std::vector<Values> held_;        // of every track, the payload here
  std::vector<Values> travelling_;  // and the gradients that go with it
  std::vector<Values> home_;        // and what has come home
  Value dq_;
};

// --- Gathering -------------------------------------------------------------

// Minor axes first, so that shards end up in the order of the sequence.
Value gather(const AttendPlan& plan, Value x, std::int64_t dim) {
  for (auto axis = plan.sequence_axes.rbegin();
       axis != plan.sequence_axes.rend(); ++axis) {
    x = graph::all_gather(x, *axis, dim);
  }
  return x;
}
Value scatter(const AttendPlan& plan, Value x, std::int64_t dim) {
  for (const std::string& axis : plan.sequence_axes) {
    x = graph::reduce_scatter(x, axis, dim);
  }
  return x;
}

KeyValues all_keys(const AttendPlan& plan, const KeyValues& kv) {
  if (plan.strategy != Strategy::kAllGather) return kv;
  return {gather(plan, kv.k_BKTD, 2), gather(plan, kv.v_BKTV, 2),
          kv.segments_BT.valid() ? gather(plan, kv.segments_BT, 1) : Value{}};
}

bool goes_round(const AttendPlan& plan) {
  return plan.strategy == Strategy::kRing || plan.strategy == Strategy::kUsp;
}

Value zero(const ShardInputs& in) {
  return graph::constant(*in.q_BKGSD.graph, Shape(DType::kI32, {}), 0);
}

}  // namespace

KernelPartial shard_forward(const AttendPlan& plan, const ShardInputs& in) {
  if (plan.in_memory) return Kernel(plan, in).forward_together();
  if (goes_round(plan)) return RingForward(plan, in).run();
  return Kernel(plan, in).forward(all_keys(plan, in.kv), zero(in));
}

KernelGradients shard_backward(const AttendPlan& plan, const ShardInputs& in,
                               Value dout_BKGSV, Value lse_BKGS,
                               Value delta_BKGS) {
  if (plan.in_memory) {
    return Kernel(plan, in).backward_together(dout_BKGSV, lse_BKGS, delta_BKGS);
  }
  if (goes_round(plan)) {
    return RingBackward(plan, in, dout_BKGSV, lse_BKGS, delta_BKGS).run();
  }
  const KeyValues kv = all_keys(plan, in.kv);
  const Payload payload(kv);
  const KeyValueGradients none =
      payload.expand_gradients(payload.zero_gradients(keys_of(kv)));
  KernelGradients made = Kernel(plan, in).backward(
      kv, zero(in), dout_BKGSV, lse_BKGS, delta_BKGS,
      {graph::constant(*in.q_BKGSD.graph, Shape(DType::kF32, in.q_BKGSD.dims()),
                       0),
       none.dk_BKTD, none.dv_BKTV});
  if (plan.strategy == Strategy::kAllGather) {
    made.dk_BKTD = scatter(plan, made.dk_BKTD, 2);
    made.dv_BKTV = scatter(plan, made.dv_BKTV, 2);
  }
  return made;
}

}  // namespace ringmax::attention
