// `ringmax attention`: one attention case from a file into a file.
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ringmax/attention/backend.h"
#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/log.h"
#include "ringmax/base/problems.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/base/suggest.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/attention_case.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/settings.h"

namespace ringmax::cli {
namespace {

constexpr std::int64_t kMostDevices = 1024;  // virtual ones, threads each

// As written; what of it is a mask depends on the file's tensors.
struct CommandSettings {
  CaseSettings settings;
  std::string mask = "full";
};

void check_kernel(const std::string& kernel, Problems& problems) {
  std::vector<std::string> valid = {"auto", "reference"};
  for (const attention::Backend* backend : attention::backends()) {
    valid.emplace_back(backend->name());
  }
  if (std::find(valid.begin(), valid.end(), kernel) != valid.end()) return;
  const std::string meant = closest_name(kernel, valid);
  problems.add("kernel={}: must be one of {}{}", kernel, fmt::join(valid, ", "),
               meant.empty() ? "" : "; did you mean " + meant + "?");
}

CommandSettings read_case_settings(const std::vector<std::string>& words) {
  CommandSettings read;
  CaseSettings& settings = read.settings;
  std::string layout = "contiguous";
  double scale = 0;
  DType dtype = DType::kF32;
  OptionSet set;
  set.text("mask", &read.mask,
           "full, causal[:OFFSET], local:LEFT,RIGHT, chunked:C or dense, "
           "combined by & and |");
  set.number("scale", &scale, "factor of the logits; default 1/sqrt(D)");
  set.number("logit_soft_cap", &settings.soft_cap,
             "logits become cap * tanh(logit / cap); 0: as they are",
             {.min = 0});
  set.dtype("dtype", &dtype, {DType::kF32, DType::kBF16},
            "what is computed in; default the dtype of q");
  set.integer("context_parallel", &settings.context_parallel,
              "devices that share the sequence",
              {.min = 1, .max = kMostDevices});
  set.choice("strategy", &settings.strategy, attention::kStrategies,
             "how keys and values meet all queries");
  set.integer("ulysses_size", &settings.ulysses_size,
              "devices of context_parallel that share out heads, for usp",
              {.min = 1, .max = kMostDevices});
  set.text("layout", &layout,
           "where tokens live: contiguous, zigzag or striped");
  set.flag("bidirectional", &settings.bidirectional,
           "halves of the keys go round the ring both ways");
  set.integer("ring_scan_unroll", &settings.ring_scan_unroll,
              "ring steps in one pass of a loop; 0: no loop", {.min = 0});
  set.text("kernel", &settings.kernel, "what computes");
  set.integer("block_q", &settings.block_q, "queries of one block", {.min = 1});
  set.integer("block_kv", &settings.block_kv, "keys of one block", {.min = 1});
  set.path("pjrt_plugin", &settings.pjrt_plugin, "another PJRT plugin");
  const config::Applied applied = config::read_settings(set, words);
  Problems problems;
  check_kernel(settings.kernel, problems);
  if (applied.sources.contains("scale")) {
    settings.scale = scale;
    if (scale == 0) {
      problems.add("scale=0 makes all logits equal; any other number is valid");
    }
  }
  if (applied.sources.contains("dtype")) settings.dtype = dtype;
  problems.throw_if_any();
  settings.layout = attention::parse_layout(layout);
  return read;
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

// Ids below 0 would be nobody's: 0 is padding, documents count from 1.
void check_segments(const std::string& name, const HostArray& ids) {
  for (const std::int32_t id : ids.data<std::int32_t>()) {
    if (id < 0) {
      fail_invalid("tensor {} holds {}; segment ids are 0 (padding) or more",
                   name, id);
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
      args);
  if (arguments.helped) return 0;
  const std::string in = *arguments.option("--in");
  const std::string out = *arguments.option("--out");
  const std::optional<std::string> dump = arguments.option("--dump");
  CommandSettings read = read_case_settings(arguments.settings);
  CaseSettings& settings = read.settings;
  if (dump && settings.kernel == "reference") {
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
  settings.mask = attention::parse_mask(
      read.mask,
      file.contains("mask") ? array_mask(file.tensor("mask")) : nullptr);
  check_case(settings, file.shapes());
  CaseTensors tensors;
  for (const auto& [name, shape] : file.shapes()) {
    if (name == "mask") continue;  // it is part of the settings
    tensors[name] = file.tensor(name);
    if (name.ends_with("segment_ids")) check_segments(name, tensors[name]);
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
