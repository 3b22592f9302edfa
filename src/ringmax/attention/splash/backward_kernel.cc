#include "ringmax/attention/splash/backward_kernel.h"

#include "ringmax/attention/splash/walk_kernel.h"

namespace ringmax::attention::splash {

namespace k = ringmax::kernel;
using k::Values;

namespace {

class Backward : public WalkKernel {
 public:
  explicit Backward(const KernelSpec& spec)
      : WalkKernel(spec, "splash_backward", spec.groups, /*keys_first=*/true) {}

  std::unique_ptr<k::Kernel> build() {
    k::Kernel& kernel = *kernel_;
    declare_windows();
    kernel.begin([&](const Values& g) { return work(g).first(); },
                 [&](const Values& g) { begin(g); });
    kernel.step([&](const Values& g) { step(g); });

    const double pairs = s_.visible_pairs();
    const double d = static_cast<double>(s_.head_dim);
    const double v = static_cast<double>(s_.value_dim);
    kernel.set_cost({2 * pairs * (3 * d + 2 * v), pairs, bytes()});
    kernel.set_vmem_limit_bytes(s_.vmem_limit_bytes);
    return std::move(kernel_);
  }

 private:
  void declare_windows() {
    k::Kernel& kernel = *kernel_;
    const std::int64_t all_queries = s_.groups * s_.queries;
    q_ = query_window("q", s_.head_dim);
    key_ = key_window("k", s_.head_dim);
    v_ = key_window("v", s_.value_dim);
    dout_ = query_window("dout", s_.value_dim);
    stats_ = kernel.input("stats", f32({programs(), 2, all_queries}),
                          {1, 2, s_.block_q}, [&](const Values& g) {
                            return Values{g[0], zero(), place(g).query_block()};
                          });
    declare_slots();
    const auto queries = [&](const Values& g) { return at_queries(g); };
    const auto head = [&](const Values& g) {
      return Values{g[0], zero(), zero()};
    };
    const Shape dq = f32({programs(), all_queries, s_.head_dim});
    const Dims dq_block = {1, s_.block_q, s_.head_dim};
    dq_so_far_ = kernel.input("dq_so_far", dq, dq_block, queries);
    dq_ = kernel.output("dq", dq, dq_block, queries);
    kernel.alias(dq_, dq_so_far_);
    dk_ = kernel.output("dk", f32({programs(), s_.keys, s_.head_dim}),
                        {1, s_.keys, s_.head_dim}, head);
    dv_ = kernel.output("dv", f32({programs(), s_.keys, s_.value_dim}),
                        {1, s_.keys, s_.value_dim}, head);
  }

  double bytes() const {
    const double element = static_cast<double>(dtype_size(s_.dtype));
    const double heads = static_cast<double>(s_.heads());
    const double width = static_cast<double>(s_.head_dim + s_.value_dim);
    const double q = static_cast<double>(s_.queries);
    const double kv_rows = static_cast<double>(s_.batch * s_.kv_heads) *
                           static_cast<double>(s_.keys);
    return heads * q *
               (width * element + 8 + 8 * static_cast<double>(s_.head_dim)) +
           kv_rows * width * 4 +
           s_.visible_pairs() / static_cast<double>(s_.block_q) * width *
               element;
  }

  void begin(const Values& g) {
    k::Kernel& kernel = *kernel_;
    k::store(dq_, k::load(dq_so_far_));
    k::if_true(k::equal(g[1], zero()), [&] {
      const auto clear = [&](k::Ref ref, std::int64_t width) {
        k::store(ref, k::constant(kernel, f32({s_.keys, width}), 0));
      };
      clear(dk_, s_.head_dim);
      clear(dv_, s_.value_dim);
    });
  }

  void tile(const Place& place, const Tile& t, const Hide& hide) override {
    const Value at = k::multiple_of(t.keys, t.key_count);
    // Where the keys are in the shard.
    const Value slot = k::multiple_of(
        place.window() * static_cast<double>(s_.window()) + t.keys,
        t.key_count);
    const auto by_row = k::MatmulAttr{1, 1, precision()};
    const auto by_column = k::MatmulAttr{1, 0, precision()};
    const auto queries = [&](k::Ref ref, std::int64_t width) {
      return k::load(ref, {0, t.row, 0}, {1, t.row_count, width});
    };
    const Value q = queries(q_, s_.head_dim);
    const Value dout = queries(dout_, s_.value_dim);
    const Value key = k::load(key_, {0, at, 0}, {1, t.key_count, s_.head_dim});
    const Value v = k::load(v_, {0, at, 0}, {1, t.key_count, s_.value_dim});
    const auto statistic = [&](int row) {
      return k::broadcast_to(
          k::load(stats_, {0, row, t.row}, {1, 1, t.row_count}),
          {t.key_count, t.row_count});
    };

    // [keys, queries] from here on.
    const Value scores = k::matmul(key, q, by_row);
    Value slope;  // of the soft cap
    Value logits;
    if (s_.soft_cap == 0) {
      logits = scores * (s_.scale * kLog2E);
    } else {
      const Value capped = k::tanh(scores * (s_.scale / s_.soft_cap));
      logits = capped * (s_.soft_cap * kLog2E);
      slope = k::number_like(capped, 1) - capped * capped;
    }
    Value p = k::exp2(logits - statistic(0));
    if (hide) p = hide(p, 0);
    add_to(dv_, slot, k::matmul(k::convert(p, s_.dtype), dout, by_column));
    Value ds = p * (k::matmul(v, dout, by_row) - statistic(1));
    if (slope.valid()) ds = ds * slope;
    const Value rounded = k::convert(ds, s_.dtype);
    add_to(dk_, slot, k::matmul(rounded, q, by_column));
    const Value dq =
        k::matmul(k::convert(k::transpose(ds), s_.dtype), key, by_column);
    const k::Indices row0 = {0, t.row, 0};
    const Dims dims = {1, t.row_count, s_.head_dim};
    k::store(dq_, k::load(dq_, row0, dims) + dq * s_.scale, row0, dims);
  }

  static void add_to(k::Ref ref, Value slot, Value x) {
    const k::Indices start = {0, slot, 0};
    const Dims dims = {1, x.dim(0), x.dim(1)};
    k::store(ref, k::load(ref, start, dims) + x, start, dims);
  }

  k::Ref q_, key_, v_, dout_, stats_, dq_so_far_, dq_, dk_, dv_;
};

}  // namespace

std::unique_ptr<k::Kernel> backward_kernel(const KernelSpec& spec) {
  return Backward(spec).build();
}

}  // namespace ringmax::attention::splash
