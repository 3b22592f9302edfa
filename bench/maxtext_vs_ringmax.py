#!/usr/bin/env python3
"""Tokens a second of RingMax and of MaxText's own training, in turn.

Two small Llamas in float32, AdamW, one sequence a step, its context divided
over virtual devices of the CPU. `ringmax bench step` and MaxText's `train`, on
synthetic data, take turns in one run, so that both meet the same machine; what
counts is the ratio. MaxText refuses its ring on a CPU and gathers keys and
values instead; its other settings here are the fastest of those tried. Its
figure is what it prints as a step's seconds, its loop around the step included.

MaxText wants Python 3.12 or newer, so --python names an interpreter that has
it; docs/benchmarks.md says what to install.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

from against_torch import ROOT, SIZES, run_json

# MaxText's names of the sizes.
NAMES = {"emb": "base_emb_dim", "mlp": "base_mlp_dim",
         "layers": "base_num_decoder_layers",
         "q_heads": "base_num_query_heads", "kv_heads": "base_num_kv_heads",
         "head_dim": "head_dim", "vocab": "vocab_size",
         "length": "max_target_length"}
FASTEST = ("scan_layers=false remat_policy=minimal_with_context"
           " fused_qkv=true fused_mlp=true")
WARM_UP = 3  # the first steps compile and fill pools


def shared(devices):
    """Settings that mean the same to both."""
    return ["hardware=cpu", "dtype=float32",
            f"per_device_batch_size={1 / devices}",
            f"ici_context_parallelism={devices}"]


def maxtext(python, size, devices, steps, settings, scratch):
    """The seconds of the steps that follow the warm-up."""
    find = "import importlib.util as u; print(*u.find_spec('maxtext')." \
           "submodule_search_locations)"
    package = subprocess.run([python, "-c", find], stdout=subprocess.PIPE,
                             text=True, check=True).stdout.strip()
    command = [python, "-m", "maxtext.trainers.pre_train.train",
               f"{package}/configs/base.yml", "run_name=bench",
               "model_name=default", "decoder_block=llama2",
               *(f"{NAMES[key]}={value}" for key, value in SIZES[size].items()),
               *shared(devices), "weight_dtype=float32",
               "attention=dot_product", f"steps={steps + WARM_UP}",
               "dataset_type=synthetic", "enable_checkpointing=false",
               "skip_jax_distributed_system=true",
               f"base_output_directory={scratch}",
               f"jax_cache_dir={scratch}/cache", *settings]
    flags = (f"{os.environ.get('XLA_FLAGS', '')}"
             f" --xla_force_host_platform_device_count={devices}")
    done = subprocess.run(command, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "JAX_PLATFORMS": "cpu",
                               "XLA_FLAGS": flags, "DECOUPLE_GCLOUD": "TRUE",
                               "HF_HUB_OFFLINE": "1"})
    seconds = re.findall(r"completed step: \d+, seconds: ([\d.]+)",
                         done.stdout)
    if done.returncode != 0 or len(seconds) != steps + WARM_UP:
        sys.exit(f"{done.stdout[-4000:]}\nMaxText ended with"
                 f" {done.returncode} after {len(seconds)} steps")
    return [float(s) for s in seconds[WARM_UP:]]


def ringmax(binary, size, devices, steps, settings):
    words = shared(devices)
    if devices > 1:
        words.append("context_parallel_strategy=ring")
    return run_json([binary, "bench", "step", f"model_name={size}", *words,
                     f"max_target_length={SIZES[size]['length']}",
                     f"repeats={steps}", *settings])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*", help="key=value for RingMax")
    parser.add_argument("--python", required=True,
                        help="an interpreter that has MaxText")
    parser.add_argument("--ringmax", default=str(ROOT / "build/ringmax"))
    parser.add_argument("--sizes", default="tiny,small")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=9,
                        help="timed steps of a round")
    parser.add_argument("--maxtext", default=FASTEST,
                        help="more key=value words for MaxText (%(default)s)")
    a = parser.parse_args()
    print("| model | tokens | MaxText ms, tok/s | RingMax ms, tok/s | ratio |"
          " ratio of each round |")
    print("|---|---|---|---|---|---|")
    for size in a.sizes.split(","):
        theirs, ours = [], []
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(a.rounds):
                theirs.append(statistics.median(maxtext(
                    a.python, size, a.devices, a.steps, a.maxtext.split(),
                    scratch)))
                ours.append(ringmax(a.ringmax, size, a.devices, a.steps,
                                    a.settings)["step_s"]["median"])
        length = SIZES[size]["length"]
        them, us = statistics.median(theirs), statistics.median(ours)
        each = ", ".join(f"{t / u:.2f}" for t, u in zip(theirs, ours))
        print(f"| {size} | {length:,} | {them * 1e3:,.0f}, {length / them:,.0f}"
              f" | {us * 1e3:,.0f}, {length / us:,.0f} | {them / us:.2f} |"
              f" {each} |", flush=True)
    print(f"{a.devices} devices of {os.cpu_count()} CPUs; medians of"
          f" {a.rounds} rounds in turn, each the median of {a.steps} steps")


if __name__ == "__main__":
    main()
