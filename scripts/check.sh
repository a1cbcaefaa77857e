#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every test. All parts run, whatever failed before; each leaves TAP in
# build/results/, and prove has the last word.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# All of it, whatever the caller's environment chose for single parts.
unset T ARGS J SEED STEPS SHRINK DEBUG KUNIT_ARGS

resolve_kernel
results=$build/results
cd "$top"
try "cannot create $results" mkdir -p "$results"
rm -f "$results"/*.tap

parts=()
part()
{
	local name=$1 status=0 start=$SECONDS

	shift
	say "--- $name"
	"$@" || status=$?
	parts+=("$status $name ($((SECONDS - start)) s)")
}

selftests()
{
	local before after

	before=$(find "$results" -name '*.tap' | wc -l)
	tools/testing/vm/run-selftests.sh || return
	after=$(find "$results" -name '*.tap' | wc -l)
	((after > before)) || { say "no selftest left a result"; return 1; }
}

part "make build" scripts/build.sh
part "make image" scripts/image.sh
part "make abi" scripts/abi.sh
part "make lint" scripts/lint.sh
part "make kunit" scripts/kunit.sh
part "tests of the build" scripts/test-build.sh
part "make series" scripts/series.sh
part "tests of the demo's verdict" tools/demo/selfcheck.sh
part "make demo" tools/demo/demo.sh
part "make selftest" selftests
part "make oracle" tools/testing/vm/run-oracle.sh

# A part that died before it could tell must not go unnoticed.
tap_begin check >/dev/null
for p in "${parts[@]}"; do
	tap_result "${p%% *}" "${p#* }" >/dev/null
done
(tap_end >/dev/null 2>&1) || true
exec prove -e cat "${results#"$top"/}"/*.tap
