#include "ringmax/attention/splash/block_table.h"

namespace ringmax::attention::splash {
namespace {

constexpr BlockRow kTable[] = {
    {"v4", 64, 2048, 1024},     {"v4", 128, 2048, 1024},
    {"v4", 256, 1024, 512},     {"v5e", 64, 2048, 1024},
    {"v5e", 128, 2048, 1024},   {"v5e", 256, 2048, 1024},
    {"v5p", 64, 2048, 1024},    {"v5p", 128, 2048, 1024},
    {"v5p", 256, 2048, 1024},   {"v6e", 64, 2048, 1024},
    {"v6e", 128, 2048, 1024},   {"v6e", 256, 2048, 1024},
    {"tpu7x", 64, 2048, 1024},  {"tpu7x", 128, 2048, 1024},
    {"tpu7x", 256, 2048, 1024},
};

}  // namespace

std::span<const BlockRow> block_table() { return kTable; }

const BlockRow& blocks_for(std::string_view chip, std::int64_t head_dim) {
  const BlockRow* found = nullptr;
  for (const BlockRow& row : kTable) {
    if (row.chip != chip) continue;
    found = &row;
    if (head_dim <= row.head_dim) break;
  }
  return found != nullptr ? *found : blocks_for("v5p", head_dim);
}

}  // namespace ringmax::attention::splash
