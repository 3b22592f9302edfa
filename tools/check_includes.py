#!/usr/bin/env python3
"""Proves that includes between the rooms of src/ringmax point downward only.

ALLOWED says for each room which others it may include. `config` makes the mesh;
of the rooms above it, it sees the option structs alone, which live beside their
owners, and the tokenizer, which says how large a vocabulary must be. Tests (*_test.cc and
testing/) may include anything.
"""

import argparse
import pathlib
import re
import sys

ALLOWED = {
    "base": "",
    "hw": "base",
    "pjrt": "base hw",
    "mesh": "base hw",
    "graph": "base mesh",
    "kernel": "base mesh graph hw",
    "attention": "base mesh graph hw kernel",
    "model": "base mesh graph hw kernel attention",
    "data": "base",
    "config": "base mesh",
    "analysis": "base hw attention",
    "train": "base hw pjrt mesh graph kernel attention model data config"
             " analysis",
    "cli": "base hw pjrt mesh graph kernel attention model data config"
           " analysis train",
}
OPTION_HEADER = re.compile(r"^(\w+/options|data/tokenizer)\.h$")
# The native CPU kernels are built with the FFI header, base and mask info.
PLUGIN_HEADERS = re.compile(r"^(pjrt_c_api\.h|xla/)")
PLUGIN_HEADER_ROOMS = {"pjrt"}
PLUGIN_HEADER_FOLDERS = ("attention/cpu/", "model/cpu/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def is_test(relative):
    return relative.name.endswith("_test.cc") or "testing" in relative.parts


def problem_of(relative, include):
    """Why `relative` (under src/ringmax) may not include it, or None."""
    room = relative.parts[0]
    if PLUGIN_HEADERS.match(include):
        if room in PLUGIN_HEADER_ROOMS:
            return None
        if str(relative).startswith(PLUGIN_HEADER_FOLDERS):
            return None
        return f"only pjrt and the native kernels see {include}"
    if not include.startswith("ringmax/"):
        return None
    header = include.removeprefix("ringmax/")
    target = header.split("/")[0]
    if "/testing/" in header or header.startswith("testing/"):
        return f"{include} is for tests"
    if target == room or target in ALLOWED[room].split():
        return None
    if target not in ALLOWED:
        return f"{include}: no such room"
    if room == "config" and OPTION_HEADER.match(header):
        return None
    return (f"{room} may include {ALLOWED[room] or 'no other room'},"
            f" not {target}")


def check(source):
    """Problems of all files under `source` (a src/ringmax), as lines."""
    problems = []
    for path in sorted(source.rglob("*")):
        if path.suffix not in (".cc", ".h"):
            continue
        relative = path.relative_to(source)
        text = path.read_text()
        if is_test(relative):
            continue
        if relative.parts[0] not in ALLOWED:
            problems.append(f"{relative}: not in a room of the table")
            continue
        for match in INCLUDE.finditer(text):
            problem = problem_of(relative, match[1])
            if problem:
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{relative}:{line}: {problem}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "src" / "ringmax"
    parser.add_argument("source", nargs="?", type=pathlib.Path, default=default)
    problems = check(parser.parse_args().source)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} includes point the wrong way")
    print("includes point downward only")


if __name__ == "__main__":
    main()
