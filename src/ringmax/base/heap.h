// How this process' memory allocator treats large blocks. For `main` alone: a
// library does not set this for the program that uses it.
#ifndef RINGMAX_BASE_HEAP_H_
#define RINGMAX_BASE_HEAP_H_

namespace ringmax {

// Lets the allocator keep what is freed, large blocks too, and give it out
// again, instead of taking them from the operating system each time: a CPU
// program's temporaries are one block a step, and a fresh one costs a page
// fault and a cleared page for every 4 KiB. Does nothing where the allocator is
// not glibc's (a sanitizer's, another library).
void keep_freed_memory();

}  // namespace ringmax

#endif  // RINGMAX_BASE_HEAP_H_
