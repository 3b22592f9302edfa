#!/bin/bash
# Configures a preset of CMakePresets.json once: tools/configure.sh PRESET.
# Ninja repeats it by itself when a CMake file changes. Another preset for the
# same folder, or other CMake files' version of it, configures anew.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
case $preset in
  release | ci) folder=build ;;
  *) folder=build-$preset ;;
esac
stamp="$preset $(sha256sum <CMakePresets.json)"
if [[ -f $folder/build.ninja && $(cat "$folder/preset" 2>/dev/null) == "$stamp" ]]; then
  exit 0
fi
echo "configuring $preset in $folder"
cmake --preset "$preset" >"/tmp/ringmax-configure.$$" 2>&1 || {
  cat "/tmp/ringmax-configure.$$"
  exit 1
}
rm -f "/tmp/ringmax-configure.$$"
echo "$stamp" >"$folder/preset"
