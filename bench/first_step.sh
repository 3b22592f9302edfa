#!/bin/bash
# Seconds from the command to the first completed step of `tiny`, with an empty
# executable cache and with a warm one: bench/first_step.sh [key=value ...]
set -euo pipefail
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export XDG_CACHE_HOME=$scratch/cache

# Reads the step lines as they come; ends at the first one.
first_step_s() {
  local begin=$EPOCHREALTIME line
  while IFS= read -r line; do
    if [[ $line == "step 1/"* ]]; then
      awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'
    fi
  done < <(build/ringmax train model_name=tiny dtype=float32 steps=2 \
    enable_checkpointing=false base_output_directory="$scratch/out" \
    "$@" 2>&1 | tee "$scratch/log")
}

for round in cold warm warm warm; do
  seconds=$(first_step_s "run_name=$round$RANDOM" "${@}")
  if [[ -z $seconds ]]; then
    cat "$scratch/log" >&2
    echo "no first step was seen" >&2
    exit 1
  fi
  echo "first step, $round cache: $seconds s"
done
