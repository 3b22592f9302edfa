// One call of all devices against one device's call: the same bits, whatever
// the layout.
#include "ringmax/attention/cpu/together.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/base/dtype.h"
#include "ringmax/base/error.h"
#include "ringmax/base/philox.h"
#include "ringmax/base/testing/message_of.h"

namespace ringmax::attention::cpu {
namespace {

using ::testing::HasSubstr;

// Elements of `size` bytes, [batch, tokens, heads, columns].
struct Array {
  std::int64_t batch, tokens, heads, columns, size;
  std::vector<std::byte> bytes;

  Array(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t c,
        std::int64_t element = 4)
      : batch(b),
        tokens(t),
        heads(h),
        columns(c),
        size(element),
        bytes(static_cast<std::size_t>(b * t * row_bytes())) {}
  std::int64_t row_bytes() const { return heads * columns * size; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes.data());
  }
  ConstRows rows() const {
    return {bytes.data(), tokens * heads * columns, columns, heads * columns};
  }
  FloatRows floats() {
    return {as<float>(), tokens * heads * columns, columns, heads * columns};
  }
  void fill(std::uint64_t stream) {
    const auto count =
        static_cast<std::uint64_t>(batch * tokens * heads * columns);
    for (std::uint64_t i = 0; i < count; ++i) {
      const float x = approx_normal(3, stream, i);
      if (size == 4) {
        as<float>()[i] = x;
      } else {
        as<std::uint16_t>()[i] = float_to_bf16(x);
      }
    }
  }
  // The tokens at `positions`; zeros for -1.
  Array at(const std::vector<std::int32_t>& positions) const {
    Array some(batch, std::ssize(positions), heads, columns, size);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < some.tokens; ++i) {
        if (positions[i] < 0) continue;
        std::copy_n(bytes.begin() + (b * tokens + positions[i]) * row_bytes(),
                    row_bytes(),
                    some.bytes.begin() + (b * some.tokens + i) * row_bytes());
      }
    }
    return some;
  }
  // The reverse: puts the tokens of a shard where they belong.
  void put(const Array& some, const std::vector<std::int32_t>& positions) {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t i = 0; i < some.tokens; ++i) {
        if (positions[i] < 0) continue;
        std::copy_n(some.bytes.begin() + (b * some.tokens + i) * row_bytes(),
                    row_bytes(),
                    bytes.begin() + (b * tokens + positions[i]) * row_bytes());
      }
    }
  }
};

struct Features {
  std::int64_t tokens = 96, keys = 80;
  DType dtype = DType::kF32;
  Mask mask = Mask::causal();
  bool segments = false, tile = false;
};

struct Tensors {
  Array q, k, v, dout, lse, delta;
  std::vector<std::int32_t> q_segments, kv_segments;
  std::vector<std::uint8_t> tile;
  Array out, sum, max, dq, dk, dv;
};

constexpr std::int64_t kBatch = 2, kKvHeads = 2, kGroups = 2, kHeadDim = 16,
                       kValueDim = 8, kHeads = kKvHeads * kGroups;

Tensors tensors_of(std::int64_t queries, std::int64_t keys, DType dtype) {
  const auto element = static_cast<std::int64_t>(dtype_size(dtype));
  const auto array = [&](std::int64_t tokens, std::int64_t heads,
                         std::int64_t columns, std::int64_t size = 4) {
    return Array(kBatch, tokens, heads, columns, size);
  };
  return {array(queries, kHeads, kHeadDim, element),
          array(keys, kKvHeads, kHeadDim, element),
          array(keys, kKvHeads, kValueDim, element),
          array(queries, kHeads, kValueDim, element),
          array(queries, kHeads, 1),
          array(queries, kHeads, 1),
          {},
          {},
          {},
          array(queries, kHeads, kValueDim),
          array(queries, kHeads, 1),
          array(queries, kHeads, 1),
          array(queries, kHeads, kHeadDim),
          array(keys, kKvHeads, kHeadDim),
          array(keys, kKvHeads, kValueDim)};
}

Tensors random_tensors(const Features& f) {
  Tensors x = tensors_of(f.tokens, f.keys, f.dtype);
  std::uint64_t stream = 0;
  for (Array* a : {&x.q, &x.k, &x.v, &x.dout, &x.lse, &x.delta}) {
    a->fill(++stream);
  }
  const auto segments = [&](std::int64_t tokens) {
    std::vector<std::int32_t> ids;
    for (std::int64_t i = 0; i < kBatch * tokens; ++i) {
      ids.push_back(static_cast<std::int32_t>(i % tokens * 4 / tokens));
    }
    return ids;
  };
  if (f.segments) {
    x.q_segments = segments(f.tokens);
    x.kv_segments = segments(f.keys);
  }
  for (std::int64_t i = 0; f.tile && i < f.tokens * f.keys; ++i) {
    x.tile.push_back(i % 7 != 0);
  }
  return x;
}

// [B, T, H, 1] as kernels have statistics, [B, H, T], and back.
std::vector<float> by_head(Array& x) {
  std::vector<float> all;
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t h = 0; h < x.heads; ++h) {
      for (std::int64_t t = 0; t < x.tokens; ++t) {
        all.push_back(x.as<float>()[(b * x.tokens + t) * x.heads + h]);
      }
    }
  }
  return all;
}
void from_by_head(const std::vector<float>& all, Array& x) {
  std::size_t at = 0;
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t h = 0; h < x.heads; ++h) {
      for (std::int64_t t = 0; t < x.tokens; ++t) {
        x.as<float>()[(b * x.tokens + t) * x.heads + h] = all[at++];
      }
    }
  }
}

// The problem of a shard, or of all.
struct Posed {
  Problem problem;
  BackwardInputs gradient;
  std::vector<float> lse, delta;
};
Posed pose(const Features& f, Tensors& x, const std::int32_t* q_positions,
           const std::int32_t* kv_positions) {
  Posed posed;
  Problem& p = posed.problem;
  p.batch = kBatch;
  p.kv_heads = kKvHeads;
  p.groups = kGroups;
  p.queries = x.q.tokens;
  p.keys = x.k.tokens;
  p.head_dim = kHeadDim;
  p.value_dim = kValueDim;
  p.dtype = f.dtype;
  p.scale = 0.25;
  p.mask = f.mask;
  p.q_positions = q_positions;
  p.kv_positions = kv_positions;
  p.q_segments = f.segments ? x.q_segments.data() : nullptr;
  p.kv_segments = f.segments ? x.kv_segments.data() : nullptr;
  p.tile = f.tile ? x.tile.data() : nullptr;
  p.q = x.q.rows();
  p.k = x.k.rows();
  p.v = x.v.rows();
  posed.lse = by_head(x.lse);
  posed.delta = by_head(x.delta);
  posed.gradient.dout = x.dout.rows();
  posed.gradient.lse = posed.lse.data();
  posed.gradient.delta = posed.delta.data();
  return posed;
}

std::vector<std::int32_t> counted(std::int64_t n) {
  std::vector<std::int32_t> all;
  for (std::int32_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

// out, sum, max, dq, dk and dv of one device.
void run_alone(const Features& f, Tensors& x) {
  const auto q_positions = counted(f.tokens);
  const auto kv_positions = counted(f.keys);
  Posed posed = pose(f, x, q_positions.data(), kv_positions.data());
  std::vector<float> sum(by_head(x.sum).size());
  std::vector<float> max(sum.size());
  forward(posed.problem, {x.out.floats(), sum.data(), max.data()}, {});
  from_by_head(sum, x.sum);
  from_by_head(max, x.max);
  posed.gradient.dq = x.dq.floats();
  posed.gradient.dk = x.dk.floats();
  posed.gradient.dv = x.dv.floats();
  posed.gradient.fresh = true;
  backward(posed.problem, posed.gradient, {});
}

std::vector<std::int32_t> positions_of(const Layout& layout,
                                       std::int64_t shard) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < layout.shard_tokens(); ++i) {
    const std::int64_t p = layout.position(shard, i);
    all.push_back(p < layout.tokens() ? static_cast<std::int32_t>(p) : -1);
  }
  return all;
}

void run_together(const Features& f, const Tensors& whole, LayoutKind kind,
                  std::int64_t shards, Tensors& made) {
  const Layout q_layout(kind, f.tokens, shards);
  const Layout kv_layout(kind, f.keys, shards);
  std::vector<std::vector<std::int32_t>> q_positions, kv_positions;
  std::vector<std::int32_t> all_keys;
  for (std::int64_t d = 0; d < shards; ++d) {
    q_positions.push_back(positions_of(q_layout, d));
    kv_positions.push_back(positions_of(kv_layout, d));
    all_keys.insert(all_keys.end(), kv_positions[d].begin(),
                    kv_positions[d].end());
  }
  const auto workers = [](std::vector<std::thread>& threads) {
    return Workers(2, [&](std::function<void()> work) {
      threads.emplace_back(std::move(work));
    });
  };
  for (const bool gradient : {false, true}) {
    Parts parts;
    for (std::int64_t d = 0; d < shards; ++d) {
      Tensors x = whole;
      for (Array* a : {&x.q, &x.dout, &x.lse, &x.delta}) {
        *a = a->at(q_positions[d]);
      }
      x.k = x.k.at(kv_positions[d]);
      x.v = x.v.at(kv_positions[d]);
      const auto ids = [](const std::vector<std::int32_t>& of,
                          const std::vector<std::int32_t>& positions) {
        std::vector<std::int32_t> some;
        const std::int64_t tokens = std::ssize(of) / kBatch;
        for (std::int64_t b = 0; !of.empty() && b < kBatch; ++b) {
          for (const std::int32_t p : positions) {
            some.push_back(p < 0 ? 0 : of[b * tokens + p]);
          }
        }
        return some;
      };
      x.q_segments = ids(whole.q_segments, q_positions[d]);
      x.kv_segments = ids(whole.kv_segments, kv_positions[d]);
      x.tile.clear();
      for (const std::int32_t q : q_positions[d]) {
        for (const std::int32_t k : all_keys) {
          x.tile.push_back(
              f.tile && q >= 0 && k >= 0 ? whole.tile[q * f.keys + k] : 0);
        }
      }
      const Posed posed =
          pose(f, x, q_positions[d].data(), kv_positions[d].data());
      parts.push_back(std::make_shared<Part>(
          posed.problem, shards, gradient ? &posed.gradient : nullptr));
    }
    Together together(std::move(parts));
    std::vector<std::thread> threads;
    if (gradient) {
      together.backward(workers(threads));
    } else {
      together.forward(workers(threads));
    }
    for (std::thread& t : threads) t.join();
    for (std::int64_t d = 0; d < shards; ++d) {
      Tensors x = tensors_of(q_layout.shard_tokens(), kv_layout.shard_tokens(),
                             f.dtype);
      if (gradient) {
        together.take(d, x.dq.floats(), x.dk.floats(), x.dv.floats());
        made.dq.put(x.dq, q_positions[d]);
        made.dk.put(x.dk, kv_positions[d]);
        made.dv.put(x.dv, kv_positions[d]);
      } else {
        std::vector<float> sum(by_head(x.sum).size());
        std::vector<float> max(sum.size());
        together.take(d, {x.out.floats(), sum.data(), max.data()});
        from_by_head(sum, x.sum);
        from_by_head(max, x.max);
        made.out.put(x.out, q_positions[d]);
        made.sum.put(x.sum, q_positions[d]);
        made.max.put(x.max, q_positions[d]);
      }
    }
  }
}

void expect_the_same_bits(const Features& f) {
  Tensors alone = random_tensors(f);
  const Tensors whole = alone;
  run_alone(f, alone);
  for (const LayoutKind kind :
       {LayoutKind::kContiguous, LayoutKind::kZigzag, LayoutKind::kStriped}) {
    for (const std::int64_t shards : {1, 2, 3, 4, 5, 6, 8}) {
      Tensors made = whole;
      run_together(f, whole, kind, shards, made);
      const std::pair<const char*, Array Tensors::*> results[] = {
          {"out", &Tensors::out}, {"sum", &Tensors::sum},
          {"max", &Tensors::max}, {"dq", &Tensors::dq},
          {"dk", &Tensors::dk},   {"dv", &Tensors::dv}};
      for (const auto& [name, member] : results) {
        EXPECT_TRUE((made.*member).bytes == (alone.*member).bytes)
            << name << ' ' << layout_name(kind) << ' ' << shards;
      }
    }
  }
}

TEST(Together, IsOneDevicesCallBitForBit) {
  expect_the_same_bits({});
  expect_the_same_bits({.mask = Mask::local(20, 3)});
  expect_the_same_bits({.dtype = DType::kBF16});
}

// Slots of padding, and what each device has of its own.
TEST(Together, TakesPaddingSegmentsAndArraysOfVisiblePairs) {
  expect_the_same_bits({.tokens = 61, .keys = 67});
  expect_the_same_bits({.mask = Mask::full(), .segments = true});
  expect_the_same_bits({.mask = Mask::full(), .tile = true});
  expect_the_same_bits(
      {.tokens = 61, .keys = 67, .segments = true, .tile = true});
}

TEST(Together, RunsAreAsLongAsPartsAllow) {
  const std::vector<std::int32_t> a = {0, 1, 6, 7};
  const std::vector<std::int32_t> b = {2, 3, 4, -1};
  const auto runs = in_order({a.data(), b.data()}, 4);
  ASSERT_EQ(runs.size(), 4U);
  const std::vector<std::vector<std::int64_t>> want = {
      {0, 0, 0, 2}, {1, 0, 2, 3}, {0, 2, 5, 2}, {1, 3, 7, 1}};
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(
        (std::vector{runs[i].part, runs[i].slot, runs[i].whole, runs[i].count}),
        want[i]);
  }
}

// Whatever the positions: gaps, some of them twice, padding anywhere.
TEST(Together, RunsAreInTheOrderOfTheirPositions) {
  std::mt19937 random(7);
  const auto below = [&](int n) {
    return std::uniform_int_distribution<int>(0, n - 1)(random);
  };
  for (int round = 0; round < 400; ++round) {
    const std::int64_t parts = 1 + below(4);
    const std::int64_t slots = 1 + below(9);
    const auto all = static_cast<std::size_t>(parts * slots);
    std::vector<std::int32_t> positions(all);
    const bool distinct = below(2) == 0;
    for (std::size_t i = 0; i < all; ++i) {
      positions[i] = distinct ? static_cast<std::int32_t>(i)
                              : below(static_cast<int>(all));
    }
    // Blocks of neighbours change places.
    for (int swaps = below(6); swaps > 0; --swaps) {
      const int length = 1 + below(3);
      const int a = below(static_cast<int>(all));
      const int b = below(static_cast<int>(all));
      for (int i = 0; i < length; ++i) {
        std::swap(positions[(a + i) % all], positions[(b + i) % all]);
      }
    }
    for (int n = below(4); n > 0; --n) {
      positions[below(static_cast<int>(all))] = -1;
    }
    std::vector<std::int64_t> want(all);
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(),
                     [&](std::int64_t a, std::int64_t b) {
                       return static_cast<std::uint32_t>(positions[a]) <
                              static_cast<std::uint32_t>(positions[b]);
                     });
    std::vector<const std::int32_t*> each;
    for (std::int64_t p = 0; p < parts; ++p) {
      each.push_back(positions.data() + p * slots);
    }
    std::vector<std::int64_t> got;
    for (const cpu::Run& run : in_order(each, slots)) {
      EXPECT_EQ(run.whole, std::ssize(got));
      ASSERT_LE(run.slot + run.count, slots);
      // As long as can be.
      EXPECT_TRUE(got.empty() || run.slot == 0 ||
                  got.back() != run.part * slots + run.slot - 1);
      for (std::int64_t i = 0; i < run.count; ++i) {
        got.push_back(run.part * slots + run.slot + i);
      }
    }
    EXPECT_EQ(got, want);
  }
}

TEST(Together, RefusesShardsThatDoNotFit) {
  const auto part = [](std::int64_t tokens, bool gradient) {
    Features f{.tokens = tokens, .keys = tokens};
    Tensors x = random_tensors(f);
    const auto positions = counted(tokens);
    const Posed posed = pose(f, x, positions.data(), positions.data());
    return std::make_shared<Part>(posed.problem, 2,
                                  gradient ? &posed.gradient : nullptr);
  };
  EXPECT_THAT(message_of([&] {
                Together({part(8, false), part(9, false)});
              }),
              HasSubstr("other sizes"));
  EXPECT_THAT(message_of([&] {
                Together({part(8, false), part(8, true)});
              }),
              HasSubstr("other sizes"));
  Together forward_only({part(8, false), part(8, false)});
  EXPECT_THAT(message_of([&] { forward_only.backward({}); }),
              HasSubstr("no dout"));
}

}  // namespace
}  // namespace ringmax::attention::cpu
