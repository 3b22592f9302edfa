#!/bin/bash
# Installs the wheels of third_party/oracles.txt into a folder of the user's
# cache, once, and prints that folder: the PYTHONPATH of the oracles. Several
# gigabytes; nothing else needs them.
set -euo pipefail
cd "$(dirname "$0")/.."
list=third_party/oracles.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringmax/oracles
folder=$cache/$(sha256sum "$list" | cut -c1-16)
if [[ ! -d $folder ]]; then
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/new.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  echo "installing the oracles in $folder" >&2
  # Each wheel is checked against its sha256; Debian's own Python, as in set-up.
  /usr/bin/python3 -m pip install --quiet --disable-pip-version-check \
    --no-cache-dir --no-compile --no-deps --only-binary=:all: \
    --root-user-action=ignore --require-hashes --target "$scratch/site" \
    --requirement "$list" </dev/null >&2
  mv -T "$scratch/site" "$folder"
fi
echo "$folder"
