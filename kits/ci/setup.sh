#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Installs Verbena in a folder, for CI. Does nothing if the folder has it already, for example from a cache.
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
}

compile() {
  [ -f "$source/scripts/deps" ] || fail "$source is no clone of Verbena"
  "$source/scripts/deps" build
  cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DVERBENA_TESTS=OFF -DVERBENA_BENCH=OFF
  cmake --build "$work/build"
  cmake --install "$work/build" --prefix "$prefix" --strip
}

if [ -x "$prefix/bin/verbena" ]; then
  :
elif [ -n "$package" ]; then
  unpack
else
  compile
fi
"$prefix/bin/verbena" version || fail "$prefix/bin/verbena does not run here"
