#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Print the kernel that everything is built for and tested with.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

resolve_kernel
printf '%s\n' "$kver"
