#include "ringmax/attention/splash/walk_counts.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "ringmax/attention/splash/blocks.h"
#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/base/error.h"

namespace ringmax::attention::splash {
namespace {

using Positions = std::vector<std::int64_t>;

constexpr std::int64_t kBeyond = std::int64_t{1} << 40;

// Keys that a query sees: positions low .. high, both included.
struct Interval {
  std::int64_t low, high;
};

void intervals_of(const Mask& mask, std::int64_t q,
                  std::vector<Interval>* rows) {
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      rows->push_back({0, kBeyond});
      return;
    case Mask::Kind::kCausal:
      rows->push_back({0, q + mask.offset()});
      return;
    case Mask::Kind::kLocal:
      rows->push_back({q - mask.left(), q + mask.right()});
      return;
    case Mask::Kind::kChunked:
      rows->push_back({q - q % mask.chunk(), q});
      return;
    case Mask::Kind::kOr:
      for (const Mask& operand : mask.operands()) {
        intervals_of(operand, q, rows);
      }
      return;
    case Mask::Kind::kAnd: {
      std::vector<Interval> meets = {{0, kBeyond}};
      for (const Mask& operand : mask.operands()) {
        std::vector<Interval> more;
        intervals_of(operand, q, &more);
        std::vector<Interval> next;
        for (const Interval& a : meets) {
          for (const Interval& b : more) {
            next.push_back({std::max(a.low, b.low), std::min(a.high, b.high)});
          }
        }
        meets = std::move(next);
      }
      rows->insert(rows->end(), meets.begin(), meets.end());
      return;
    }
    case Mask::Kind::kDense:
      break;
  }
  fail(ErrorCode::kInternal, "mask {} has no intervals", mask.to_string());
}

struct Range {
  std::int64_t low = std::numeric_limits<std::int64_t>::max();
  std::int64_t high = std::numeric_limits<std::int64_t>::min();

  void add(std::int64_t x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
};

bool rising(std::span<const std::int64_t> x) {
  return std::adjacent_find(x.begin(), x.end(), std::greater_equal<>()) ==
         x.end();
}

Positions padded(std::span<const std::int64_t> x, std::int64_t size) {
  Positions out(x.begin(), x.end());
  out.resize(static_cast<std::size_t>(size), -1);
  return out;
}

class Counter {
 public:
  Counter(const KernelSpec& spec, const Mask& mask,
          std::span<const std::int64_t> q, std::span<const std::int64_t> kv)
      : s_(spec), kv_(padded(kv, spec.keys)) {
    for (const std::int64_t position : padded(q, spec.queries)) {
      std::vector<Interval> row;
      intervals_of(mask, std::max<std::int64_t>(position, 0), &row);
      if (lows_.empty()) lows_.resize(row.size());
      highs_.resize(lows_.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        lows_[i].push_back(
            position < 0 ? kBeyond : std::max<std::int64_t>(row[i].low, 0));
        highs_[i].push_back(position < 0 ? -1 : row[i].high);
      }
    }
    for (std::int64_t b = 0; b < spec.keys / spec.block_kv; ++b) {
      Range range;
      for (const std::int64_t x : keys(b)) range.add(x);
      key_ranges_.push_back(range);
    }
  }

  WalkCounts run() const {
    WalkCounts counts;
    for (std::int64_t row = 0; row < s_.query_blocks(); ++row) {
      ++counts.rows;
      std::int64_t entries = 0;
      for (std::int64_t w = 0; w < s_.windows(); ++w) {
        bool active = false;
        for (std::int64_t p = 0; p < s_.window_parts; ++p) {
          const TileKind kind = kind_of(row, w * s_.window_parts + p);
          active = active || kind != TileKind::kNone;
          counts.full += kind == TileKind::kFull ? 1 : 0;
          counts.partial += kind == TileKind::kPartial ? 1 : 0;
          counts.triangular += kind == TileKind::kTriangular ? 1 : 0;
        }
        entries += active ? 1 : 0;
      }
      // A row without work keeps an entry, for its output.
      counts.steps += static_cast<double>(std::max<std::int64_t>(entries, 1));
    }
    return counts;
  }

 private:
  std::span<const std::int64_t> keys(std::int64_t block) const {
    return std::span(kv_).subspan(static_cast<std::size_t>(block * s_.block_kv),
                                  static_cast<std::size_t>(s_.block_kv));
  }
  std::span<const std::int64_t> of_row(const Positions& x,
                                       std::int64_t row) const {
    return std::span(x).subspan(static_cast<std::size_t>(row * s_.block_q),
                                static_cast<std::size_t>(s_.block_q));
  }

  TileKind kind_of(std::int64_t row, std::int64_t column) const {
    const Range& key = key_ranges_[static_cast<std::size_t>(column)];
    bool any = false;
    bool all = false;
    for (std::size_t i = 0; i < lows_.size(); ++i) {
      Range low;
      Range high;
      for (const std::int64_t x : of_row(lows_[i], row)) low.add(x);
      for (const std::int64_t x : of_row(highs_[i], row)) high.add(x);
      any = any || (low.low <= key.high && key.low <= high.high);
      all = all || (low.high <= key.low && key.high <= high.low);
    }
    if (all) return TileKind::kFull;
    if (!any) return TileKind::kNone;
    const bool triangular =
        s_.block_q == s_.block_kv && lows_.size() == 1 &&
        (is_triangle(row, column, false) || is_triangle(row, column, true));
    return triangular ? TileKind::kTriangular : TileKind::kPartial;
  }

  bool is_triangle(std::int64_t row, std::int64_t column, bool strict) const {
    const auto k = keys(column);
    const auto low = of_row(lows_[0], row);
    const auto high = of_row(highs_[0], row);
    if (!rising(k) || !rising(high)) return false;
    if (*std::max_element(low.begin(), low.end()) >
        *std::min_element(k.begin(), k.end())) {
      return false;
    }
    const std::size_t shift = strict ? 1 : 0;
    for (std::size_t r = 0; r < high.size(); ++r) {
      // Slot r sees key slots up to r - shift, and no more.
      if (r >= shift && k[r - shift] > high[r]) return false;
      const std::size_t next = r + 1 - shift;
      if (next < k.size() && k[next] <= high[r]) return false;
    }
    return true;
  }

  const KernelSpec& s_;
  Positions kv_;
  std::vector<Positions> lows_, highs_;
  std::vector<Range> key_ranges_;
};

// Slots [from, from + count) of a sequence; -1 for padding.
Positions slots_of(const Layout& layout, const Positions& all,
                   std::int64_t from, std::int64_t count) {
  Positions out;
  for (std::int64_t i = from; i < from + count; ++i) {
    const std::int64_t x = all[static_cast<std::size_t>(i)];
    out.push_back(x < layout.tokens() ? x : -1);
  }
  return out;
}

// Every call of a pass: which slots of keys meet the queries of which place.
struct Call {
  std::int64_t place, first_key, keys;
};

std::vector<Call> calls_of(const AttendPlan& plan) {
  std::vector<Call> calls;
  const KernelRequest& r = plan.request;
  if (plan.schedule.tracks.empty()) {
    const std::int64_t places = plan.q_layout.padded_tokens() / r.queries;
    for (std::int64_t p = 0; p < places; ++p) calls.push_back({p, 0, r.keys});
    return calls;
  }
  for (const RingTrack& track : plan.schedule.tracks) {
    for (const RingStep& step : track.steps) {
      for (std::int64_t p = 0; p < plan.ring_size; ++p) {
        const std::int64_t owner =
            (p - step.shift + plan.ring_size) % plan.ring_size;
        calls.push_back({p, owner * r.keys + track.key_slots.begin,
                         track.key_slots.size()});
      }
    }
  }
  return calls;
}

}  // namespace

void WalkCounts::add(const WalkCounts& other, double times) {
  rows += times * other.rows;
  steps += times * other.steps;
  full += times * other.full;
  partial += times * other.partial;
  triangular += times * other.triangular;
  pairs += times * other.pairs;
}

WalkCounts count_walk(const KernelSpec& spec, const Mask& mask,
                      std::span<const std::int64_t> q_positions,
                      std::span<const std::int64_t> kv_positions) {
  return Counter(spec, mask, q_positions, kv_positions).run();
}

std::vector<KernelWork> kernel_work(const AttendPlan& plan) {
  if (plan.request.tile) return {};
  const Positions q_all = plan.q_layout.positions();
  const Positions kv_all = plan.kv_layout.positions();
  double pairs = 0;
  for (const std::int64_t n : plan.pairs_per_device) {
    pairs += static_cast<double>(n);
  }
  // Devices that share out heads see the same pairs; calls are those of one.
  pairs /= static_cast<double>(plan.ulysses_size);
  std::vector<KernelWork> works(2);
  works[0].kernel = "splash_forward";
  works[1].kernel = "splash_backward";
  works[1].backward = true;
  for (const Call& call : calls_of(plan)) {
    KernelRequest r = plan.request;
    r.keys = call.keys;
    const Positions q =
        slots_of(plan.q_layout, q_all, call.place * r.queries, r.queries);
    const Positions kv =
        slots_of(plan.kv_layout, kv_all, call.first_key, call.keys);
    for (const bool backward : {false, true}) {
      KernelWork& work = works[backward ? 1 : 0];
      work.spec = backward ? backward_spec(r) : forward_spec(r);
      const KernelSpec& s = work.spec;
      const auto heads = static_cast<double>(s.heads());
      for (std::int64_t at = 0; at < call.keys; at += s.keys) {
        const auto part = std::span(kv).subspan(
            static_cast<std::size_t>(at),
            static_cast<std::size_t>(std::min(s.keys, call.keys - at)));
        work.counts.add(count_walk(s, r.mask, q, part), heads);
        ++work.calls;
        work.programs +=
            backward ? heads / static_cast<double>(s.groups) : heads;
      }
    }
  }
  const KernelRequest& r = plan.request;
  const auto d = static_cast<double>(r.head_dim);
  const auto v = static_cast<double>(r.value_dim);
  for (KernelWork& work : works) {
    work.counts.pairs = pairs * static_cast<double>(work.spec.heads());
  }
  works[0].flops = works[0].counts.pairs * 2 * (d + v);
  works[1].flops = works[1].counts.pairs * 2 * (3 * d + 2 * v);
  return works;
}

}  // namespace ringmax::attention::splash
