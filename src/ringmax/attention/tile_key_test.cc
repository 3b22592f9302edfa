#include "ringmax/attention/tile_key.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <unordered_map>

#include "ringmax/attention/layout.h"

namespace ringmax::attention {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(n));
  }
  Mask law() {
    switch (below(4)) {
      case 0:
        return Mask::full();
      case 1:
        return Mask::causal(below(9) - 4);
      case 2:
        return Mask::local(below(9), below(5));
      default:
        return Mask::chunked(1 + below(9));
    }
  }

 private:
  std::mt19937_64 bits_;
};

std::string bits_of(const Mask& mask, const Tile& t) {
  std::string bits = fmt::format("{}x{} ", t.rows, t.columns);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    for (std::int64_t c = 0; c < t.columns; ++c) {
      const bool seen =
          mask.visible(t.query + r * t.stride, t.key + c * t.stride);
      bits += seen ? 'x' : '.';
    }
  }
  return bits;
}

TEST(TileKey, EqualKeysShowEqualPairs) {
  Random random(141421);
  std::int64_t repeated = 0;
  for (int round = 0; round < 150; ++round) {
    Mask mask = random.law();
    for (std::int64_t more = random.below(3); more > 0; --more) {
      mask = random.below(2) == 0 ? mask & random.law() : mask | random.law();
    }
    const TileKeys keys(mask);
    ASSERT_TRUE(keys.usable());
    std::unordered_map<TileKey, std::string, TileKeyHash> known;
    for (int i = 0; i < 600; ++i) {
      const Tile tile{random.below(40), random.below(40), 1 + random.below(5),
                      1 + random.below(4), 1 + random.below(4)};
      const std::string bits = bits_of(mask, tile);
      const auto [place, fresh] = known.try_emplace(keys.of(tile), bits);
      ASSERT_EQ(place->second, bits)
          << mask.to_string() << " queries from " << tile.query
          << ", keys from " << tile.key << ", stride " << tile.stride;
      repeated += fresh ? 0 : 1;
      if (!keys.by_distance()) continue;
      Tile moved = tile;
      moved.query += 7;
      moved.key += 7;
      ASSERT_EQ(keys.of(moved), place->first) << mask.to_string();
    }
  }
  EXPECT_GT(repeated, 20000);
}

// What keys are for: a million pairs of shards are a handful of cases.
TEST(TileKey, StripedShardsHaveFewKeys) {
  const Layout layout(LayoutKind::kStriped, 1 << 20, 1024);
  const TileKeys keys((Mask::causal() & Mask::local(4095, 0)) |
                      Mask::chunked(65536));
  std::set<std::array<std::int64_t, TileKey::kRoom>> found;
  for (std::int64_t q = 0; q < 1024; ++q) {
    for (std::int64_t k = 0; k < 1024; ++k) {
      const PositionRun of_q = layout.runs(q)[0];
      const PositionRun of_k = layout.runs(k)[0];
      found.insert(
          keys.of({of_q.first, of_k.first, 1024, of_q.count, of_k.count})
              .numbers);
    }
  }
  EXPECT_LE(found.size(), 8U);
}

TEST(TileKey, LeavesOutArraysAndLongCombinations) {
  EXPECT_FALSE(
      TileKeys(Mask::causal() &
               Mask::dense(DenseMask::make(
                   1, 1, std::vector<std::uint8_t>(std::size_t{1}, 1))))
          .usable());
  Mask many = Mask::chunked(1);
  for (std::int64_t chunk = 2; chunk < 6; ++chunk) {
    many = many | Mask::chunked(chunk);
  }
  EXPECT_FALSE(TileKeys(many).usable());
  EXPECT_EQ(TileCounts(many).count(PositionRange{0, 9}, PositionRange{0, 9}),
            many.count(PositionRange{0, 9}, PositionRange{0, 9}));
}

}  // namespace
}  // namespace ringmax::attention
