// What the forward and the backward splash kernel share: grid, block list, the
// windows that slots come in, and the walk over the parts of a key window and
// over kinds of block. What is done with a tile of pairs is theirs.
#ifndef RINGMAX_ATTENTION_SPLASH_WALK_KERNEL_H_
#define RINGMAX_ATTENTION_SPLASH_WALK_KERNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ringmax/attention/splash/kernel_math.h"
#include "ringmax/attention/splash/kernel_spec.h"
#include "ringmax/kernel/ops.h"

namespace ringmax::attention::splash {

class WalkKernel {
 public:
  virtual ~WalkKernel() = default;
  WalkKernel(const WalkKernel&) = delete;
  WalkKernel& operator=(const WalkKernel&) = delete;

 protected:
  using Value = kernel::Value;
  using Values = kernel::Values;

  // Query rows and keys of a step; `keys` counts from the start of the window.
  struct Tile {
    Value keys;
    std::int64_t key_count = 0;
    std::int64_t row = 0;
    std::int64_t row_count = 0;
  };
  // Replaces what a tile hides in an array of its shape; nothing hides nothing.
  using Hide = std::function<Value(Value x, double hidden)>;

  // One program of the grid walks `heads` query heads of a group, one after the
  // other. Tiles are [keys, queries] with `keys_first`, [queries, keys]
  // without.
  WalkKernel(const KernelSpec& spec, std::string name, std::int64_t heads,
             bool keys_first);

  virtual void tile(const Place& place, const Tile& tile, const Hide& hide) = 0;

  std::int64_t programs() const { return s_.heads() / heads_; }
  std::int64_t steps() const { return heads_ * s_.list_length(); }

  // Of this step. Query blocks count on from head to head.
  Work work(const Values& grid) const;
  Place place(const Values& grid) const;
  Value zero() const { return kernel::constant_i32(*kernel_, 0); }
  // Index maps [program, block of the step, 0].
  Values at_queries(const Values& grid) const;
  Values at_keys(const Values& grid) const;

  // [programs, heads * S, width] by query blocks.
  kernel::Ref query_window(std::string name, std::int64_t width);
  // [B*K, T, width] by windows.
  kernel::Ref key_window(std::string name, std::int64_t width);
  // Intervals, positions, segments and the dense tile.
  void declare_slots();

  void step(const Values& grid);

  graph::Precision precision() const;
  static Shape f32(Dims dims) { return Shape(DType::kF32, std::move(dims)); }
  static Shape i32(Dims dims) { return Shape(DType::kI32, std::move(dims)); }

  const KernelSpec s_;
  std::unique_ptr<kernel::Kernel> kernel_;

 private:
  Value batch_row(const Values& grid) const;
  Value load_of_step(kernel::Ref list, const Values& grid) const;
  // The query block within its head.
  Value block_in_head(const Place& place) const;
  void block(const Work& work, const Place& place, Value part);
  void partial(const Place& place, Value start);
  void triangle(const Place& place, Value start, Value strict);
  // Hides the pairs above the diagonal of the square in which queries and keys
  // of x begin; what is beyond is seen.
  Value below_diagonal(Value x, Value strict, double hidden) const;
  Value visible_pairs(const Place& place, Value at) const;
  // Along queries and along keys, to the shape of a tile of visible_pairs().
  Value of_queries(Value row) const;
  Value of_keys(Value row) const;

  const std::int64_t heads_;
  const bool keys_first_;
  kernel::Ref works_, places_, intervals_, kv_positions_, q_segments_,
      kv_segments_, tile_;
};

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_WALK_KERNEL_H_
