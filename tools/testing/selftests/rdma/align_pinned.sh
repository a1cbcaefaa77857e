#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Ids that their ULP bound to a source address. See lib.sh for the topologies.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
route_moves		46	1: routes that move to another netdevice: silent; R88
default_moves		46	1: the default route moves: silent; R88
route_goes		46	1: on-link, its route is deleted: silent
twin			46	1: the route of its netdevice goes and comes while the twin is preferred: silent; R38
other_resolved		6	1: resolved by another netdevice than that of its source address: silent
bound_first		46	1: bound by rdma_bind_addr(), routes move: silent
address			46	1: its address has left: down, ADDRESS
neighbour		46	1: its next hop at another link-layer address: NEIGHBOUR
gateway_moved		46	1: another gateway on its netdevice, at another link-layer address: NEIGHBOUR
gateway_lost		46	1: behind a gateway, no route over its netdevice: down, UNREACHABLE
gateway_moved_away	46	1: behind a gateway, the route moves to another netdevice: down
gateway_back		46	2, RESTORED: the route over its netdevice is back
rule			46	1: a rule for its source address: silent; R56
teardown		46	2, mode 2: silent for routes, DISCONNECTED for the link
'

script_setup()
{
	need_align
	need_modules macvlan
	selfloop_create && gateway_create
}

expect_link_watched()
{
	run ip link set "$C0" down
	expect_report "$1" LINK down "$C0"
}

route_moves()
{
	selfloop
	connect c1 src "$CLIENT0" mode align "$SHORT"
	route_to_c1
	expect_silence c1
	expect_link_watched c1
}

default_moves()
{
	selfloop
	ip_batch "-$FAMILY" <<-BATCH
	route add default dev $C0 table $TO_SERVICE
	route del $SERVICE table $TO_SERVICE
	BATCH
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf route replace default dev "$C1" table "$TO_SERVICE"
	expect_silence c1
	expect_link_watched c1
}

route_goes()
{
	selfloop
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_silence c1
	expect_link_watched c1
}

# Two netdevices in one subnet, the other one preferred.
twin()
{
	local metric=200

	selfloop
	[ "$FAMILY" = 4 ] || metric=100
	ip_batch "-$FAMILY" <<-BATCH
	route flush table $TO_SERVICE
	route append $SERVICES dev $C1 src $CLIENT1 table $TO_SERVICE metric 100
	route append $SERVICES dev $C0 src $CLIENT0 table $TO_SERVICE metric $metric
	BATCH
	connect c1 src "$CLIENT0" mode align "$SHORT"
	expect_silence c1
	run ipf route del "$SERVICES" dev "$C0" table "$TO_SERVICE"
	expect_silence c1
	run ipf route append "$SERVICES" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" \
		metric "$metric"
	expect_silence c1
	expect_link_watched c1
}

# IPv6 takes the better route, although it leaves by another netdevice than that
# of the source address. It is not used to connect: the passive side would have
# no route back by the netdevice where the request arrives.
other_resolved()
{
	selfloop
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE" metric 100
	resolve c1 src "$CLIENT0" mode align "$SHORT"
	expect_silence c1
	expect_link_watched c1
}

bound_first()
{
	selfloop
	connect c1 src "$CLIENT0" bindfirst mode align "$SHORT"
	route_to_c1
	expect_silence c1
	expect_link_watched c1
}

address()
{
	selfloop
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf addr del "$CLIENT0/$LEN" dev "$C0"
	expect_report c1 ADDRESS down "$C0"
}

neighbour()
{
	selfloop
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf neigh replace "$SERVICE" lladdr 02:00:00:00:00:99 dev "$C0" nud reachable
	expect_report c1 NEIGHBOUR none "$C0" "$C0"
}

gateway_moved()
{
	gateway
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf neigh replace "$OTHER" lladdr "$(gw_lladdr "$GM")" dev "$GC" nud reachable
	route_via "$OTHER"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
}

gateway_lost()
{
	gateway
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$GC"
	expect_silence c1
}

gateway_moved_away()
{
	gateway
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ip link set "$C1" up
	run ipf route replace "$SERVICE" dev "$C1" table "$TO_SERVICE"
	next_event c1 "$DEADLINE" || fail "c1: no event"
	field flags "$EVENT"
	[ "$FIELD" = down ] || fail "expected flags=down; got $EVENT"
	expect_silence c1
}

gateway_back()
{
	gateway
	connect c1 src "$CLIENT0" mode align+restored "$SHORT"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$GC"
	route_via "$GATEWAY"
	expect_report c1 UNREACHABLE restored "$GC" "$GC"
	expect_silence c1
}

# What resolving again gives is what counts: still its own netdevice.
rule()
{
	selfloop
	connect c1 src "$CLIENT0" mode align "$SHORT"
	run ipf route add "$SERVICE" dev "$C1" table 7012
	defer ipf route flush table 7012
	run ipf rule add pref 9 from "$CLIENT0" to "$SERVICE" lookup 7012
	defer ipf rule del pref 9
	expect_silence c1
	run ipf rule del pref 9
	expect_silence c1
	expect_link_watched c1
}

teardown()
{
	selfloop
	connect c1 src "$CLIENT0" mode teardown "$SHORT"
	route_to_c1
	expect_silence c1
	run ip link set "$C0" down
	expect_event c1 DISCONNECTED status=0
}

run_tests "$@"
