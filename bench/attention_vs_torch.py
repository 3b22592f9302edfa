#!/usr/bin/env python3
"""GFLOP/s of RingMax's attention beside torch's and a plain matrix product.

`ringmax bench attention`, torch's scaled_dot_product_attention (its flash
kernel on the CPU) and numpy's sgemm of 2,048, the ceiling, take turns in one
run, so that all meet the same machine; what counts is the ratio. Causal work
only is counted: 4 D a visible pair and head forward, 3.5 times that with the
backward pass. The wheels of torch and numpy come with `make oracles`.
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
# heads, kv heads, head_dim, tokens
CASES = [(4, 4, 128, 8192), (4, 4, 64, 8192), (4, 4, 128, 2048),
         (4, 4, 128, 32768), (8, 2, 128, 8192)]


def torch_side(heads, kv_heads, dim, tokens, dtype, repeats):
    """Runs in a process of its own (--peer); prints one JSON object."""
    import time

    import numpy
    import torch

    torch.manual_seed(0)
    kind = getattr(torch, dtype)

    def tensor(count):
        return torch.randn(1, count, tokens, dim, dtype=kind,
                           requires_grad=True)

    q, k, v = tensor(heads), tensor(kv_heads), tensor(kv_heads)
    dout = torch.randn(1, heads, tokens, dim, dtype=kind)

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=kv_heads != heads)

    def both():
        forward().backward(dout)
        q.grad = k.grad = v.grad = None

    def without_gradient():
        with torch.no_grad():
            forward()

    def times(work):
        work()
        result = []
        for _ in range(repeats):
            begin = time.perf_counter()
            work()
            result.append(time.perf_counter() - begin)
        return result

    a = numpy.random.rand(2048, 2048).astype(numpy.float32)
    print(json.dumps({"forward": times(without_gradient), "both": times(both),
                      "sgemm": times(lambda: a @ a), "torch":
                      torch.__version__}))


def peer(site, case, dtype, repeats):
    words = [str(x) for x in (*case, dtype, repeats)]
    done = subprocess.run(["/usr/bin/python3", __file__, "--peer", *words],
                          stdout=subprocess.PIPE, text=True, check=True,
                          env={**os.environ, "PYTHONPATH": site})
    return json.loads(done.stdout)


def ours(case, dtype, repeats, settings):
    heads, kv_heads, dim, tokens = case
    done = subprocess.run(
        [str(ROOT / "build/ringmax"), "bench", "attention", "mask=causal",
         f"heads={heads}", f"kv_heads={kv_heads}", f"head_dim={dim}",
         f"seq={tokens}", f"dtype={dtype}", f"repeats={repeats}", *settings],
        stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def draw(rows, file):
    """Rows: (case and dtype, sgemm, torch, ours, torch both, ours both)."""
    pathlib.Path(file).write_text(charts.bars(
        "Causal attention on a CPU beside torch's flash attention", "GFLOP/s",
        ["torch forward", "RingMax forward", "torch with backward",
         "RingMax with backward"],
        {name: values for name, _, *values in rows},
        ("sgemm of 2,048, float32", [sgemm for _, sgemm, *_ in rows])))


def main():
    if sys.argv[1:2] == ["--peer"]:
        *sizes, dtype, repeats = sys.argv[2:]
        torch_side(*map(int, sizes), dtype, int(repeats))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("settings", nargs="*", help="key=value for RingMax")
    parser.add_argument("--dtypes", default="float32,bfloat16")
    parser.add_argument("--cases", help="heads/kv_heads/head_dim/tokens,...")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--svg", help="the picture's file")
    a = parser.parse_args()
    cases = CASES
    if a.cases:
        cases = [tuple(map(int, c.split("/"))) for c in a.cases.split(",")]
    site = subprocess.run([str(ROOT / "tools/oracles.sh")], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    print("| heads/kv, D, tokens, dtype | sgemm | torch fwd | ours | ratio |"
          " torch fwd+bwd | ours | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    drawn = []
    for case in cases:
        heads, kv_heads, dim, tokens = case
        work = 2 * heads * dim * tokens * (tokens + 1)
        for dtype in a.dtypes.split(","):
            rates = {"sgemm": [], "them": [], "them_both": [], "us": [],
                     "us_both": []}
            for _ in range(a.rounds):
                them = peer(site, case, dtype, a.repeats)
                us = ours(case, dtype, a.repeats, a.settings)
                rates["sgemm"].append(2 * 2048**3 /
                                      statistics.median(them["sgemm"]))
                rates["them"].append(work / statistics.median(them["forward"]))
                rates["them_both"].append(3.5 * work /
                                          statistics.median(them["both"]))
                rates["us"].append(us["forward_gflops"] * 1e9)
                rates["us_both"].append(us["forward_backward_gflops"] * 1e9)
            m = {k: statistics.median(v) / 1e9 for k, v in rates.items()}
            print(f"| {heads}/{kv_heads}, {dim}, {tokens:,}, {dtype} |"
                  f" {m['sgemm']:.0f} | {m['them']:.0f} | {m['us']:.0f} |"
                  f" {m['us'] / m['them']:.2f} | {m['them_both']:.0f} |"
                  f" {m['us_both']:.0f} |"
                  f" {m['us_both'] / m['them_both']:.2f} |", flush=True)
            drawn.append((f"{heads}/{kv_heads} D {dim}\n{tokens:,}\n{dtype}",
                          m["sgemm"], m["them"], m["us"], m["them_both"],
                          m["us_both"]))
    if a.svg:
        draw(drawn, a.svg)
    print(f"GFLOP/s; torch {them['torch']}, kernel {us['kernel']};"
          f" {os.cpu_count()} CPUs; medians of {a.rounds} rounds in turn,"
          f" each the median of {a.repeats} runs")


if __name__ == "__main__":
    main()
