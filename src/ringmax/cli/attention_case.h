// One attention case: tensors and settings in, results in the original token
// order and what was spent on them out. The core of `ringmax attention`, for
// the tests and benchmarks as well; knows no files and no command line.
#ifndef RINGMAX_CLI_ATTENTION_CASE_H_
#define RINGMAX_CLI_ATTENTION_CASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/base/array.h"
#include "ringmax/base/option.h"

namespace ringmax::cli {

enum class CaseStrategy { kAuto, kSingle, kRing, kAllGather };
inline constexpr Named<CaseStrategy> kCaseStrategies[] = {
    {CaseStrategy::kAuto, "auto"},
    {CaseStrategy::kSingle, "single"},
    {CaseStrategy::kRing, "ring"},
    {CaseStrategy::kAllGather, "all_gather"},
};

enum class CaseKernel { kAuto, kReference, kStableHlo };
inline constexpr Named<CaseKernel> kCaseKernels[] = {
    {CaseKernel::kAuto, "auto"},
    {CaseKernel::kReference, "reference"},
    {CaseKernel::kStableHlo, "stablehlo"},
};

struct CaseSettings {
  attention::Mask mask = attention::Mask::full();
  std::optional<double> scale;  // none: 1/sqrt(D)
  std::optional<DType> dtype;   // none: that of q
  std::int64_t context_parallel = 1;
  CaseStrategy strategy = CaseStrategy::kAuto;  // single, or ring from R = 2
  attention::LayoutKind layout = attention::LayoutKind::kContiguous;
  CaseKernel kernel = CaseKernel::kAuto;  // stablehlo
  std::int64_t block_q = 512;
  std::int64_t block_kv = 512;
  std::string pjrt_plugin;  // "": the one that set-up installed
};

// By name: q [B, S, Hq, D], k [B, T, Hkv, D], v [B, T, Hkv, Dv] and perhaps
// do [B, S, Hq, Dv], all F64, F32 or BF16.
using CaseTensors = std::map<std::string, HostArray>;

struct CaseResult {
  // out, with do also dq, dk, dv, in q's dtype; lse, max_logits F32.
  CaseTensors tensors;
  std::string kernel, strategy, layout;
  std::int64_t devices = 1;
  std::int64_t ring_steps_sent = 0;  // forward
  // Of the device that sends most; forward.
  std::int64_t bytes_sent_per_device = 0;
  std::vector<std::int64_t> pairs_per_device;  // of one head of one sequence
  std::int64_t temporaries_bytes = 0;
  std::string program;  // StableHLO; empty for the reference
};

// Checks tensors' names, shapes and dtypes against each other and the
// settings; takes shapes alone, so that nothing need be read. Throws
// kInvalidArgument with everything that is wrong.
void check_case(const CaseSettings& settings,
                const std::map<std::string, Shape>& shapes);

// Checks, then computes.
CaseResult run_case(const CaseSettings& settings, const CaseTensors& tensors);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_ATTENTION_CASE_H_
