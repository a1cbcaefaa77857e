#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ULPs in the kernel: what the handlers of a module (kulp/align_kulp.c) are told, and
# what they may do about it. See lib.sh for the topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
told			46	5: a kernel ULP that set the mode is told as a program is
passive			46	5: a kernel listener, its children inherit the mode
delays			4	5, rdma_set_ha_delays(): downdelay for down, updelay for superseded
bad_values		4	5: unknown mode or bit, delay out of range: EINVAL, the id is unchanged
teardown		46	2, mode 2 on kernel QPs: DISCONNECTED at once over a dead path, once, then TIMEWAIT_EXIT
refused			46	2: a handler that returns non-zero destroys the id
refused_request		4	2: no report to an id whose request was refused
refused_neighbour	46	2, mode 0: an error of the handler on UNREACHABLE ends the connection, which stock lost
unset_in_handler	4	5: the event handler may set the mode
disconnect_in_handler	4	2: nothing after the own rdma_disconnect(), in the handler as well
ignored			46	2: a ULP that ignores ADDR_CHANGE goes on; with mode 2 it is torn down; R65
param			4	6, ha_mode=rpcrdma=align: by the name of the ULP, in the shape of stock
param_passive		4	6, ha_passive: a kernel listener and its children; R60
slow_handler		4	2: a handler that sleeps does not hold up the ids of others
destroy_in_handler	4	2: rdma_destroy_id() while a handler sleeps
'

script_setup()
{
	need_align
	need_kulp
	selfloop_create
}

# kconnect NAME [OPTION]...: from the kernel to a program
kconnect()
{
	local name=$1
	shift

	[ -n "$LISTENING" ] || listen server
	LISTENING=1
	kulp "connect $name $SERVICE $PORT $*"
	skip_events "$name" ESTABLISHED
	CONNECTED=$((CONNECTED + 1))
	PASSIVE=server.$CONNECTED
	skip_events "$PASSIVE" ESTABLISHED
}

# kresolve NAME [OPTION]...
kresolve()
{
	local name=$1
	shift

	kulp "resolve $name $SERVICE $PORT $*"
	skip_events "$name" ROUTE_RESOLVED
}

told()
{
	selfloop
	kconnect k1 mode align+restored "$SHORT"
	route_to_c1
	expect_report k1 ROUTE down "$C0" "$C1"
	expect_silence k1 "$PASSIVE"
	route_to_c0
	expect_report k1 ROUTE restored "$C0" "$C0"
}

passive()
{
	selfloop
	kulp "listen kserver $ANY $PORT mode align $SHORT"
	cm "connect c1 $SERVICE $PORT"
	skip_events c1 ESTABLISHED
	skip_events kserver.1 ESTABLISHED
	run ipf route del "$CLIENT0" table "$TO_CLIENT"
	expect_report kserver.1 UNREACHABLE down "$S0" none
	expect_event kserver CONNECT_REQUEST
	expect_silence kserver c1
}

delays()
{
	selfloop
	kresolve k1 mode align downdelay 0 updelay 60000
	kresolve k2 mode align downdelay 60000 updelay 0
	prefer_c1
	expect_report k2 ROUTE none "$C0" "$C1"
	expect_silence k1
	run ip link set "$C0" down
	expect_report k1 LINK down "$C0" "$C1"
	expect_silence k2
}

# refused_value NAME VALUE
refused_value()
{
	cm_on kulp "set k1 $1 $2"
	[[ $CM_BAD == *"ret=-22"* || $CM_BAD == *"error=-22"* ]] ||
		fail "$1 $2: expected EINVAL; got ${CM_BAD:-success}"
}

bad_values()
{
	selfloop
	kresolve k1 mode align "$SHORT"
	refused_value mode 3
	refused_value mode 0x801
	refused_value mode 0x10001
	refused_value downdelay 60001
	refused_value updelay 600001
	route_to_c1
	expect_report k1 ROUTE down "$C0" "$C1"
}

teardown()
{
	selfloop
	kconnect k1 mode teardown downdelay 0 updelay 0
	kconnect k2
	lose_packets
	route_to_c1
	DEADLINE=10 expect_event k1 DISCONNECTED status=0
	# It may come late: nobody answers.
	expect_timewait_at_most k1
	expect_none k2
}

refused()
{
	selfloop
	kconnect k1 mode align react refuse "$SHORT"
	kconnect k2 mode align+restored "$SHORT"
	route_to_c1
	expect_report k1 ROUTE down "$C0" "$C1"
	expect_report k2 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report k2 ROUTE restored "$C0" "$C0"
	expect_silence k1
	cm_on kulp "set k1 mode none"
	[[ $CM_BAD == *"error=-2"* ]] || fail "k1 is still there: ${CM_BAD:-success}"
}

# The server takes its new address before the neighbour does: the DREQ that
# ends the connection is sent to where it is.
refused_neighbour()
{
	local old new=02:00:00:00:aa:02

	old=$(lladdr "$S0")
	selfloop
	kconnect k1 react refuse
	run ip link set "$S0" address "$new"
	defer ip link set "$S0" address "$old"
	run ipf neigh replace "$SERVICE" lladdr "$new" dev "$C0" nud reachable
	expect_event k1 UNREACHABLE status=-110
	expect_event "$PASSIVE" DISCONNECTED
	expect_silence k1
}

refused_request()
{
	selfloop
	kulp "listen kserver $ANY $PORT mode align react refuse downdelay 0 updelay 0"
	cm "connect c1 $SERVICE $PORT"
	expect_event kserver CONNECT_REQUEST
	skip_to_rejected c1
	run ipf route del "$CLIENT0" table "$TO_CLIENT"
	expect_silence kserver
}

skip_to_rejected()
{
	until next_event "$1" "$DEADLINE" && field event "$EVENT" && [ "$FIELD" = REJECTED ]; do
		[ -n "$EVENT" ] || fail "$1 is not rejected"
		[ "$FIELD" != ESTABLISHED ] || fail "$1 was accepted"
	done
}

unset_in_handler()
{
	selfloop
	kresolve k1 mode align+restored react unset "$SHORT"
	kresolve k2 mode align+restored "$SHORT"
	route_to_c1
	expect_report k1 ROUTE down "$C0" "$C1"
	expect_report k2 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report k2 ROUTE restored "$C0" "$C0"
	expect_silence k1
}

disconnect_in_handler()
{
	selfloop
	kconnect k1 mode align+restored react disconnect "$SHORT"
	route_to_c1
	expect_report k1 ROUTE down "$C0" "$C1"
	expect_event k1 DISCONNECTED
	route_to_c0
	expect_event k1 TIMEWAIT_EXIT
	route_to_c1
	expect_silence k1
}

ignored()
{
	selfloop
	kconnect k1 mode align "$SHORT"
	kconnect k2 mode teardown "$SHORT"
	# What the program on the other side says must still arrive.
	prefer_c1
	expect_report k1 ROUTE none "$C0" "$C1"
	expect_event k2 DISCONNECTED status=0
	expect_event k2 TIMEWAIT_EXIT
	expect_silence k1 k2
}

param()
{
	selfloop
	set_param ha_downdelay 50
	set_param ha_mode rpcrdma=align,none
	kconnect k1 as rpcrdma
	kconnect k2
	connect c1
	route_to_c1
	expect_bare_report k1
	expect_silence k1 k2 c1
}

param_passive()
{
	selfloop
	set_param ha_downdelay 50
	set_param ha_passive Y
	set_param ha_mode rpcrdma=align
	kulp "listen kserver $ANY $PORT as rpcrdma"
	cm "connect c1 $SERVICE $PORT"
	skip_events c1 ESTABLISHED
	skip_events kserver.1 ESTABLISHED
	run ipf route del "$CLIENT0" table "$TO_CLIENT"
	expect_bare_report kserver.1
	expect_event kserver CONNECT_REQUEST
	expect_silence kserver c1
}

# 40 handlers of 100 ms each in front of it.
slow_handler()
{
	selfloop
	kulp "resolve k $SERVICE $PORT count 40 react sleep quiet mode align downdelay 0 updelay 0"
	wait_until stats_say "resolved=40" || fail "not all are resolved: $LINE"
	resolve c1 mode align downdelay 0 updelay 0 src "$CLIENT1"
	kresolve k1 src "$CLIENT1" mode align downdelay 0 updelay 0
	ip_batch "-$FAMILY" <<-BATCH
	route replace $SERVICE dev $C1 src $CLIENT1 table $TO_SERVICE
	link set $C1 down
	BATCH
	stamp
	expect_report c1 LINK down "$C1"
	expect_after -2000 2500
	expect_report k1 LINK down "$C1"
	wait_until stats_say "told=40" || fail "not all are told: $LINE"
}

stats_say()
{
	local told

	kulp "stats"
	LINE=${LOG[-2]}
	told=${LINE#* told=}
	TOLD_SUM=$((${TOLD_SUM:-0} + ${told%% *}))
	[[ "$LINE told=$TOLD_SUM " == *" $1 "* ]]
}

destroy_in_handler()
{
	local i

	selfloop
	kulp "resolve k $SERVICE $PORT count 10 react sleep mode align downdelay 0 updelay 0"
	for ((i = 1; i <= 10; i++)); do
		skip_events "k-$i" ROUTE_RESOLVED
	done
	route_to_c1
	for ((i = 1; i <= 10; i++)); do
		kulp "destroy k-$i"
	done
	expect_event k-1 ADDR_CHANGE
	kresolve last mode align downdelay 0 updelay 0
	route_to_c0
	expect_report last ROUTE down "$C1" "$C0"
}

run_tests "$@"
