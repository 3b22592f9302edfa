// Text from a model in memory: what a run shows at its end.
#ifndef RINGMAX_TRAIN_SAMPLE_H_
#define RINGMAX_TRAIN_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ringmax/base/array.h"
#include "ringmax/model/options.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/executable_cache.h"

namespace ringmax::train {

struct SampleSettings {
  std::string prompt;
  std::int64_t new_tokens = 160;
  // The model sees this many tokens at most, the latest.
  std::int64_t window = 256;
  double temperature = 0.7;
  std::uint64_t seed = 0;
};

// Continues the prompt byte by byte on one device; `weights` are whole, in the
// order of model::parameters(). The same seed gives the same text. Returns the
// continuation alone.
std::string sample_text(const pjrt::Client& client,
                        const pjrt::ExecutableCache& cache,
                        const model::ModelOptions& options,
                        const std::vector<HostArray>& weights,
                        const SampleSettings& settings);

}  // namespace ringmax::train

#endif  // RINGMAX_TRAIN_SAMPLE_H_
