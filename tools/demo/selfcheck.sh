#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Does the demonstration's verdict notice what can go wrong? Each test gives
# report.py logs in which one thing does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../scripts/lib.sh"

work=$(mktemp -d "${TMPDIR:-/tmp}/rdma-align-demo.XXXXXX") ||
	die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$work")

# Seconds are easier to read; report.py wants microseconds.
in_us()
{
	sed -E 's/^([0-9]+)/\1000000/; s/gap ([0-9]+) ([0-9]+)$/gap \1000000 \2000000/'
}

# logs: a run as it should be
logs()
{
	rm -f "$work"/*
	in_us >"$work/stock.log" <<-'LOG'
		1 script story rc
		2 client path rx_c0
		3 script start requests are answered
		4 script step the route moves
		8 script step link c0 fails
		13 client heard failed: transport retry counter exceeded
		13 client path rx_c1
		13 client gap 9 13
		14 script step link c0 is repaired
		15 script step link c1 fails
		19 client heard failed: transport retry counter exceeded
		19 client path rx_c0
		20 client gap 16 20
		21 script end of the story
		21 client sum all requests answered
		22 script story nvme
		23 script path rx_c0
		24 script start blocks are written and read
		25 script step link c0 fails
		31 io heard controller: live -> resetting
		32 io gap 25 32
		33 script path rx_c1
		34 script step link c0 is repaired
		36 script step link c1 fails
		43 io heard controller: live -> resetting
		44 io gap 36 44
		45 script path rx_c0
		46 script end of the story
		47 io sum all blocks read back
	LOG
	in_us >"$work/aligned.log" <<-'LOG'
		1 script story rc
		2 client path rx_c0
		3 script start requests are answered
		4 script step the route moves
		5 client heard ADDR_CHANGE, reason ROUTE, to c1
		5 client path rx_c1
		8 script step link c0 fails
		14 script step link c0 is repaired
		15 script step link c1 fails
		16 client heard ADDR_CHANGE, reason LINK, to c0
		16 client path rx_c0
		17 client gap 16 17
		21 script end of the story
		21 client sum all requests answered
		22 script story nvme
		23 script path rx_c0
		24 script start blocks are written and read
		25 script step link c0 fails
		26 io heard controller: live -> resetting
		27 io gap 25 27
		33 script path rx_c1
		34 script step link c0 is repaired
		36 script step link c1 fails
		37 io heard controller: live -> resetting
		38 io gap 36 38
		45 script path rx_c0
		46 script end of the story
		47 io sum all blocks read back
	LOG
}

passes()
{
	logs
	"$here/report.py" "$work" || return 1
	xml "$work/timeline.svg"
}

xml()
{
	python3 -c 'import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])' "$1"
}

# fails PATTERN SED-SCRIPT [SIDE]: the log of SIDE so edited is not let pass
fails()
{
	local pattern=$1 script=$2 side=${3:-aligned}

	logs
	sed -i -E "$script" "$work/$side.log"
	if "$here/report.py" "$work" >"$work/said" 2>&1; then
		echo "it passed"
		return 1
	fi
	grep -E "^FAILED: $side, $pattern" "$work/said" || { cat "$work/said"; return 1; }
}

nothing_aligned()
{
	logs
	cp "$work/stock.log" "$work/aligned.log"
	! "$here/report.py" "$work"
}

no_log()
{
	logs
	rm "$work/aligned.log"
	! "$here/report.py" "$work"
}

half_a_log()
{
	logs
	sed -i '12,$d' "$work/aligned.log"
	! "$here/report.py" "$work"
}

stock_may_give_up()
{
	logs
	sed -i -E '/client sum/d; s/^21(.*) end of/20\1 gaveup 25\n&/' "$work/stock.log"
	"$here/report.py" "$work"
}

tap_begin demo-report
tap_check "a run as it should be passes" passes
tap_check "stock may give up" stock_may_give_up
tap_check "an aligned side that is as stock fails" nothing_aligned
tap_check "a missing log fails" no_log
tap_check "half a log fails" half_a_log
tap_check "a path that did not move fails" \
	fails "rc, step 1: data go over rx_c0, not rx_c1" '6d'
tap_check "a path that moved without an event fails" \
	fails "rc, step 1: was told nothing" '5d'
tap_check "an event that comes later than stock's fails" \
	fails "nvme, step 1: was told later" 's/^26/32/'
tap_check "data that stay away fail" \
	fails "nvme: data did not flow again" 's/^26(.*) io heard.*/26\1 script gaveup 25/'
tap_check "data that differ fail" \
	fails "rc: block 7 differs" 's/^20(.*) client gap.*/20\1 client bad block 7 differs/' stock
tap_check "a program that died fails" \
	fails "nvme: the result is missing" '/io sum/d'
tap_check "a story that did not end fails" \
	fails "nvme: the story did not end" '/^46/d' stock
tap_end
