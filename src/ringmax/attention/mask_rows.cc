#include "ringmax/attention/mask_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "ringmax/attention/division.h"

namespace ringmax::attention {
namespace {

// Cuts rows [begin, end) where the interval meets the tile's sides and hands
// every piece on, clipped: sink(row_begin, row_end, interval), the interval
// possibly of no columns. interval.begin <= interval.end in every row.
template <typename Sink>
void clip(std::int64_t begin, std::int64_t end, const RowInterval& interval,
          std::int64_t columns, const Sink& sink) {
  if (begin >= end) return;
  std::array<std::int64_t, 6> cuts;
  std::size_t n = 0;
  cuts[n++] = begin;
  for (const RowBound& bound : {interval.begin, interval.end}) {
    if (bound.slope == 0) continue;
    for (const std::int64_t row : {-bound.base, columns - bound.base}) {
      if (row > begin && row < end) cuts[n++] = row;
    }
  }
  std::sort(cuts.begin(), cuts.begin() + static_cast<std::ptrdiff_t>(n));
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t from = cuts[i];
    const std::int64_t to = i + 1 < n ? cuts[i + 1] : end;
    if (from == to) continue;
    // Nothing crosses a side within the piece, so its first row tells.
    const auto clipped = [&](const RowBound& bound) {
      if (bound.at(from) <= 0 && bound.at(to - 1) <= 0) return RowBound{0, 0};
      if (bound.at(from) >= columns) return RowBound{columns, 0};
      return bound;
    };
    sink(from, to, RowInterval{clipped(interval.begin), clipped(interval.end)});
  }
}

// The pieces of a law by itself, in order, to sink(begin, end, interval).
template <typename Sink>
void law_pieces(const Mask& mask, const Tile& t, const Sink& sink) {
  const std::int64_t ahead = t.query - t.key;
  switch (mask.kind()) {
    case Mask::Kind::kFull:
      sink(0, t.rows, RowInterval{{0, 0}, {t.columns, 0}});
      return;
    case Mask::Kind::kCausal:
      clip(0, t.rows,
           {{0, 0}, {floor_div(ahead + mask.offset(), t.stride) + 1, 1}},
           t.columns, sink);
      return;
    case Mask::Kind::kLocal:
      clip(0, t.rows,
           {{ceil_div(ahead - mask.left(), t.stride), 1},
            {floor_div(ahead + mask.right(), t.stride) + 1, 1}},
           t.columns, sink);
      return;
    case Mask::Kind::kChunked:
      for (std::int64_t row = 0; row < t.rows;) {
        const std::int64_t chunk = (t.query + row * t.stride) / mask.chunk();
        const std::int64_t next = std::min(
            t.rows, ceil_div((chunk + 1) * mask.chunk() - t.query, t.stride));
        clip(row, next,
             {{ceil_div(chunk * mask.chunk() - t.key, t.stride), 0},
              {floor_div(ahead, t.stride) + 1, 1}},
             t.columns, sink);
        row = next;
      }
      return;
    case Mask::Kind::kDense:
    case Mask::Kind::kAnd:
    case Mask::Kind::kOr:
      return;
  }
}

bool is_law(const Mask& mask) {
  return mask.kind() != Mask::Kind::kDense && mask.operands().empty();
}

bool empty_in(const RowInterval& x, std::int64_t first, std::int64_t last) {
  return x.begin.at(first) == x.end.at(first) &&
         x.begin.at(last) == x.end.at(last);
}

std::vector<RowPiece> array_pieces(const DenseMask& array, const Tile& t) {
  std::vector<RowPiece> pieces;
  for (std::int64_t row = 0; row < t.rows; ++row) {
    RowPiece piece{row, row + 1, {}};
    const std::int64_t query = t.query + row * t.stride;
    for (std::int64_t c = 0; c < t.columns; ++c) {
      if (!array.visible(query, t.key + c * t.stride)) continue;
      if (!piece.seen.empty() && piece.seen.back().end.base == c) {
        piece.seen.back().end.base = c + 1;
      } else {
        piece.seen.push_back({{c, 0}, {c + 1, 0}});
      }
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Order of two bounds that do not cross within rows [first, last].
bool before(const RowBound& a, const RowBound& b, std::int64_t first,
            std::int64_t last) {
  return std::pair(a.at(first), a.at(last)) <
         std::pair(b.at(first), b.at(last));
}

// Rows in (begin, end) where a bound of `a` passes one of `b`.
void add_crossings(const std::vector<RowInterval>& a,
                   const std::vector<RowInterval>& b, std::int64_t begin,
                   std::int64_t end, std::vector<std::int64_t>& cuts) {
  for (const RowInterval& x : a) {
    for (const RowBound& p : {x.begin, x.end}) {
      for (const RowInterval& y : b) {
        for (const RowBound& q : {y.begin, y.end}) {
          if (p.slope == q.slope) continue;
          const std::int64_t row =
              p.slope > q.slope ? q.base - p.base : p.base - q.base;
          if (row > begin && row < end) cuts.push_back(row);
        }
      }
    }
  }
}

std::vector<RowInterval> intersection(const std::vector<RowInterval>& a,
                                      const std::vector<RowInterval>& b,
                                      std::int64_t first, std::int64_t last) {
  std::vector<RowInterval> result;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const RowBound& begin =
        before(a[i].begin, b[j].begin, first, last) ? b[j].begin : a[i].begin;
    const bool a_ends = before(a[i].end, b[j].end, first, last);
    const RowBound& end = a_ends ? a[i].end : b[j].end;
    if (before(begin, end, first, last)) result.push_back({begin, end});
    ++(a_ends ? i : j);
  }
  return result;
}

std::vector<RowInterval> united(const std::vector<RowInterval>& a,
                                const std::vector<RowInterval>& b,
                                std::int64_t first, std::int64_t last) {
  std::vector<RowInterval> result;
  for (std::size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool from_b =
        i == a.size() ||
        (j < b.size() && before(b[j].begin, a[i].begin, first, last));
    const RowInterval& next = from_b ? b[j++] : a[i++];
    if (empty_in(next, first, last)) continue;
    if (!result.empty() &&
        !before(result.back().end, next.begin, first, last)) {
      if (before(result.back().end, next.end, first, last)) {
        result.back().end = next.end;
      }
    } else {
      result.push_back(next);
    }
  }
  return result;
}

std::vector<RowPiece> combine(const std::vector<RowPiece>& a,
                              const std::vector<RowPiece>& b, bool meet) {
  std::vector<RowPiece> result;
  std::vector<std::int64_t> cuts;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::int64_t begin = std::max(a[i].begin, b[j].begin);
    const std::int64_t end = std::min(a[i].end, b[j].end);
    cuts.assign({begin, end});
    add_crossings(a[i].seen, b[j].seen, begin, end, cuts);
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
      const std::int64_t first = cuts[c];
      const std::int64_t last = cuts[c + 1] - 1;
      result.push_back({first, last + 1,
                        meet ? intersection(a[i].seen, b[j].seen, first, last)
                             : united(a[i].seen, b[j].seen, first, last)});
    }
    if (a[i].end == end) ++i;
    if (b[j].end == end) ++j;
  }
  return result;
}

// Whether `next`, the rows right after `piece`, goes on with its formula. A
// piece of one row has no slope of its own and takes the next one's.
bool joins(RowPiece& piece, const RowPiece& next) {
  if (piece.seen.size() != next.seen.size()) return false;
  std::vector<RowInterval> seen = piece.seen;
  const auto fits = [&](RowBound& bound, const RowBound& other) {
    if (piece.end - piece.begin == 1) {
      if (next.end - next.begin == 1) {
        const std::int64_t step = other.at(next.begin) - bound.at(piece.begin);
        if (step != 0 && step != 1) return false;
        bound = {bound.at(piece.begin) - step * piece.begin, step};
        return true;
      }
      if (bound.at(piece.begin) != other.at(piece.begin)) return false;
      bound = other;
      return true;
    }
    return bound.at(next.begin) == other.at(next.begin) &&
           bound.at(next.end - 1) == other.at(next.end - 1);
  };
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!fits(seen[i].begin, next.seen[i].begin) ||
        !fits(seen[i].end, next.seen[i].end)) {
      return false;
    }
  }
  piece.seen = std::move(seen);
  return true;
}

std::vector<RowPiece> raw_pieces(const Mask& mask, const Tile& tile) {
  if (mask.kind() == Mask::Kind::kDense) {
    return array_pieces(*mask.dense(), tile);
  }
  std::vector<RowPiece> pieces;
  if (is_law(mask)) {
    law_pieces(
        mask, tile,
        [&](std::int64_t begin, std::int64_t end, const RowInterval& interval) {
          pieces.push_back({begin, end, {}});
          if (!empty_in(interval, begin, end - 1)) {
            pieces.back().seen.push_back(interval);
          }
        });
    return pieces;
  }
  const bool meet = mask.kind() == Mask::Kind::kAnd;
  for (const Mask& operand : mask.operands()) {
    std::vector<RowPiece> next = raw_pieces(operand, tile);
    pieces = pieces.empty() ? std::move(next) : combine(pieces, next, meet);
  }
  return pieces;
}

// Sum of the interval's columns over rows [begin, end).
std::int64_t area(std::int64_t begin, std::int64_t end, const RowInterval& x) {
  const std::int64_t rows = end - begin;
  const std::int64_t slope = x.end.slope - x.begin.slope;
  const std::int64_t of_first = x.end.at(begin) - x.begin.at(begin);
  return rows * of_first + slope * (rows * (rows - 1) / 2);
}

// Whether pieces of the mask are as many as chunks.
bool counts_chunks(const Mask& mask) {
  return mask.kind() == Mask::Kind::kChunked ||
         std::any_of(mask.operands().begin(), mask.operands().end(),
                     counts_chunks);
}

// Rows of a chunked mask by their chunks; the cost is theirs.
std::int64_t count_chunks(const Mask& mask, Tile tile, std::int64_t begin,
                          std::int64_t end) {
  if (begin >= end) return 0;
  std::int64_t seen = 0;
  tile.query += begin * tile.stride;
  tile.rows = end - begin;
  law_pieces(mask, tile,
             [&](std::int64_t from, std::int64_t to, const RowInterval& x) {
               seen += area(from, to, x);
             });
  return seen;
}

// A chunked mask at the cost of a few chunks: those that the tile's keys cut
// are counted by themselves, the whole ones between them repeat.
std::int64_t count_chunked(const Mask& mask, const Tile& t) {
  const std::int64_t chunk = mask.chunk();
  const std::int64_t last_key = t.key + (t.columns - 1) * t.stride;
  const auto row_at = [&](std::int64_t position) {
    return std::clamp<std::int64_t>(ceil_div(position - t.query, t.stride), 0,
                                    t.rows);
  };
  const std::int64_t first = row_at(t.key / chunk * chunk);
  const std::int64_t whole = row_at(ceil_div(t.key, chunk) * chunk);
  const std::int64_t past = std::max(whole, row_at(last_key + 1));
  const std::int64_t end =
      std::max(past, row_at((last_key / chunk + 1) * chunk));
  const std::int64_t period = chunk / std::gcd(chunk, t.stride);
  const std::int64_t periods = (past - whole) / period;
  return count_chunks(mask, t, first, whole) +
         (periods == 0
              ? 0
              : periods * count_chunks(mask, t, whole, whole + period)) +
         count_chunks(mask, t, whole + periods * period, end);
}

}  // namespace

std::vector<RowPiece> joined_pieces(std::vector<RowPiece> pieces) {
  std::vector<RowPiece> result;
  for (RowPiece& piece : pieces) {
    std::erase_if(piece.seen, [&](const RowInterval& x) {
      return empty_in(x, piece.begin, piece.end - 1);
    });
    if (piece.end - piece.begin == 1) {
      for (RowInterval& x : piece.seen) {
        x = {{x.begin.at(piece.begin), 0}, {x.end.at(piece.begin), 0}};
      }
    }
    if (!result.empty() && joins(result.back(), piece)) {
      result.back().end = piece.end;
    } else {
      result.push_back(std::move(piece));
    }
  }
  return result;
}

std::vector<RowPiece> united_pieces(const std::vector<RowPiece>& a,
                                    const std::vector<RowPiece>& b) {
  return combine(a, b, false);
}

std::vector<RowPiece> row_pieces(const Mask& mask, const Tile& tile) {
  return joined_pieces(raw_pieces(mask, tile));
}

std::int64_t count_tile(const Mask& mask, const Tile& tile) {
  if (tile.rows <= 0 || tile.columns <= 0) return 0;
  std::int64_t seen = 0;
  if (mask.kind() == Mask::Kind::kDense) {
    return mask.dense()->count({tile.query, tile.stride, tile.rows},
                               {tile.key, tile.stride, tile.columns});
  }
  if (mask.kind() == Mask::Kind::kChunked) return count_chunked(mask, tile);
  if (is_law(mask)) {
    law_pieces(mask, tile,
               [&](std::int64_t begin, std::int64_t end, const RowInterval& x) {
                 seen += area(begin, end, x);
               });
    return seen;
  }
  for (const RowPiece& piece : raw_pieces(mask, tile)) {
    for (const RowInterval& x : piece.seen) {
      seen += area(piece.begin, piece.end, x);
    }
  }
  return seen;
}

bool any_in_tile(const Mask& mask, const Tile& t) {
  if (t.rows <= 0 || t.columns <= 0) return false;
  if (mask.kind() == Mask::Kind::kOr) {
    return std::any_of(mask.operands().begin(), mask.operands().end(),
                       [&](const Mask& each) { return any_in_tile(each, t); });
  }
  constexpr std::int64_t kFewRows = 64;
  if (t.rows <= kFewRows || !counts_chunks(mask)) {
    return count_tile(mask, t) > 0;
  }
  // Chunk after chunk would be counted: halves without any key are left out,
  // and the first that sees one is enough.
  const PositionRange hull = mask.key_hull({t.query, t.stride, t.rows});
  const std::int64_t last_key = t.key + (t.columns - 1) * t.stride;
  if (hull.begin > last_key || hull.end <= t.key) return false;
  Tile first = t;
  first.rows = t.rows / 2;
  Tile second = t;
  second.query += first.rows * t.stride;
  second.rows -= first.rows;
  return any_in_tile(mask, first) || any_in_tile(mask, second);
}

BlockKind classify_tile(const Mask& mask, const Tile& tile) {
  if (tile.rows <= 0 || tile.columns <= 0) return BlockKind::kEmpty;
  if (!mask.operands().empty()) {
    // Often the operands decide by themselves.
    const bool meet = mask.kind() == Mask::Kind::kAnd;
    const BlockKind decisive = meet ? BlockKind::kEmpty : BlockKind::kFull;
    const BlockKind neutral = meet ? BlockKind::kFull : BlockKind::kEmpty;
    bool all_neutral = true;
    for (const Mask& operand : mask.operands()) {
      const BlockKind kind = classify_tile(operand, tile);
      if (kind == decisive) return decisive;
      all_neutral = all_neutral && kind == neutral;
    }
    if (all_neutral) return neutral;
  }
  const std::int64_t seen = count_tile(mask, tile);
  if (seen == 0) return BlockKind::kEmpty;
  return seen == tile.rows * tile.columns ? BlockKind::kFull
                                          : BlockKind::kPartial;
}

}  // namespace ringmax::attention
