// Memory of a device as a limit: the message when a program does not fit, and
// the search for the longest sequence that does.
#ifndef RINGMAX_CLI_COMPILE_MEMORY_H_
#define RINGMAX_CLI_COMPILE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/config/config.h"
#include "ringmax/hw/target.h"

namespace ringmax::cli {

// The compiler's refusal (E1000: HBM, E1001: VMEM) as a message with the
// numbers, the largest buffers and the settings that would help.
Error out_of_memory(const std::string& compiler_text,
                    const config::Config& config, const hw::Target& target);

struct LengthTried {
  std::int64_t length = 0;
  std::optional<std::int64_t> peak_bytes;  // nothing: it was refused
  bool fits = false;
};

// Tokens of a shard that lengths are multiples of.
inline constexpr std::int64_t kLengthStep = 1024;

// The longest multiple of `multiple` (within 2%) whose peak is at most
// `available`. `peak_at` may throw kResourceExhausted where it does not fit.
// Starts at `first`; throws that error when not even `multiple` fits. Memory
// grows about evenly with the length: after two tries a line through them leads
// to the limit.
std::int64_t search_max_length(
    std::int64_t first, std::int64_t multiple, std::int64_t available,
    const std::function<std::int64_t(std::int64_t)>& peak_at,
    std::vector<LengthTried>& tried);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_COMPILE_MEMORY_H_
