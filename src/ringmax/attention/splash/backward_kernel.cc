#include "ringmax/attention/splash/backward_kernel.h"

#include <functional>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/kernel/ops.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using graph::Precision;
using k::Value;
using k::Values;

namespace {

class Backward {
 public:
  explicit Backward(const KernelSpec& spec)
      : s_(spec), kernel_(std::make_unique<k::Kernel>("splash_backward")) {}

  std::unique_ptr<k::Kernel> build() {
    k::Kernel& kernel = *kernel_;
    kernel.parallel(s_.batch * s_.kv_heads);
    kernel.walk(steps(), /*dynamic=*/true);
    list_ = kernel.prefetch("blocks", s_.lists() * steps());
    declare_windows();
    kernel.begin([&](const Values& g) { return entry(g).first(); },
                 [&](const Values& g) { begin(g); });
    kernel.step([&](const Values& g) { step(g); });

    const double pairs = static_cast<double>(s_.heads()) *
                         static_cast<double>(s_.queries) *
                         static_cast<double>(s_.keys);
    const double d = static_cast<double>(s_.head_dim);
    const double v = static_cast<double>(s_.value_dim);
    kernel.set_cost({2 * pairs * (3 * d + 2 * v), pairs, bytes()});
    kernel.set_vmem_limit_bytes(s_.vmem_limit_bytes);
    return std::move(kernel_);
  }

 private:
  static Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }
  static Shape i32(Dims dims) { return Shape(DType::kI32, std::move(dims)); }

  std::int64_t steps() const { return s_.groups * s_.list_length(); }
  std::int64_t rows() const { return s_.groups * s_.query_blocks(); }

  Entry entry(const Values& g) const {
    Value at = g[1];
    if (s_.segments) at = at + batch_row(g) * static_cast<double>(steps());
    return Entry(k::load_scalar(list_, at));
  }
  Value batch_row(const Values& g) const {
    return g[0] / static_cast<double>(s_.kv_heads);
  }

  void declare_windows() {
    k::Kernel& kernel = *kernel_;
    const auto zero = [&] { return k::constant_i32(kernel, 0); };
    const auto queries = [&](const Values& g) {
      return Values{g[0], entry(g).query_block(), zero()};
    };
    const auto keys = [&](const Values& g) {
      return Values{g[0], entry(g).window(), zero()};
    };
    const auto whole = [&](const Values&) {
      return Values{zero(), zero(), zero()};
    };
    const auto head = [&](const Values& g) {
      return Values{g[0], zero(), zero()};
    };
    const std::int64_t heads = s_.batch * s_.kv_heads;
    const std::int64_t all_queries = s_.groups * s_.queries;
    q_ = kernel.input("q", Shape(s_.dtype, {heads, all_queries, s_.head_dim}),
                      {1, s_.block_q, s_.head_dim}, queries);
    key_ = kernel.input("k", Shape(s_.dtype, {heads, s_.keys, s_.head_dim}),
                        {1, s_.window(), s_.head_dim}, keys);
    v_ = kernel.input("v", Shape(s_.dtype, {heads, s_.keys, s_.value_dim}),
                      {1, s_.window(), s_.value_dim}, keys);
    dout_ = kernel.input("dout",
                         Shape(s_.dtype, {heads, all_queries, s_.value_dim}),
                         {1, s_.block_q, s_.value_dim}, queries);
    stats_ = kernel.input("stats", f32({heads, 2, all_queries}),
                          {1, 2, s_.block_q}, [&](const Values& g) {
                            return Values{g[0], zero(), entry(g).query_block()};
                          });
    const Dims q_rows = {rows(), 1, s_.block_q};
    const Dims kv_rows = {s_.windows(), 1, s_.window()};
    const Dims bounds = {q_rows[0], 2 * s_.intervals, s_.block_q};
    intervals_ = kernel.input("intervals", i32(bounds), bounds, whole);
    kv_positions_ = kernel.input("kv_positions", i32(kv_rows), kv_rows, whole);
    if (s_.segments) {
      const auto row = [&](const Values& g) {
        return Values{batch_row(g), zero(), zero(), zero()};
      };
      const auto segments = [&](std::string name, const Dims& of) {
        const Dims array = {s_.batch, of[0], of[1], of[2]};
        return kernel.input(std::move(name), i32(array),
                            {1, of[0], of[1], of[2]}, row);
      };
      q_segments_ = segments("q_segments", q_rows);
      kv_segments_ = segments("kv_segments", kv_rows);
    }
    if (s_.tile) {
      tile_ = kernel.input(
          "tile", i32({s_.keys, s_.queries}), {s_.window(), s_.block_q},
          [&](const Values& g) {
            const Entry e = entry(g);
            return Values{
                e.window(),
                k::remainder(e.query_block(),
                             k::constant_i32(kernel, s_.query_blocks()))};
          });
    }
    const Shape dq = f32({heads, all_queries, s_.head_dim});
    const Dims dq_block = {1, s_.block_q, s_.head_dim};
    dq_so_far_ = kernel.input("dq_so_far", dq, dq_block, queries);
    dq_ = kernel.output("dq", dq, dq_block, queries);
    kernel.alias(dq_, dq_so_far_);
    dk_ = kernel.output("dk", f32({heads, s_.keys, s_.head_dim}),
                        {1, s_.keys, s_.head_dim}, head);
    dv_ = kernel.output("dv", f32({heads, s_.keys, s_.value_dim}),
                        {1, s_.keys, s_.value_dim}, head);
  }

  double bytes() const {
    const double element = static_cast<double>(dtype_size(s_.dtype));
    const double heads = static_cast<double>(s_.heads());
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    const double q = static_cast<double>(s_.queries);
    const double kv = static_cast<double>(s_.batch * s_.kv_heads) *
                      static_cast<double>(s_.keys) * width;
    return heads * q *
               (width * element + 8 + 8 * static_cast<double>(s_.head_dim)) +
           kv * (4 + element * static_cast<double>(rows()));
  }

  void begin(const Values& g) {
    k::Kernel& kernel = *kernel_;
    k::store(dq_, k::load(dq_so_far_));
    k::if_true(k::equal(g[1], k::constant_i32(kernel, 0)), [&] {
      const auto clear = [&](k::Ref ref, std::int64_t width) {
        k::store(ref, k::constant(kernel, f32({s_.keys, width}), 0));
      };
      clear(dk_, s_.head_dim);
      clear(dv_, s_.value_dim);
    });
  }

  void step(const Values& g) {
    const Entry e = entry(g);
    k::Kernel& kernel = *kernel_;
    k::for_range(k::constant_i32(kernel, 0),
                 k::constant_i32(kernel, s_.window_parts), {},
                 [&](Value part, const Values&) {
                   block(e, part);
                   return Values{};
                 });
  }

  // One key block of the window.
  void block(const Entry& e, Value part) {
    const Value kind = e.part(part);
    const Value start = part * static_cast<double>(s_.block_kv);
    const auto when = [&](TileKind wanted, const std::function<void()>& body) {
      k::if_true(is_kind(kind, wanted), body);
    };
    if (s_.full) {
      when(TileKind::kFull, [&] {
        for (std::int64_t c = 0; c < s_.block_kv; c += s_.keys_at_once) {
          keys(e, start + static_cast<double>(c), s_.keys_at_once, 0, {});
        }
      });
    }
    if (s_.partial) {
      // The slow kind: a loop, because its code is long.
      when(TileKind::kPartial, [&] {
        k::Kernel& kernel = *kernel_;
        k::for_range(k::constant_i32(kernel, 0),
                     k::constant_i32(kernel, s_.block_kv / s_.keys_at_once), {},
                     [&](Value c, const Values&) {
                       const Value at =
                           start + c * static_cast<double>(s_.keys_at_once);
                       keys(e, at, s_.keys_at_once, 0, [&](Value p) {
                         return k::select(visible_pairs(e, at), p, 0.0);
                       });
                       return Values{};
                     });
      });
    }
    if (s_.triangular && s_.block_q == s_.block_kv) {
      when(TileKind::kTriangular, [&] {
        const std::int64_t n = s_.triangle_keys_at_once;
        for (std::int64_t c = 0; c < s_.block_kv; c += n) {
          keys(e, start + static_cast<double>(c), n, c,
               [&](Value p) { return below_diagonal(p, strict_of(kind)); });
        }
      });
    }
  }

  // `count` keys from slot `start` of the window on, against the query rows
  // from `first_row` on; `mask` clears probabilities of hidden pairs.
  void keys(const Entry& e, Value start, std::int64_t count,
            std::int64_t first_row, const std::function<Value(Value)>& mask) {
    const std::int64_t rows = s_.block_q - first_row;
    const Value at = k::multiple_of(start, count);
    // Where the keys are in the shard.
    const Value slot = k::multiple_of(
        e.window() * static_cast<double>(s_.window()) + start, count);
    const auto by_row = k::MatmulAttr{1, 1, precision()};
    const auto by_column = k::MatmulAttr{1, 0, precision()};
    const auto queries = [&](k::Ref ref, std::int64_t width) {
      return k::load(ref, {0, first_row, 0}, {1, rows, width});
    };
    const Value q = queries(q_, s_.head_dim);
    const Value dout = queries(dout_, s_.value_dim);
    const Value key = k::load(key_, {0, at, 0}, {1, count, s_.head_dim});
    const Value v = k::load(v_, {0, at, 0}, {1, count, s_.value_dim});
    const auto statistic = [&](int row) {
      return k::broadcast_to(k::load(stats_, {0, row, first_row}, {1, 1, rows}),
                             {count, rows});
    };

    // [keys, queries] from here on.
    const Value scores = k::matmul(key, q, by_row);
    Value slope;  // of the soft cap
    Value logits;
    if (s_.soft_cap == 0) {
      logits = scores * (s_.scale * kLog2E);
    } else {
      const Value t = k::tanh(scores * (s_.scale / s_.soft_cap));
      logits = t * (s_.soft_cap * kLog2E);
      slope = k::number_like(t, 1) - t * t;
    }
    Value p = k::exp2(logits - statistic(0));
    if (mask) p = mask(p);
    add_to(dv_, slot, k::matmul(k::convert(p, s_.dtype), dout, by_column));
    Value ds = p * (k::matmul(v, dout, by_row) - statistic(1));
    if (slope.valid()) ds = ds * slope;
    const Value rounded = k::convert(ds, s_.dtype);
    add_to(dk_, slot, k::matmul(rounded, q, by_column));
    const Value dq =
        k::matmul(k::convert(k::transpose(ds), s_.dtype), key, by_column);
    const k::Indices row0 = {0, first_row, 0};
    const Dims dims = {1, rows, s_.head_dim};
    k::store(dq_, k::load(dq_, row0, dims) + dq * s_.scale, row0, dims);
  }

  static void add_to(k::Ref ref, Value slot, Value x) {
    const k::Indices start = {0, slot, 0};
    const Dims dims = {1, x.dim(0), x.dim(1)};
    k::store(ref, k::load(ref, start, dims) + x, start, dims);
  }

  Precision precision() const {
    return s_.dtype == DType::kF32 ? Precision::kHighest : Precision::kDefault;
  }

  // The first columns of a triangular tile are its diagonal; the rest is full.
  Value below_diagonal(Value p, Value strict) const {
    const std::int64_t n = p.dim(0);
    const Value key = k::iota(*kernel_, {n, n}, 0);
    const Value query = k::iota(*kernel_, {n, n}, 1);
    const Value seen = k::greater_equal(query - key, strict);
    const Value diagonal = k::select(seen, k::slice(p, {0, 0}, {n, n}), 0.0);
    if (p.dim(1) == n) return diagonal;
    return k::concatenate({diagonal, k::slice(p, {0, n}, {n, p.dim(1) - n})},
                          1);
  }

  Value visible_pairs(const Entry& e, Value start) const {
    const std::int64_t count = s_.keys_at_once;
    const Value at = k::multiple_of(start, count);
    PairSlots slots;
    const auto bound = [&](std::int64_t row) {
      return k::broadcast_to(
          k::load(intervals_, {e.query_block(), row, 0}, {1, 1, s_.block_q}),
          {count, s_.block_q});
    };
    slots.keys = with_lanes(
        as_column(k::load(kv_positions_, {e.window(), 0, at}, {1, 1, count})),
        s_.block_q);
    for (std::int64_t i = 0; i < s_.intervals; ++i) {
      slots.low.push_back(bound(2 * i));
      slots.high.push_back(bound(2 * i + 1));
    }
    if (s_.segments) {
      slots.query_segments =
          k::broadcast_to(k::load(q_segments_, {0, e.query_block(), 0, 0},
                                  {1, 1, 1, s_.block_q}),
                          {count, s_.block_q});
      slots.key_segments =
          with_lanes(as_column(k::load(kv_segments_, {0, e.window(), 0, at},
                                       {1, 1, 1, count})),
                     s_.block_q);
    }
    if (s_.tile) slots.tile = k::load(tile_, {at, 0}, {count, s_.block_q});
    return visible(slots);
  }

  const KernelSpec s_;
  std::unique_ptr<k::Kernel> kernel_;
  k::Ref list_, q_, key_, v_, dout_, stats_, intervals_, kv_positions_,
      q_segments_, kv_segments_, tile_, dq_so_far_, dq_, dk_, dv_;
};

}  // namespace

std::unique_ptr<k::Kernel> backward_kernel(const KernelSpec& spec) {
  return Backward(spec).build();
}

}  // namespace ringmax::attention::splash
