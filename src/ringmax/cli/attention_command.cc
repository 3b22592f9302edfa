// `ringmax attention`: one attention case from a file into a file.
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/attention_case.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/settings.h"

namespace ringmax::cli {
namespace {

constexpr std::int64_t kMostDevices = 1024;  // virtual ones, threads each

// Features of the contract that this version refuses by name.
struct NotYet {
  double logit_soft_cap = 0;
  std::int64_t ulysses_size = 1;
  bool bidirectional = false;
};

CaseSettings read_case_settings(const std::vector<std::string>& words) {
  CaseSettings settings;
  NotYet not_yet;
  std::string mask = "full";
  std::string layout = "contiguous";
  double scale = 0;
  DType dtype = DType::kF32;
  OptionSet set;
  set.text("mask", &mask, "full, causal or causal:OFFSET");
  set.number("scale", &scale, "factor of the logits; default 1/sqrt(D)");
  set.dtype("dtype", &dtype, {DType::kF32, DType::kBF16},
            "what is computed in; default the dtype of q");
  set.integer("context_parallel", &settings.context_parallel,
              "devices that share the sequence",
              {.min = 1, .max = kMostDevices});
  set.choice("strategy", &settings.strategy, kCaseStrategies,
             "how keys and values meet all queries", {"ulysses", "usp"});
  set.text("layout", &layout, "where tokens live: contiguous");
  set.choice("kernel", &settings.kernel, kCaseKernels, "what computes",
             {"native", "mosaic_twin"});
  set.integer("block_q", &settings.block_q, "queries of one block", {.min = 1});
  set.integer("block_kv", &settings.block_kv, "keys of one block", {.min = 1});
  set.path("pjrt_plugin", &settings.pjrt_plugin, "another PJRT plugin");
  set.number("logit_soft_cap", &not_yet.logit_soft_cap, "not there yet");
  set.integer("ulysses_size", &not_yet.ulysses_size, "not there yet");
  set.flag("bidirectional", &not_yet.bidirectional, "not there yet");
  const config::Applied applied = config::read_settings(set, words);
  Problems problems;
  if (applied.sources.contains("logit_soft_cap")) {
    problems.add("logit_soft_cap={} is not supported yet; leave it out",
                 not_yet.logit_soft_cap);
  }
  if (not_yet.ulysses_size != 1) {
    problems.add("ulysses_size={} is not supported yet; valid is 1",
                 not_yet.ulysses_size);
  }
  if (not_yet.bidirectional) {
    problems.add("bidirectional=true is not supported yet; valid is false");
  }
  if (applied.sources.contains("scale")) {
    settings.scale = scale;
    if (scale == 0) {
      problems.add("scale=0 makes all logits equal; any other number is valid");
    }
  }
  if (applied.sources.contains("dtype")) settings.dtype = dtype;
  problems.throw_if_any();
  settings.mask = attention::parse_mask(mask);
  settings.layout = attention::parse_layout(layout);
  return settings;
}

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
      args);
  if (arguments.helped) return 0;
  const std::string in = *arguments.option("--in");
  const std::string out = *arguments.option("--out");
  const std::optional<std::string> dump = arguments.option("--dump");
  const CaseSettings settings = read_case_settings(arguments.settings);
  if (dump && settings.kernel == CaseKernel::kReference) {
    fail_invalid("--dump {}: kernel=reference has no program to write", *dump);
  }
  // Learn of a wrong path before the work, not after it.
  if (is_directory(out) || !is_directory(parent_directory(out))) {
    fail_invalid("--out {} must name a file in a directory that exists", out);
  }
  if (dump && path_exists(*dump) && !is_directory(*dump)) {
    fail_invalid("--dump {} is a file; name a directory", *dump);
  }
  const SafetensorsFile file(in);
  check_case(settings, file.shapes());
  CaseTensors tensors;
  for (const auto& [name, shape] : file.shapes()) {
    tensors[name] = file.tensor(name);
  }
  const CaseResult result = run_case(settings, tensors);
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
