// The data set that the settings ask for.
#ifndef RINGMAX_DATA_OPEN_DATASET_H_
#define RINGMAX_DATA_OPEN_DATASET_H_

#include <cstdint>
#include <memory>

#include "ringmax/data/dataset.h"
#include "ringmax/data/options.h"

namespace ringmax::data {

// Opens and checks the data; `vocab_size` is the model's. Throws
// kInvalidArgument or kNotFound naming the setting.
std::unique_ptr<Dataset> open_dataset(const DataOptions& options,
                                      BatchShape shape,
                                      std::int64_t vocab_size);

}  // namespace ringmax::data

#endif  // RINGMAX_DATA_OPEN_DATASET_H_
