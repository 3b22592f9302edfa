// Which pairs of slots see each other, in the form that a kernel walks: for
// every query a few intervals of key positions, and bounds of whole blocks.
//
// Any tree of masks is a union of terms; within a term the keys that a query
// sees are one interval of positions. Empty and full blocks follow from
// comparing hulls of intervals with the least and greatest position of a block
// of keys, whatever the order of the positions.
#ifndef RINGMAX_ATTENTION_CPU_VISIBILITY_H_
#define RINGMAX_ATTENTION_CPU_VISIBILITY_H_

#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "ringmax/attention/cpu/kernel.h"
#include "ringmax/attention/mask.h"

namespace ringmax::attention::cpu {

// Positions [first, last] that a query sees; empty when last < first.
struct Interval {
  std::int32_t first;
  std::int32_t last;
};

// One term: [first, last] by query slot. Bounds lie in [0, 2^31 - 1], but what
// is empty, and every padding slot (position -1), is [2^31 - 1, -1].
struct Term {
  std::vector<std::int32_t> first;
  std::vector<std::int32_t> last;
};
std::vector<Term> visible_terms(const Mask& mask,
                                std::span<const std::int32_t> q_positions);

// Values of a run of slots, padding left out; empty when max < min.
struct Extent {
  std::int32_t min;
  std::int32_t max;
  bool padding;  // some slot is padding
};

// What some queries of a block see (outer) and what all see (inner), per term.
struct Hull {
  Interval outer;
  Interval inner;
};

// Everything that does not depend on the head; made once a call.
class Visibility {
 public:
  // Keys are summarised in blocks of `kv_block` slots, and in groups of
  // kGroup, of which kv_block is a multiple.
  static constexpr std::int64_t kGroup = 8;
  Visibility(const Problem& problem, std::int64_t kv_block);

  std::int64_t terms() const { return std::ssize(terms_); }
  // Bounds by query slot; slots past the last one see nothing.
  const std::int32_t* first(std::int64_t term) const {
    return terms_[term].first.data();
  }
  const std::int32_t* last(std::int64_t term) const {
    return terms_[term].last.data();
  }
  // By key slot; -1 past the last one.
  const std::int32_t* kv_positions() const { return kv_positions_.data(); }
  // By slot, 0 replaced by -1 (queries) so that padding equals nothing; past
  // the end -1 and 0. Null without segments.
  const std::int32_t* q_segments(std::int64_t batch) const;
  const std::int32_t* kv_segments(std::int64_t batch) const;

  // Hulls of queries [begin, end), one per term, into `hulls`.
  void hull(std::int64_t begin, std::int64_t end, Hull* hulls) const;
  // Positions of key slots [begin, end).
  Extent key_extent(std::int64_t begin, std::int64_t end) const;
  Extent query_segments(std::int64_t batch, std::int64_t begin,
                        std::int64_t end) const;

  // How queries with these hulls and segments see a block of keys; the tile is
  // not looked at.
  BlockKind classify(const Hull* hulls, const Extent& q_segments,
                     std::int64_t batch, std::int64_t kv_block) const;
  // The same for a group of kGroup keys, only telling empty from the rest.
  bool group_empty(const Hull* hulls, std::int64_t group) const;

 private:
  std::int64_t q_stride_, kv_stride_, blocks_;
  std::vector<Term> terms_;
  std::vector<std::int32_t> kv_positions_;
  std::vector<std::int32_t> q_segments_, kv_segments_;
  std::vector<Extent> kv_groups_, kv_blocks_, kv_segment_blocks_;
};

}  // namespace ringmax::attention::cpu

#endif  // RINGMAX_ATTENTION_CPU_VISIBILITY_H_
