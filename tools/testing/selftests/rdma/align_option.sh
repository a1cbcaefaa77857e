#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The options of user space: what is refused, and that it changes nothing.
# See lib.sh for the topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
errors			46	4: every wrong length, mode, flag and delay is EINVAL in every state, good ones are not
mode_unchanged		46	4: after EINVAL the mode is what it was
delays_unchanged	4	4: after EINVAL the delays are what they were
none_unchanged		4	4: after EINVAL an id without a mode has none
bounds			4	3: the ends of the ranges are accepted
any_state		4	4: accepted in any state, after DISCONNECTED as well
other_options		4	4: other options of the level are what they were
flags_changed		4	4: a later mode replaces flags
stock			46	4: a kernel without it answers ENOSYS to all of this
'

MODE=4
DOWN=5
UP=6

script_setup()
{
	need_align
	selfloop_create
}

opt_errors()
{
	local out

	out=$("$OUTPUT/opt_errors" "$@" "$SERVICE" "$PORT" 2>&1) && return
	grep -v '^ok' <<<"$out" | head -n 60
	fail "opt_errors $*"
}

# A listener on the service itself would be on one of two devices.
one_service()
{
	selfloop
	run ipf addr del "$SERVICE/$HOST" dev "$S1"
	wait_no_gid "$S1" "$SERVICE"
}

errors()
{
	one_service
	opt_errors
}

# refused ID NUMBER LENGTH [VALUE]
refused()
{
	cm_try "setraw $*"
	[[ $CM_BAD == *" setraw=$2 len=$3 "*" ret=-1 errno=EINVAL" ]] ||
		fail "setraw $*: expected EINVAL; got ${CM_BAD:-success}"
}

refuse_all()
{
	local len value

	for len in 0 1 2 3 5 8 65536; do
		refused "$1" "$MODE" "$len" 2
		refused "$1" "$DOWN" "$len" 60000
		refused "$1" "$UP" "$len" 60000
	done
	for value in 3 4 0xff 0x802 0x1002 0x10002 0x80000002 0xffffffff; do
		refused "$1" "$MODE" 4 "$value"
	done
	for value in 60001 0x80000000 0xffffffff; do
		refused "$1" "$DOWN" 4 "$value"
	done
	for value in 600001 0x80000000 0xffffffff; do
		refused "$1" "$UP" 4 "$value"
	done
}

mode_unchanged()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	refuse_all c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
}

delays_unchanged()
{
	selfloop
	connect c1 mode align downdelay 3000 updelay 600000
	refuse_all c1
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 3000 20000
}

none_unchanged()
{
	selfloop
	connect c1 "$SHORT"
	refuse_all c1
	route_to_c1
	expect_silence c1
	cm "set c1 mode align"
	expect_report c1 ROUTE down "$C0" "$C1"
}

bounds()
{
	selfloop
	resolve c1
	cm "setraw c1 $DOWN 4 0"
	cm "setraw c1 $DOWN 4 60000"
	cm "setraw c1 $UP 4 0"
	cm "setraw c1 $UP 4 600000"
	cm "setraw c1 $MODE 4 0"
	cm "setraw c1 $MODE 4 0x702"
}

any_state()
{
	selfloop
	cm "create idle"
	cm "bind bound $CLIENT0 0"
	listen server
	LISTENING=1
	cm "connect gone $SERVICE $((PORT + 77))"
	skip_rejected gone
	connect c1
	cm "disconnect c1"
	skip_events c1 DISCONNECTED
	skip_events "$PASSIVE" DISCONNECTED
	for id in idle bound server gone c1 "$PASSIVE"; do
		cm "set $id mode align+restored"
		cm "set $id downdelay 50"
		cm "set $id updelay 100"
		cm "set $id mode none"
	done
	skip_events c1 TIMEWAIT_EXIT
	cm "set c1 mode teardown"
}

skip_rejected()
{
	while next_event "$1" "$DEADLINE"; do
		field event "$EVENT"
		[ "$FIELD" != REJECTED ] || return 0
	done
	fail "$1 was not rejected"
}

# 0 is the type of service, 3 the ack timeout; 7 is nothing.
other_options()
{
	selfloop
	resolve c1
	cm "setraw c1 0 1 8"
	cm_try "setraw c1 7 4 1"
	[[ $CM_BAD == *" errno=ENOSYS" ]] || fail "option 7: expected ENOSYS; got $CM_BAD"
}

flags_changed()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	cm "set c1 mode align"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_silence c1
	cm "set c1 mode align+restored"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
}

stock()
{
	[ -n "$ALIGN_LOAD" ] || skip "no align-load to load the stock module with"
	"$ALIGN_LOAD" stock >&2 || fail "the stock module cannot be loaded"
	defer "$ALIGN_LOAD" aligned
	one_service
	opt_errors -s
}

run_tests "$@"
