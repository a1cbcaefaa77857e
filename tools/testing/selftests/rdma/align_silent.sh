#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What changes in the network and does not concern an id. See lib.sh for the
# topology.
#
# Each test ends with a change that does concern it: an id that nobody watches
# would be silent as well.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
unrelated_prefix	46	1: routes to other prefixes, narrower and wider
same_route		46	1: the same route once more, and with other metrics of its own
worse_route		46	1: a route of worse metric by another netdevice
default_route		46	1: a default route comes and goes
other_table		46	1: routes in a table that no rule names
mtu			46	1: the MTU of the netdevice
rename			46	1: renames of the netdevice
queue			4	1: other settings of the netdevice
second_address		46	1: a second address on the netdevice; R50
subnet_address		4	1: a secondary address of the same subnet, and its promotion
link_local		6	1: a link-local address; R50
preferred_source	46	1: another preferred source address of the route
lifetime		46	1: renewed lifetimes of the address
deprecated		6	1: the address becomes deprecated
temporary		46	1: an address on the other netdevice
other_gid		46	1: other GIDs of the RDMA device; R34
unrelated_rule		46	1: rules that do not match
vrf			4	1: a VRF and its table
other_netns		4	1: another network namespace
other_link		46	1: the link of another netdevice
other_device		4	1: another RDMA device comes and goes
other_neighbour		46	1: neighbours of others
own_neighbour		46	1: the neighbour is confirmed and probed
busy			4	3: a busy machine; R66
'

script_setup()
{
	need_align
	selfloop_create
}

start()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
}

finish()
{
	expect_silence c1 "$PASSIVE"
	expect_still_watched c1
}

unrelated_prefix()
{
	local wide

	start
	wide=10.9.0.0/16
	[ "$FAMILY" = 4 ] || wide=fd00:9::/32
	ip_batch "-$FAMILY" <<-BATCH
	route add ${SERVICE%1}9 dev $C1 table $TO_SERVICE
	route replace ${SERVICE%1}9 dev $C0 table $TO_SERVICE
	route add $SERVICES dev $C1 table $TO_SERVICE
	route add $wide dev $C1 table $TO_SERVICE
	route del ${SERVICE%1}9 table $TO_SERVICE
	route del $SERVICES table $TO_SERVICE
	route del $wide table $TO_SERVICE
	BATCH
	finish
}

same_route()
{
	start
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" mtu 1400
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" advmss 1200
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" proto static
	finish
}

worse_route()
{
	start
	run ipf route add "$SERVICE" dev "$C1" table "$TO_SERVICE" metric 5000
	run ipf route del "$SERVICE" dev "$C1" table "$TO_SERVICE" metric 5000
	finish
}

default_route()
{
	start
	run ipf route add default dev "$C1" table "$TO_SERVICE"
	run ipf route del default dev "$C1" table "$TO_SERVICE"
	run ipf route add default dev "$C1" metric 4242
	run ipf route del default dev "$C1" metric 4242
	finish
}

other_table()
{
	start
	run ipf route add "$SERVICE" dev "$C1" table 7099
	run ipf route del "$SERVICE" dev "$C1" table 7099
	finish
}

mtu()
{
	start
	run ip link set "$C0" mtu 1400
	defer ip link set "$C0" mtu 1500
	run ip link set "$C0" mtu 9000
	run ip link set "$C0" mtu 1500
	finish
}

rename()
{
	start
	ip link set "$C0" name "n$C0" || skip "a netdevice that is up cannot be renamed"
	defer ip link set "n$C0" name "$C0"
	expect_silence c1
	run ip link set "n$C0" name "$C0"
	finish
}

queue()
{
	start
	run ip link set "$C0" txqueuelen 500
	run ip link set "$C0" promisc on
	run ip link set "$C0" promisc off
	run ip link set "$C0" allmulticast on
	run ip link set "$C0" allmulticast off
	run ip link set "$C0" alias "not yours"
	run ip link set "$C0" alias ""
	run ip link set "$C0" group 7
	run ip link set "$C0" group 0
	finish
}

second_address()
{
	local addr=${CLIENT0%1}

	# Another subnet, and in IPv6 one that the choice of a source prefers.
	[ "$FAMILY" = 4 ] && addr=${SERVICE%1}55 || addr=${SERVICE%1}5
	start
	run ipf addr add "$addr/$HOST" dev "$C0"
	wait_gid "$C0" "$addr"
	expect_silence c1
	run ipf addr del "$addr/$HOST" dev "$C0"
	wait_no_gid "$C0" "$addr"
	finish
}

# Secondary to the id's, and the other way round: the id's own is promoted.
subnet_address()
{
	local addr=${CLIENT0%1}2

	start
	run ipf addr add "$addr/$LEN" dev "$C0"
	wait_gid "$C0" "$addr"
	run ipf addr del "$addr/$LEN" dev "$C0"
	expect_silence c1 "$PASSIVE"
	cm "destroy c1"

	selfloop
	echo 1 >"/proc/sys/net/ipv4/conf/$C0/promote_secondaries"
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $C0
	addr add $addr/$LEN dev $C0
	addr add $CLIENT0/$LEN dev $C0
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
	wait_gid "$C0" "$CLIENT0"
	connect c1 mode align+restored "$SHORT"
	run ipf addr del "$addr/$LEN" dev "$C0"
	finish
}

link_local()
{
	start
	run ip -6 addr add fe80::aaaa/64 dev "$C0"
	expect_silence c1
	run ip -6 addr del fe80::aaaa/64 dev "$C0"
	finish
}

preferred_source()
{
	local addr=${CLIENT0%1}7

	start
	run ipf addr add "$addr/$LEN" dev "$C0"
	wait_gid "$C0" "$addr"
	run ipf route replace "$SERVICE" dev "$C0" src "$addr" table "$TO_SERVICE"
	expect_silence c1
	# A new id has the other source.
	cm "resolve c2 $SERVICE $PORT"
	expect_event c2 ADDR_RESOLVED "src=$addr"
	finish
}

lifetime()
{
	start
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" valid_lft 4000 preferred_lft 3000
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" valid_lft 5000 preferred_lft 5000
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" valid_lft forever preferred_lft forever
	finish
}

deprecated()
{
	start
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" preferred_lft 0
	expect_silence c1
	run ipf addr change "$CLIENT0/$LEN" dev "$C0" preferred_lft forever
	finish
}

temporary()
{
	local addr=${CLIENT1%1}5

	start
	run ipf addr add "$addr/$LEN" dev "$C1"
	run ipf addr del "$addr/$LEN" dev "$C1"
	run ipf addr del "$CLIENT1/$LEN" dev "$C1"
	run ipf addr add "$CLIENT1/$LEN" dev "$C1"
	wait_gid "$C1" "$CLIENT1"
	finish
}

# GIDs that come before the own one in the table, and leave it.
other_gid()
{
	local addr=${SERVICE%1}

	selfloop
	run ipf addr add "${addr}61/$HOST" dev "$C0"
	wait_gid "$C0" "${addr}61"
	connect c1 mode align+restored "$SHORT"
	run ipf addr del "${addr}61/$HOST" dev "$C0"
	wait_no_gid "$C0" "${addr}61"
	run ipf addr add "${addr}62/$HOST" dev "$C0"
	run ipf addr add "${addr}61/$HOST" dev "$C0"
	wait_gid "$C0" "${addr}61"
	finish
}

unrelated_rule()
{
	start
	run ipf route add "$SERVICE" dev "$C1" table 7012
	defer ipf route flush table 7012
	run ipf rule add pref 8 to "${SERVICE%1}9" lookup 7012
	defer ipf rule del pref 8
	run ipf rule add pref 9 fwmark 0x77 lookup 7012
	defer ipf rule del pref 9
	run ipf rule add pref 20000 to "$SERVICE" lookup 7012
	defer ipf rule del pref 20000
	expect_silence c1
	run ipf rule del pref 8
	run ipf rule del pref 9
	run ipf rule del pref 20000
	finish
}

vrf()
{
	modprobe -q vrf || skip "no VRF"
	start
	run ip link add "v_$$" type vrf table 7098
	defer ip link del "v_$$"
	run ip link set "v_$$" up
	run ip link add "d_$$" type veth peer name "e_$$"
	defer ip link del "d_$$"
	run ip link set "d_$$" master "v_$$" up
	run ip addr add "$SERVICE/32" dev "d_$$"
	finish
}

other_netns()
{
	start
	run ip netns add "n_$$"
	defer ip netns del "n_$$"
	ip_batch -n "n_$$" <<-BATCH
	link set lo up
	link add $C0 type veth peer name $S0
	link set $C0 up
	link set $S0 up
	addr add $CLIENT0/24 dev $C0
	route add $SERVICE dev $C0
	route del $SERVICE dev $C0
	neigh replace $SERVICE lladdr 02:00:00:00:00:99 dev $C0
	addr del $CLIENT0/24 dev $C0
	link set $C0 down
	BATCH
	run ip netns del "n_$$"
	finish
}

other_link()
{
	start
	run ip link set "$C1" down
	wait_until no_carrier "$S1" || fail "$S1 keeps its carrier"
	expect_silence c1
	ip_batch "-$FAMILY" <<-BATCH
	link set $C1 up
	addr replace $CLIENT1/$LEN dev $C1
	BATCH
	wait_carrier "$C1"
	wait_gid "$C1" "$CLIENT1"
	finish
}

other_device()
{
	start
	run rdma link delete "rx_$C1"
	expect_silence c1
	run add_rxe "$C1"
	wait_gid "$C1" "$CLIENT1"
	finish
}

other_neighbour()
{
	start
	run ipf neigh replace "${SERVICE%1}9" lladdr 02:00:00:00:00:99 dev "$C0" nud reachable
	run ipf neigh replace "$SERVICE" lladdr 02:00:00:00:00:99 dev "$C1" nud reachable
	run ipf neigh replace "${SERVICE%1}9" lladdr 02:00:00:00:00:98 dev "$C0" nud reachable
	run ipf neigh del "${SERVICE%1}9" dev "$C0"
	finish
}

own_neighbour()
{
	local state

	start
	for state in stale delay probe reachable permanent reachable stale; do
		run ipf neigh replace "$SERVICE" lladdr "$(lladdr "$S0")" dev "$C0" nud "$state"
	done
	finish
}

busy()
{
	local i pids=()

	selfloop
	connect c1 mode align "$SHORT"
	cm "resolve many $SERVICE $PORT count 100 mode align $SHORT"
	for ((i = 1; i <= 100; i++)); do
		skip_events "many-$i" ROUTE_RESOLVED
	done
	for ((i = 0; i < 4; i++)); do
		(while :; do :; done) &
		pids+=($!)
	done
	QUIET_MS=5000 expect_silence c1 many-1 many-50 many-100
	kill "${pids[@]}"
	expect_still_watched c1
	for ((i = 1; i <= 100; i++)); do
		expect_report "many-$i" ROUTE down "$C0" "$C1"
	done
}

run_tests "$@"
