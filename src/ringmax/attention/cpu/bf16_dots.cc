#include "ringmax/attention/cpu/bf16_dots.h"

#include <atomic>

namespace ringmax::attention::cpu {
namespace {

bool processor_has_them() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

std::atomic<bool> g_hidden{false};

}  // namespace

bool has_bf16_dots() {
  static const bool present = processor_has_them();
  return present && !g_hidden.load(std::memory_order_relaxed);
}

void hide_bf16_dots(bool hidden) { g_hidden = hidden; }

}  // namespace ringmax::attention::cpu
