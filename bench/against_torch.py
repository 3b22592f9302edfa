#!/usr/bin/env python3
"""Tokens a second of RingMax and of torch + transformers, side by side.

Three Llamas, one device, float32, one sequence a step. The two programs take
turns in one run, so that both meet the same machine; what counts is the ratio.
The wheels of torch come with `make oracles`. A figure is the median over the
rounds of the median over a round's steps; `best` compares the fastest steps of
all, which tells more on a machine that others use too.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import charts

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The presets of configs/models, as torch_llama.py wants them said, and the
# length of the sequence.
SIZES = {
    "tiny": dict(emb=128, mlp=512, layers=2, q_heads=8, kv_heads=4,
                 head_dim=32, vocab=1024, length=1024),
    "small": dict(emb=256, mlp=1024, layers=4, q_heads=8, kv_heads=4,
                  head_dim=32, vocab=1024, length=2048),
    "medium": dict(emb=512, mlp=1536, layers=8, q_heads=8, kv_heads=4,
                   head_dim=64, vocab=4096, length=4096),
}


def run_json(command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}")
    return json.loads(done.stdout)


def ringmax(size, repeats, settings):
    return run_json([str(ROOT / "build" / "ringmax"), "bench", "step",
                     f"model_name={size}", "dtype=float32",
                     f"max_target_length={SIZES[size]['length']}",
                     f"repeats={repeats}", *settings])


def torch(size, repeats, site):
    words = [f"--{key}={value}" for key, value in SIZES[size].items()]
    return run_json(["/usr/bin/python3", str(ROOT / "bench/torch_llama.py"),
                     f"--repeats={repeats}", *words], PYTHONPATH=site)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="key=value for RingMax")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--svg", help="the picture's file")
    a = parser.parse_args()
    site = subprocess.run([str(ROOT / "tools/oracles.sh")], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    print("| model | tokens | torch tok/s | ringmax tok/s | ratio | best |")
    print("|---|---|---|---|---|---|")
    drawn = {}
    for size in a.sizes.split(","):
        theirs, ours = [], []
        for _ in range(a.rounds):
            reply = torch(size, a.repeats, site)
            theirs.append(reply["step_s"])
            ours.append(ringmax(size, a.repeats, a.settings)["step_s"])
        length = SIZES[size]["length"]
        them, us = (length / statistics.median(step["median"] for step in side)
                    for side in (theirs, ours))
        best = (min(step["min"] for step in theirs)
                / min(step["min"] for step in ours))
        millions = reply["parameters"] / 1e6
        print(f"| {size}, {millions:.1f}M | {length:,} | {them:,.0f} |"
              f" {us:,.0f} | {us / them:.2f} | {best:.2f} |", flush=True)
        drawn[f"{size}, {millions:.1f}M\n{length:,} tokens"] = us / them
    print(f"torch {reply['torch']}, transformers {reply['transformers']};"
          f" {os.cpu_count()} CPUs; medians of {a.rounds} rounds in turn,"
          f" {a.repeats} steps each")
    if a.svg:
        pathlib.Path(a.svg).write_text(charts.bars(
            "A training step beside torch + transformers, float32, one device",
            "tokens/s of RingMax over those of torch", ["ratio"],
            {name: [ratio] for name, ratio in drawn.items()},
            ("as fast as torch", [1] * len(drawn))))


if __name__ == "__main__":
    main()
