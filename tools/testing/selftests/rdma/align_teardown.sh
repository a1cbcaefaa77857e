#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Mode 2: the connection ends when its path does. See lib.sh for the topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
at_once			46	2: DISCONNECTED at once over a dead path, once; R76
destroy			46	2: the DREQ in the background does not delay rdma_destroy_id
timewait		46	2: then TIMEWAIT_EXIT, each once
timewait_dead		46	2: TIMEWAIT_EXIT also when the peer never answers
silent_program		46	2: a program that ignores DISCONNECTED gets no more; R59
no_report_after		46	2: nothing is reported after it
qp_untouched_until	46	2, mode 1: the QP goes on working; mode 2: not for long
peer_first		46	2: DISCONNECTED once, the peer was first; R28
peer_too		4	2: DISCONNECTED once when the DREQ of the peer comes too; R28
program_first		46	2: DISCONNECTED once when the program disconnects too; R67
disconnecting		46	2: once the program disconnects nothing is told, although nobody answers
both_sides		46	2: both sides tear down at once, each once; R30
reconnect		46	2: the next connection has the same ports; R19
many			46	2: one change, many connections; R75
with_flags		46	2: mode 2 with STICKY is for a path that is down only
'

script_setup()
{
	need_align
	selfloop_create
}

at_once()
{
	selfloop
	connect c1 mode teardown downdelay 0 updelay 0
	stamp
	run ip link set "$C0" down
	expect_event c1 DISCONNECTED status=0
	# Its DREQ is answered never: without the module this takes 78 s.
	expect_after 0 10000
	expect_timewait_at_most c1
}

destroy()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	connect c2 mode teardown "$SHORT"
	lose_packets
	route_to_c1
	expect_event c1 DISCONNECTED
	expect_event c2 DISCONNECTED
	destroy_soon c1
	destroy_soon c2
}

timewait()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	prefer_c1
	expect_event c1 DISCONNECTED status=0
	expect_event c1 TIMEWAIT_EXIT status=0
	skip_events "$PASSIVE" DISCONNECTED
	expect_event "$PASSIVE" TIMEWAIT_EXIT
	expect_silence c1 "$PASSIVE"
}

timewait_dead()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	lose_packets
	route_to_c1
	expect_event c1 DISCONNECTED status=0
	DEADLINE=150 expect_event c1 TIMEWAIT_EXIT
	expect_silence c1
}

silent_program()
{
	selfloop
	connect c1 nodisc mode teardown+restored "$SHORT"
	connect c2 nodisc mode align "$SHORT"
	route_to_c1
	expect_event c1 DISCONNECTED status=0
	expect_event c1 TIMEWAIT_EXIT
	expect_report c2 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_silence c1 c2
}

no_report_after()
{
	selfloop
	connect c1 mode teardown+restored "$SHORT"
	route_to_c1
	expect_event c1 DISCONNECTED
	expect_event c1 TIMEWAIT_EXIT
	route_to_c0
	expect_silence c1
	route_to_c1
	run ip link set "$C0" down
	expect_silence c1
}

qp_untouched_until()
{
	selfloop
	connect c1 mode align "$SHORT"
	connect c2 mode teardown "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_event c2 DISCONNECTED
	# Soft-RoCE looks up its route for each packet.
	[ "$FAMILY" = 4 ] ||
		run ipf route append "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	traffic c1 100
}

# expect_only_timewait ID...: TIMEWAIT_EXIT may follow; a second DISCONNECTED may not
expect_only_timewait()
{
	local id

	nap 2
	for id; do
		while next_event "$id" 0; do
			field event "$EVENT"
			[ "$FIELD" = TIMEWAIT_EXIT ] || fail "$id: after DISCONNECTED came $EVENT"
		done
	done
}

peer_first()
{
	selfloop
	connect c1 mode teardown downdelay 0 updelay 0
	cm "disconnect $PASSIVE"
	expect_event c1 DISCONNECTED
	route_to_c1
	expect_event c1 TIMEWAIT_EXIT
	expect_silence c1
}

# Who comes first is left to chance.
peer_too()
{
	selfloop
	connect c1 mode teardown downdelay 0 updelay 0
	cm "disconnect $PASSIVE"
	run ip link set "$C0" down
	expect_event c1 DISCONNECTED
	expect_only_timewait c1
}

program_first()
{
	selfloop
	connect c1 mode teardown downdelay 0 updelay 0
	cm "disconnect c1"
	route_to_c1
	expect_event c1 DISCONNECTED
	expect_event c1 TIMEWAIT_EXIT
	expect_silence c1
}

disconnecting()
{
	selfloop
	connect c1 mode teardown downdelay 0 updelay 0
	connect c2 mode align downdelay 0 updelay 0
	lose_packets
	cm "disconnect c1"
	cm "disconnect c2"
	route_to_c1
	expect_silence c1 c2
}

both_sides()
{
	selfloop
	listen server mode teardown "$SHORT"
	LISTENING=1
	connect c1 mode teardown "$SHORT"
	ip_batch "-$FAMILY" <<-BATCH
	route replace $SERVICE dev $C1 src $CLIENT1 table $TO_SERVICE
	route replace $CLIENT0 dev $S1 src $SERVICE table $TO_CLIENT
	BATCH
	expect_event c1 DISCONNECTED
	expect_event "$PASSIVE" DISCONNECTED
	expect_only_timewait c1 "$PASSIVE"
}

reconnect()
{
	selfloop
	connect c1 src "$CLIENT0" sport 40123 mode teardown "$SHORT"
	traffic c1 10
	lose_packets
	# Pinned, so only its own next hop or link concerns it.
	run ipf neigh replace "$SERVICE" lladdr 02:00:00:00:00:99 dev "$C0" nud reachable
	expect_event c1 DISCONNECTED
	cm "destroy c1"
	run tc qdisc del dev "$S0" ingress
	know_neighbours
	connect c2 src "$CLIENT0" sport 40123 mode teardown "$SHORT"
	traffic c2 10
}

many()
{
	local i

	selfloop
	listen server
	cm "connect c $SERVICE $PORT count 50 mode teardown $SHORT"
	for ((i = 1; i <= 50; i++)); do
		skip_events "c-$i" ESTABLISHED
	done
	lose_packets
	route_to_c1
	for ((i = 1; i <= 50; i++)); do
		expect_event "c-$i" DISCONNECTED status=0
	done
	for ((i = 1; i <= 50; i++)); do
		destroy_soon "c-$i"
	done
}

with_flags()
{
	selfloop
	connect c1 mode teardown+sticky downdelay 1000 updelay "$UPDELAY"
	prefer_c1
	QUIET_MS=$((QUIET_MS + 1000)) expect_silence c1
	traffic c1 10
	# The last one by C0.
	if [ "$FAMILY" = 4 ]; then
		run ipf route del "$SERVICES" table "$TO_SERVICE"
	else
		run ipf route del "$SERVICE" dev "$C0" table "$TO_SERVICE"
	fi
	expect_event c1 DISCONNECTED status=0
}

run_tests "$@"
