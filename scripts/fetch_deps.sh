#!/usr/bin/env bash
# Fills .deps/ (headers and plugins) from the wheels of third_party/wheels.lock.
# Wheels are kept in ${XDG_CACHE_HOME:-~/.cache}/ringmax/wheels; a missing or
# damaged one is fetched again. A stamp makes the second run free.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=third_party/wheels.lock
stamp=.deps/stamp
want=$(sha256sum "$lock" | cut -d' ' -f1)
[ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && exit 0
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ringmax/wheels
mkdir -p "$cache"
staging=$(mktemp -d .deps-XXXXXX)
trap 'rm -rf "$staging"' EXIT
while read -r name version file sha member destination; do
  case $name in ''|'#'*) continue ;; esac
  if ! echo "$sha  $cache/$file" | sha256sum --check --status 2>/dev/null; then
    echo "fetching $name $version"
    rm -f "$cache/$file"
    # The file is data here: take it for a fixed interpreter, whichever runs.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps \
      --only-binary=:all: --python-version 3.11 --implementation cp \
      --abi cp311 --abi none --platform manylinux_2_27_x86_64 \
      --dest "$cache" "$name==$version"
    echo "$sha  $cache/$file" | sha256sum --check --quiet
  fi
  mkdir -p "$staging/x" "$staging/$(dirname "${destination%/}")"
  case $member in
    */) unzip -qo "$cache/$file" "$member*" -d "$staging/x" ;;
    *) unzip -qo "$cache/$file" "$member" -d "$staging/x" ;;
  esac
  mv "$staging/x/${member%/}" "$staging/${destination%/}"
  rm -rf "$staging/x"
done < "$lock"
echo "$want" > "$staging/stamp"
chmod 755 "$staging"
rm -rf .deps
mv "$staging" .deps
trap - EXIT
