#!/bin/bash
# Configures where needed and builds: tools/build.sh PRESET TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
tools/configure.sh "$1"
exec cmake --build --preset "$1" --target "$2" </dev/null
