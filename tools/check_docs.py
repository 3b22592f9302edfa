#!/usr/bin/env python3
"""Proves that README and docs/ name only tests and files that exist.

A test is written `Suite.Name`, both capitalised, as GoogleTest prints it; a
file is the target of a relative link.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DECLARED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
NAMED = re.compile(r"`([A-Z]\w*)\.([A-Z]\w+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def problems_of(page, tests, root):
    """What a page names and is not there, as lines."""
    text = page.read_text()
    where = page.relative_to(root)
    found = [f"{where}: there is no test {suite}.{name}"
             for suite, name in NAMED.findall(text)
             if (suite, name) not in tests]
    found += [f"{where}: there is no file {target}"
              for target in LINK.findall(text)
              if not (page.parent / target).exists()]
    return found


def check(root):
    tests = set()
    for source in (root / "src").rglob("*_test.cc"):
        tests.update(DECLARED.findall(source.read_text()))
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    return [line for page in pages for line in problems_of(page, tests, root)]


def main():
    problems = check(ROOT)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} names in the documents lead nowhere")
    print("documents name tests and files that exist")


if __name__ == "__main__":
    main()
