#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The link of a connection fails: taken down here, or carrier lost because the
# peer took its end down. See lib.sh for the topology.
#
# A spare route over C1, of worse metric, is what a new id would take.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
down			46	1: netdevice not up: down, LINK; the new path is the spare one
down_alone		46	1, 4: netdevice not up, without any other path: down, LINK, no new path
carrier			46	1: no carrier: down, LINK; R7
restored		46	2, RESTORED: link and route are back, and a new id resolves at once; R9, R42, R47
renewed			46	2: interface down and up again: one report, one RESTORED; R90
restored_late		46	2, RESTORED: no limit on how late; R43
flap			46	3: a flap shorter than downdelay is silent; R44, R96
carrier_flap		46	3: a loss of carrier shorter than downdelay is silent; R44
one_rail		46	1: the link of other ids fails, and then its own: down, LINK; R35, R41, R53
sticky			46	2, STICKY: a path that is down is reported
teardown_both		46	2, mode 2 on both sides of a dead path: each its own DISCONNECTED; R30
reconnect		46	2: after a report a new id goes the new way; R5
peer_blocked		46	7: a path that is blocked beyond the first hop is not seen; R7
removed			4	2: nothing after DEVICE_REMOVAL, and never a report after it; R58
removed_connected	4	2: the same for a connection, both ends of it; R58
removed_teardown	4	2, mode 2: one DISCONNECTED at most, before DEVICE_REMOVAL; R58
removed_in_delay	4	2: a pending delay does not hold the device; R62
'

script_setup()
{
	need_align
	selfloop_create
}

spare_route()
{
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE" metric 4000
}

link_up_again()
{
	ip_batch "-$FAMILY" <<-BATCH
	link set $C0 up
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
}

down()
{
	selfloop
	spare_route
	connect c1 mode align "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" "$C1"
	expect_silence c1
}

down_alone()
{
	selfloop
	connect c1 mode align "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
	expect_silence c1
}

carrier()
{
	selfloop
	connect c1 mode align "$SHORT"
	run ip link set "$S0" down
	expect_report c1 LINK down "$C0"
	expect_silence c1
}

restored()
{
	selfloop
	keep_addresses "$C0"
	connect c1 mode align+restored "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
	link_up_again
	expect_report c1 LINK restored "$C0" "$C0"
	know_neighbours
	resolve c2
	expect_silence c1
}

renewed()
{
	selfloop
	keep_addresses "$C0"
	connect c1 mode align+restored "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
	ip_batch "-$FAMILY" <<-BATCH
	link set $C0 up
	addr replace $CLIENT0/$LEN dev $C0 $NODAD
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
	expect_report c1 LINK restored "$C0" "$C0"
	expect_silence c1
}

restored_late()
{
	selfloop
	keep_addresses "$C0"
	connect c1 mode align+restored "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
	QUIET_MS=15000 expect_silence c1
	link_up_again
	expect_report c1 LINK restored "$C0" "$C0"
}

flap()
{
	selfloop
	keep_addresses "$C0"
	connect c1 mode align+restored downdelay 3000 updelay 3000
	ip_batch "-$FAMILY" <<-BATCH
	link set $C0 down
	link set $C0 up
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
	QUIET_MS=$((QUIET_MS + 3000)) expect_silence c1
	expect_still_watched c1
}

carrier_flap()
{
	selfloop
	connect c1 mode align+restored downdelay 4000 updelay 4000
	run ip link set "$S0" down
	wait_until no_carrier "$C0" || fail "$C0 keeps its carrier"
	run ip link set "$S0" up
	wait_carrier "$C0"
	QUIET_MS=$((QUIET_MS + 4000)) expect_silence c1
	expect_still_watched c1
}

one_rail()
{
	selfloop
	route_by_both
	connect rail0 src "$CLIENT0" mode align+restored "$SHORT"
	connect rail1 src "$CLIENT1" mode align+restored "$SHORT"
	run ip link set "$C0" down
	expect_report rail0 LINK down "$C0"
	expect_silence rail1
	run ip link set "$C1" down
	expect_report rail1 LINK down "$C1"
	expect_silence rail0
}

sticky()
{
	selfloop
	connect c1 mode align+sticky "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
}

teardown_both()
{
	selfloop
	listen server mode teardown "$SHORT"
	LISTENING=1
	connect c1 mode teardown "$SHORT"
	run ip link set "$S0" down
	expect_event c1 DISCONNECTED status=0
	expect_event "$PASSIVE" DISCONNECTED status=0
	# The one whose IPv6 address left with the link cannot send its DREQ.
	expect_timewait_at_most "$PASSIVE"
	expect_silence c1
}

reconnect()
{
	selfloop
	spare_route
	connect c1 mode align "$SHORT"
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" "$C1"
	connect c2 mode align "$SHORT"
	traffic c2 10
	run ip link set "$C1" down
	expect_report c2 LINK down "$C1" none
	expect_silence c1
}

# The far end of a bridge is not this host's link. Traffic control drops what
# the peer gets, so nothing here can know.
peer_blocked()
{
	selfloop
	connect c1 mode align "$SHORT"
	lose_packets
	expect_silence c1
	expect_still_watched c1
}

# A path of its own, because its netdevice or its RDMA device is deleted.
third_path()
{
	local netdev

	C2=c2_$$
	S2=s2_$$
	CLIENT2=${CLIENT1%1}77
	run ip link add "$C2" type veth peer name "$S2"
	defer ip link del "$C2"
	set_sysctls "$C2" "$S2"
	for netdev in "$C2" "$S2"; do
		run ip rule add pref 5 iif "$netdev" lookup local
		defer ip rule del pref 5 iif "$netdev"
	done
	ip_batch <<-BATCH
	link set $C2 up
	link set $S2 up
	addr add $CLIENT2/32 dev $C2
	addr add $SERVICE/32 dev $S2
	route replace $SERVICE dev $C2 src $CLIENT2 table $TO_SERVICE
	route replace $CLIENT2 dev $S2 src $SERVICE table $TO_CLIENT
	BATCH
	run add_rxe "$C2"
	run add_rxe "$S2"
	defer del_rxe "rx_$C2"
	defer del_rxe "rx_$S2"
	defer cm_stop
	wait_carrier "$C2" "$S2"
	wait_gid "$C2" "$CLIENT2"
	wait_gid "$S2" "$SERVICE"
	ip_batch <<-BATCH
	neigh replace $SERVICE lladdr $(lladdr "$S2") dev $C2 nud reachable
	neigh replace $CLIENT2 lladdr $(lladdr "$C2") dev $S2 nud reachable
	BATCH
}

# expect_removal ID [EVENT]...: each EVENT once at most, then DEVICE_REMOVAL
expect_removal()
{
	local id=$1
	shift

	while :; do
		next_event "$id" "$DEADLINE" || fail "$id: no DEVICE_REMOVAL in $DEADLINE s"
		field event "$EVENT"
		[ "$FIELD" != DEVICE_REMOVAL ] || return 0
		while [ $# -gt 0 ] && [ "$1" != "$FIELD" ]; do
			shift
		done
		[ $# -gt 0 ] || fail "$id: expected DEVICE_REMOVAL; got $EVENT"
		shift
		[ "$FIELD" = ADDR_CHANGE ] || continue
		field reason "$EVENT"
		[ "$FIELD" = LINK ] || fail "$id: expected LINK; got $EVENT"
	done
}

removed()
{
	selfloop
	third_path
	resolve c1 mode align+restored downdelay 0 updelay 0
	remove_held ip link del "$C2"
	expect_removal c1 ADDR_CHANGE
	expect_silence c1
	let_go
}

removed_connected()
{
	selfloop
	third_path
	listen server mode align+restored downdelay 0 updelay 0
	LISTENING=1
	connect c1 mode align+restored downdelay 0 updelay 0
	traffic c1 10
	remove_held ip link del "$C2"
	expect_removal c1 ADDR_CHANGE
	expect_removal "$PASSIVE" ADDR_CHANGE
	expect_silence c1 "$PASSIVE" server
	let_go
}

removed_teardown()
{
	selfloop
	third_path
	connect c1 mode teardown downdelay 0 updelay 0
	remove_held ip link del "$C2"
	expect_removal c1 DISCONNECTED TIMEWAIT_EXIT
	expect_silence c1
	let_go
}

removed_in_delay()
{
	local begin

	selfloop
	third_path
	resolve c1 mode align downdelay 60000 updelay 60000
	run ip link set "$C2" down
	expect_silence c1
	now_ms
	begin=$NOW
	remove_held rdma link delete "rx_$C2"
	expect_event c1 DEVICE_REMOVAL
	let_go
	now_ms
	[ $((NOW - begin)) -lt 15000 ] || fail "the device was held for $((NOW - begin)) ms"
}

run_tests "$@"
