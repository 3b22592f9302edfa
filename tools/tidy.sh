#!/bin/bash
# Runs clang-tidy (checks in .clang-tidy) over our sources, or those named.
set -euo pipefail
cd "$(dirname "$0")/.."
if (($#)); then
  files=("$@")
else
  mapfile -t files < <(git ls-files -- 'src/*.cc')
fi
# The build's warning options are g++'s; clang need not know them.
printf '%s\0' "${files[@]}" | xargs -0 -n 4 -P "$(nproc)" \
  clang-tidy-16 --quiet --warnings-as-errors='*' \
  --extra-arg=-Wno-unknown-warning-option -p build 2> >(
    grep -vE 'warnings? (generated|treated)|^Suppressed|^Use -' >&2 || true)
echo "clang-tidy: ${#files[@]} files are clean"
