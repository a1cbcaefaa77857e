#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run tools/testing/selftests/rdma/oracle/oracle.py in a VM.
#
#   KVER=	the kernel (default: that of `make`)
#   SEED=	of the random numbers, or several by comma (default: three fixed ones)
#   STEPS=	changes of the network for each seed
#   SHRINK=	seconds in which to look for a shorter way to a failure (default: 0)
#   MODULES=	where rdma_cm.ko and rdma_ucm.ko are (default: build/KVER)
#   FIRST=1	no more seeds after one that failed
#   NAME=	of the result (default: oracle)
#
# Leaves build/results/NAME.tap, and the logs in build/results/NAME/.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
build=${BUILD:-$top/build}
tests=$top/tools/testing/selftests/rdma
name=${NAME:-oracle}
out=$build/results/$name

die()
{
	echo "run-oracle.sh: $*" >&2
	exit 2
}

seeds=${SEED:-1,2,3}
steps=${STEPS:-34}
shrink=${SHRINK:-0}
[[ $seeds =~ ^[0-9]+(,[0-9]+)*$ ]] || die "SEED=$seeds is no list of numbers"
[[ $steps =~ ^[1-9][0-9]*$ ]] || die "STEPS=$steps is no number"
[[ $shrink =~ ^[0-9]+$ ]] || die "SHRINK=$shrink is no number of seconds"
if [ -z "${KVER:-}" ]; then
	KVER=$("$top/scripts/kver.sh") || exit 2
fi
export KVER
modules=${MODULES:-$build/$KVER}
[ -r "$modules/rdma_cm.ko" ] || die "$modules/rdma_cm.ko is not built"
make -s -C "$tests" || die "align_cm does not build"

count=$(tr , '\n' <<<"$seeds" | wc -l)
limit=$((120 + count * (120 + steps * 10 + shrink)))
args=(--seed "$seeds" --steps "$steps" --shrink "$shrink" --verbose)
[ -z "${FIRST:-}" ] || args+=(--first)

rm -rf "$out"
mkdir -p "$out"
rc=0
cd "$tests/oracle"
"$here/vm.sh" --modules "$modules" --timeout "$limit" --out "$out" -- \
	./oracle.sh "${args[@]}" >"$out/output" 2>"$out/vm.err" || rc=$?
awk -v name="$name" -v rc="$rc" -v errs="$out/vm.err" -v stat="$out/stat" \
	-f "$here/tap.awk" "$out/output" >"$out.tap"
if [ "$rc" != 0 ]; then
	grep -v '^# [0-9.]* ' "$out.tap" || true
else
	grep '^ok' "$out.tap"
fi
exit "$rc"
