#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Prints key=TEXT, a name for what setup.sh compiles from a clone here: other sources, another release of the
# distribution or another processor give another name.
#
#   cache_key.sh FOLDER
set -euo pipefail

[ -d "${1:-}" ] || { echo "cache_key.sh: name the clone's folder" >&2; exit 2; }
cd "$1"
sources=$(find . -path ./.git -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
release=$(. /etc/os-release && echo "${ID:-linux}-${VERSION_ID:-${VERSION_CODENAME:-}}")
echo "key=verbena-$(uname -m)-$release-${sources:0:16}"
