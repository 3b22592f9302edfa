#!/usr/bin/env python3
"""Peak memory of attention forward + backward over the length of the sequence.

`ringmax bench attention` in a process of its own for each length; what is shown
beside its peak is the size of the eight arrays that the case consists of: q, k,
v, out, dout and the three gradients.
"""

import argparse
import json
import pathlib
import subprocess

import charts

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="key=value for RingMax")
    parser.add_argument("--from", dest="first", type=int, default=4096)
    parser.add_argument("--to", dest="last", type=int, default=131072)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--mask", default="causal")
    parser.add_argument("--svg", help="the picture's file")
    a = parser.parse_args()
    lengths = []
    while a.first <= a.last:
        lengths.append(a.first)
        a.first *= 2
    peaks, arrays = [], []
    print("| tokens | peak MB | the eight arrays MB | peak bytes a token |")
    print("|---|---|---|---|")
    for tokens in lengths:
        done = subprocess.run(
            [str(ROOT / "build/ringmax"), "bench", "attention", f"mask={a.mask}",
             f"heads={a.heads}", f"head_dim={a.head_dim}", f"seq={tokens}",
             "dtype=float32", "repeats=1", *a.settings],
            stdout=subprocess.PIPE, text=True, check=True)
        peaks.append(json.loads(done.stdout)["peak_rss_bytes"] / 1e6)
        arrays.append(8 * 4 * a.heads * a.head_dim * tokens / 1e6)
        print(f"| {tokens:,} | {peaks[-1]:.0f} | {arrays[-1]:.0f} |"
              f" {peaks[-1] * 1e6 / tokens:,.0f} |", flush=True)
    if a.svg:
        pathlib.Path(a.svg).write_text(charts.lines(
            f"Peak memory of attention, forward + backward ({a.heads} heads of"
            f" {a.head_dim}, float32)", "MB",
            {"peak of the process": peaks, "q, k, v, out, dout, dq, dk, dv":
             arrays}, lengths, "tokens"))


if __name__ == "__main__":
    main()
