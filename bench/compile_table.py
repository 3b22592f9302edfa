#!/usr/bin/env python3
"""Compiles the training step of Llama 3.1 8B for TPU slices, in several ways,
and prints the table of docs/compile.md.

Each case is one `ringmax compile`; its report stays in --out, and a case that
has one there is not compiled again. A case takes one to a few minutes.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

BASE = [
    "model_name=llama3.1-8b", "compile_topology=v5p-16",
    "max_target_length=65536", "per_device_batch_size=0.125",
    "ici_context_parallelism=8", "attention=flash",
    "context_parallel_strategy=ring", "context_parallel_load_balance=False",
    "packing=False", "dataset_type=synthetic", "enable_checkpointing=false",
]  # fmt: skip

# Name, what differs from BASE.
CASES = {
    "ring": [],
    "all_gather": ["context_parallel_strategy=all_gather"],
    "ulysses": ["context_parallel_strategy=ulysses"],
    "ring, zigzag": ["context_parallel_load_balance=True"],
    "ring, window 4096": ["attention_type=local_sliding",
                          "sliding_window_size=4096"],
    "ring, packed text": ["packing=True", "dataset_type=text",
                          f"dataset_path={ROOT / 'README.md'}"],
    "ring, remat save_qkv_proj": ["remat_policy=save_qkv_proj"],
    "ring, remat none": ["remat_policy=none"],
    "ring, bf16 gradients": ["grad_dtype=bfloat16"],
}  # fmt: skip

COLUMNS = ("settings", "peak HBM", "temporaries", "collectives a step",
           "sends hidden", "estimated step", "MFU", "ours + compiler")


def file_name(case):
    return "".join(c if c.isalnum() else "_" for c in case) + ".json"


def compile_case(binary, case, words, out):
    path = out / file_name(case)
    if not path.is_file():
        command = [binary, "compile", *BASE, *words, "--json", str(path)]
        print(f"compiling: {case}", file=sys.stderr, flush=True)
        done = subprocess.run(command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            return None
    return json.loads(path.read_text())


def row(case, report):
    hbm = report["hbm_bytes"]
    sent = sum(each["bytes"] for each in report["collectives"])
    sends = report["rotations"]
    return (
        case,
        f"{hbm['peak'] / 1e9:.2f} GB",
        f"{hbm['temporaries'] / 1e9:.2f} GB",
        f"{sent / 1e9:.1f} GB",
        f"{sends['hidden']} of {sends['total']}" if sends["total"] else "none",
        f"{report['estimated_step_s']:.2f} s",
        f"{100 * report['estimated_mfu']:.0f}%",
        f"{report['build_time_s']:.2f} + {report['compile_time_s']:.0f} s",
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "build" / "ringmax"))
    parser.add_argument("--out", type=pathlib.Path,
                        default=ROOT / "out" / "compile")
    parser.add_argument("case", nargs="*", help="all of them without one")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    names = arguments.case or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        sys.exit(f"unknown case {unknown[0]}; known are {', '.join(CASES)}")
    rows = [COLUMNS, tuple("---" for _ in COLUMNS)]
    for name in names:
        report = compile_case(arguments.binary, name, CASES[name],
                              arguments.out)
        failed = (name,) + ("refused",) + ("",) * (len(COLUMNS) - 2)
        rows.append(row(name, report) if report else failed)
    for each in rows:
        print("| " + " | ".join(each) + " |")


if __name__ == "__main__":
    main()
