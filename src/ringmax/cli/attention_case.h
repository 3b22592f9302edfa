// One attention case: tensors and settings in, results in the original token
// order and what was spent on them out. The core of `ringmax attention`, for
// the tests and benchmarks as well; knows no files and no command line.
#ifndef RINGMAX_CLI_ATTENTION_CASE_H_
#define RINGMAX_CLI_ATTENTION_CASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ringmax/attention/gate.h"
#include "ringmax/attention/layout.h"
#include "ringmax/attention/mask.h"
#include "ringmax/base/array.h"

namespace ringmax::cli {

struct CaseSettings {
  attention::Mask mask = attention::Mask::full();
  std::optional<double> scale;  // none: 1/sqrt(D)
  double soft_cap = 0;          // 0: none
  std::optional<DType> dtype;   // none: that of q
  std::int64_t context_parallel = 1;
  std::int64_t ulysses_size = 1;  // of context_parallel, for usp
  // Auto: single on one device, usp with a ulysses size, else ring.
  attention::Strategy strategy = attention::Strategy::kAuto;
  attention::LayoutKind layout = attention::LayoutKind::kContiguous;
  bool bidirectional = false;
  // "reference" (float64 on the host), "auto" or a kernel's name.
  std::string kernel = "auto";
  std::int64_t block_q = 0;  // 0: chosen
  std::int64_t block_kv = 0;
  std::int64_t ring_scan_unroll = 0;
  attention::RingTransport ring_transport =
      attention::RingTransport::kCollective;
  std::string pjrt_plugin;  // "": the one that set-up installed
};

// By name: q [B, S, Hq, D], k [B, T, Hkv, D], v [B, T, Hkv, Dv] and perhaps
// do [B, S, Hq, Dv], all F64, F32 or BF16; q_segment_ids [B, S] and
// kv_segment_ids [B, T] I32; sinks [Hq] F32. An array of visible pairs is part
// of the mask (array_mask).
using CaseTensors = std::map<std::string, HostArray>;

// The tensor `mask`, U8 or BOOL [S, T]. Throws kInvalidArgument naming it.
std::shared_ptr<const attention::DenseMask> array_mask(const HostArray& mask);

struct CaseResult {
  // out, with do also dq, dk, dv, in q's dtype; lse, max_logits, dsinks F32.
  CaseTensors tensors;
  std::string kernel, strategy, layout;
  std::int64_t devices = 1;
  std::int64_t ring_steps_sent = 0;  // forward
  // Of the device that sends most; forward.
  std::int64_t bytes_sent_per_device = 0;
  // For each of its heads, of one sequence.
  std::vector<std::int64_t> pairs_per_device;
  std::int64_t temporaries_bytes = 0;
  std::string program;  // StableHLO; empty for the reference
  // How it was computed, and why not otherwise: for the log.
  std::string summary;
  std::vector<std::string> notes, refused;
};

// Checks tensors' names, shapes and dtypes against each other and the
// settings; takes shapes alone, so that nothing need be read. Throws
// kInvalidArgument with everything that is wrong.
void check_case(const CaseSettings& settings,
                const std::map<std::string, Shape>& shapes);

// A case that check_case has passed, compiled for its devices; not for
// kernel=reference. For those who run it more than once.
class CompiledCase {
 public:
  CompiledCase(const CaseSettings& settings, const CaseTensors& tensors);
  ~CompiledCase();
  // Computes everything and waits for it; nothing comes back to the host.
  void run();
  // Of the last run.
  CaseResult result() const;
  const attention::AttendPlan& plan() const;
  // Writing the program and compiling it; no cache is asked.
  double compile_s() const;
  // On a device, of the compiled program.
  std::int64_t temporaries_bytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Checks, then computes.
CaseResult run_case(const CaseSettings& settings, const CaseTensors& tensors);

}  // namespace ringmax::cli

#endif  // RINGMAX_CLI_ATTENTION_CASE_H_
