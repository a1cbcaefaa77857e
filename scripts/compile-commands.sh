#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
# Write build/compile_commands.json, where clangd looks for it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

resolve_kernel
headers=$("$top/scripts/headers.sh") || exit 1
new=$build/compile_commands.json.new
cleanup_paths+=("$new")
"$top/scripts/compile-commands.py" "$out/src/drivers/infiniband/core" \
	"$headers" "$out/src" "$top" >"$new" || exit 1
mv "$new" "$build/compile_commands.json"
say "wrote build/compile_commands.json"
