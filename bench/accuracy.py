#!/usr/bin/env python3
"""Errors of RingMax's attention and of torch's, both against float64.

The same inputs go through `ringmax attention`, through torch's
scaled_dot_product_attention and through a reference in numpy's float64, which
goes block by block over the queries. The error is max|x - reference| /
max(1, max|reference|), the median over some seeds, as one element decides it in
each; beside it the root of the mean square of x - reference over all seeds.
Inputs of bfloat16 are rounded before all three.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def reference(q, k, v, do, heads, kv_heads):
    """Causal, q [S, H, D]; everything float64."""
    import numpy as np

    tokens, _, dim = q.shape
    out, dq = np.zeros_like(q), np.zeros_like(q)
    dk, dv = np.zeros_like(k), np.zeros_like(v)
    scale = dim**-0.5
    for h in range(heads):
        g = h // (heads // kv_heads)
        for i in range(0, tokens, 256):
            rows = slice(i, min(i + 256, tokens))
            keys = slice(0, rows.stop)
            s = q[rows, h] @ k[keys, g].T * scale
            s[np.arange(rows.start, rows.stop)[:, None]
              < np.arange(rows.stop)] = -np.inf
            p = np.exp(s - s.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            out[rows, h] = p @ v[keys, g]
            dp = do[rows, h] @ v[keys, g].T
            ds = p * (dp - (do[rows, h] * out[rows, h]).sum(1, keepdims=True))
            dq[rows, h] = ds @ k[keys, g] * scale
            dk[keys, g] += ds.T @ q[rows, h] * scale
            dv[keys, g] += p.T @ do[rows, h]
    return {"out": out, "dq": dq, "dk": dk, "dv": dv}


def errors(heads, kv_heads, dim, tokens, dtype, seed):
    """{name: ((max, mean square) of RingMax, the same of torch)}"""
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(seed)
    kind = getattr(torch, dtype)
    shapes = {"q": heads, "k": kv_heads, "v": kv_heads, "do": heads}
    given = {name: torch.randn(1, tokens, n, dim).to(kind)
             for name, n in shapes.items()}
    want = reference(*(given[n][0].double().numpy() for n in shapes), heads,
                     kv_heads)
    with tempfile.TemporaryDirectory() as folder:
        save_file(given, f"{folder}/in.safetensors")
        subprocess.run(
            [str(ROOT / "build/ringmax"), "attention", "mask=causal",
             "--in", f"{folder}/in.safetensors",
             "--out", f"{folder}/out.safetensors"], check=True,
            stderr=subprocess.DEVNULL)
        ours = load_file(f"{folder}/out.safetensors")
    q, k, v, do = (given[n].transpose(1, 2).contiguous() for n in shapes)
    for x in (q, k, v):
        x.requires_grad_()
    out = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, enable_gqa=heads != kv_heads)
    out.backward(do)
    theirs = {"out": out, "dq": q.grad, "dk": k.grad, "dv": v.grad}

    def error(x, ref):
        off = x.detach().double().numpy() - ref
        return (np.abs(off).max() / max(1.0, np.abs(ref).max()),
                np.square(off).mean())

    return {name: (error(ours[name][0], ref),
                   error(theirs[name][0].transpose(0, 1), ref))
            for name, ref in want.items()}


def compare(heads, kv_heads, dim, tokens, seeds, dtype):
    """In a process of its own that sees torch."""
    runs = [errors(heads, kv_heads, dim, tokens, dtype, seed)
            for seed in range(1, seeds + 1)]
    for name in runs[0]:
        us, them = (statistics.median(r[name][side][0] for r in runs)
                    for side in (0, 1))
        rms_us, rms_them = (
            statistics.fmean(r[name][side][1] for r in runs) ** 0.5
            for side in (0, 1))
        print(f"| {heads}/{kv_heads}, {dim}, {tokens:,}, {dtype} | {name} |"
              f" {us:.2e} | {them:.2e} | {us / them:.2f} |"
              f" {rms_us:.2e} | {rms_them:.2e} | {rms_us / rms_them:.2f} |",
              flush=True)


def main():
    if sys.argv[1:2] == ["--case"]:
        *sizes, dtype = sys.argv[2:]
        return compare(*map(int, sizes), dtype)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases",
                        default="4/4/128/2048,4/4/64/2048,8/2/128/2048")
    parser.add_argument("--seeds", type=int, default=5)
    a = parser.parse_args()
    site = subprocess.run([str(ROOT / "tools/oracles.sh")], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()
    print("| heads/kv, D, tokens, dtype | of | RingMax | torch | ratio |"
          " RMS RingMax | RMS torch | ratio |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for case in a.cases.split(","):
        for dtype in ("float32", "bfloat16"):
            subprocess.run(["/usr/bin/python3", __file__, "--case",
                            *case.split("/"), str(a.seeds), dtype],
                           check=True,
                           env={**os.environ, "PYTHONPATH": site})


if __name__ == "__main__":
    main()
