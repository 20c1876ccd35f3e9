#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs Verbena in a folder, for CI. Does nothing if the folder has it already, for example from a cache. It fails if
# the folder has it from elsewhere: from another package, by its sum if --sha256 is given and by its name otherwise, or
# not from a package if one is asked for, or from one if a clone is.
#
#   setup.sh --prefix DIR --package FILE|URL [--sha256 SUM]   unpacks the portable tarball or the .deb; installs nothing
#   setup.sh --prefix DIR --source DIR                        compiles a clone (scripts/deps installs what is missing)
set -euo pipefail

usage() { sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
wrong() { echo "setup.sh: $*" >&2; exit 2; }
fail() { echo "setup.sh: $*" >&2; exit 1; }

prefix="" package="" sum="" source=""
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=${2:?--prefix wants a folder}; shift 2 ;;
    --package) package=${2?--package wants a file or a URL}; shift 2 ;;
    --sha256) sum=${2?--sha256 wants a sum}; shift 2 ;;
    --source) source=${2:?--source wants a folder}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "do not know '$1'; see setup.sh --help" ;;
  esac
done
[ -n "$prefix" ] || wrong "--prefix is missing"
[ -n "$package" ] || [ -n "$source" ] || wrong "give --package or --source"

# What unpack() leaves: the sum and the name of the package.
record=$prefix/share/verbena/ci/package

# Fails if what is in the folder is not what is asked for. What is compiled has no record: the cache's key names it.
check_what_is_there() {
  local there_sum="" there=""
  [ ! -f "$record" ] || read -r there_sum there <"$record"
  if [ -z "$package" ]; then
    [ -z "$there" ] || fail "$prefix has Verbena from $there already, and not from a clone: remove it first"
  elif [ -z "$there" ]; then
    fail "$prefix has Verbena already, and not from a package: remove it first"
  elif [ "$there_sum" != "${sum:-$there_sum}" ]; then
    fail "$prefix has Verbena from $there already, with another SHA-256 sum than $sum: remove it first"
  elif [ -z "$sum" ] && [ "$there" != "$package" ]; then
    fail "$prefix has Verbena from $there already, and not from $package: remove it first"
  fi
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
  case $1 in
    *://*) curl --fail --silent --show-error --location --retry 3 --output "$2" "$1" || fail "cannot fetch $1" ;;
    *) cp "$1" "$2" 2>/dev/null || fail "there is no package $1" ;;
  esac
}

extract() {
  if [ "$(head -c 7 "$work/package")" = '!<arch>' ]; then
    dpkg-deb --fsys-tarfile "$work/package" | tar -x -C "$work/tree" --strip-components=2 ./usr
  else
    tar -xzf "$work/package" -C "$work/tree" --strip-components=1
  fi
}

unpack() {
  fetch "$package" "$work/package"
  [ -z "$sum" ] || echo "$sum  $work/package" | sha256sum --check --status ||
    fail "$package has another SHA-256 sum than $sum"
  case $package in
    *.deb) command -v dpkg-deb >/dev/null || fail "there is no dpkg-deb here for $package: take the portable tarball" ;;
  esac
  mkdir "$work/tree"
  extract 2>/dev/null && [ -x "$work/tree/bin/verbena" ] ||
    fail "$package is neither Verbena's portable tarball nor its .deb"
  mkdir -p "$prefix"
  cp -a "$work/tree/." "$prefix/"
  mkdir -p "${record%/*}"
  read -r sum _ < <(sha256sum <"$work/package")
  printf '%s %s\n' "$sum" "$package" >"$record"
}

compile() {
  [ -f "$source/scripts/deps" ] || fail "$source is no clone of Verbena"
  "$source/scripts/deps" build
  cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVERBENA_TESTS=OFF -DVERBENA_BENCH=OFF
  cmake --build "$work/build"
  cmake --install "$work/build" --prefix "$prefix" --strip
}

if [ -x "$prefix/bin/verbena" ]; then
  check_what_is_there
elif [ -n "$package" ]; then
  unpack
else
  compile
fi
"$prefix/bin/verbena" version || fail "$prefix/bin/verbena does not run here"
