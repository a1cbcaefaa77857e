#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# An active-backup bond fails over. See lib.sh for the topology.
#
# What soft-RoCE carries over a bond (6.12; the same for both families):
#
#	RDMA device on    fail_over_mac    GID of the bond's address   MAC of the bond
#	the bond          0                deleted, a new entry        stays
#	                  1 (active)       deleted, a new entry        changes
#	                  2 (follow)       deleted, a new entry        stays
#	each slave        0, 1, 2          leaves the device of the old active slave,
#	                                   comes to that of the new one
#
#	                  connections                traffic after a failover
#	the bond          work                       none: the QP's GID entry is gone,
#	                                             sends are flushed; new ones work
#	each slave        get no answer: what comes  -
#	                  in is the bond's, and the
#	                  device waits on the slave
#
# So every failover takes the id's GID entry away, which is "down", and with an
# RDMA device on each slave it moves to another device. Stock tells ADDR_CHANGE
# for fail_over_mac=1 only. When the link of the active slave fails, its RDMA
# port is down as well, and LINK is told before FAILOVER.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
on_bond_mac0		46	1: fail_over_mac=0: the GID entry is a new one: down, FAILOVER, once
on_bond_mac1		46	1, 2: fail_over_mac=1: down, FAILOVER, and no ADDR_CHANGE of upstream beside it
on_bond_mac2		4	1: fail_over_mac=2: down, FAILOVER, once
on_bond_teardown	4	2, mode 2: DISCONNECTED; a new connection works; R59
on_slaves_mac0		46	1, 4: fail_over_mac=0: the port of the old device is down: LINK, to the other device
on_slaves_mac1		4	1, 4: fail_over_mac=1: the port of the old device is down: LINK
on_slaves_mac2		4	1, 4: fail_over_mac=2: the port of the old device is down: LINK
on_slaves_switched	46	1: no link fails, another slave becomes active: down, FAILOVER, to the other device
on_slaves_listener	4	2: a listener on the address of the bond is reported: another device has it
on_slaves_no_monitor	4	1: the bond monitors nothing, the RDMA port is down: LINK; R97
joined			4	1: a second slave joins later: silent; R21
backup_fails		4	1: the link of the backup slave fails: silent
all_fail		4	1: no slave is left: down, LINK
xor			46	1: balance-xor: one slave fails, is back: silent; all fail: down, LINK
lacp			4	1: 802.3ad: one slave fails, is back: silent; all fail: down, LINK
broadcast		4	1: broadcast: one slave fails, is back: silent; all fail: down, LINK
released		4	1: RDMA devices on the slaves: the active slave is released, which takes it down: LINK
destroyed		4	1: RDMA devices on the slaves: the bond is destroyed: down, LINK
vlan_on_bond		46	1: a VLAN on the bond: a failover takes its GID entry too: down, FAILOVER
'

script_setup()
{
	need_align
	need_modules bonding bridge
	selfloop_create && bond_create
}

fails_over_on_bond()
{
	bond "$1" bond
	connect c1 mode align+restored "$LATER"
	traffic c1 10
	bond_failover
	expect_report c1 FAILOVER down "$BOND" "$BOND"
	expect_silence_later c1
}

on_bond_mac0()
{
	fails_over_on_bond 0
}

on_bond_mac1()
{
	fails_over_on_bond 1
}

on_bond_mac2()
{
	fails_over_on_bond 2
}

on_bond_teardown()
{
	bond 0 bond
	connect c1 mode teardown "$SHORT"
	bond_failover
	expect_event c1 DISCONNECTED status=0
	cm "destroy c1"
	wait_gid "$BOND" "$CLIENT0"
	revive_rxe "$BS"
	wait_gid "$BS" "$SERVICE"
	connect c2 mode teardown "$SHORT"
	traffic c2 10
}

fails_over_on_slaves()
{
	bond "$1" slaves
	resolve c1 mode align "$LATER"
	bond_failover
	expect_report c1 LINK down "$BOND/$P0" "$BOND/$P1"
	expect_silence_later c1
	resolve c2
}

on_slaves_mac0()
{
	fails_over_on_slaves 0
}

on_slaves_mac1()
{
	fails_over_on_slaves 1
}

on_slaves_mac2()
{
	fails_over_on_slaves 2
}

on_slaves_switched()
{
	bond 0 slaves
	resolve c1 mode align "$LATER"
	run ip link set "$BOND" type bond active_slave "$P1"
	expect_report c1 FAILOVER down "$BOND/$P0" "$BOND/$P1"
	expect_silence_later c1
}

on_slaves_listener()
{
	bond 0 slaves
	cm "listen special $CLIENT0 $PORT mode align $LATER"
	run ip link set "$BOND" type bond active_slave "$P1"
	expect_report special FAILOVER down "$BOND/$P0" "$BOND/$P1"
	expect_silence_later special
	wait_gid "$P1" "$CLIENT0"
	cm "destroy special"
	cm "listen again $CLIENT0 $PORT"
}

on_slaves_no_monitor()
{
	bond 0 slaves 0
	resolve c1 mode align "$SHORT"
	run ip -n "$SW" link set q0 down
	expect_report c1 LINK down "$BOND/$P0"
	active_slave_is "$P0" || fail "the bond does monitor"
}

joined()
{
	bond 0 bond
	run ip link set "$P1" nomaster
	wait_gid "$BOND" "$CLIENT0"
	connect c1 mode align+restored "$SHORT"
	run ip link set "$P1" down
	run ip link set "$P1" master "$BOND"
	expect_silence c1
	traffic c1 10
	be_later c1
	bond_failover
	expect_report c1 FAILOVER down "$BOND" "$BOND"
}

backup_fails()
{
	bond 0 bond
	connect c1 mode align+restored "$SHORT"
	run ip -n "$SW" link set q1 down
	wait_until no_carrier "$P1" || fail "$P1 keeps its carrier"
	expect_silence c1
	run ip -n "$SW" link set q1 up
	wait_carrier "$P1"
	expect_silence c1
	traffic c1 10
	be_later c1
	bond_failover
	expect_report c1 FAILOVER down "$BOND" "$BOND"
}

all_fail()
{
	bond 0 bond
	connect c1 mode align "$LATER"
	run ip -n "$SW" link set q1 down
	run ip -n "$SW" link set q0 down
	expect_report c1 LINK down "$BOND"
	expect_silence_later c1
}

# all_carry MODE: of a bond whose slaves all carry traffic one may fail
all_carry()
{
	BOND_MODE=$1 bond 0 bond
	resolve c1 mode align+restored "$SHORT"
	run ip -n "$SW" link set q0 down
	wait_until no_carrier "$P0" || fail "$P0 keeps its carrier"
	expect_silence c1
	run ip -n "$SW" link set q0 up
	wait_carrier "$P0"
	expect_silence c1
	run ip -n "$SW" link set q0 down
	run ip -n "$SW" link set q1 down
	expect_report c1 LINK down "$BOND"
	expect_silence c1
}

xor()
{
	all_carry balance-xor
}

lacp()
{
	all_carry 802.3ad
}

broadcast()
{
	all_carry broadcast
}

released()
{
	bond 0 slaves
	resolve c1 mode align "$LATER"
	run ip link set "$P0" nomaster
	expect_report c1 LINK down "$BOND/$P0" "$BOND/$P1"
	expect_silence_later c1
}

destroyed()
{
	bond 0 slaves
	resolve c1 mode align "$SHORT"
	run ip link del "$BOND"
	expect_report c1 LINK down "$BOND/$P0" none
	expect_silence c1
}

vlan_on_bond()
{
	local vlan=v7_$$

	bond 0 bond
	run ip link add link "$BOND" name "$vlan" type vlan id 7
	defer ip link del "$vlan"
	lend_address "$vlan" "$BOND" "$BS"
	resolve c1 mode align "$LATER"
	bond_failover
	expect_report c1 FAILOVER down "$vlan/$BOND" "$vlan/$BOND"
	expect_silence_later c1
}

run_tests "$@"
