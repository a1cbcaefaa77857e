#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# UD ids in a multicast group: the route to the group decides by which netdevice
# they send and where they are members. There is no next hop to compare. See
# lib.sh for the topology; the group is routed as the service is.
#
# Over IPv6 rdma_cm joins no group of RoCE v2 (ENOTSUPP): there ids are only
# resolved. Every netdevice has a route to all groups of IPv6, so one that moves
# leaves a lesser route by the netdevice of the id: it is superseded, not down.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
route		46	1: the route to the group moves: down, ROUTE
restored	46	2, RESTORED: and back
deleted		46	1: the route to the group is deleted: down, UNREACHABLE
specific	46	1: a more specific route by another netdevice: superseded, ROUTE
link		46	1: the link fails: down, LINK
address		46	1: the source address has left: down, ADDRESS
hwaddr		4	1: new GID entries: down, FAILOVER
pinned		46	1: pinned: the route to the group moves: silent
sticky		4	2, STICKY: superseded is silent, down is told
teardown	46	2, mode 2: on UD it acts as mode 1
not_joined	46	1: an id that is no member, the route moves: down, ROUTE
other_group	46	1: the route to another group: silent
neighbour	4	1: a neighbour entry for the group says nothing: silent
'

script_setup()
{
	need_align
	selfloop_create
}

# group: the self loop, and a group that is routed by C0
group()
{
	selfloop
	GROUP=239.1.${CLIENT0#10.1.}
	[ "$FAMILY" = 4 ] || GROUP=ff3e::${CLIENT0#fd00:1:}
	GROUP=${GROUP/%::1/:1}
	MOVED=down
	[ "$FAMILY" = 4 ] || MOVED=none
	run ipf rule add pref 12 to "$GROUP" lookup "$TO_SERVICE"
	group_by "$C0" "$CLIENT0"
}

# group_by NETDEV ADDR
group_by()
{
	run ipf route replace "$GROUP" dev "$1" src "$2" table "$TO_SERVICE"
}

# member NAME [OPTION]...
member()
{
	local name=$1
	shift

	cm "resolve $name $GROUP $PORT ud addronly $*"
	skip_events "$name" ADDR_RESOLVED
	[ "$FAMILY" = 4 ] || return 0
	cm "join $name $GROUP"
	skip_events "$name" MULTICAST_JOIN
}

route()
{
	group
	member c1 mode align "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
	expect_silence c1
	member c2 mode align "$SHORT"
	expect_silence c2
}

restored()
{
	group
	member c1 mode align+restored "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
	group_by "$C0" "$CLIENT0"
	expect_report c1 ROUTE restored "$C0" "$C0"
	expect_silence c1
}

deleted()
{
	group
	member c1 mode align "$SHORT"
	run ipf rule add pref 13 to "$GROUP" unreachable
	run ipf route del "$GROUP" table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$C0" none
	expect_silence c1
}

specific()
{
	local wide=239.1.0.0/16

	group
	[ "$FAMILY" = 4 ] || wide=ff3e::/32
	run ipf route add "$wide" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	run ipf route del "$GROUP" table "$TO_SERVICE"
	member c1 mode align "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE none "$C0" "$C1"
	expect_silence c1
}

link()
{
	group
	member c1 mode align "$SHORT"
	run ip link set "$S0" down
	expect_report c1 LINK down "$C0"
	expect_silence c1
}

address()
{
	group
	member c1 mode align "$SHORT"
	run ipf addr del "$CLIENT0/$LEN" dev "$C0"
	expect_report c1 ADDRESS down "$C0"
	expect_silence c1
}

hwaddr()
{
	group
	member c1 mode align "$LATER"
	run ip link set "$C0" address 02:00:00:00:aa:01
	expect_report c1 FAILOVER down "$C0" "$C0"
	expect_silence_later c1
}

pinned()
{
	group
	member c1 src "$CLIENT0" mode align "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_silence c1
	run ip link set "$S0" down
	expect_report c1 LINK down "$C0"
}

sticky()
{
	local wide=239.1.0.0/16

	group
	run ipf route add "$wide" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	member c1 mode align+sticky "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_silence c1
	run ipf route del "$wide" table "$TO_SERVICE"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
}

teardown()
{
	group
	member c1 mode teardown "$SHORT"
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
	expect_silence c1
}

not_joined()
{
	group
	cm "resolve c1 $GROUP $PORT ud mode align $SHORT"
	skip_events c1 ROUTE_RESOLVED
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
	expect_silence c1
}

other_group()
{
	group
	member c1 mode align "$SHORT"
	run ipf route add "${GROUP%1}2" dev "$C1" src "$CLIENT1" table "$TO_SERVICE"
	run ipf route del "${GROUP%1}2" table "$TO_SERVICE"
	expect_silence c1
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
}

neighbour()
{
	group
	member c1 mode align "$SHORT"
	run ipf neigh replace "$GROUP" lladdr 02:00:00:00:00:99 dev "$C0" nud permanent
	expect_silence c1
	group_by "$C1" "$CLIENT1"
	expect_report c1 ROUTE "$MOVED" "$C0" "$C1"
}

run_tests "$@"
