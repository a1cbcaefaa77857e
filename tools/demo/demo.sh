#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The same story on stock and on aligned rdma_cm, one after the other in one
# virtual machine. Leaves the logs, the table and timeline.svg in build/demo/.
# Fails if the aligned side did not realign, or if data differ.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/lib.sh"

readonly deadline_s=600

resolve_kernel
out=$build/demo
lock demo
# What an earlier run left must not pass for this one's.
try "cannot empty $out" rm -rf "$out"
try "cannot create $out" mkdir -p "$out"
try "the demonstration's programs do not build" \
	make -s -C "$here" OUTPUT="$out"

say "the story is told twice in a virtual machine, which takes two to three minutes"
status=0
# shellcheck disable=SC2016 # the guest's shell expands them
"$top/tools/testing/vm/vm.sh" --kver "$kver" --timeout $deadline_s --out "$out" -- \
	bash -c 'for side in stock aligned; do "$0" $side "$1" /out || exit; done' \
	"$here/guest.sh" "$out" || status=$?
# Also when the guest failed: the table tells how far it came.
"$here/report.py" "$out" | tee "$out/table.txt" || status=${status/#0/1}

say "the picture: $out/timeline.svg"
((status == 0)) || die "the demonstration failed (status $status); the logs are in $out"
