// `ringmax attention`: one attention case from a file into a file.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/attention_case.h"
#include "ringmax/cli/case_settings.h"
#include "ringmax/cli/commands.h"
#include "ringmax/cli/output_path.h"

namespace ringmax::cli {
namespace {

StringMap metadata_of(const CaseResult& result) {
  return {
      {"kernel", result.kernel},
      {"strategy", result.strategy},
      {"layout", result.layout},
      {"devices", std::to_string(result.devices)},
      {"ring_steps_sent", std::to_string(result.ring_steps_sent)},
      {"bytes_sent_per_device", std::to_string(result.bytes_sent_per_device)},
      {"pairs_per_device",
       fmt::format("[{}]", fmt::join(result.pairs_per_device, ", "))},
      {"temporaries_bytes", std::to_string(result.temporaries_bytes)},
  };
}

// Ids below 0 would be nobody's: 0 is padding, documents count from 1.
void check_segments(const std::string& name, const HostArray& ids) {
  for (const std::int32_t id : ids.data<std::int32_t>()) {
    if (id < 0) {
      fail_invalid("tensor {} holds {}; segment ids are 0 (padding) or more",
                   name, id);
    }
  }
}

// A parameter of every row, not data of one: NaN would be in all results.
void check_sinks(const HostArray& sinks) {
  for (const float x : sinks.data<float>()) {
    if (!std::isfinite(x)) {
      fail_invalid(
          "tensor sinks holds {}; the sink of a head is a finite number", x);
    }
  }
}

}  // namespace

int run_attention(Args args) {
  const Arguments arguments = read_arguments(
      "attention",
      "Runs one attention case: q, k, v and perhaps do from a safetensors "
      "file; out, lse, max_logits and gradients into another.",
      "key=value ...",
      {{"--in", "tensors to read", "FILE.safetensors", true},
       {"--out", "tensors to write", "FILE.safetensors", true},
       {"--dump", "write program.mlir there", "DIR"}},
      args, describe_case_settings());
  if (arguments.helped) return 0;
  const std::string in = *arguments.option("--in");
  const std::string out = *arguments.option("--out");
  const std::optional<std::string> dump = arguments.option("--dump");
  CaseWords read = read_case_settings(arguments.settings);
  CaseSettings& settings = read.settings;
  if (dump && settings.kernel == "reference") {
    fail_invalid("--dump {}: kernel=reference has no program to write", *dump);
  }
  // Learn of a wrong path before the work, not after it.
  check_output_path("--out", out, {in});
  if (dump) check_output_folder("--dump", *dump);
  const SafetensorsFile file(in);
  settings.mask = attention::parse_mask(
      read.mask,
      file.contains("mask") ? array_mask(file.tensor("mask")) : nullptr);
  check_case(settings, file.shapes());
  CaseTensors tensors;
  for (const auto& [name, shape] : file.shapes()) {
    if (name == "mask") continue;  // it is part of the settings
    tensors[name] = file.tensor(name);
    if (name.ends_with("segment_ids")) check_segments(name, tensors[name]);
    if (name == "sinks") check_sinks(tensors[name]);
  }
  const CaseResult result = run_case(settings, tensors);
  log_info("attention: {}", result.summary);
  for (const std::string& note : result.notes) log_info("  {}", note);
  for (const std::string& why : result.refused) log_debug("  not {}", why);
  if (dump) {
    make_directories(*dump);
    atomic_write(join_path(*dump, "program.mlir"), result.program);
  }
  std::vector<TensorSource> sources;
  for (const auto& [name, array] : result.tensors) {
    sources.push_back(tensor_source(name, array));
  }
  write_safetensors(out, std::move(sources), metadata_of(result));
  return 0;
}

}  // namespace ringmax::cli
