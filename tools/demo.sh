#!/bin/bash
# Trains the demo and says where its report is.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${RINGMAX_DEMO_DIR:-out}
build/ringmax train configs/demo.yml "base_output_directory=$out" run_name=demo
echo
echo "report: $(realpath "$out/demo")"
find "$out/demo" -maxdepth 1 -name '*.html' -printf '        %p\n'
