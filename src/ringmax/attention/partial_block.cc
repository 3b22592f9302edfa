#include "ringmax/attention/partial_block.h"

#include <algorithm>
#include <utility>

namespace ringmax::attention {
namespace {

std::uint64_t hash_of(const PartialBlock& block) {
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a over whole numbers
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 1099511628211u;
  };
  for (const RowPiece& piece : block.pieces) {
    mix(piece.begin);
    for (const RowInterval& x : piece.seen) {
      mix(x.begin.base);
      mix(x.begin.slope);
      mix(x.end.base);
      mix(x.end.slope);
    }
  }
  return hash;
}

RowBound moved(const RowBound& bound, std::int64_t rows, std::int64_t columns) {
  return {bound.base + columns - bound.slope * rows, bound.slope};
}

// Rows of one query part: what it sees of all key parts, side by side.
std::vector<RowPiece> pieces_of_part(const Mask& mask, const BlockPart& q,
                                     const std::vector<BlockPart>& keys) {
  std::vector<RowPiece> all = {{0, q.run.count, {}}};
  for (const BlockPart& k : keys) {
    const std::int64_t stride = q.run.count > 1 ? q.run.stride : k.run.stride;
    std::vector<RowPiece> pieces = row_pieces(
        mask, {q.run.first, k.run.first, stride, q.run.count, k.run.count});
    for (RowPiece& piece : pieces) {
      for (RowInterval& x : piece.seen) {
        x = {moved(x.begin, 0, k.offset), moved(x.end, 0, k.offset)};
      }
    }
    all = united_pieces(all, pieces);
  }
  return all;
}

PartialBlock block_of(const Mask& mask, std::int64_t rows,
                      const std::vector<BlockPart>& queries,
                      const std::vector<BlockPart>& keys) {
  PartialBlock block;
  std::int64_t done = 0;
  for (const BlockPart& q : queries) {
    if (q.offset > done) block.pieces.push_back({done, q.offset, {}});
    for (RowPiece& piece : pieces_of_part(mask, q, keys)) {
      for (RowInterval& x : piece.seen) {
        x = {moved(x.begin, q.offset, 0), moved(x.end, q.offset, 0)};
      }
      block.pieces.push_back({piece.begin + q.offset, piece.end + q.offset,
                              std::move(piece.seen)});
    }
    done = q.offset + q.run.count;
  }
  if (done < rows) block.pieces.push_back({done, rows, {}});
  block.pieces = joined_pieces(std::move(block.pieces));
  return block;
}

}  // namespace

std::vector<std::uint8_t> PartialBlock::bytes(std::int64_t columns) const {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(rows() * columns),
                                   0);
  for (const RowPiece& piece : pieces) {
    for (std::int64_t row = piece.begin; row < piece.end; ++row) {
      const auto start = result.begin() + row * columns;
      for (const RowInterval& x : piece.seen) {
        std::fill(start + x.begin.at(row), start + x.end.at(row),
                  std::uint8_t{1});
      }
    }
  }
  return result;
}

std::int32_t PartialBlockTable::add(std::int64_t rows,
                                    const std::vector<BlockPart>& queries,
                                    const std::vector<BlockPart>& keys) {
  return add(block_of(mask_, rows, queries, keys));
}

std::int32_t PartialBlockTable::add(PartialBlock block) {
  const std::uint64_t hash = hash_of(block);
  const auto [begin, end] = by_content_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (blocks_[static_cast<std::size_t>(it->second)] == block) {
      return it->second;
    }
  }
  const auto number = static_cast<std::int32_t>(blocks_.size());
  blocks_.push_back(std::move(block));
  by_content_.emplace(hash, number);
  return number;
}

}  // namespace ringmax::attention
