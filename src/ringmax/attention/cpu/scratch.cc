#include "ringmax/attention/cpu/scratch.h"

#include <hwy/aligned_allocator.h>

namespace ringmax::attention::cpu {

Scratch::Scratch(std::size_t bytes) {
  thread_local hwy::AlignedFreeUniquePtr<std::byte[]> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory = hwy::AllocateAligned<std::byte>(bytes);
    size = bytes;
  }
  next_ = memory.get();
  end_ = next_ + bytes;
}

}  // namespace ringmax::attention::cpu
