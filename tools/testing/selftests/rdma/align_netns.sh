#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Network namespaces whose netdevices have equal numbers and equal addresses:
# each id hears of its own namespace only. See lib.sh for the self loop.
#
#	netns RED            netns BLUE
#	mv, ifindex 77       mv, ifindex 77
#	NEAR                 NEAR              in both the same address, the same
#	  |                    |               route to FAR, and a neighbour FAR
#	macvlan on C0        macvlan on C1
#
# Soft-RoCE works in the initial netns only, but a macvlan on its netdevice has
# its GIDs wherever it is: ids can be resolved there.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
route			46	1: the route of one is deleted, the id of the other is silent: down, UNREACHABLE
link			46	1: the link of one: down, LINK
address			46	1: the source address of one has left: down, ADDRESS
neighbour		46	1: the neighbour of one at another link-layer address, nothing of upstream for the other either: NEIGHBOUR
mode0_neighbour		46	2, mode 0: the same, which stock told to both: UNREACHABLE in one only
rule			46	1: a rule of one: down, UNREACHABLE
initial			46	1: the same prefixes, addresses and neighbours in the initial one: silent
listener		4	2: a listener in one, its address moves in the other: silent
damping			4	3: damping of one does not slow down the other
killed			4	5: programs die, their namespaces go, and the module can be removed
user			4	5: root of a user namespace acts on its own namespace only
'

RED=red_$$
BLUE=blue_$$

script_setup()
{
	need_align
	selfloop_create
}

# cm_in NETNS: a program there, named as it
cm_in()
{
	local wrapper=$TMP/$1.sh

	printf '#!/bin/sh\nexec ip netns exec %s "%s" "$@"\n' "$1" "$ALIGN_CM" >"$wrapper"
	chmod 755 "$wrapper"
	ALIGN_CM=$wrapper cm_start "$1"
}

netns_destroy()
{
	cm_stop
	ip netns del "$1"
}

# An IPv6 address is tentative at first, also without duplicate address detection.
has_address()
{
	[ -z "$(ip -n "$1" addr show dev mv tentative)" ]
}

# netns NAME LOWER: with a program in it
netns()
{
	run ip netns add "$1"
	defer netns_destroy "$1"
	run ip link add link "$2" name mv index 77 netns "$1" type macvlan mode bridge
	run ip netns exec "$1" sysctl -qw net.ipv6.conf.mv.accept_dad=0
	ip_batch -n "$1" "-$FAMILY" <<-BATCH
	link set lo up
	link set mv up
	addr add $NEAR/$LEN dev mv
	BATCH
	wait_until has_address "$1" || fail "$NEAR stays tentative"
	ip_batch -n "$1" "-$FAMILY" <<-BATCH
	route add $FAR dev mv src $NEAR
	neigh replace $FAR lladdr 02:00:00:00:00:01 dev mv nud permanent
	BATCH
	wait_gid "$2" "$NEAR"
	cm_in "$1"
}

two_netns()
{
	selfloop
	NEAR=10.5.${CLIENT0#10.1.} FAR=10.6.${CLIENT0#10.1.}
	if [ "$FAMILY" = 6 ]; then
		NEAR=fd00:5:${CLIENT0#fd00:1:} FAR=fd00:6:${CLIENT0#fd00:1:}
	fi
	netns "$RED" "$C0"
	netns "$BLUE" "$C1"
	IFINDEX[mv]=77
}

# resolve_in NETNS NAME [OPTION]...
resolve_in()
{
	local netns=$1 name=$2
	shift 2

	cm_on "$netns" "resolve $name $FAR $PORT $*"
	skip_events "$name" ROUTE_RESOLVED
}

resolve_both()
{
	two_netns
	resolve_in "$RED" red mode align+restored "$SHORT"
	resolve_in "$BLUE" blue mode align+restored "$SHORT"
}

# in_red COMMAND...: of ip, for the family under test
in_red()
{
	run ip -n "$RED" "-$FAMILY" "$@"
}

route()
{
	resolve_both
	in_red route del "$FAR"
	expect_report red UNREACHABLE down "mv/$C0" none
	expect_silence red blue
	in_red route add "$FAR" dev mv src "$NEAR"
	expect_report red UNREACHABLE restored "mv/$C0" "mv/$C0"
	expect_silence red blue
}

link()
{
	resolve_both
	in_red link set mv down
	expect_report red LINK down "mv/$C0" none
	expect_silence red blue
}

address()
{
	resolve_both
	in_red addr del "$NEAR/$LEN" dev mv
	expect_report red ADDRESS down "mv/$C0"
	expect_silence red blue
}

neighbour()
{
	resolve_both
	in_red neigh replace "$FAR" lladdr 02:00:00:00:00:02 dev mv nud permanent
	expect_report red NEIGHBOUR none "mv/$C0"
	expect_silence red blue
}

mode0_neighbour()
{
	two_netns
	resolve_in "$RED" red
	resolve_in "$BLUE" blue
	in_red neigh replace "$FAR" lladdr 02:00:00:00:00:02 dev mv nud permanent
	expect_event red UNREACHABLE status=-110
	expect_silence red blue
}

rule()
{
	resolve_both
	in_red rule add pref 9 to "$FAR" unreachable
	expect_report red UNREACHABLE down "mv/$C0" none
	expect_silence red blue
	in_red rule del pref 9
	expect_report red UNREACHABLE restored "mv/$C0" "mv/$C0"
	expect_silence red blue
}

initial()
{
	resolve_both
	ip_batch "-$FAMILY" <<-BATCH
	route add $FAR dev $C1
	neigh replace $FAR lladdr 02:00:00:00:00:09 dev $C1 nud permanent
	route del $FAR dev $C1
	addr add $NEAR/$LEN dev $S1
	addr del $NEAR/$LEN dev $S1
	rule add pref 9 to $FAR unreachable
	rule del pref 9
	BATCH
	expect_silence red blue
	in_red route del "$FAR"
	expect_report red UNREACHABLE down "mv/$C0" none
}

listener()
{
	two_netns
	cm_on "$RED" "listen red $NEAR $PORT mode align $SHORT"
	cm_on "$BLUE" "listen blue $NEAR $PORT mode align $SHORT"
	ip -n "$BLUE" addr del "$NEAR/$LEN" dev mv || fail "the address cannot be deleted"
	expect_silence red blue
}

damping()
{
	local i

	resolve_both
	for i in 1 2 3 4; do
		in_red route del "$FAR"
		expect_report red UNREACHABLE down "mv/$C0" none
		in_red route add "$FAR" dev mv src "$NEAR"
		expect_report red UNREACHABLE restored "mv/$C0" "mv/$C0"
	done
	stamp_of "$BLUE"
	run ip -n "$BLUE" route del "$FAR"
	expect_report blue UNREACHABLE down "mv/$C1" none
	expect_after 0 3000
}

killed()
{
	resolve_both
	in_red route del "$FAR"
	kill -KILL "${CM_PID[$RED]}" "${CM_PID[$BLUE]}"
	run ip netns del "$RED"
	run ip netns del "$BLUE"
	wait_until no_macvlans || fail "the namespaces are still there"
	resolve c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
}

no_macvlans()
{
	! ls -d "/sys/class/net/$C0/upper_"* "/sys/class/net/$C1/upper_"* >/dev/null 2>&1
}

# Root there, and nobody elsewhere: it may change its own network as it likes.
user()
{
	selfloop
	resolve c1 mode align "$SHORT"
	run unshare -Urn bash -c "
		ip link set lo up
		ip link add mv index ${IFINDEX[$C0]} type dummy
		ip link set mv up
		ip addr add $CLIENT0/$LEN dev mv
		ip route add $SERVICE dev mv
		ip neigh replace $SERVICE lladdr 02:00:00:00:00:05 dev mv nud permanent
		ip route del $SERVICE dev mv
		ip addr del $CLIENT0/$LEN dev mv
		ip link set mv down
		ip link del mv"
	expect_silence c1
	expect_still_watched c1
}

run_tests "$@"
