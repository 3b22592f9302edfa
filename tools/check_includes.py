#!/usr/bin/env python3
"""Proves that includes between the rooms of src/ringmax point downwards only.

The table says what a room may include besides itself. Tests and testing/
folders may include anything. Exit code 1 lists each include that points up.
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": [],
    "hw": ["base"],
    "pjrt": ["base", "hw"],
    "mesh": ["base", "hw"],
    "graph": ["base", "mesh"],
    "kernel": ["base", "mesh", "graph", "hw"],
    "attention": ["base", "mesh", "graph", "kernel", "hw"],
    "model": ["base", "mesh", "graph", "kernel", "hw", "attention"],
    "data": ["base"],
    "config": ["base", "hw", "pjrt", "mesh", "attention", "model", "data", "train"],
    "train": ["base", "hw", "pjrt", "mesh", "graph", "kernel", "attention", "model", "data", "config", "analysis"],
    "analysis": ["base", "hw", "attention", "mesh", "graph", "kernel"],
}
# config reads the option structs of its owners and nothing else of theirs.
OPTIONS_ONLY = {"config": {"pjrt", "mesh", "attention", "model", "data", "train"}}
OPTIONS_HEADERS = {"options.h", "mesh.h", "axis_rules.h"}


def problems(root):
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".h", ".cc") or path.name.endswith("_test.cc"):
            continue
        parts = path.relative_to(root).parts
        room = parts[0]
        if room == "cli" or "testing" in parts:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'#include "ringmax/([^/"]+)/([^"]+)"', line)
            if not match or match.group(1) == room:
                continue
            target, header = match.groups()
            allowed = target in MAY_INCLUDE.get(room, [])
            if allowed and target in OPTIONS_ONLY.get(room, set()):
                allowed = header in OPTIONS_HEADERS
            if not allowed:
                yield f"{path}:{number}: {room} may not include {target}/{header}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src/ringmax")
    found = list(problems(root))
    for line in found:
        print(line)
    print(f"include directions: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
