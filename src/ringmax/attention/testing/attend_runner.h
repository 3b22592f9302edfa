// Runs attention cases through attend() on virtual CPU devices: lays tokens
// out, pads, compiles, and returns tensors in the original token order. Cases
// that differ in values alone share a compiled program.
#ifndef RINGMAX_ATTENTION_TESTING_ATTEND_RUNNER_H_
#define RINGMAX_ATTENTION_TESTING_ATTEND_RUNNER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ringmax/attention/attend.h"
#include "ringmax/attention/testing/cases.h"
#include "ringmax/testing/run_graph.h"

namespace ringmax::attention::testing {

struct RunSettings {
  std::int64_t devices = 1;  // that share the sequence
  std::int64_t ulysses = 1;  // of them along the second axis, for usp
  Strategy strategy = Strategy::kRing;
  LayoutKind layout = LayoutKind::kContiguous;
  DType dtype = DType::kF32;
  std::string kernel = "stablehlo";
  std::int64_t block = 512;
  bool bidirectional = false;
  std::int64_t ring_scan_unroll = 0;
  RingTransport ring_transport = RingTransport::kCollective;

  std::string to_string() const;
};

// The program of a case: parameters q, k, v, perhaps q_segment_ids,
// kv_segment_ids, sinks, do; results out, lse, max_logits and, with do, dq, dk,
// dv, perhaps dsinks; all in slots.
std::unique_ptr<graph::Graph> build_case(const Case& c,
                                         const RunSettings& settings);
AttendPlan plan_case(const Case& c, const RunSettings& settings);

class AttendRunner {
 public:
  ReferenceOutputs run(const Case& c, const RunSettings& settings);
  std::size_t programs() const { return made_.size(); }

 private:
  struct Made {
    std::unique_ptr<graph::Graph> graph;
    std::unique_ptr<ringmax::testing::CompiledGraph> program;
  };
  std::map<std::string, Made> made_;
};

}  // namespace ringmax::attention::testing

#endif  // RINGMAX_ATTENTION_TESTING_ATTEND_RUNNER_H_
