#include "ringmax/attention/splash/forward_kernel.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/kernel/ops.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using graph::Precision;
using graph::ReduceKind;
using k::Value;
using k::Values;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
// Where maxima begin among the lanes that sums share with them.
constexpr std::int64_t kHalf = kLanes / 2;
// Below every maximum of logits that float32 can hold in base 2.
constexpr double kLowest = -1e38;

class Forward {
 public:
  explicit Forward(const KernelSpec& spec)
      : s_(spec), kernel_(std::make_unique<k::Kernel>("splash_forward")) {}

  std::unique_ptr<k::Kernel> build() {
    k::Kernel& kernel = *kernel_;
    kernel.parallel(s_.heads());
    kernel.walk(s_.list_length(), /*dynamic=*/true);
    list_ = kernel.prefetch("blocks", s_.lists() * s_.list_length());
    declare_windows();
    m_ = kernel.scratch("max", f32({s_.block_q, kLanes}));
    l_ = kernel.scratch("sum", f32({s_.block_q, kLanes}));
    acc_ = kernel.scratch("acc", f32({s_.block_q, s_.value_dim}));

    kernel.begin(
        [&](const Values& g) { return entry(g).first(); },
        [&](const Values&) {
          k::store(m_, k::constant(kernel, f32({s_.block_q, kLanes}), -kInf));
          k::store(l_, k::constant(kernel, f32({s_.block_q, kLanes}), 0));
          k::store(acc_,
                   k::constant(kernel, f32({s_.block_q, s_.value_dim}), 0));
        });
    kernel.step([&](const Values& g) { step(g); });
    kernel.end([&](const Values& g) { return entry(g).last(); },
               [&](const Values&) { finish(); });

    const double pairs = static_cast<double>(s_.heads()) *
                         static_cast<double>(s_.queries) *
                         static_cast<double>(s_.keys);
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    kernel.set_cost({2 * pairs * width, pairs, bytes()});
    kernel.set_vmem_limit_bytes(s_.vmem_limit_bytes);
    return std::move(kernel_);
  }

 private:
  static Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }
  static Shape i32(Dims dims) { return Shape(DType::kI32, std::move(dims)); }

  Entry entry(const Values& g) const {
    Value at = g[1];
    if (s_.segments)
      at = at + batch_row(g) * static_cast<double>(s_.list_length());
    return Entry(k::load_scalar(list_, at));
  }
  Value batch_row(const Values& g) const {
    return g[0] / static_cast<double>(s_.kv_heads * s_.groups);
  }

  void declare_windows() {
    k::Kernel& kernel = *kernel_;
    const auto zero = [&] { return k::constant_i32(kernel, 0); };
    const auto queries = [&](const Values& g) {
      return Values{g[0], entry(g).query_block(), zero()};
    };
    const auto keys = [&](const Values& g) {
      return Values{g[0] / static_cast<double>(s_.groups), entry(g).window(),
                    zero()};
    };
    const auto whole = [&](const Values&) {
      return Values{zero(), zero(), zero()};
    };
    const std::int64_t kv = s_.batch * s_.kv_heads;
    q_ = kernel.input("q",
                      Shape(s_.dtype, {s_.heads(), s_.queries, s_.head_dim}),
                      {1, s_.block_q, s_.head_dim}, queries);
    key_ = kernel.input("k", Shape(s_.dtype, {kv, s_.keys, s_.head_dim}),
                        {1, s_.window(), s_.head_dim}, keys);
    v_ = kernel.input("v", Shape(s_.dtype, {kv, s_.keys, s_.value_dim}),
                      {1, s_.window(), s_.value_dim}, keys);
    const Dims q_rows = {s_.query_blocks(), 1, s_.block_q};
    const Dims kv_rows = {s_.windows(), 1, s_.window()};
    const Dims bounds = {q_rows[0], 2 * s_.intervals, s_.block_q};
    intervals_ = kernel.input("intervals", i32(bounds), bounds, whole);
    kv_positions_ = kernel.input("kv_positions", i32(kv_rows), kv_rows, whole);
    if (s_.segments) {
      const auto row = [&](const Values& g) {
        return Values{batch_row(g), zero(), zero(), zero()};
      };
      const auto segments = [&](std::string name, const Dims& rows) {
        Dims array = {s_.batch};
        Dims block = {1};
        array.insert(array.end(), rows.begin(), rows.end());
        block.insert(block.end(), rows.begin(), rows.end());
        return kernel.input(std::move(name), i32(array), block, row);
      };
      q_segments_ = segments("q_segments", q_rows);
      kv_segments_ = segments("kv_segments", kv_rows);
    }
    if (s_.tile) {
      tile_ = kernel.input("tile", i32({s_.queries, s_.keys}),
                           {s_.block_q, s_.window()}, [&](const Values& g) {
                             const Entry e = entry(g);
                             return Values{e.query_block(), e.window()};
                           });
    }
    out_ = kernel.output("out", f32({s_.heads(), s_.queries, s_.value_dim}),
                         {1, s_.block_q, s_.value_dim}, queries);
    const std::int64_t groups = s_.block_q / kLanes;
    stats_ = kernel.output(
        "stats", f32({s_.heads(), s_.query_blocks(), 2, groups, kLanes}),
        {1, 1, 2, groups, kLanes}, [&](const Values& g) {
          return Values{g[0], entry(g).query_block(), zero(), zero(), zero()};
        });
  }

  double bytes() const {
    const double element = static_cast<double>(dtype_size(s_.dtype));
    const double heads = static_cast<double>(s_.heads());
    const double q = static_cast<double>(s_.queries);
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    return heads * q *
               (static_cast<double>(s_.head_dim) * element +
                static_cast<double>(s_.value_dim) * 4 + 8) +
           heads * static_cast<double>(s_.query_blocks()) *
               static_cast<double>(s_.keys) * width * element;
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
          keys(start + static_cast<double>(c), s_.keys_at_once, 0, {});
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
                       keys(at, s_.keys_at_once, 0, [&](Value s) {
                         return k::select(visible_pairs(e, at), s, -kInf);
                       });
                       return Values{};
                     });
      });
    }
    if (s_.triangular && s_.block_q == s_.block_kv) {
      when(TileKind::kTriangular, [&] {
        const std::int64_t n = s_.triangle_keys_at_once;
        for (std::int64_t c = 0; c < s_.block_kv; c += n) {
          keys(start + static_cast<double>(c), n, c,
               [&](Value s) { return below_diagonal(s, strict_of(kind)); });
        }
      });
    }
  }

  // `columns` keys from slot `start` of the window on, against the query rows
  // from `first_row` on; `mask` hides scores, nothing when it is empty.
  void keys(Value start, std::int64_t columns, std::int64_t first_row,
            const std::function<Value(Value)>& mask) {
    const std::int64_t rows = s_.block_q - first_row;
    const Value at = k::multiple_of(start, columns);
    const k::MatmulAttr by_row{1, 1, precision()};

    const Value q = k::load(q_, {0, first_row, 0}, {1, rows, s_.head_dim});
    const Value key = k::load(key_, {0, at, 0}, {1, columns, s_.head_dim});
    Value s = base2(k::matmul(q, key, by_row));
    if (mask) s = mask(s);

    const k::Indices row0 = {first_row, 0};
    const Dims state = {rows, kLanes};
    const Value m_old = k::load(m_, row0, state);
    const Value m_new = k::maximum(
        m_old, k::broadcast_to(k::reduce(s, 1, ReduceKind::kMax), state));
    k::store(m_, m_new, row0, state);
    // A row that has seen nothing keeps -inf, and -inf - -inf must not occur.
    const Value m =
        mask
            ? k::select(k::equal(m_new, k::number_like(m_new, -kInf)), 0, m_new)
            : m_new;
    const Value p = k::exp2(s - with_lanes(m, columns));
    const Value alpha = k::exp2(m_old - m);
    Value l = k::load(l_, row0, state) * alpha;
    for (std::int64_t lane = 0; lane < columns; lane += kLanes) {
      l = l + k::slice(p, {0, lane}, {rows, kLanes});
    }
    k::store(l_, l, row0, state);
    const Value v = k::load(v_, {0, at, 0}, {1, columns, s_.value_dim});
    const Dims acc_dims = {rows, s_.value_dim};
    const Value scaled =
        k::load(acc_, row0, acc_dims) * with_lanes(alpha, s_.value_dim);
    k::store(acc_,
             scaled + k::matmul(k::convert(p, s_.dtype), v,
                                k::MatmulAttr{1, 0, precision()}),
             row0, acc_dims);
  }

  Precision precision() const {
    return s_.dtype == DType::kF32 ? Precision::kHighest : Precision::kDefault;
  }

  // Logits times log2(e).
  Value base2(Value scores) const {
    if (s_.soft_cap == 0) return scores * (s_.scale * kLog2E);
    return k::tanh(scores * (s_.scale / s_.soft_cap)) * (s_.soft_cap * kLog2E);
  }

  // The first rows of a triangular tile are its diagonal; the rest is full.
  Value below_diagonal(Value s, Value strict) const {
    const std::int64_t n = s.dim(1);
    const Value row = k::iota(*kernel_, {n, n}, 0);
    const Value column = k::iota(*kernel_, {n, n}, 1);
    const Value seen = k::greater_equal(row - column, strict);
    const Value diagonal = k::select(seen, k::slice(s, {0, 0}, {n, n}), -kInf);
    if (s.dim(0) == n) return diagonal;
    return k::concatenate({diagonal, k::slice(s, {n, 0}, {s.dim(0) - n, n})},
                          0);
  }

  // Which pairs of the query block and `keys_at_once` keys from slot `start` of
  // the window on are visible.
  Value visible_pairs(const Entry& e, Value start) const {
    const std::int64_t columns = s_.keys_at_once;
    const Value at = k::multiple_of(start, columns);
    const Dims dims = {s_.block_q, columns};
    PairSlots slots;
    const auto bound = [&](std::int64_t row) {
      return with_lanes(as_column(k::load(intervals_, {e.query_block(), row, 0},
                                          {1, 1, s_.block_q})),
                        columns);
    };
    slots.keys = k::broadcast_to(
        k::load(kv_positions_, {e.window(), 0, at}, {1, 1, columns}), dims);
    for (std::int64_t i = 0; i < s_.intervals; ++i) {
      slots.low.push_back(bound(2 * i));
      slots.high.push_back(bound(2 * i + 1));
    }
    if (s_.segments) {
      slots.query_segments =
          with_lanes(as_column(k::load(q_segments_, {0, e.query_block(), 0, 0},
                                       {1, 1, 1, s_.block_q})),
                     columns);
      slots.key_segments = k::broadcast_to(
          k::load(kv_segments_, {0, e.window(), 0, at}, {1, 1, 1, columns}),
          dims);
    }
    if (s_.tile) slots.tile = k::load(tile_, {0, at}, dims);
    return visible(slots);
  }

  // Statistics are the same in all lanes of a row: those of the whole block,
  // 128 rows in a lane, fit one square, and one transposition turns them all.
  void finish() {
    k::Kernel& kernel = *kernel_;
    const Dims square = {kLanes, kLanes};
    const std::int64_t groups = s_.block_q / kLanes;
    const Value lane = k::iota(kernel, square, 1);
    Value both = k::constant(kernel, f32(square), 1);
    const auto put = [&](std::int64_t at, Value x) {
      const Value here =
          k::equal(lane, k::number_like(lane, static_cast<double>(at)));
      both = k::select(here, x, both);
    };
    for (std::int64_t j = 0; j < groups; ++j) {
      const k::Indices at = {j * kLanes, 0};
      const Value sum = k::broadcast_to(
          k::reduce(k::load(l_, at, square), 1, ReduceKind::kSum), square);
      put(j, sum);
      // A row that sees nothing has sum 0 and maximum -inf.
      const Value l = k::select(k::equal(sum, k::number_like(sum, 0)), 1, sum);
      put(kHalf + j, k::load(m_, at, square));
      const Value inverse = k::number_like(l, 1) / l;
      const Value acc = k::load(acc_, at, {kLanes, s_.value_dim});
      k::store(out_, acc * with_lanes(inverse, s_.value_dim),
               {0, j * kLanes, 0}, {1, kLanes, s_.value_dim});
    }
    const Value turned = k::transpose(both);
    const Value sum = k::slice(turned, {0, 0}, {groups, kLanes});
    const Value max = k::slice(turned, {kHalf, 0}, {groups, kLanes}) * kLn2;
    const Dims one = {1, 1, 1, groups, kLanes};
    k::store(stats_, sum, {0, 0, 0, 0, 0}, one);
    k::store(stats_, max, {0, 0, 1, 0, 0}, one);
  }

  const KernelSpec s_;
  std::unique_ptr<k::Kernel> kernel_;
  k::Ref list_, q_, key_, v_, intervals_, kv_positions_, q_segments_,
      kv_segments_, tile_, out_, stats_, m_, l_, acc_;
};

}  // namespace

std::unique_ptr<k::Kernel> forward_kernel(const KernelSpec& spec) {
  return Forward(spec).build();
}

}  // namespace ringmax::attention::splash
