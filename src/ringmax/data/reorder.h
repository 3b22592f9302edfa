// A sequence layout at the data's entry: the slots of every row of every batch
// in another order, all five arrays alike, so that nothing behind it ever
// moves a token again. The mean loss does not depend on the order.
#ifndef RINGMAX_DATA_REORDER_H_
#define RINGMAX_DATA_REORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "ringmax/data/dataset.h"

namespace ringmax::data {

// Slot i of a row holds what `dataset` has at order[i]; `order` is a
// permutation of 0 .. S - 1. Throws kInvalidArgument when it is none.
std::shared_ptr<const Dataset> reorder(std::shared_ptr<const Dataset> dataset,
                                       std::vector<std::int64_t> order);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_REORDER_H_
