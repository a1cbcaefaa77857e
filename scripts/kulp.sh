#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# kulp.sh [HEADERS]: build the tests' kernel ULP for KVER into build/KVER/, against
# the kernel's headers, or those in the directory HEADERS. It links against nothing
# of ours: that it loads on our rdma_cm shows that a ULP of the kernel does.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if (($#)); then
	headers=$1 out=$build/$KVER
else
	resolve_kernel
	headers=$("$top/scripts/headers.sh") || exit 1
fi
from=$top/tools/testing/selftests/rdma/kulp
dir=$out/kulp
lock "kulp-$(basename "$out")"
try "cannot create $dir" mkdir -p "$dir"
for f in Makefile align_kulp.c; do
	cmp -s "$from/$f" "$dir/$f" || try "cannot write to $dir" cp "$from/$f" "$dir/"
done
if ! make -C "$headers" M="$dir" RDMA_ALIGN_TOP="$(realpath --relative-to="$dir" "$top")" W=1 \
     modules >"$dir/build.log" 2>&1; then
	cat "$dir/build.log" >&2
	die "align_kulp does not compile (log: $dir/build.log)"
fi
cmp -s "$dir/align_kulp.ko" "$out/align_kulp.ko" ||
	try "cannot write to $out" cp "$dir/align_kulp.ko" "$out/"
