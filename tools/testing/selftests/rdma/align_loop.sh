#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A program that connects anew at every report must come to rest: where nothing
# changes nothing may be told, however odd the topology. Each test has a client
# that reconnects, and both sides watched, for LOOP_S seconds (20) with traffic.
# See lib.sh for the self loop. IPv4 only where soft-RoCE does not connect over
# IPv6 in such a topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
plain			46	2: no report without a change: the self loop
asymmetric		4	2: no report without a change: the answers leave by another netdevice
pinned			4	2: no report without a change: bound, and the preferred route leaves elsewhere
multipath		4	2: no report without a change: a route with two next hops, many ids
multi_source		46	2: no report without a change: several source addresses, one preferred by the route
arp_flux		4	2: no report without a change: two netdevices answer for the peer
after_change		46	2: and after one, each id is told once and its successor is not
'

LOOP_S=${LOOP_S:-20}

script_setup()
{
	need_align
	need_modules macvlan
	selfloop_create
}

# watch OPTION...: both sides are watched; connects as the client will again
watch()
{
	RECONNECT="$* mode align+restored downdelay 0 updelay 0"
	listen server mode align+restored downdelay 0 updelay 0
	LISTENING=1
	CLIENT=client1
	reconnect
}

reconnect()
{
	# shellcheck disable=SC2086 # words are wanted
	connect "$CLIENT" $RECONNECT
	traffic "$CLIENT" 3
}

# reports: how many have come, on either side
reports()
{
	local key

	REPORTS=0
	for key in "${!EVENTS[@]}"; do
		[[ ${EVENTS[$key]} != *" event=ADDR_CHANGE "* ]] || REPORTS=$((REPORTS + 1))
	done
}

# rest: for LOOP_S with traffic nothing is told; else reconnect, and count
rest()
{
	local end known

	reports
	known=$REPORTS
	now_ms
	end=$((NOW + LOOP_S * 1000))
	while [ "$NOW" -lt "$end" ]; do
		traffic "$CLIENT" 3
		pump_for 1000
		reports
		if [ "$REPORTS" -gt "$known" ]; then
			known=$REPORTS
			cm "destroy $CLIENT"
			CLIENT=client$((${CLIENT#client} + 1))
			reconnect
			[ "$known" -lt 20 ] || break
		fi
		now_ms
	done
	[ "$known" = "${1:-0}" ] || fail "$known reports, expected ${1:-0}"
}

plain()
{
	selfloop
	watch
	rest
}

asymmetric()
{
	selfloop
	make_asymmetric
	watch
	rest
}

pinned()
{
	selfloop
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" metric 2000
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE" metric 1
	run ipf route del "$SERVICE" dev "$C0" table "$TO_SERVICE" metric 0
	watch src "$CLIENT0"
	rest
}

multipath()
{
	local i

	selfloop
	run ipf route replace "$SERVICE" table "$TO_SERVICE" \
		nexthop dev "$C0" nexthop dev "$C1"
	listen server mode align+restored downdelay 0 updelay 0
	LISTENING=1
	for ((i = 1; i <= 8; i++)); do
		cm "resolve many$i $SERVICE $PORT mode align+restored downdelay 0 updelay 0"
		skip_events "many$i" ROUTE_RESOLVED
	done
	rest_silent many{1..8} server
}

# As rest, for ids that are only resolved.
rest_silent()
{
	QUIET_MS=$((LOOP_S * 1000)) expect_silence "$@"
}

multi_source()
{
	local more=${CLIENT0%1}

	selfloop
	[ "$FAMILY" = 6 ] || run sysctl -qw "net.ipv4.conf.$C0.promote_secondaries=1"
	ip_batch "-$FAMILY" <<-BATCH
	addr add ${more}7/$LEN dev $C0
	addr add ${more}8/$LEN dev $C0
	route add ${more}7 dev $S0 src $SERVICE table $TO_CLIENT
	route add ${more}8 dev $S0 src $SERVICE table $TO_CLIENT
	neigh replace ${more}7 lladdr $(lladdr "$C0") dev $S0 nud reachable
	neigh replace ${more}8 lladdr $(lladdr "$C0") dev $S0 nud reachable
	BATCH
	wait_gid "$C0" "${more}8"
	watch src "${more}8"
	rest
}

arp_flux()
{
	local twin=m0_$$

	selfloop
	run ip link add link "$S0" name "$twin" type macvlan mode bridge
	defer ip link del "$twin"
	set_sysctls "$twin"
	ip_batch <<-BATCH
	link set $twin up
	addr add $SERVICE/$HOST dev $twin
	neigh flush dev $C0
	BATCH
	cm "resolve c1 $SERVICE $PORT mode align+restored downdelay 0 updelay 0"
	skip_events c1 ROUTE_RESOLVED
	rest_silent c1
}

after_change()
{
	selfloop
	watch
	route_to_c1
	expect_report "$CLIENT" ROUTE down "$C0" "$C1"
	cm "destroy $CLIENT"
	CLIENT=client2
	reconnect
	rest 1
}

run_tests "$@"
