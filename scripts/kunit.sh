#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the KUnit suites of drivers/infiniband/core/tests with the kernel's own
# kunit.py, under User Mode Linux. The first run builds a kernel in some
# minutes; later ones compile what changed, or nothing.
#
# KUNIT_ARGS: more arguments for kunit.py, e.g. 'rdma_cm_align_index*' or
# --kconfig_add=CONFIG_PROVE_LOCKING=y
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$top/tools/testing/vm/splat.sh"

# What decides what is built. The tree itself is looked at only when it changed.
inputs()
{
	cd "$top"
	echo "$kver $debver ${SOURCE_TARBALL:-} ${KUNIT_ARGS:-}"
	find patches/"$series" include drivers/infiniband/core Kconfig \
		scripts/{kunit,tree,series,source,lib}.sh -type f |
		sort | xargs -d '\n' sha256sum
}

# One line for each test, whether a suite, a case or a row of a case has it;
# what was said before a failure follows it. The status is 1 if the kernel did
# not come to its end.
flatten()
{
	awk '
	function result(status, text, depth) {
		sub(/^ *(not )?ok [0-9]+ (- )?/, "", text)
		rows[depth - 1]++
		# A case that had rows, or a suite, only sums them up. But one
		# may fail by itself, in its init or exit.
		if (rows[depth] && (status == "ok" || failed[depth])) {
			failed[depth - 1] = failed[depth - 1] || failed[depth]
			rows[depth] = failed[depth] = 0
			return
		}
		rows[depth] = failed[depth] = 0
		if (status != "ok")
			failed[depth - 1] = 1
		if (depth == 2)
			text = name[1] ": " text
		else if (depth == 3)
			text = name[1] ": " name[2] ": " text
		print status "\t" text
		if (status != "ok")
			printf "%s", said
		said = ""
	}
	{ sub(/\r$/, "") }
	/^KTAP version/ { running = 1 }
	!running { next }
	match($0, /^ */) { depth = int(RLENGTH / 4) + 1 }
	/^1\.\.[0-9]+$/ { plan = substr($0, 4) + 0; next }
	/^ *# Subtest: / { sub(/^ *# Subtest: /, ""); name[depth - 1] = $0; next }
	/^ *(not )?ok [0-9]+ .*# SKIP/ { result("skip", $0, depth); next }
	/^ *ok [0-9]+ / { if (depth == 1) done++; result("ok", $0, depth); next }
	/^ *not ok [0-9]+ / { if (depth == 1) done++; result("not ok", $0, depth); next }
	/^ *(KTAP version|1\.\.)/ { next }
	/^ *# .*(pass:|module:|Totals:)/ { next }
	{ said = said "#" $0 "\n" }
	END { exit !plan || done != plan }
	' "$1"
}

run_kunit()
{
	(cd "$tree" && env -u ARCH -u CROSS_COMPILE -u O \
		python3 tools/testing/kunit/kunit.py "$@" --arch um \
		--build_dir "$objects")
}

compile()
{
	local args=() a

	lock tree-in-use
	tree=$("$top/scripts/tree.sh") || exit 1
	for a in ${KUNIT_ARGS:-}; do
		[[ $a != --kconfig_add=* ]] || args+=("$a")
	done
	rm -f "$objects/.stamp"
	try "cannot create $objects" mkdir -p "$objects"
	say "building a kernel for the tests (log: ${log#"$top"/})"
	if ! run_kunit build --jobs "$(nproc)" "${args[@]}" \
	     --kunitconfig drivers/infiniband/core/tests/.kunitconfig \
	     >"$log" 2>&1; then
		if full "$log"; then
			die "no space left on the disk of $build"
		fi
		grep -E -A 5 'error:|ERROR|^make.*Error' "$log" | head -n 40 >&2 ||
			tail -n 20 "$log" >&2
		die "the kernel for the tests does not build (log: $log)"
	fi
	printf '%s\n%s\n' "$want" "$tree" >"$objects/.stamp"
}

resolve_kernel
command -v python3 >/dev/null || die "python3 is not installed (make deps)"
lock kunit
objects=$build/kunit
log=$build/kunit.log
raw=$build/kunit.out
want=$(inputs | sha256sum)
if [[ $(head -n 1 "$objects/.stamp" 2>/dev/null) == "$want" && -x $objects/linux ]]; then
	tree=$(tail -n 1 "$objects/.stamp")
else
	compile
fi

filter=()
for a in ${KUNIT_ARGS:-}; do
	[[ $a == --kconfig_add=* ]] || filter+=("$a")
done
status=0
run_kunit exec --raw_output=all --timeout 300 "${filter[@]}" >"$raw" 2>&1 || status=$?

tap_begin kunit >/dev/null
results=$(mktemp) || die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$results")
ended=0
flatten "$raw" >"$results" || ended=1
while IFS=$'\t' read -r word name; do
	case $word in
	ok)	tap_result 0 "$name" ;;
	"not ok") tap_result 1 "$name" ;;
	skip)	tap_skip "${name%% # SKIP*}" "${name##*# SKIP}" ;;
	*)	tap_line "$word" ;;
	esac
done <"$results" >/dev/null
if ((ended || status)); then
	tail -n 30 "$raw" >"$results"
fi
tap_result "$((ended || status))" "the tests' kernel runs all suites and halts" "$results" >/dev/null
# What User Mode Linux says while it boots is not ours.
clean=0
! splat_lines <(sed -n '/^KTAP version/,$p' "$raw") >"$results" || clean=1
tap_result "$clean" "the tests' kernel has nothing to complain about" "$results" >/dev/null
grep -A 12 '^not ok' "$tap_file" | grep -v '^ok' >&2 || true
say "$((tap_count - tap_failed)) of $tap_count KUnit tests passed"
tap_end >/dev/null
