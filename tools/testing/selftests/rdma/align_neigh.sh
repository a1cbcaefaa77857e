#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The next hop of an id is reached at another link-layer address: on-link in
# the self loop, and behind a gateway. See lib.sh for the topologies.
#
# Stock rdma_cm answers the change of an on-link neighbour with UNREACHABLE and
# knows nothing of gateways. With a mode there is one report and no more.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
on_link			46	1: an on-link peer at another link-layer address: superseded, NEIGHBOUR; no UNREACHABLE
on_link_restored	46	2, RESTORED: back at the old link-layer address
not_valid		46	1: a stale, failed or missing neighbour: silent
gateway_moved		46	1: the gateway takes another link-layer address: NEIGHBOUR; R49
gateway_entry		46	1: the neighbour entry of the gateway changes: NEIGHBOUR, and RESTORED
peer_moved		46	1: the peer behind the gateway takes another one: silent; R49
twin_known		46	1: another gateway at the same link-layer address: silent
twin_unknown		46	1: another gateway that has to be asked for, at the same link-layer address: silent
other_known		46	1: another gateway at another link-layer address: superseded, NEIGHBOUR; R49
other_unknown		46	1: another gateway that has to be asked for, at another link-layer address: superseded, NEIGHBOUR
other_silent		4	1: another gateway that does not answer: no verdict, silent
redirected		46	1: a redirect to a gateway at another link-layer address: NEIGHBOUR
redirected_twin		46	1: a redirect to another gateway at the same one: silent
withdrawn		6	1: a router no longer advertises itself: down, UNREACHABLE; and RESTORED
expired			6	1: the lifetime of a router is over: down, UNREACHABLE
updelay			4	3: NEIGHBOUR waits for updelay
sticky			4	2, STICKY: NEIGHBOUR is not told, LINK is
teardown		46	2, mode 2: DISCONNECTED; TIMEWAIT_EXIT
'

script_setup()
{
	need_align
	need_modules macvlan
	selfloop_create && gateway_create
}

FOREIGN=02:00:00:00:00:99

# know NEIGHBOUR LLADDR NETDEV
know()
{
	run ipf neigh replace "$1" lladdr "$2" dev "$3" nud reachable
}

on_link()
{
	selfloop
	connect c1 mode align "$SHORT"
	know "$SERVICE" "$FOREIGN" "$C0"
	expect_report c1 NEIGHBOUR none "$C0" "$C0"
	expect_silence c1
}

on_link_restored()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	know "$SERVICE" "$FOREIGN" "$C0"
	expect_report c1 NEIGHBOUR none "$C0" "$C0"
	know "$SERVICE" "$(lladdr "$S0")" "$C0"
	expect_report c1 NEIGHBOUR restored "$C0" "$C0"
	expect_silence c1
	traffic c1 10
}

not_valid()
{
	selfloop
	connect c1 mode align "$SHORT"
	run ipf neigh replace "$SERVICE" lladdr "$(lladdr "$S0")" dev "$C0" nud stale
	expect_silence c1
	run ipf neigh del "$SERVICE" dev "$C0"
	expect_silence c1
	# Asked for and not answered: a failed entry.
	run ip link set "$S0" arp off
	defer ip link set "$S0" arp on
	ipf neigh replace "$SERVICE" dev "$C0" nud failed
	expect_silence c1
	run ip link set "$S0" arp on
	expect_still_watched c1
}

gateway_moved()
{
	local old new

	gateway
	old=$(gw_lladdr "$G0")
	connect c1 mode align "$SHORT"
	traffic c1 10
	printf -v new '02:00:00:00:%02x:%02x' $((RANDOM % 256)) $((RANDOM % 256))
	run ip -n "$GW" link set "$G0" address "$new"
	defer ip -n "$GW" link set "$G0" address "$old"
	# It tells its neighbours itself, once; a datagram asks again.
	ping -c 1 -W 1 -I "$GC" "$GATEWAY" >/dev/null 2>&1 || true
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
	expect_silence c1
}

gateway_entry()
{
	local old

	gateway
	old=$(gw_lladdr "$G0")
	connect c1 mode align+restored "$SHORT"
	know "$GATEWAY" "$FOREIGN" "$GC"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
	know "$GATEWAY" "$old" "$GC"
	expect_report c1 NEIGHBOUR restored "$GC" "$GC"
}

expect_gateway_watched()
{
	know "$GATEWAY" "$FOREIGN" "$GC"
	expect_report "$1" NEIGHBOUR none "$GC" "$GC"
}

peer_moved()
{
	gateway
	connect c1 mode align "$SHORT"
	run ip -n "$GW" "-$FAMILY" neigh replace "$SERVICE" lladdr "$FOREIGN" dev "$G1" nud reachable
	expect_silence c1
	# Nor when this host has an entry for the peer itself.
	know "$SERVICE" "$FOREIGN" "$GC"
	expect_silence c1
	expect_gateway_watched c1
}

twin_known()
{
	gateway
	connect c1 mode align "$SHORT"
	know "$TWIN" "$(gw_lladdr "$G0")" "$GC"
	route_via "$TWIN"
	expect_silence c1
	know "$TWIN" "$FOREIGN" "$GC"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
}

twin_unknown()
{
	gateway
	connect c1 mode align "$SHORT"
	route_via "$TWIN"
	QUIET_MS=$((QUIET_MS + 2000)) expect_silence c1
	traffic c1 10
	know "$TWIN" "$FOREIGN" "$GC"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
}

other_known()
{
	gateway
	connect c1 mode align+restored "$SHORT"
	know "$OTHER" "$(gw_lladdr "$GM")" "$GC"
	route_via "$OTHER"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
	route_via "$GATEWAY"
	expect_report c1 NEIGHBOUR restored "$GC" "$GC"
}

other_unknown()
{
	gateway
	connect c1 mode align "$SHORT"
	route_via "$OTHER"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
	expect_silence c1
}

# Nobody has this address.
other_silent()
{
	gateway
	connect c1 mode align "$SHORT"
	route_via "${GATEWAY%254}251"
	QUIET_MS=5000 expect_silence c1
	know "${GATEWAY%254}251" "$FOREIGN" "$GC"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
}

gw_local()
{
	ip -n "$GW" -6 -o addr show dev "$1" scope link | sed -nE 's/.*inet6 ([^/]*).*/\1/p'
}

# by_router: the route to the service as routers announce it: over IPv6 by their
# link-local addresses, which redirects name
by_router()
{
	need_python
	echo 1 >"/proc/sys/net/ipv$FAMILY/conf/all/accept_redirects"
	echo 1 >"/proc/sys/net/ipv$FAMILY/conf/$GC/accept_redirects"
	gateway
	if [ "$FAMILY" = 6 ]; then
		GATEWAY=$(gw_local "$G0") OTHER=$(gw_local "$GM") TWIN=fe80::77
		run ip -n "$GW" addr add "$TWIN/64" dev "$G0" nodad
		defer ip -n "$GW" addr del "$TWIN/64" dev "$G0"
	fi
	know "$GATEWAY" "$(gw_lladdr "$G0")" "$GC"
	route_via "$GATEWAY"
}

need_python()
{
	command -v python3 >/dev/null || skip "python3 is not installed"
}

# redirect_to ADDR NETDEV: by the gateway
redirect_to()
{
	know "$1" "$(gw_lladdr "$2")" "$GC"
	if [ "$FAMILY" = 4 ]; then
		run ip netns exec "$GW" "$HERE/icmp.py" redirect "$GATEWAY" "$CLIENT0" \
			"$SERVICE" "$1"
	else
		run ip netns exec "$GW" "$HERE/icmp.py" redirect6 "$GATEWAY%$G0" \
			"$CLIENT0" "$SERVICE" "$1" "$(gw_lladdr "$2")"
	fi
	wait_until redirected_by "$1" || fail "the redirect is not followed"
}

redirected_by()
{
	[[ $(ipf route get "$SERVICE" from "$CLIENT0") == *" via $1 "* ]]
}

redirected()
{
	by_router
	connect c1 mode align "$SHORT"
	redirect_to "$OTHER" "$GM"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
	expect_silence c1
}

redirected_twin()
{
	by_router
	connect c1 mode align "$SHORT"
	redirect_to "$TWIN" "$G0"
	expect_silence c1
	know "$TWIN" "$FOREIGN" "$GC"
	expect_report c1 NEIGHBOUR none "$GC" "$GC"
}

# advertised LIFETIME_S: an id whose only route is the default one through a router
advertised()
{
	need_python
	gateway
	GATEWAY=$(gw_local "$G0")
	echo 2 >"/proc/sys/net/ipv6/conf/$GC/accept_ra"
	defer set_sysctls "$GC"
	know "$GATEWAY" "$(gw_lladdr "$G0")" "$GC"
	run ip netns exec "$GW" "$HERE/icmp.py" advertise "$G0" "$1"
	defer ip -6 route del default dev "$GC"
	wait_until has_default || fail "the advertisement is not followed"
	cm "resolve c1 fd00:a::1 $PORT mode align+restored $SHORT"
	skip_events c1 ROUTE_RESOLVED
}

has_default()
{
	[ -n "$(ip -6 route show default dev "$GC")" ]
}

withdrawn()
{
	advertised 600
	run ip netns exec "$GW" "$HERE/icmp.py" advertise "$G0" 0
	expect_report c1 UNREACHABLE down "$GC" none
	run ip netns exec "$GW" "$HERE/icmp.py" advertise "$G0" 600
	expect_report c1 UNREACHABLE restored "$GC" "$GC"
	expect_silence c1
}

# The kernel announces what has expired when it sweeps, here each second.
expired()
{
	local interval

	interval=$(sysctl -n net.ipv6.route.gc_interval)
	defer sysctl -qw "net.ipv6.route.gc_interval=$interval"
	run sysctl -qw net.ipv6.route.gc_interval=1
	advertised 6
	expect_report c1 UNREACHABLE down "$GC" none
	expect_silence c1
}

updelay()
{
	selfloop
	connect c1 mode align downdelay 0 updelay 2500
	stamp
	know "$SERVICE" "$FOREIGN" "$C0"
	expect_report c1 NEIGHBOUR none "$C0" "$C0"
	expect_after 2500
}

sticky()
{
	selfloop
	connect c1 mode align+sticky "$SHORT"
	know "$SERVICE" "$FOREIGN" "$C0"
	expect_silence c1
	run ip link set "$C0" down
	expect_report c1 LINK down "$C0" none
}

teardown()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	know "$SERVICE" "$FOREIGN" "$C0"
	expect_event c1 DISCONNECTED status=0
	know "$SERVICE" "$(lladdr "$S0")" "$C0"
	expect_event c1 TIMEWAIT_EXIT status=0
}

run_tests "$@"
