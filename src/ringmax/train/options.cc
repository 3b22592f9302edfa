#include "ringmax/train/options.h"

#include <fmt/format.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "ringmax/base/error.h"

namespace ringmax::train {

namespace fs = std::filesystem;

namespace {

// Whether a directory can be made in `parent`. Permission bits do not tell:
// root passes them on read-only and on kernel file systems. So one is made and
// taken away again.
bool can_write(const fs::path& parent) {
  std::string probe = (parent / ".ringmax-XXXXXX").string();
  return mkdtemp(probe.data()) != nullptr && rmdir(probe.c_str()) == 0;
}

std::string in_use(const std::string& directory) {
  return fmt::format(
      "base_output_directory/run_name: another run is writing into {}; choose "
      "another run_name, or wait for its end",
      directory);
}

}  // namespace

void declare_options(OptionSet& set, TrainOptions& options) {
  constexpr NumberRange fraction = {.min = 0, .max = 1};
  constexpr NumberRange decay = {.min = 0, .max = 1, .below_max = true};
  set.section("Training");
  set.integer("steps", &options.steps, "optimizer steps", {.min = 1});
  set.integer("init_weights_seed", &options.init_weights_seed,
              "seed of the initial parameters", {.min = 0});
  set.number("learning_rate", &options.learning_rate,
             "peak of the learning rate", {.min = 0});
  set.number("warmup_steps_fraction", &options.warmup_steps_fraction,
             "part of the schedule that warms up", fraction);
  set.integer("learning_rate_schedule_steps",
              &options.learning_rate_schedule_steps,
              "length of the schedule in steps; -1: steps", {.min = -1});
  set.number("learning_rate_final_fraction",
             &options.learning_rate_final_fraction,
             "end of the cosine, as a part of the peak", fraction);
  set.alias("cosine_learning_rate_final_fraction");
  set.number("adam_b1", &options.adam_b1, "AdamW: decay of the first moment",
             decay);
  set.number("adam_b2", &options.adam_b2, "AdamW: decay of the second moment",
             decay);
  set.number("adam_eps", &options.adam_eps,
             "AdamW: added outside the square root", {.min = 0});
  set.number("adam_eps_root", &options.adam_eps_root,
             "AdamW: added inside the square root", {.min = 0});
  set.number("adam_weight_decay", &options.adam_weight_decay,
             "AdamW: weight decay, times the learning rate", {.min = 0});
  set.number("gradient_clipping_threshold",
             &options.gradient_clipping_threshold,
             "largest global norm of the gradient; 0: no clipping", {.min = 0});
  set.dtype("grad_dtype", &options.grad_dtype, {DType::kF32, DType::kBF16},
            "dtype of gradients while they wait for the optimizer; bfloat16 "
            "halves their memory",
            {"float16"});

  set.section("Run");
  set.path("base_output_directory", &options.base_output_directory,
           "directory of all runs; empty: runs, in the current directory");
  set.text("run_name", &options.run_name,
           "name of the run and of its directory; empty: the model's name");
  set.flag("enable_checkpointing", &options.enable_checkpointing,
           "whole checkpoints are not there yet: parameters are written at the "
           "end");
}

void validate(const TrainOptions& options, Problems& problems) {
  const std::string& name = options.run_name;
  if (name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    problems.add("run_name={}: valid is the name of one directory", name);
  }
  if (options.learning_rate_schedule_steps == 0) {
    problems.add(
        "learning_rate_schedule_steps=0: valid is a whole number >= 1, or -1 "
        "for steps");
  }
}

std::string run_directory(const TrainOptions& options,
                          const std::string& model_name) {
  const fs::path base = options.base_output_directory.empty()
                            ? fs::path("runs")
                            : fs::path(options.base_output_directory);
  return (base / (options.run_name.empty() ? model_name : options.run_name))
      .string();
}

void check_run_directory(const std::string& directory, Problems& problems) {
  std::error_code error;
  const fs::path path(directory);
  if (fs::exists(fs::symlink_status(path, error))) {
    if (!fs::is_directory(path, error)) {
      problems.add(
          "base_output_directory/run_name: {} is no directory; choose another "
          "base_output_directory or run_name",
          directory);
      return;
    }
    if (!can_write(path)) {
      problems.add(
          "base_output_directory/run_name: {} cannot be written; choose "
          "another base_output_directory or run_name",
          directory);
      return;
    }
    if (!fs::is_empty(path, error) &&
        !fs::is_regular_file(path / "metrics.jsonl", error)) {
      problems.add(
          "base_output_directory/run_name: {} holds something else than a run "
          "(no metrics.jsonl); choose another run_name, or empty it",
          directory);
    } else if (!DirectoryLock(directory).held()) {
      problems.add("{}", in_use(directory));
    }
    return;
  }
  // The system does not look at names below a directory that is not there.
  for (const fs::path& part : path) {
    if (part.native().size() > NAME_MAX) {
      error = std::make_error_code(std::errc::filename_too_long);
    }
  }
  // A name too long, a loop of links, a directory that may not be entered.
  if (error && error != std::errc::no_such_file_or_directory &&
      error != std::errc::not_a_directory) {
    problems.add("base_output_directory/run_name: {} cannot be made: {}",
                 directory, error.message());
    return;
  }
  // Not there yet: the nearest directory above must let us make it.
  fs::path parent = fs::absolute(path, error).parent_path();
  if (error) {
    problems.add(
        "base_output_directory: {} is meant from the current directory, which "
        "is gone: {}",
        directory, error.message());
    return;
  }
  while (!fs::exists(fs::symlink_status(parent, error)) &&
         parent != parent.root_path()) {
    parent = parent.parent_path();
  }
  if (!fs::is_directory(parent, error)) {
    problems.add(
        "base_output_directory: {} is no directory, so {} cannot be made",
        parent.string(), directory);
  } else if (!can_write(parent)) {
    problems.add(
        "base_output_directory: {} cannot be written, so {} cannot be made",
        parent.string(), directory);
  }
}

DirectoryLock make_run_directory(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    fail(ErrorCode::kFailedPrecondition,
         "base_output_directory/run_name: {} cannot be made: {}", directory,
         error.message());
  }
  DirectoryLock lock(directory);
  if (!lock.held()) {
    throw Error(ErrorCode::kFailedPrecondition, in_use(directory));
  }
  return lock;
}

}  // namespace ringmax::train
