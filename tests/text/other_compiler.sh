#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# other_compiler.sh CC CXX: compiles the whole tree with another compiler, with warnings as errors.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -G Ninja -S "$root" -B "$work" -DCMAKE_C_COMPILER="$1" -DCMAKE_CXX_COMPILER="$2" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DVERBENA_WERROR=ON
cmake --build "$work" -j "$(nproc)" -- -k 0
