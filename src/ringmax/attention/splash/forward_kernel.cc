#include "ringmax/attention/splash/forward_kernel.h"

#include <algorithm>
#include <limits>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/base/error.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using graph::Precision;
using graph::ReduceKind;
using k::Value;
using k::Values;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

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
      return Values{g[0] / static_cast<double>(s_.groups), entry(g).key_block(),
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
                        {1, s_.block_kv, s_.head_dim}, keys);
    v_ = kernel.input("v", Shape(s_.dtype, {kv, s_.keys, s_.value_dim}),
                      {1, s_.block_kv, s_.value_dim}, keys);
    const Dims q_rows = {s_.query_blocks(), 1, s_.block_q};
    const Dims kv_rows = {s_.key_blocks(), 1, s_.block_kv};
    q_positions_ = kernel.input("q_positions", i32(q_rows), q_rows, whole);
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
                           {s_.block_q, s_.block_kv}, [&](const Values& g) {
                             const Entry e = entry(g);
                             return Values{e.query_block(), e.key_block()};
                           });
    }
    out_ = kernel.output("out", f32({s_.heads(), s_.queries, s_.value_dim}),
                         {1, s_.block_q, s_.value_dim}, queries);
    stats_ =
        kernel.output("stats", f32({s_.heads(), 2, s_.queries}),
                      {1, 2, s_.block_q}, [&](const Values& g) {
                        return Values{g[0], zero(), entry(g).query_block()};
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
    const std::int64_t parts = s_.block_kv / s_.block_kv_compute;
    const auto tiles = [&](TileKind kind) {
      k::if_true(e.is(kind), [&] {
        for (std::int64_t c = 0; c < parts; ++c) tile(kind, e, g, c);
      });
    };
    tiles(TileKind::kFull);
    tiles(TileKind::kPartial);
    if (s_.block_q == s_.block_kv) tiles(TileKind::kTriangular);
  }

  // Keys [c, c + 1) * block_kv_compute of the block against its query rows.
  void tile(TileKind kind, const Entry& e, const Values& g, std::int64_t c) {
    const std::int64_t columns = s_.block_kv_compute;
    const std::int64_t first_row =
        kind == TileKind::kTriangular ? c * columns : 0;
    const std::int64_t rows = s_.block_q - first_row;
    const k::MatmulAttr by_row{1, 1, precision()};

    const Value q = k::load(q_, {0, first_row, 0}, {1, rows, s_.head_dim});
    const Value key =
        k::load(key_, {0, c * columns, 0}, {1, columns, s_.head_dim});
    Value s = base2(k::matmul(q, key, by_row));
    if (kind == TileKind::kTriangular) s = below_diagonal(s, e);
    if (kind == TileKind::kPartial) {
      s = k::select(visible_pairs(e, g, c), s, -kInf);
    }

    const k::Indices row0 = {first_row, 0};
    const Dims state = {rows, kLanes};
    const Value m_old = k::load(m_, row0, state);
    const Value m_new = k::maximum(
        m_old, k::broadcast_to(k::reduce(s, 1, ReduceKind::kMax), state));
    k::store(m_, m_new, row0, state);
    // A row that has seen nothing keeps -inf, and -inf - -inf must not occur.
    const Value m =
        kind == TileKind::kPartial || kind == TileKind::kTriangular
            ? k::select(k::equal(m_new, k::number_like(m_new, -kInf)), 0, m_new)
            : m_new;
    const Value p = k::exp2(s - with_lanes(m, columns));
    const Value alpha = k::exp2(m_old - m);
    Value l = k::load(l_, row0, state) * alpha;
    for (std::int64_t lane = 0; lane < columns; lane += kLanes) {
      l = l + k::slice(p, {0, lane}, {rows, kLanes});
    }
    k::store(l_, l, row0, state);
    const Value v =
        k::load(v_, {0, c * columns, 0}, {1, columns, s_.value_dim});
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
  Value below_diagonal(Value s, const Entry& e) const {
    const std::int64_t n = s.dim(1);
    const Value row = k::iota(*kernel_, {n, n}, 0);
    const Value column = k::iota(*kernel_, {n, n}, 1);
    const Value seen = k::greater_equal(row - column, e.strict());
    const Value diagonal = k::select(seen, k::slice(s, {0, 0}, {n, n}), -kInf);
    if (s.dim(0) == n) return diagonal;
    return k::concatenate({diagonal, k::slice(s, {n, 0}, {s.dim(0) - n, n})},
                          0);
  }

  Value visible_pairs(const Entry& e, const Values&, std::int64_t c) const {
    const std::int64_t columns = s_.block_kv_compute;
    const Dims dims = {s_.block_q, columns};
    const Value query =
        with_lanes(as_column(k::load(q_positions_, {e.query_block(), 0, 0},
                                     {1, 1, s_.block_q})),
                   columns);
    const Value key_row = k::load(
        kv_positions_, {e.key_block(), 0, c * columns}, {1, 1, columns});
    const Value key = k::broadcast_to(key_row, dims);
    const Value zero = k::number_like(key, 0);
    Value seen = k::logical_and(k::greater_equal(query, zero),
                                k::greater_equal(key, zero));
    if (s_.mask.kind() != Mask::Kind::kFull) {
      seen = k::logical_and(seen, visible(s_.mask, query, key));
    }
    if (s_.segments) {
      const Value of_query =
          with_lanes(as_column(k::load(q_segments_, {0, e.query_block(), 0, 0},
                                       {1, 1, 1, s_.block_q})),
                     columns);
      const Value of_key = k::broadcast_to(
          k::load(kv_segments_, {0, e.key_block(), 0, c * columns},
                  {1, 1, 1, columns}),
          dims);
      seen = k::logical_and(seen, k::equal(of_query, of_key));
      seen = k::logical_and(seen, k::not_equal(of_key, zero));
    }
    if (s_.tile) {
      seen = k::logical_and(
          seen, k::not_equal(k::load(tile_, {0, c * columns}, dims), zero));
    }
    return seen;
  }

  void finish() {
    const Value m = k::load(m_);
    const Value sum = k::broadcast_to(
        k::reduce(k::load(l_), 1, ReduceKind::kSum), {s_.block_q, kLanes});
    const Value empty = k::equal(sum, k::number_like(sum, 0));
    const Value l = k::select(empty, 1, sum);
    const Value inverse = k::number_like(l, 1) / l;
    k::store(out_, k::load(acc_) * with_lanes(inverse, s_.value_dim));
    const Value max = m * kLn2;
    const Value lse = k::select(empty, -kInf, max + k::log(l));
    // Both statistics as rows, by one transposition.
    const Value lane = k::iota(*kernel_, {s_.block_q, kLanes}, 1);
    const Value both =
        k::select(k::equal(lane, k::number_like(lane, 0)), lse, max);
    k::store(stats_, k::slice(k::transpose(both), {0, 0}, {2, s_.block_q}));
  }

  const KernelSpec s_;
  std::unique_ptr<k::Kernel> kernel_;
  k::Ref list_, q_, key_, v_, q_positions_, kv_positions_, q_segments_,
      kv_segments_, tile_, out_, stats_, m_, l_, acc_;
};

}  // namespace

std::unique_ptr<k::Kernel> forward_kernel(const KernelSpec& spec) {
  return Forward(spec).build();
}

}  // namespace ringmax::attention::splash
