#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run tools/testing/selftests/rdma/stress/stress.sh in a VM with the debug kernel.
#
#   TIME=	seconds (default: 60)
#   SEED=	of the random numbers (default: another one each time)
#   FAULTS=1	allocations fail now and then
#   VM_IMAGE=	another kernel
#
# Leaves build/results/stress.tap, and the kernel's logs in build/results/stress/.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
build=${BUILD:-$top/build}
stress=$top/tools/testing/selftests/rdma/stress
name=stress${FAULTS:+-faults}
out=$build/results/$name

die()
{
	echo "run-stress.sh: $*" >&2
	exit 2
}

time=${TIME:-60}
[[ $time =~ ^[1-9][0-9]*$ ]] || die "TIME=$time is no number of seconds"
image=${VM_IMAGE:-}
[ -n "$image" ] || image=$("$here/build-kernel.sh" debug) || exit 2
KVER=$(find "$image/boot" -name 'vmlinuz-*' | sed 's/.*vmlinuz-//' | sort -V | tail -n 1)
export KVER
make -s -C "$stress" || die "stress_cm does not build"

rm -rf "$out"
mkdir -p "$out"
args=(-t "$time")
[ -z "${SEED:-}" ] || args+=(-s "$SEED")
[ -z "${FAULTS:-}" ] || args+=(-f)
cd "$stress"
rc=0
"$here/vm.sh" --image "$image" --mem 3072 --timeout $((time * 2 + 900)) --out "$out" -- \
	./stress.sh "${args[@]}" >"$out/output" 2>"$out/vm.err" || rc=$?
awk -v name="$name" -v rc="$rc" -v errs="$out/vm.err" -v stat="$out/stat" \
	-f "$here/tap.awk" "$out/output" >"$out.tap"
cat "$out.tap"
exit "$rc"
