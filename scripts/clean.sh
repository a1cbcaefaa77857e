#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# clean.sh [--all]: remove what was generated; the downloads only with --all.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[[ -d $build ]] || exit 0
if [[ ${1:-} == --all ]]; then
	rm -rf "$build"
else
	find "$build" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} +
fi
