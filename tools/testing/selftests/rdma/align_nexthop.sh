#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Routes over nexthop objects, and multipath routes. See lib.sh for the
# topology.
#
# "ip nexthop replace" changes all its routes without any event for them.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
replaced		46	1: the object is replaced: no route by the netdevice is left: down, ROUTE
replaced_back		46	2, RESTORED: and back
deleted			46	1: the object is deleted, its routes with it: down, UNREACHABLE
unrelated		46	1: another object: silent
group_other_member	46	1: another member of the group goes: silent
group_own_member	46	1: the own member of the group goes, ids of the others are silent: down, ROUTE; R83
group_joined		46	1: the route becomes a group with the own next hop as a member: silent
resilient		46	1: buckets of a resilient group move between its members: silent
resilient_left		46	1: the own member leaves a resilient group: down, ROUTE
multipath_joined	46	1: the route becomes a multipath one with the own next hop: silent
multipath_left		46	1: the own next hop leaves the multipath route: down, ROUTE
teardown		46	2, mode 2: DISCONNECTED
'

NH0=70$(($$ % 1000 + 1000))0
NH1=${NH0%0}1
NHG=${NH0%0}2
NHX=${NH0%0}3

script_setup()
{
	local netdev

	need_align
	selfloop_create || return 1
	# The routes here name no source. IPv6 would take the destination itself,
	# which is an address of this host, but no GID of the netdevice.
	for netdev in "$C0" "$C1"; do
		echo 1 >"/proc/sys/net/ipv6/conf/$netdev/use_oif_addrs_only" || return 1
	done
}

flush_nexthops()
{
	local id

	for id in $NHG $NH0 $NH1 $NHX; do
		ip nexthop del id "$id"
	done
}

# The route to the service is one over an object. Its source address is the one
# of the netdevice.
nexthops()
{
	selfloop
	ipf nexthop add id "$NH0" dev "$C0" || skip "no nexthop objects"
	defer flush_nexthops
	run ipf nexthop add id "$NH1" dev "$C1"
}

object_route()
{
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	run ipf route add "$SERVICE" nhid "$1" table "$TO_SERVICE"
}

replaced()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align "$SHORT"
	run ipf nexthop replace id "$NH0" dev "$C1"
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_silence c1
}

replaced_back()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align+restored "$SHORT"
	run ipf nexthop replace id "$NH0" dev "$C1"
	expect_report c1 ROUTE down "$C0" "$C1"
	run ipf nexthop replace id "$NH0" dev "$C0"
	expect_report c1 ROUTE restored "$C0" "$C0"
}

deleted()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align "$SHORT"
	run ip nexthop del id "$NH0"
	expect_report c1 UNREACHABLE down "$C0" none
	expect_silence c1
}

unrelated()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align "$SHORT"
	run ipf nexthop add id "$NHX" dev "$C1"
	run ipf nexthop replace id "$NHX" dev "$C0"
	run ip nexthop del id "$NHX"
	expect_silence c1
	run ipf nexthop replace id "$NH0" dev "$C1"
	expect_report c1 ROUTE down "$C0" "$C1"
}

# resolve_to_both NAME: ids NAME-0 and NAME-1, of which one resolved over each
# netdevice; each has a destination of its own, which is what is hashed.
resolve_to_both()
{
	local i addr dev=()

	# The source is that of the first member, whichever is taken.
	if [ "$FAMILY" = 6 ]; then
		run ip -6 addr add "$CLIENT0/$HOST" dev "$C1" nodad
		wait_gid "$C1" "$CLIENT0"
	fi
	for ((i = 2; i < 40; i++)); do
		addr=${SERVICE%1}$i
		run ipf addr add "$addr/$HOST" dev "$S0"
		ip_batch "-$FAMILY" <<-BATCH
		addr add $addr/$HOST dev $S1
		route replace $addr nhid $NHG table $TO_SERVICE
		neigh replace $addr lladdr $(lladdr "$S0") dev $C0 nud reachable
		neigh replace $addr lladdr $(lladdr "$S1") dev $C1 nud reachable
		BATCH
		cm "resolve $1-try$i $addr $PORT mode align $SHORT"
		next_event "$1-try$i" "$DEADLINE" || fail "$addr: not resolved"
		field dev "$EVENT"
		case $FIELD in
		"rx_$C0")	dev[0]=$1-try$i ;;
		"rx_$C1")	dev[1]=$1-try$i ;;
		*)		fail "expected ADDR_RESOLVED; got $EVENT" ;;
		esac
		skip_events "$1-try$i" ROUTE_RESOLVED
		if [ ${#dev[@]} = 2 ]; then
			BY_C0=${dev[0]}
			BY_C1=${dev[1]}
			return
		fi
	done
	fail "all ids resolved over one netdevice"
}

group_other_member()
{
	nexthops
	run ip nexthop add id "$NHG" group "$NH0/$NH1"
	resolve_to_both id
	# What new ids get now is not what counts.
	run ip nexthop replace id "$NHG" group "$NH0"
	expect_silence "$BY_C0"
	expect_report "$BY_C1" ROUTE down "$C1" "$C0"
	run ip nexthop replace id "$NHG" group "$NH1"
	expect_report "$BY_C0" ROUTE down "$C0" "$C1"
}

group_own_member()
{
	nexthops
	run ip nexthop add id "$NHG" group "$NH0/$NH1"
	resolve_to_both id
	run ip nexthop del id "$NH0"
	expect_report "$BY_C0" ROUTE down "$C0" "$C1"
	expect_silence "$BY_C0" "$BY_C1"
	run ip nexthop del id "$NH1"
	expect_report "$BY_C1" UNREACHABLE down "$C1" none
}

group_joined()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align "$SHORT"
	run ip nexthop add id "$NHG" group "$NH0/$NH1"
	run ipf route replace "$SERVICE" nhid "$NHG" table "$TO_SERVICE"
	expect_silence c1
	run ip nexthop replace id "$NHG" group "$NH1"
	expect_report c1 ROUTE down "$C0" "$C1"
}

# resilient_group MEMBERS
resilient_group()
{
	run ip nexthop replace id "$NHG" group "$1" type resilient buckets 8
}

resilient()
{
	nexthops
	object_route "$NH0"
	connect c1 mode align "$SHORT"
	resilient_group "$NH0/$NH1"
	run ipf route replace "$SERVICE" nhid "$NHG" table "$TO_SERVICE"
	expect_silence c1
	resilient_group "$NH0,1/$NH1,7"
	expect_silence c1
}

# All buckets are the own member's: a flow that is in a bucket of another one is
# looked at once a second, which would hide that nothing was heard.
resilient_left()
{
	nexthops
	object_route "$NH0"
	resilient_group "$NH0,254/$NH1,1"
	run ipf route replace "$SERVICE" nhid "$NHG" table "$TO_SERVICE"
	connect c1 mode align "$SHORT"
	expect_silence c1
	resilient_group "$NH1"
	expect_report c1 ROUTE down "$C0" "$C1"
}

# Multipath needs gateways in IPv6, and does not take an address of this host for
# one. Nobody has these: who answers for them is the other end of each link.
multipath()
{
	selfloop
	if [ "$FAMILY" = 6 ]; then
		VIA0="via fd00:77::1"
		VIA1="via fd00:77::2"
		ip_batch -6 <<-BATCH
		neigh replace fd00:77::1 lladdr $(lladdr "$S0") dev $C0 nud reachable
		neigh replace fd00:77::2 lladdr $(lladdr "$S1") dev $C1 nud reachable
		route del $SERVICE table $TO_SERVICE
		route add $SERVICE $VIA0 dev $C0 onlink table $TO_SERVICE
		BATCH
	else
		VIA0=
		VIA1=
		run ipf route replace "$SERVICE" dev "$C0" table "$TO_SERVICE"
	fi
}

# shellcheck disable=SC2086 # words
use_both()
{
	local onlink=

	[ "$FAMILY" = 4 ] || onlink=onlink
	run ipf route replace "$SERVICE" table "$TO_SERVICE" \
		nexthop $VIA0 dev "$C0" $onlink nexthop $VIA1 dev "$C1" $onlink
}

# shellcheck disable=SC2086 # words
use_c1_only()
{
	local onlink=

	[ "$FAMILY" = 4 ] || onlink=onlink
	run ipf route replace "$SERVICE" $VIA1 dev "$C1" $onlink table "$TO_SERVICE"
}

multipath_joined()
{
	multipath
	connect c1 mode align "$SHORT"
	use_both
	expect_silence c1
	use_c1_only
	expect_report c1 ROUTE down "$C0" "$C1"
}

multipath_left()
{
	multipath
	connect c1 mode align+restored "$SHORT"
	use_both
	expect_silence c1
	use_c1_only
	expect_report c1 ROUTE down "$C0" "$C1"
	use_both
	expect_report c1 ROUTE restored "$C0"
}

teardown()
{
	nexthops
	object_route "$NH0"
	connect c1 mode teardown "$SHORT"
	run ipf nexthop replace id "$NH0" dev "$C1"
	expect_event c1 DISCONNECTED status=0
	expect_event c1 TIMEWAIT_EXIT status=0
}

run_tests "$@"
