// For tests: small kernels whose results are known, sound and unsound ones.
#ifndef RINGMAX_KERNEL_TESTING_SMALL_KERNELS_H_
#define RINGMAX_KERNEL_TESTING_SMALL_KERNELS_H_

#include <memory>

#include "ringmax/kernel/kernel.h"

namespace ringmax::kernel::testing {

// y [2, 2 * 8, 128]: for each of two programs and each row of blocks, factor
// times the sum of the blocks of x [4, 8, 128] that the walk of `order` names.
// Entries of `order` are 10 * row + block; a row begins and ends where it
// changes. With rows that come back after they ended it is unsound.
std::unique_ptr<Kernel> sum_of_blocks(std::int64_t steps, double factor);

}  // namespace ringmax::kernel::testing

#endif  // RINGMAX_KERNEL_TESTING_SMALL_KERNELS_H_
