#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Remove everything generated but the downloads.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[[ -d $build ]] || exit 0
find "$build" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
