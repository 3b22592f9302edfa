#!/usr/bin/env python3
"""Rings, all_gather and ulysses in every order of tokens, on 8 CPU devices.

Attention forward and backward by `ringmax bench attention`, all combinations in
turn, several rounds: time, temporaries a device, bytes that the busiest device
sends (forward), and the time to compile. What counts is how they compare: eight
devices share the cores of one machine, and a send is a copy in its memory. "In
memory" is the ring of `ring_transport=memory`, which sends nothing.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

import charts

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What each asks for.
STRATEGIES = {
    "ring": ["strategy=ring"],
    "ring in memory": ["strategy=ring", "ring_transport=memory"],
    "all_gather": ["strategy=all_gather"],
    "ulysses": ["strategy=ulysses"],
}
LAYOUTS = ("contiguous", "zigzag", "striped")


def measure(strategy, layout, settings):
    done = subprocess.run(
        [str(ROOT / "build/ringmax"), "bench", "attention", "mask=causal",
         "context_parallel=8", *STRATEGIES[strategy], f"layout={layout}",
         *settings], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{strategy}, {layout}: ended with {done.returncode}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*",
                        help="key=value of `ringmax bench attention`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--svg", help="folder for the pictures")
    a = parser.parse_args()
    settings = a.settings or ["seq=8192", "heads=8", "head_dim=64",
                              "dtype=float32", "repeats=3"]
    names = [(s, l) for s in STRATEGIES for l in LAYOUTS]
    rounds = [{name: measure(*name, settings) for name in names}
              for _ in range(a.rounds)]

    def median(of):
        return {n: statistics.median(of(r[n]) for r in rounds) for n in names}

    both = median(lambda x: x["forward_backward_s"]["median"])
    forward = median(lambda x: x["forward_s"]["median"])
    compiled = median(lambda x: x["compile_s"])
    room = median(lambda x: x["temporaries_bytes"])
    sent = median(lambda x: x["bytes_sent_per_device"])
    print("| strategy, layout | forward s | forward + backward s | temporaries a"
          " device MB | sent a device MB | compile s |")
    print("|---|---|---|---|---|---|")
    for n in names:
        print(f"| {n[0]}, {n[1]} | {forward[n]:.3f} | {both[n]:.3f} |"
              f" {room[n] / 1e6:.1f} | {sent[n] / 1e6:.1f} |"
              f" {compiled[n]:.2f} |")
    print(f"{' '.join(settings)}; medians of {a.rounds} rounds in turn")
    if not a.svg:
        return
    folder = pathlib.Path(a.svg)
    for file, title, unit, of in (
            ("time", "Attention on 8 devices, forward + backward", "seconds",
             both),
            ("memory", "Temporaries of forward + backward", "MB a device",
             {n: v / 1e6 for n, v in room.items()}),
            ("sent", "Sent by the busiest device, forward", "MB",
             {n: v / 1e6 for n, v in sent.items()}),
            ("compile", "Compiling forward + backward", "seconds", compiled)):
        (folder / f"bench_strategies_{file}.svg").write_text(charts.bars(
            title, f"{unit}; {' '.join(settings[:4])}", LAYOUTS,
            {s: [of[s, l] for l in LAYOUTS] for s in STRATEGIES}))


if __name__ == "__main__":
    main()
