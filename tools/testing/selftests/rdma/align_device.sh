#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What can become of a netdevice: another hardware address, netdevices on top of
# it, a master over it, another network namespace, its end. See lib.sh for the
# topology.
#
# A netdevice with an address of its own on top of C0 (a VLAN, a macvlan, a
# bridge) has its GIDs in the table of C0's RDMA device. rdma_cm resolves over
# it, and soft-RoCE carries no traffic there: it routes by C0. So ids are only
# resolved. Such a netdevice can be deleted or moved to another namespace while
# a program holds the RDMA device, which C0 itself cannot: soft-RoCE goes with
# it, and waits for the program.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
hwaddr			46	1: the netdevice has another hardware address, and so new GID entries: down, FAILOVER
vlan_route		46	1: VLAN: the route moves to another netdevice: down, ROUTE
vlan_restored		46	2, RESTORED: VLAN: and back
vlan_down		46	1: VLAN: taken down, the lower netdevice is fine: down, LINK
vlan_carrier		46	1: VLAN: the lower netdevice has no carrier: down, LINK
vlan_address		46	1: VLAN: the source address has left: down, ADDRESS
vlan_to_lower		46	1: VLAN: the address moves to the lower netdevice, of the same RDMA device: down, ADDRESS
vlan_deleted		46	1: VLAN: the netdevice is unregistered: down, LINK
vlan_of_others		46	1: VLAN: others on the same netdevice come and go: silent
macvlan_route		46	1: macvlan: the route moves to another netdevice: down, ROUTE
macvlan_deleted		46	1: macvlan: the netdevice is unregistered: down, LINK
macvlan_netns		46	1: macvlan: the netdevice moves to another network namespace: down, LINK
macvlan_listener	4	2: a listener is not reported when its netdevice goes
teardown_resolved	4	2, mode 2: an id that is only resolved gets ADDR_CHANGE when its netdevice goes
pinned_deleted		46	1: pinned: the netdevice is unregistered: down, LINK
sticky_deleted		4	2, STICKY: what is gone is told
vrf_enslaved		4	1: enslaved to a VRF, its routes go: down, UNREACHABLE
vrf_released		4	2, RESTORED: released, the route is back
bridge_port		46	1: the netdevice becomes a port of a bridge: silent
bridge_address		46	1: its address moves to the bridge: down, ADDRESS, to the bridge over the same RDMA device
'

U0=u0_$$
V9=v9_$$
BR=br_$$
VRF=vrf_$$
NS=ns_$$

script_setup()
{
	need_align
	selfloop_create
}

upper_destroy()
{
	ip link del "$1"
	ip -n "$NS" link del "$1"
	ip netns del "$NS"
} 2>/dev/null

# upper TYPE [ARG]...: U0 on top of C0
upper()
{
	selfloop
	ip link add link "$C0" name "$U0" type "$@" || skip "no netdevice of type $1"
	defer upper_destroy "$U0"
	lend_address "$U0" "$C0" "$S0"
}

vlan()
{
	upper vlan id 10
}

macvlan()
{
	upper macvlan mode bridge
}

hwaddr()
{
	selfloop
	resolve c1 mode align "$LATER"
	run ip link set "$C0" address 02:00:00:00:aa:01
	expect_report c1 FAILOVER down "$C0" "$C0"
	expect_silence_later c1
}

vlan_route()
{
	vlan
	resolve c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$U0/$C0" "$C1"
	expect_silence c1
}

vlan_restored()
{
	vlan
	resolve c1 mode align+restored "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$U0/$C0" "$C1"
	run ipf route replace "$SERVICE" dev "$U0" src "$CLIENT0" table "$TO_SERVICE"
	expect_report c1 ROUTE restored "$U0/$C0" "$U0/$C0"
	expect_silence c1
}

vlan_down()
{
	vlan
	resolve c1 mode align "$SHORT"
	run ip link set "$U0" down
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

vlan_carrier()
{
	vlan
	resolve c1 mode align "$SHORT"
	run ip link set "$S0" down
	expect_report c1 LINK down "$U0/$C0"
	expect_silence c1
}

vlan_address()
{
	vlan
	resolve c1 mode align "$SHORT"
	run ipf addr del "$CLIENT0/$LEN" dev "$U0"
	expect_report c1 ADDRESS down "$U0/$C0"
	expect_silence c1
}

vlan_to_lower()
{
	vlan
	resolve c1 mode align downdelay 1000 updelay 60000
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $U0
	addr add $CLIENT0/$LEN dev $C0
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
	expect_report c1 ADDRESS down "$U0/$C0" "$C0"
	expect_silence c1
}

vlan_deleted()
{
	vlan
	resolve c1 mode align "$SHORT"
	run ip link del "$U0"
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

vlan_of_others()
{
	vlan
	resolve c1 mode align "$SHORT"
	run ip link add link "$C0" name "$V9" type vlan id 9
	defer upper_destroy "$V9"
	ip_batch "-$FAMILY" <<-BATCH
	link set $V9 up
	addr add ${CLIENT1%1}9/$LEN dev $V9
	addr add ${CLIENT1%1}8/$LEN dev $C0
	addr del ${CLIENT1%1}8/$LEN dev $C0
	link set $V9 down
	link del $V9
	BATCH
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$U0/$C0" "$C1"
}

macvlan_route()
{
	macvlan
	resolve c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$U0/$C0" "$C1"
	expect_silence c1
}

macvlan_deleted()
{
	macvlan
	resolve c1 mode align "$SHORT"
	run ip link del "$U0"
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

macvlan_netns()
{
	macvlan
	resolve c1 mode align "$SHORT"
	run ip netns add "$NS"
	run ip link set "$U0" netns "$NS"
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

macvlan_listener()
{
	macvlan
	cm "listen special $CLIENT0 $PORT mode align $SHORT"
	run ip link del "$U0"
	expect_silence special
}

teardown_resolved()
{
	macvlan
	resolve c1 mode teardown "$SHORT"
	run ip link del "$U0"
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

pinned_deleted()
{
	vlan
	resolve c1 src "$CLIENT0" mode align "$SHORT"
	route_to_c1
	expect_silence c1
	run ip link del "$U0"
	expect_report c1 LINK down "$U0/$C0" none
}

sticky_deleted()
{
	vlan
	resolve c1 mode align+sticky "$SHORT"
	run ip link del "$U0"
	expect_report c1 LINK down "$U0/$C0" none
	expect_silence c1
}

# A netdevice is taken down and up when it is enslaved and when it is released,
# for less than the delay.
vrf()
{
	selfloop
	ip link add "$VRF" type vrf table 7020 || skip "no VRF"
	defer ip link del "$VRF"
	run ip link set "$VRF" up
}

vrf_enslaved()
{
	vrf
	resolve c1 mode align downdelay 1000 updelay 60000
	run ip link set "$C0" master "$VRF"
	expect_report c1 UNREACHABLE down "$C0" none
	expect_silence c1
}

vrf_released()
{
	vrf
	resolve c1 mode align+restored downdelay 1000 updelay 1000
	run ip link set "$C0" master "$VRF"
	expect_report c1 UNREACHABLE down "$C0" none
	run ip link set "$C0" nomaster
	route_to_c0
	expect_report c1 UNREACHABLE restored "$C0" "$C0"
	expect_silence c1
}

bridge()
{
	selfloop
	ip link add "$BR" type bridge || skip "no bridge"
	defer ip link del "$BR"
	resolve c1 mode align "$@"
	run ip link set "$C0" master "$BR"
}

bridge_port()
{
	bridge "$SHORT"
	expect_silence c1
	expect_still_watched c1
}

bridge_address()
{
	bridge downdelay 6000 updelay 60000
	lend_address "$BR" "$C0" "$S0"
	expect_report c1 ADDRESS down "$C0" "$BR/$C0"
	expect_silence c1
}

run_tests "$@"
