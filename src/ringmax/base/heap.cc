#include "ringmax/base/heap.h"

#include <cstdlib>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace ringmax {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // One heap, never shrunk, and no block outside of it: other arenas cannot
  // hold blocks above 64 MiB and would map them.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

}  // namespace ringmax
