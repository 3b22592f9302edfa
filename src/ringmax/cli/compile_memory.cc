#include "ringmax/cli/compile_memory.h"

#include <algorithm>
#include <string_view>

namespace ringmax::cli {
namespace {

// The lines from the one that holds `first` on, at most `most`, shortened.
std::string lines_from(const std::string& text, std::string_view first,
                       int most) {
  std::size_t at = text.find(first);
  std::string out;
  for (int n = 0; n < most && at < text.size(); ++n) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    constexpr std::size_t kWidth = 160;
    const std::string line = text.substr(at, std::min(end - at, kWidth));
    if (line.find_first_not_of(" \t=") != std::string::npos) {
      out += "\n  " + line;
    }
    at = end + 1;
  }
  return out;
}

}  // namespace

Error out_of_memory(const std::string& text, const config::Config& config,
                    const hw::Target& target) {
  if (text.find("E1001") != std::string::npos) {
    return Error(
        ErrorCode::kResourceExhausted,
        fmt::format("a kernel does not fit into the VMEM of {} that a kernel "
                    "gets: smaller blocks would (sa_block_q={} "
                    "sa_block_kv={} sa_block_kv_compute={}, and those of the "
                    "backward kernels). The compiler says: {}",
                    target.chip, config.attention.sa_block_q,
                    config.attention.sa_block_kv,
                    config.attention.sa_block_kv_compute, text));
  }
  std::string sizes = lines_from(text, "Used ", 1);
  if (sizes.empty()) sizes = "\n  " + text.substr(0, 400);
  return Error(
      ErrorCode::kResourceExhausted,
      fmt::format(
          "model_name={} max_target_length={} does not fit: a device of {} has "
          "{:.2f} GB of HBM.{}{}\nWhat helps: a shorter max_target_length, "
          "more devices on the context or fsdp axis, remat_policy=full, a "
          "smaller per_device_batch_size",
          config.model.model_name, config.data.max_target_length,
          config.runtime.compile_topology,
          static_cast<double>(target.hbm_bytes) / 1e9, sizes,
          lines_from(text, "Largest program allocations", 24)));
}

std::int64_t search_max_length(
    std::int64_t first, std::int64_t multiple, std::int64_t available,
    const std::function<std::int64_t(std::int64_t)>& peak_at,
    std::vector<LengthTried>& tried) {
  constexpr double kClose = 0.02;
  // Aimed for, of the limit: what a line promises should fit.
  constexpr double kAim = 0.995;
  struct Point {
    std::int64_t length = 0;
    std::int64_t peak = 0;
  };
  std::vector<Point> known;   // in the order they were tried
  std::int64_t longest = 0;   // that fits; 0: none yet
  std::int64_t shortest = 0;  // that does not; 0: none yet
  const auto limit = static_cast<double>(available);
  std::int64_t next = std::max(first / multiple, std::int64_t{1}) * multiple;
  while (true) {
    LengthTried& one = tried.emplace_back();
    one.length = next;
    std::optional<Error> refusal;
    try {
      one.peak_bytes = peak_at(next);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kResourceExhausted) throw;
      refusal = error;
    }
    if (one.peak_bytes) known.push_back({next, *one.peak_bytes});
    one.fits = one.peak_bytes && *one.peak_bytes <= available;
    if (one.fits) {
      longest = next;
    } else {
      shortest = next;
      if (next == multiple) {
        if (refusal) throw *refusal;
        fail(ErrorCode::kResourceExhausted,
             "max_target_length={}: not even that fits", multiple);
      }
    }
    const auto low = static_cast<double>(longest);
    const auto high = static_cast<double>(shortest);
    if (longest > 0 && shortest > 0 &&
        (high - low <= kClose * low || shortest - longest <= multiple)) {
      return longest;
    }
    double guess = high / 2;
    if (!known.empty()) {
      // As if all memory were the sequence's: what is not makes the guess too
      // careful, or, from above, too bold.
      const Point& last = known.back();
      guess = static_cast<double>(last.length) * limit /
              static_cast<double>(last.peak);
      if (known.size() > 1) {
        // Where the line through the last two meets the limit.
        const Point& before = known[known.size() - 2];
        const double slope = static_cast<double>(last.peak - before.peak) /
                             static_cast<double>(last.length - before.length);
        if (slope > 0) {
          guess = static_cast<double>(last.length) +
                  (kAim * limit - static_cast<double>(last.peak)) / slope;
          if (last.length == longest && guess <= (1 + kClose) * low) {
            return longest;
          }
        }
      }
    }
    if (shortest > 0 && (guess >= high || guess <= low)) {
      guess = (low + high) / 2;
    }
    next = static_cast<std::int64_t>(guess / static_cast<double>(multiple)) *
           multiple;
    next = std::max(next, longest + multiple);
    if (shortest > 0) next = std::min(next, shortest - multiple);
  }
}

}  // namespace ringmax::cli
