// What a mask shows of a rectangle, row by row, in closed form: the machinery
// behind Mask::count, Mask::classify and the deduplication of partial blocks.
//
// In every law the keys of a query are an interval whose ends are constant or
// rise by one from row to row. Queries and keys of the same stride keep that
// form when both are counted in slots. So a rectangle falls into pieces of rows
// in which every end is base + slope * row with slope 0 or 1, and a combination
// of masks is a combination of sorted lists of intervals within pieces, cut
// where ends cross. The cost is the number of pieces, never the area (an
// array's rows are pieces of their own).
#ifndef RINGMAX_ATTENTION_MASK_ROWS_H_
#define RINGMAX_ATTENTION_MASK_ROWS_H_

#include <cstdint>
#include <vector>

#include "ringmax/attention/mask.h"

namespace ringmax::attention {

// Queries query + stride * row against keys key + stride * column.
struct Tile {
  std::int64_t query = 0;
  std::int64_t key = 0;
  std::int64_t stride = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

struct RowBound {
  std::int64_t base = 0;
  std::int64_t slope = 0;  // 0 or 1

  std::int64_t at(std::int64_t row) const { return base + slope * row; }
  friend bool operator==(const RowBound&, const RowBound&) = default;
};

// Columns [begin, end) of every row of its piece; begin <= end in all of them.
struct RowInterval {
  RowBound begin;
  RowBound end;
  friend bool operator==(const RowInterval&, const RowInterval&) = default;
};

// Rows [begin, end), which all see the same intervals: ascending, disjoint.
struct RowPiece {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<RowInterval> seen;
  friend bool operator==(const RowPiece&, const RowPiece&) = default;
};

// Pieces in ascending order that cover all rows of the tile, neighbours that
// are one formula joined: tiles of equal content have equal pieces whenever
// their masks' laws are cut alike (always for a law by itself).
std::vector<RowPiece> row_pieces(const Mask& mask, const Tile& tile);

// What either list shows; both cover the same rows.
std::vector<RowPiece> united_pieces(const std::vector<RowPiece>& a,
                                    const std::vector<RowPiece>& b);
// Neighbours that are one formula as one piece.
std::vector<RowPiece> joined_pieces(std::vector<RowPiece> pieces);

// Visible pairs; what row_pieces would sum to, without making them where a
// closed form is at hand.
std::int64_t count_tile(const Mask& mask, const Tile& tile);

// count_tile() > 0, found without counting on.
bool any_in_tile(const Mask& mask, const Tile& tile);

// The most and the fewest columns: kEmpty and kFull are exact.
BlockKind classify_tile(const Mask& mask, const Tile& tile);

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_MASK_ROWS_H_
