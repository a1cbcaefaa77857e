#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The source address of an id leaves its netdevice. See lib.sh for the topology.
#
# A deleted address takes its GID along, and the QP points at that entry. The
# same address added again makes an equal GID in another entry, so the path
# stays down: what is told then is FAILOVER, "another GID entry".

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
deleted			46	1: the source address has left: down, ADDRESS
readded_in_delay	46	1: added again, a new GID entry: down, FAILOVER, as it outlives the delay
readded_later		46	1: added again after the report: a new id resolves, the old one stays down; R5
moved			46	1: moved to the other netdevice with its route: down, ADDRESS
peer			46	1: it has left, and is only the peer of another address there: down, ADDRESS
expired			46	1: the lifetime of the address is over: down, ADDRESS
before_route		46	4: ADDRESS is told before ROUTE and UNREACHABLE
link_first		46	4: LINK is told before ADDRESS
other_rail		46	1: the address of others: silent; R41
teardown		46	2, mode 2: DISCONNECTED
sticky			46	2, STICKY: down is reported
'

script_setup()
{
	need_align
	selfloop_create
}

delete_address()
{
	run ipf addr del "$CLIENT0/$LEN" dev "$C0"
}

add_address()
{
	ip_batch "-$FAMILY" <<-BATCH
	addr add $CLIENT0/$LEN dev $C0 $NODAD
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
}

deleted()
{
	selfloop
	connect c1 mode align "$SHORT"
	delete_address
	expect_report c1 ADDRESS down "$C0"
	expect_silence c1
}

readded_in_delay()
{
	selfloop
	connect c1 mode align+restored downdelay 2000 updelay 2000
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $C0
	addr add $CLIENT0/$LEN dev $C0 $NODAD
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
	expect_report c1 FAILOVER down "$C0" "$C0"
	expect_silence c1
}

readded_later()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	delete_address
	expect_report c1 ADDRESS down "$C0"
	add_address
	wait_gid "$C0" "$CLIENT0"
	nap 1
	# It may be told that the reason is another one now, but not that all is
	# well.
	while next_event c1 0; do
		field flags "$EVENT"
		[ "$FIELD" = down ] || fail "the path is still down: $EVENT"
	done
	know_neighbours
	connect c2 mode align "$SHORT"
	traffic c2 10
	route_to_c1
	expect_report c2 ROUTE down "$C0" "$C1"
}

move_address()
{
	[ "$FAMILY" = 4 ] || run lose_packets_to "$C0" "$CLIENT0"
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $C0
	addr add $CLIENT0/$HOST dev $C1 $NODAD
	route replace $SERVICE dev $C1 src $CLIENT0 table $TO_SERVICE
	BATCH
}

moved()
{
	selfloop
	connect c1 mode align downdelay 2000 updelay 60000
	move_address
	expect_report c1 ADDRESS down "$C0" "$C1"
	expect_silence c1
}

peer()
{
	local other=${SERVICES%0/*}8 peer=${SERVICES%0/*}9

	[ "$FAMILY" = 4 ] || other=${SERVICES%/*}8 peer=${SERVICES%/*}9
	selfloop
	if [ "$FAMILY" = 6 ]; then
		# The RDMA core makes the GID of an IPv4 one from the peer's address.
		ip_batch -6 <<-BATCH
		addr del $CLIENT0/$LEN dev $C0
		addr add $CLIENT0 peer $peer dev $C0 nodad
		route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
		BATCH
		wait_gid "$C0" "$CLIENT0"
		know_neighbours
	fi
	connect c1 mode align "$SHORT"
	ip_batch "-$FAMILY" <<-BATCH
	addr add $other peer $CLIENT0 dev $C0 $NODAD
	BATCH
	expect_silence c1
	if [ "$FAMILY" = 6 ]; then
		run ipf addr del "$CLIENT0" peer "$peer" dev "$C0"
	else
		delete_address
	fi
	expect_report c1 ADDRESS down "$C0"
}

expired()
{
	selfloop
	connect c1 mode align "$SHORT"
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" valid_lft 600 preferred_lft 600
	expect_silence c1
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" valid_lft 2 preferred_lft 1
	expect_report c1 ADDRESS down "$C0"
	expect_silence c1
}

before_route()
{
	selfloop
	connect c1 mode align downdelay 1000 updelay 60000
	ip_batch "-$FAMILY" <<-BATCH
	route replace $SERVICE dev $C1 src $CLIENT1 table $TO_SERVICE
	addr del $CLIENT0/$LEN dev $C0
	BATCH
	expect_report c1 ADDRESS down "$C0" "$C1"
	cm "destroy c1"

	selfloop
	connect c2 mode align downdelay 1000 updelay 60000
	ip_batch "-$FAMILY" <<-BATCH
	route flush table $TO_SERVICE
	addr del $CLIENT0/$LEN dev $C0
	BATCH
	expect_report c2 ADDRESS down "$C0" none
}

link_first()
{
	selfloop
	connect c1 mode align downdelay 1000 updelay 60000
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $C0
	link set $C0 down
	BATCH
	expect_report c1 LINK down "$C0" none
}

other_rail()
{
	selfloop
	route_by_both
	connect rail0 src "$CLIENT0" mode align "$SHORT"
	connect rail1 src "$CLIENT1" mode align "$SHORT"
	delete_address
	expect_report rail0 ADDRESS down "$C0"
	expect_silence rail1
	run ipf addr del "$CLIENT1/$LEN" dev "$C1"
	expect_report rail1 ADDRESS down "$C1"
	expect_silence rail0
}

teardown()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	delete_address
	expect_event c1 DISCONNECTED status=0
	expect_timewait_at_most c1
}

sticky()
{
	selfloop
	connect c1 mode align+sticky "$SHORT"
	delete_address
	expect_report c1 ADDRESS down "$C0"
}

run_tests "$@"
