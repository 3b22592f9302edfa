#!/bin/bash
# Installs what is missing and nothing else: tools/setup.sh GROUP...
# Groups are those of third_party/debian.txt. With nothing missing it asks no
# registry and returns at once.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r group package _; do
  [[ " $* " == *" $group "* ]] || continue
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done < <(grep -v '^#' third_party/debian.txt)

if ((${#missing[@]})); then
  echo "set-up: installing Debian packages: ${missing[*]}"
  as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || {
      echo "set-up: not root and no sudo; as root: apt-get install ${missing[*]}" >&2
      exit 1
    }
    as_root=(sudo)
  fi
  apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y
    -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
  # A third party's broken source must not stop us while Debian's own works.
  "${apt[@]}" update </dev/null || echo "set-up: apt-get update complained, going on"
  "${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
fi

# Debian's own python: the pip that this list installs belongs to it.
/usr/bin/python3 tools/fetch_wheels.py
