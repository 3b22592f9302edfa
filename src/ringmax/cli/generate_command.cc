// `ringmax generate`: continues a text with the parameters that a run left.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "ringmax/base/error.h"
#include "ringmax/base/file.h"
#include "ringmax/base/option.h"
#include "ringmax/base/problems.h"
#include "ringmax/base/safetensors.h"
#include "ringmax/cli/arguments.h"
#include "ringmax/cli/commands.h"
#include "ringmax/config/settings.h"
#include "ringmax/data/tokenizer.h"
#include "ringmax/hw/host.h"
#include "ringmax/model/cost.h"
#include "ringmax/model/hugging_face.h"
#include "ringmax/pjrt/client.h"
#include "ringmax/pjrt/executable_cache.h"
#include "ringmax/train/sample.h"

namespace ringmax::cli {
namespace {

struct GenerateSettings {
  std::string run;
  std::string pjrt_plugin;
  std::string executable_cache_dir;
  std::int64_t seed = 0;
  train::SampleSettings sample;
};

OptionSet options_of(GenerateSettings& s) {
  OptionSet set;
  set.path("run", &s.run, "directory that `ringmax train` left");
  set.text("prompt", &s.sample.prompt, "text to continue");
  set.integer("max_new_tokens", &s.sample.new_tokens, "tokens to add at most",
              {.min = 1, .max = 1000000});
  set.integer("window", &s.sample.window,
              "tokens that the model sees at most, the latest",
              {.min = 1, .max = 1000000});
  set.number("temperature", &s.sample.temperature,
             "divides the logits; 0: always the likeliest token",
             {.min = 0, .max = 1e6});
  set.integer("seed", &s.seed, "another seed gives another text", {.min = 0});
  set.path("pjrt_plugin", &s.pjrt_plugin, "a CPU plugin other than our own");
  set.path("executable_cache_dir", &s.executable_cache_dir,
           "where compiled programs are kept; off: nowhere");
  return set;
}

GenerateSettings read_generate_settings(const std::vector<std::string>& words) {
  GenerateSettings s;
  const OptionSet set = options_of(s);
  const auto given = config::read_settings(set, words).sources;
  Problems problems;
  for (const char* name : {"run", "prompt"}) {
    if (!given.contains(name)) problems.add("{}= is missing", name);
  }
  problems.throw_if_any();
  s.sample.seed = static_cast<std::uint64_t>(s.seed);
  return s;
}

// Weights lie in the host's memory twice: as arrays and on the device.
void check_memory(const model::ModelOptions& options, const std::string& run) {
  const std::int64_t needed = 8 * model::parameter_count(options);
  const std::int64_t usable = hw::host_memory().usable_bytes;
  if (needed > usable) {
    fail(
        ErrorCode::kResourceExhausted,
        "run={}: its parameters need {:.1f} GB of memory, and {:.1f} GB can be "
        "used here",
        run, static_cast<double>(needed) / 1e9,
        static_cast<double>(usable) / 1e9);
  }
}

}  // namespace

int run_generate(Args args) {
  GenerateSettings defaults;
  const Arguments arguments = read_arguments(
      "generate",
      "Continues a text with the parameters that a run left, on the CPU.",
      "run=DIR prompt=TEXT key=value ...", {}, args,
      describe_settings(options_of(defaults)));
  if (arguments.helped) return 0;
  const GenerateSettings s = read_generate_settings(arguments.settings);
  const std::string described = join_path(s.run, "config.json");
  const std::string weights = join_path(s.run, "model.safetensors");
  for (const std::string& path : {described, weights}) {
    if (!path_exists(path)) {
      fail_invalid(
          "run={}: there is no {}; name a directory that `ringmax train` left",
          s.run, path);
    }
  }
  const model::ModelOptions options =
      model::options_of_hugging_face(read_file(described), described);
  if (options.vocab_size <= data::kEndId) {
    fail_invalid(
        "run={}: its vocabulary has {} tokens, and text as bytes needs {}",
        s.run, options.vocab_size, data::kEndId + 1);
  }
  check_memory(options, s.run);
  const std::string text = train::sample_text(
      pjrt::cpu_client(s.pjrt_plugin, 1),
      pjrt::ExecutableCache(s.executable_cache_dir), options,
      model::from_hugging_face(SafetensorsFile(weights), options), s.sample);
  std::printf("%s%s\n", s.sample.prompt.c_str(), text.c_str());
  return 0;
}

}  // namespace ringmax::cli
