#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Listeners, and the ids that they accept. See lib.sh for the topology.
#
# The way back to the client is in a table of its own, so it can be moved
# without the client's ids being concerned.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
inherited		46	2: children inherit mode, flags and delays: ROUTE, and RESTORED
not_inherited		46	2: a listener without a mode: its children are silent
set_by_child		46	4: a child sets its own mode
delays			46	2, 3: children inherit the delays
asymmetric		46	1: asymmetric routing from the start is silent, its last route goes: down, UNREACHABLE
asymmetric_late		46	1: if the listener had no mode, the baseline is that of when it is set: silent
link			46	1: the link of the passive side: down, LINK
address			46	1: the service address leaves the netdevice: down, ADDRESS
unreachable		46	1: no route to the peer: down, UNREACHABLE
neighbour		46	1: the peer at another link-layer address: NEIGHBOUR
neighbour_failed	46	1: the passive side may have no valid neighbour: silent
before_accept		46	2: what happens before accept is told after it
ud			46	2: a passive UD id
teardown		46	2, mode 2: DISCONNECTED on the passive side, and the peer hears of it
wildcard		46	2: a wildcard listener is never misaligned itself
listener_left		46	2: an address that just left is not reported, nor when it is back
listener_moved		46	2: a listener is reported when another device has its address
listener_link		46	2: a listener is not reported when its link fails
listener_works		46	2: after the address came back unchanged, the listener works
'

script_setup()
{
	need_align
	selfloop_create
}

# connect c1 to a listener with these options
connect_to()
{
	listen server "$@"
	LISTENING=1
	connect c1
}

way_back_to_s1()
{
	run ipf route replace "$CLIENT0" dev "$S1" src "$SERVICE" table "$TO_CLIENT"
}

way_back_to_s0()
{
	run ipf route replace "$CLIENT0" dev "$S0" src "$SERVICE" table "$TO_CLIENT"
}

inherited()
{
	selfloop
	connect_to mode align+restored "$SHORT"
	way_back_to_s1
	expect_report "$PASSIVE" ROUTE down "$S0" "$S1"
	expect_silence c1 server "$PASSIVE"
	way_back_to_s0
	expect_report "$PASSIVE" ROUTE restored "$S0" "$S0"
	traffic c1 10
}

not_inherited()
{
	selfloop
	connect_to
	way_back_to_s1
	expect_silence "$PASSIVE" c1
	cm "set $PASSIVE mode align"
	way_back_to_s0
	expect_silence "$PASSIVE"
}

set_by_child()
{
	local first

	selfloop
	connect_to mode align "$SHORT"
	first=$PASSIVE
	connect c2
	cm "set $first mode none"
	cm "set $PASSIVE mode align+restored"
	way_back_to_s1
	expect_report "$PASSIVE" ROUTE down "$S0" "$S1"
	way_back_to_s0
	expect_report "$PASSIVE" ROUTE restored "$S0" "$S0"
	expect_silence "$first"
}

delays()
{
	selfloop
	connect_to mode align downdelay 3000 updelay 60000
	stamp
	way_back_to_s1
	expect_report "$PASSIVE" ROUTE down "$S0" "$S1"
	expect_after 3000 20000
}

asymmetric()
{
	selfloop
	make_asymmetric
	connect_to mode align "$SHORT"
	expect_silence "$PASSIVE"
	traffic c1 10
	# The best route becomes the own one, which goes then.
	run ipf route del "$CLIENT0" dev "$S1" table "$TO_CLIENT"
	expect_silence "$PASSIVE"
	run ipf route del "$CLIENT0" dev "$S0" table "$TO_CLIENT"
	expect_report "$PASSIVE" UNREACHABLE down "$S0" none
}

asymmetric_late()
{
	selfloop
	make_asymmetric
	connect_to
	cm "set $PASSIVE downdelay $DOWNDELAY"
	cm "set $PASSIVE updelay $UPDELAY"
	cm "set $PASSIVE mode align"
	expect_silence "$PASSIVE"
	run ip link set "$S0" down
	expect_report "$PASSIVE" LINK down "$S0"
}

link()
{
	selfloop
	connect_to mode align "$SHORT"
	run ip link set "$S0" down
	expect_report "$PASSIVE" LINK down "$S0"
	expect_silence "$PASSIVE" c1
}

address()
{
	selfloop
	connect_to mode align "$SHORT"
	[ "$FAMILY" = 4 ] || run lose_packets_to "$S0" "$SERVICE"
	run ipf addr del "$SERVICE/$HOST" dev "$S0"
	expect_report "$PASSIVE" ADDRESS down "$S0"
	expect_silence "$PASSIVE"
}

unreachable()
{
	selfloop
	connect_to mode align "$SHORT"
	run ipf route del "$CLIENT0" table "$TO_CLIENT"
	expect_report "$PASSIVE" UNREACHABLE down "$S0" none
	expect_silence "$PASSIVE"
}

neighbour()
{
	selfloop
	connect_to mode align "$SHORT"
	run ipf neigh replace "$CLIENT0" lladdr 02:00:00:00:00:99 dev "$S0" nud reachable
	expect_report "$PASSIVE" NEIGHBOUR none "$S0" "$S0"
	expect_silence "$PASSIVE"
}

neighbour_failed()
{
	selfloop
	connect_to mode align "$SHORT"
	run ipf neigh replace "$CLIENT0" lladdr "$(lladdr "$C0")" dev "$S0" nud stale
	expect_silence "$PASSIVE"
	run ipf neigh del "$CLIENT0" dev "$S0"
	expect_silence "$PASSIVE"
	way_back_to_s1
	expect_report "$PASSIVE" ROUTE down "$S0" "$S1"
}

before_accept()
{
	selfloop
	cm "listen server $ANY $PORT noaccept mode align $SHORT"
	cm "connect c1 $SERVICE $PORT"
	skip_events server.1 CONNECT_REQUEST
	way_back_to_s1
	expect_silence server.1
	[ "$FAMILY" = 4 ] || ipf route append "$CLIENT0" dev "$S0" table "$TO_CLIENT"
	cm "accept server.1"
	# The reply may not find its way: what counts is that the report comes.
	while next_event server.1 "$DEADLINE"; do
		field event "$EVENT"
		[ "$FIELD" != ADDR_CHANGE ] || break
	done
	field reason "$EVENT"
	[ "$FIELD" = ROUTE ] || fail "expected ROUTE; got $EVENT"
	expect_silence server
}

ud()
{
	selfloop
	cm "listen server $ANY $PORT ud mode align+restored $SHORT"
	cm "connect c1 $SERVICE $PORT ud"
	skip_events c1 ESTABLISHED
	skip_events server.1 CONNECT_REQUEST
	way_back_to_s1
	expect_report server.1 ROUTE down "$S0" "$S1"
	way_back_to_s0
	expect_report server.1 ROUTE restored "$S0" "$S0"
	expect_silence c1
}

teardown()
{
	selfloop
	connect_to mode teardown "$SHORT"
	# A better way back, and the old one still works.
	if [ "$FAMILY" = 6 ]; then
		ip_batch -6 <<-BATCH
		route append $CLIENT0 dev $S1 src $SERVICE table $TO_CLIENT
		route del $CLIENT0 dev $S0 table $TO_CLIENT
		route append $CLIENT0 dev $S0 src $SERVICE table $TO_CLIENT
		BATCH
	else
		way_back_to_s1
	fi
	expect_event "$PASSIVE" DISCONNECTED status=0
	expect_event "$PASSIVE" TIMEWAIT_EXIT status=0
	expect_event c1 DISCONNECTED status=0
	expect_silence "$PASSIVE"
}

wildcard()
{
	selfloop
	connect_to mode align+restored "$SHORT"
	run ip link set "$S0" down
	expect_report "$PASSIVE" LINK down "$S0"
	run ip link set "$S1" down
	[ "$FAMILY" = 6 ] || run ipf addr del "$SERVICE/$HOST" dev "$S1"
	run ip link set "$S0" up
	run ip link set "$S1" up
	expect_silence server
}

# A listener on an address that only S0 has.
listen_on()
{
	run ipf addr add "$1/$HOST" dev "$S0"
	wait_gid "$S0" "$1"
	cm "listen special $1 $PORT mode align+restored $SHORT"
}

listener_left()
{
	local addr=${SERVICE%1}77

	selfloop
	listen_on "$addr"
	run ipf addr del "$addr/$HOST" dev "$S0"
	wait_no_gid "$S0" "$addr"
	expect_silence special
	run ipf addr add "$addr/$HOST" dev "$S0"
	wait_gid "$S0" "$addr"
	expect_silence special
	# And is still watched.
	run ipf addr del "$addr/$HOST" dev "$S0"
	run ipf addr add "$addr/$HOST" dev "$S1"
	expect_report special ADDRESS down "$S0" "$S1"
}

listener_moved()
{
	local addr=${SERVICE%1}77

	selfloop
	listen_on "$addr"
	ip_batch "-$FAMILY" <<-BATCH
	addr del $addr/$HOST dev $S0
	addr add $addr/$HOST dev $S1
	BATCH
	expect_report special ADDRESS down "$S0" "$S1"
	expect_silence special
	# Listening again can succeed.
	wait_gid "$S1" "$addr"
	cm "destroy special"
	cm "listen again $addr $PORT"
}

listener_link()
{
	local addr=${SERVICE%1}77

	selfloop
	keep_addresses "$S0"
	listen_on "$addr"
	run ip link set "$S0" down
	expect_silence special
	run ip link set "$S0" up
	expect_silence special
	ip_batch "-$FAMILY" <<-BATCH
	addr del $addr/$HOST dev $S0
	addr add $addr/$HOST dev $S1
	BATCH
	expect_report special ADDRESS down "$S0" "$S1"
}

listener_works()
{
	local addr=${SERVICE%1}77

	selfloop
	listen_on "$addr"
	ip_batch "-$FAMILY" <<-BATCH
	addr del $addr/$HOST dev $S0
	addr add $addr/$HOST dev $S0
	route add $addr dev $C0 src $CLIENT0 table $TO_SERVICE
	neigh replace $addr lladdr $(lladdr "$S0") dev $C0 nud reachable
	BATCH
	wait_gid "$S0" "$addr"
	expect_silence special
	cm "connect c1 $addr $PORT"
	skip_events c1 ESTABLISHED
	traffic c1 10
}

run_tests "$@"
