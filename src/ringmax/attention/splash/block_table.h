// Lengths of blocks in bfloat16, by TPU generation: what bench/kernel_blocks.py
// found to be best by static cycles (docs/kernels.md has the figures). The
// compiler's schedules differ from generation to generation, and so does VMEM.
#ifndef RINGMAX_ATTENTION_SPLASH_BLOCK_TABLE_H_
#define RINGMAX_ATTENTION_SPLASH_BLOCK_TABLE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace ringmax::attention::splash {

struct BlockRow {
  std::string_view chip;
  std::int64_t head_dim;  // of this and smaller ones
  std::int64_t forward;   // queries and keys of a block
  std::int64_t backward;
};

// By chip, head_dim rising.
std::span<const BlockRow> block_table();
// Larger head_dims take a chip's last row; unknown chips take v5p's.
const BlockRow& blocks_for(std::string_view chip, std::int64_t head_dim);

}  // namespace ringmax::attention::splash

#endif  // RINGMAX_ATTENTION_SPLASH_BLOCK_TABLE_H_
