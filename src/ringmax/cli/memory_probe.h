// What a program would need of a device's memory, long before it is compiled:
// XLA writes its memory report when buffers are assigned, and code generation,
// most of a compiler's time, comes after that. So another process of this
// binary compiles, with XLA's dumps on, and is ended once the report stands.
#ifndef RINGMAX_CLI_MEMORY_PROBE_H_
#define RINGMAX_CLI_MEMORY_PROBE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ringmax::cli {

// Bytes of device memory by XLA's memory-usage report; nothing when the text
// is no such report. Buffers that never live together count as if they did in
// a few places, so it is up to some percent above the peak.
std::optional<std::int64_t> reported_bytes(std::string_view report);

// For `ringmax compile SETTINGS... flags`, flags being those of
// compile_xla_flags. Throws kResourceExhausted when the compiler refuses
// before it reports, kPlugin, with what the other process wrote, when that
// fails otherwise.
std::int64_t probe_memory(const std::vector<std::string>& settings,
                          const std::string& compile_xla_flags);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_MEMORY_PROBE_H_
