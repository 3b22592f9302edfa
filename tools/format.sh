#!/bin/bash
# Runs clang-format with the given options over our C++ files.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z --cached --others --exclude-standard -- '*.cc' '*.h' |
  xargs -0 -n 40 -P "$(nproc)" clang-format-16 "$@"
