#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# all_apply.sh GIT: checks that each patch applies, and names those that do not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.." || exit 1
failed=0
for patch in "$here"/*.patch; do
  "$1" apply --check "$patch" || { echo "does not apply: $(basename "$patch")" >&2; failed=1; }
done
exit $failed
