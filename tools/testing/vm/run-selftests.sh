#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the kselftests of tools/testing/selftests/rdma, each in a VM of its own.
#
#   KVER=	the kernel (default: that of `make`)
#   DEBUG=1	on the debug kernel, with longer deadlines
#   T=		names of tests, with or without .sh (default: all that TESTS lists)
#   ARGS=	arguments for each test, e.g. '-v' or '-t name'
#   J=		VMs at the same time (default: half the CPUs, 2 at least if there are 2)
#   EXPECT_ALL_FEATURES=1  a skip is a failure
#   DEADLINE=	seconds to wait for an event (default: 30)
#   RDMA_CM=stock	on the distribution's module, where tests of what is mended fail
#   LOOP_S=	seconds that align_loop watches each topology (default: 20)
#
# Leaves build/results/selftest-NAME.tap, and the kernel's logs in
# build/results/selftest-NAME/.

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
build=${BUILD:-$top/build}
tests_dir=$top/tools/testing/selftests/rdma
results=$build/results
vm=$here/vm.sh

die()
{
	echo "run-selftests.sh: $*" >&2
	exit 2
}

[ -r "$tests_dir/TESTS" ] || die "no list of tests in $tests_dir"

vm_args=() slow=1
if [ -n "${DEBUG:-}" ] && [ "$DEBUG" != 0 ]; then
	slow=4
	image=${VM_IMAGE:-}
	[ -n "$image" ] || image=$("$here/build-kernel.sh" debug) || exit 2
	[ -d "$image/boot" ] || die "no debug kernel in $image"
	KVER=$(find "$image/boot" -name 'vmlinuz-*' | sed 's/.*vmlinuz-//' | sort -V | tail -n 1)
	vm_args+=(--image "$image")
elif [ -z "${KVER:-}" ]; then
	KVER=$("$top/scripts/kver.sh") || exit 2
fi
export KVER
[ -r "$build/$KVER/rdma_cm.ko" ] || die "$build/$KVER/rdma_cm.ko is not built ('make KVER=$KVER' builds it)"

# The tests, and how long each may take.
declare -A limit=()
names=()
while read -r name seconds _; do
	case $name in
	''|'#'*)	continue ;;
	esac
	name=${name%.sh}
	[ -x "$tests_dir/$name.sh" ] || die "TESTS lists $name.sh, which is not there or not executable"
	[[ ${seconds:=120} =~ ^[0-9]+$ ]] || die "TESTS: '$seconds' is no number of seconds"
	limit[$name]=$((seconds * slow))
	names+=("$name")
done <"$tests_dir/TESTS"

if [ -n "${T:-}" ]; then
	wanted=()
	for name in ${T//,/ }; do
		name=${name%.sh}
		[ -n "${limit[$name]:-}" ] || die "no test '$name'; there are: ${names[*]}"
		wanted+=("$name")
	done
	names=("${wanted[@]}")
fi
[ ${#names[@]} -gt 0 ] || die "no tests in $tests_dir/TESTS"

cpus=$(nproc)
jobs=${J:-$((cpus >= 4 ? cpus / 2 : cpus))}
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "J=$jobs is no number of VMs"

log=$results/selftest-build.log
mkdir -p "$results"
make -C "$tests_dir" >"$log" 2>&1 || {
	tail -n 20 "$log" >&2
	die "the tests' programs do not build"
}

# The kernel ULP of the tests, beside the modules under test.
"$top/scripts/kulp.sh" ${image:+"$image.o"} || die "the tests' kernel module does not build"

trap 'kill $(jobs -p) 2>/dev/null; exit 130' INT TERM HUP

# run_test NAME: one VM; leaves NAME.tap and NAME.stat, prints a line.
run_test()
{
	local name=$1 out=$results/selftest-$1 rc=0 start=$SECONDS word bad skipped total
	local args=()

	rm -rf "$out" "$out".*
	mkdir -p "$out"
	# shellcheck disable=SC2206 # words are wanted
	args=(${ARGS:-})
	cd "$tests_dir"
	"$vm" "${vm_args[@]}" --timeout $((limit[$name] + 60 * slow)) --out "$out" -- \
		env EXPECT_ALL_FEATURES="${EXPECT_ALL_FEATURES:-0}" DEBUG="${DEBUG:-}" \
		${RDMA_CM:+RDMA_CM="$RDMA_CM"} \
		${DEADLINE:+DEADLINE="$DEADLINE"} ${LOOP_S:+LOOP_S="$LOOP_S"} \
		"./$name.sh" "${args[@]}" >"$out/output" 2>"$out/vm.err" || rc=$?
	awk -v name="$name" -v rc="$rc" -v errs="$out/vm.err" -v stat="$out/stat" \
		-f "$here/tap.awk" "$out/output" >"$out.tap"

	read -r total bad skipped <"$out/stat"
	if [ "$bad" -gt 0 ]; then
		word=FAIL
	elif [ "$skipped" -ge "$total" ]; then
		word=SKIP
	else
		word=ok
	fi
	printf '%-5s %-28s %3d tests, %d failed, %d skipped, %d s\n' \
		"$word" "$name" "$total" "$bad" "$skipped" $((SECONDS - start))
	grep '^vm.sh: boot' "$out/vm.err" | sed 's/^/      /' || true
	if [ "$bad" -gt 0 ]; then
		grep -E '^(not ok|# FAIL:)' "$out.tap" | head -n 40 | sed 's/^/      /'
		tail -n 25 "$out/vm.err" | sed 's/^/      /'
		echo "      see $out.tap and $out/"
	fi
}

start=$SECONDS
running=0
for name in "${names[@]}"; do
	if [ "$running" -ge "$jobs" ]; then
		wait -n || true
		running=$((running - 1))
	fi
	run_test "$name" &
	running=$((running + 1))
done
wait || true

total=0 bad=0 skipped=0 missing=0
for name in "${names[@]}"; do
	if read -r a b c <"$results/selftest-$name/stat"; then
		total=$((total + a)) bad=$((bad + b)) skipped=$((skipped + c))
	else
		missing=$((missing + 1))
	fi
done 2>/dev/null
[ "$missing" -eq 0 ] || echo "FAIL  $missing scripts left no result"
echo "selftests on $KVER: ${#names[@]} scripts, $total tests, $bad failed, $skipped skipped, $((SECONDS - start)) s"
[ $((bad + missing)) -eq 0 ]
