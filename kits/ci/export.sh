#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tells the later steps of a CI job where Verbena is.
#
#   export.sh --prefix DIR [--device]
#
# --device  also starts an emulator; the later steps' programs see its device
#
# On GitHub it adds to the files that GITHUB_PATH and GITHUB_ENV name. Elsewhere it prints commands for a shell, which
# takes them by eval "$(export.sh --prefix DIR)".
set -euo pipefail

usage() { sed -n '3,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; }
wrong() { echo "export.sh: $*" >&2; exit 2; }

prefix="" device=no
while [ $# -gt 0 ]; do
  case $1 in
    --prefix) prefix=${2:?--prefix wants a folder}; shift 2 ;;
    --device) device=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "do not know '$1'; see export.sh --help" ;;
  esac
done
[ -n "$prefix" ] || wrong "--prefix is missing"
[ -x "$prefix/bin/verbena" ] || { echo "export.sh: there is no $prefix/bin/verbena" >&2; exit 1; }
prefix=$(cd "$prefix" && pwd)

# find_package(Verbena) looks below CMAKE_PREFIX_PATH.
cmake_path=$prefix${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
if [ -n "${GITHUB_ENV:-}" ]; then
  echo "$prefix/bin" >>"$GITHUB_PATH"
  echo "CMAKE_PREFIX_PATH=$cmake_path" >>"$GITHUB_ENV"
else
  printf 'export PATH=%q CMAKE_PREFIX_PATH=%q\n' "$prefix/bin:$PATH" "$cmake_path"
fi
[ "$device" = yes ] || exit 0

"$prefix/bin/verbena" up >&2
exports=$("$prefix/bin/verbena" env)
if [ -z "${GITHUB_ENV:-}" ]; then
  printf '%s\n' "$exports"
else
  # Each line is one `export NAME='VALUE'`.
  (eval "$exports" && while IFS='= ' read -r _ name _; do printf '%s=%s\n' "$name" "${!name}"; done <<<"$exports") >>"$GITHUB_ENV"
fi
