#!/usr/bin/env python3
"""Finds the splash kernels' block sizes for each TPU generation and head_dim.

Each candidate is one `ringmax bench kernel`: the kernel compiled by itself for
a chip that is not here, and its static cycles. What does not fit is left out.
The best of each direction, by the mean of the utilisation of a full and of a
causal shard, goes into attention/splash/block_table.cc; the table printed here
goes into docs/kernels.md. Results stay in --out; those there are not measured
again.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHIPS = {"v4": "v4-8", "v5e": "v5e-4", "v5p": "v5p-8", "v6e": "v6e-4",
         "tpu7x": "tpu7x-8"}  # fmt: skip
HEAD_DIMS = (64, 128, 256)
BLOCKS = {"forward": (2048, 1024), "backward": (1024, 512)}


def measure(case, binary, out):
    chip, direction, head_dim, block = case
    path = out / f"{chip}_{direction}_{head_dim}_{block}.json"
    # 512 is the setting's default and means the kernel's own choice; what is
    # less is rounded up to whole lanes.
    asked = 511 if block == 512 else block
    if not path.is_file():
        done = subprocess.run(
            [binary, "bench", "kernel", f"compile_topology={CHIPS[chip]}",
             f"direction={direction}", f"head_dim={head_dim}",
             f"block_q={asked}", f"block_kv={asked}", "block_kv_compute=512",
             "--json", str(path)], capture_output=True, text=True)  # fmt: skip
        if done.returncode != 0:
            return case, None, done.stderr.strip()[:120]
    return case, json.loads(path.read_text()), ""


def score(result):
    return result["useful_full"] + result["useful_causal"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "build" / "ringmax"))
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "out" / "kernels")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    cases = [(chip, direction, head_dim, block) for chip in CHIPS
             for head_dim in HEAD_DIMS for direction, blocks in BLOCKS.items()
             for block in blocks]  # fmt: skip
    results = {}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, result, why in pool.map(
                lambda c: measure(c, arguments.binary, arguments.out), cases):
            if result is None:
                print("#", *case, why)
            else:
                results[case] = result
    print("| chip | head_dim | forward blocks | full | causal "
          "| backward blocks | full | causal |")
    print("|" + "---|" * 8)
    for chip in CHIPS:
        for head_dim in HEAD_DIMS:
            cells = [chip, str(head_dim)]
            for direction, blocks in BLOCKS.items():
                ran = [results[key] for block in blocks
                       if (key := (chip, direction, head_dim, block))
                       in results]  # fmt: skip
                if not ran:
                    cells += ["none", "", ""]
                    continue
                best = max(ran, key=score)
                cells += [str(best["block_q"]),
                          f"{100 * best['useful_full']:.1f}%",
                          f"{100 * best['useful_causal']:.1f}%"]  # fmt: skip
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
