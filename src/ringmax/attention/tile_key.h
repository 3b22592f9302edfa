// What the content of a tile depends on, as a few whole numbers: tiles with
// equal keys show equal columns in every row, so what was found of one holds
// for the other. On devices of a ring most tiles repeat: in a striped layout a
// million pairs of shards have a handful of keys.
#ifndef RINGMAX_ATTENTION_TILE_KEY_H_
#define RINGMAX_ATTENTION_TILE_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ringmax/attention/mask.h"
#include "ringmax/attention/mask_rows.h"

namespace ringmax::attention {

struct TileKey {
  static constexpr std::size_t kRoom = 14;
  std::array<std::int64_t, kRoom> numbers{};  // unused ones are 0
  std::size_t hash = 0;

  friend bool operator==(const TileKey& a, const TileKey& b) {
    return a.hash == b.hash && a.numbers == b.numbers;
  }
};

struct TileKeyHash {
  std::size_t operator()(const TileKey& key) const { return key.hash; }
};

// Makes the keys of one mask's tiles.
class TileKeys {
 public:
  explicit TileKeys(const Mask& mask);

  // False when the mask holds an array or more laws than a key has room for:
  // then there are no keys.
  bool usable() const { return usable_; }
  // Whether tiles of one shape and stride that are equally far (query - key)
  // have one key: no law counts from 0.
  bool by_distance() const { return by_distance_; }
  TileKey of(const Tile& tile) const;

 private:
  // Whether key numbers of `mask` found room.
  bool add_laws(const Mask& mask);

  struct Law {
    Mask::Kind kind;
    std::int64_t a, b;
  };
  std::vector<Law> laws_;
  std::size_t numbers_ = 3;  // rows, columns, stride
  bool by_distance_ = true;
  bool usable_;
};

// Mask::count that counts tiles of one key once.
class TileCounts {
 public:
  explicit TileCounts(const Mask& mask) : mask_(mask), keys_(mask) {}

  std::int64_t count(const PositionRun& queries, const PositionRun& keys);

 private:
  Mask mask_;
  TileKeys keys_;
  std::unordered_map<TileKey, std::int64_t, TileKeyHash> known_;
};

}  // namespace ringmax::attention

#endif  // RINGMAX_ATTENTION_TILE_KEY_H_
