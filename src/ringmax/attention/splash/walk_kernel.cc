#include "ringmax/attention/splash/walk_kernel.h"

#include <algorithm>
#include <utility>

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using graph::Precision;

WalkKernel::WalkKernel(const KernelSpec& spec, std::string name,
                       std::int64_t heads, bool keys_first)
    : s_(spec),
      kernel_(std::make_unique<k::Kernel>(std::move(name))),
      heads_(heads),
      keys_first_(keys_first) {
  kernel_->parallel(programs());
  kernel_->walk(steps(), /*dynamic=*/true);
  works_ = kernel_->prefetch("works", s_.lists() * steps());
  places_ = kernel_->prefetch("places", s_.lists() * steps());
}

WalkKernel::Value WalkKernel::load_of_step(k::Ref list,
                                           const Values& grid) const {
  Value at = grid[1];
  if (s_.segments) at = at + batch_row(grid) * static_cast<double>(steps());
  return k::load_scalar(list, at);
}

Work WalkKernel::work(const Values& grid) const {
  return {load_of_step(works_, grid)};
}

Place WalkKernel::place(const Values& grid) const {
  return {load_of_step(places_, grid)};
}

WalkKernel::Value WalkKernel::batch_row(const Values& grid) const {
  const std::int64_t programs_a_row = programs() / s_.batch;
  return grid[0] / static_cast<double>(programs_a_row);
}

WalkKernel::Value WalkKernel::block_in_head(const Place& place) const {
  const Value block = place.query_block();
  return heads_ == 1 ? block
                     : k::remainder(
                           block, k::constant_i32(*kernel_, s_.query_blocks()));
}

WalkKernel::Values WalkKernel::at_queries(const Values& grid) const {
  return {grid[0], place(grid).query_block(), zero()};
}

WalkKernel::Values WalkKernel::at_keys(const Values& grid) const {
  const std::int64_t sharing = s_.groups / heads_;
  const Value head =
      sharing == 1 ? grid[0] : grid[0] / static_cast<double>(sharing);
  return {head, place(grid).window(), zero()};
}

k::Ref WalkKernel::query_window(std::string name, std::int64_t width) {
  return kernel_->input(
      std::move(name),
      Shape(s_.dtype, {programs(), heads_ * s_.queries, width}),
      {1, s_.block_q, width}, [&](const Values& g) { return at_queries(g); });
}

k::Ref WalkKernel::key_window(std::string name, std::int64_t width) {
  return kernel_->input(
      std::move(name),
      Shape(s_.dtype, {s_.batch * s_.kv_heads, s_.keys, width}),
      {1, s_.window(), width}, [&](const Values& g) { return at_keys(g); });
}

void WalkKernel::declare_slots() {
  k::Kernel& kernel = *kernel_;
  const Dims q_rows = {s_.query_blocks(), 1, s_.block_q};
  const Dims kv_rows = {s_.windows(), 1, s_.window()};
  const Dims bounds = {q_rows[0], 2 * s_.intervals, s_.block_q};
  const auto whole = [&](const Values&) {
    return Values{zero(), zero(), zero()};
  };
  intervals_ = kernel.input("intervals", i32(bounds), bounds, whole);
  kv_positions_ = kernel.input("kv_positions", i32(kv_rows), kv_rows, whole);
  if (s_.segments) {
    const auto segments = [&](std::string name, const Dims& of) {
      return kernel.input(std::move(name), i32({s_.batch, of[0], of[1], of[2]}),
                          {1, of[0], of[1], of[2]}, [&](const Values& g) {
                            return Values{batch_row(g), zero(), zero(), zero()};
                          });
    };
    q_segments_ = segments("q_segments", q_rows);
    kv_segments_ = segments("kv_segments", kv_rows);
  }
  if (s_.tile) {
    Dims array = {s_.queries, s_.keys};
    Dims block = {s_.block_q, s_.window()};
    if (keys_first_) {
      std::swap(array[0], array[1]);
      std::swap(block[0], block[1]);
    }
    tile_ = kernel.input("tile", i32(array), block, [&](const Values& g) {
      const Place p = place(g);
      Values at = {block_in_head(p), p.window()};
      if (keys_first_) std::swap(at[0], at[1]);
      return at;
    });
  }
}

void WalkKernel::step(const Values& grid) {
  const Work w = work(grid);
  const Place p = place(grid);
  k::for_range(zero(), k::constant_i32(*kernel_, s_.window_parts), {},
               [&](Value part, const Values&) {
                 block(w, p, part);
                 return Values{};
               });
}

// One key block of the window.
void WalkKernel::block(const Work& work, const Place& place, Value part) {
  const Value kind = work.part(part);
  const Value start = part * static_cast<double>(s_.block_kv);
  const auto when = [&](TileKind wanted, const std::function<void()>& body) {
    k::if_true(is_kind(kind, wanted), body);
  };
  if (s_.full) {
    when(TileKind::kFull, [&] {
      const auto run = [&](Value from) {
        for (std::int64_t c = 0; c < s_.keys_unrolled; c += s_.keys_at_once) {
          tile(place,
               {from + static_cast<double>(c), s_.keys_at_once, 0, s_.block_q},
               {});
        }
      };
      if (s_.keys_unrolled == s_.block_kv) return run(start);
      k::for_range(zero(),
                   k::constant_i32(*kernel_, s_.block_kv / s_.keys_unrolled),
                   {}, [&](Value i, const Values&) {
                     run(start + i * static_cast<double>(s_.keys_unrolled));
                     return Values{};
                   });
    });
  }
  if (s_.partial) when(TileKind::kPartial, [&] { partial(place, start); });
  if (s_.triangular && s_.block_q == s_.block_kv) {
    when(TileKind::kTriangular,
         [&] { triangle(place, start, strict_of(kind)); });
  }
}

// The slow kind: a loop, because its code is long.
void WalkKernel::partial(const Place& place, Value start) {
  k::for_range(zero(), k::constant_i32(*kernel_, s_.block_kv / s_.keys_at_once),
               {}, [&](Value c, const Values&) {
                 const Value at =
                     start + c * static_cast<double>(s_.keys_at_once);
                 tile(place, {at, s_.keys_at_once, 0, s_.block_q},
                      [&](Value x, double hidden) {
                        return k::select(visible_pairs(place, at), x, hidden);
                      });
                 return Values{};
               });
}

// In runs of keys, each against the rows from the diagonal on.
void WalkKernel::triangle(const Place& place, Value start, Value strict) {
  const std::int64_t n = s_.triangle_keys_at_once;
  for (std::int64_t c = 0; c < s_.block_kv; c += n) {
    tile(place, {start + static_cast<double>(c), n, c, s_.block_q - c},
         [&](Value x, double hidden) {
           return below_diagonal(x, strict, hidden);
         });
  }
}

WalkKernel::Value WalkKernel::below_diagonal(Value x, Value strict,
                                             double hidden) const {
  const std::int64_t n = std::min(x.dim(0), x.dim(1));
  const Value first = k::iota(*kernel_, {n, n}, 0);
  const Value second = k::iota(*kernel_, {n, n}, 1);
  const Value seen =
      k::greater_equal(keys_first_ ? second - first : first - second, strict);
  const Value diagonal = k::select(seen, k::slice(x, {0, 0}, {n, n}), hidden);
  const std::int64_t dim = keys_first_ ? 1 : 0;
  const std::int64_t rest = x.dim(static_cast<std::size_t>(dim)) - n;
  if (rest == 0) return diagonal;
  const Dims at = keys_first_ ? Dims{0, n} : Dims{n, 0};
  const Dims sizes = keys_first_ ? Dims{n, rest} : Dims{rest, n};
  return k::concatenate({diagonal, k::slice(x, at, sizes)}, dim);
}

WalkKernel::Value WalkKernel::of_queries(Value row) const {
  const Dims dims = {s_.keys_at_once, s_.block_q};
  return keys_first_ ? k::broadcast_to(row, dims)
                     : with_lanes(as_column(row), s_.keys_at_once);
}

WalkKernel::Value WalkKernel::of_keys(Value row) const {
  const Dims dims = {s_.block_q, s_.keys_at_once};
  return keys_first_ ? with_lanes(as_column(row), s_.block_q)
                     : k::broadcast_to(row, dims);
}

// Of the query block and `keys_at_once` keys from slot `start` of the window.
WalkKernel::Value WalkKernel::visible_pairs(const Place& place,
                                            Value start) const {
  const std::int64_t count = s_.keys_at_once;
  const Value at = k::multiple_of(start, count);
  const Value query_block = block_in_head(place);
  PairSlots slots;
  slots.keys =
      of_keys(k::load(kv_positions_, {place.window(), 0, at}, {1, 1, count}));
  const auto bound = [&](std::int64_t row) {
    return of_queries(
        k::load(intervals_, {query_block, row, 0}, {1, 1, s_.block_q}));
  };
  for (std::int64_t i = 0; i < s_.intervals; ++i) {
    slots.low.push_back(bound(2 * i));
    slots.high.push_back(bound(2 * i + 1));
  }
  if (s_.segments) {
    slots.query_segments = of_queries(
        k::load(q_segments_, {0, query_block, 0, 0}, {1, 1, 1, s_.block_q}));
    slots.key_segments = of_keys(
        k::load(kv_segments_, {0, place.window(), 0, at}, {1, 1, 1, count}));
  }
  if (s_.tile) {
    slots.tile = keys_first_ ? k::load(tile_, {at, 0}, {count, s_.block_q})
                             : k::load(tile_, {0, at}, {s_.block_q, count});
  }
  return visible(slots);
}

Precision WalkKernel::precision() const {
  return s_.dtype == DType::kF32 ? Precision::kHighest : Precision::kDefault;
}

}  // namespace ringmax::attention::splash
