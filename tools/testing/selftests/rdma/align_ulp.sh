#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The distribution's own ULPs on our rdma_cm, and what "rdma resource" shows.
# See lib.sh for the topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
nvme_rdma		-	5: the kernel module of that name loads
nvmet_rdma		-	5: the kernel module of that name loads
rpcrdma			-	5: the kernel module of that name loads
ib_iser			-	5: the kernel module of that name loads
ib_isert		-	5: the kernel module of that name loads
rds_rdma		-	5: the kernel module of that name loads
resources		46	5: "rdma resource show cm_id" shows our ids as they are
resource_details	4	5: and the module, the port and the number of ids
'

script_setup()
{
	need_align
	selfloop_create
}

# loads MODULE: and uses ours
loads()
{
	local depends

	modinfo "$1" >/dev/null 2>&1 || skip "the kernel has no $1"
	if [ ! -d "/sys/module/$1" ]; then
		modprobe "$1" || fail "$1 does not load: $(dmesg | tail -n 3)"
		defer modprobe -r "$1"
	fi
	[ -d "/sys/module/$1" ] || fail "$1 is not there"
	depends=$(cat "/sys/module/rdma_cm/holders/$1/initstate" 2>/dev/null)
	[ "$depends" = live ] || fail "$1 does not hold rdma_cm: $(ls /sys/module/rdma_cm/holders)"
	[ -e "$PARAMS/ha_mode" ] || fail "rdma_cm is not ours any more"
	! dmesg | grep -E "$1: (disagrees about version|Unknown symbol)" ||
		fail "$1 does not match"
}

nvme_rdma()
{
	loads nvme_rdma
}

nvmet_rdma()
{
	loads nvmet_rdma
}

rpcrdma()
{
	loads rpcrdma
}

ib_iser()
{
	loads ib_iser
}

ib_isert()
{
	loads ib_isert
}

rds_rdma()
{
	loads rds_rdma
}

# shown PATTERN: a line of rdma resource
shown()
{
	rdma resource show cm_id | grep -Eq "$1" ||
		fail "not shown: $1"$'\n'"$(rdma resource show cm_id)"
}

resources()
{
	local pid

	selfloop
	connect c1 mode align "$SHORT"
	pid=${CM_PID[cm]}
	if [ "$FAMILY" = 4 ]; then
		shown "^link rx_$C0/1 .*state CONNECT ps TCP pid $pid comm align_cm src-addr $CLIENT0:[0-9]+ dst-addr $SERVICE:$PORT"
		shown "^link rx_$S0/1 .*state CONNECT ps TCP pid $pid comm align_cm src-addr $SERVICE:$PORT dst-addr $CLIENT0:"
	else
		shown "^link rx_$C0/1 .*state CONNECT ps TCP pid $pid comm align_cm src-addr .*$CLIENT0.* dst-addr .*$SERVICE"
	fi
	shown "^link rx_$S0/.*state LISTEN ps TCP pid $pid comm align_cm"
}

# What ib_core reads of an id, it reads at fixed offsets.
resource_details()
{
	local lqpn before

	selfloop
	connect c1 mode align "$SHORT"
	cm "resolve c2 $SERVICE $PORT mode teardown $SHORT"
	skip_events c2 ROUTE_RESOLVED
	lqpn=$(rdma resource show qp | sed -n "s|^link rx_$C0/1 lqpn \([0-9]*\) .*type RC .*|\1|p")
	[ -n "$lqpn" ] || fail "no QP on rx_$C0"
	shown "^link rx_$C0/1 .*lqpn $lqpn qp-type RC state CONNECT"
	shown "^link rx_$C0/1 .*state ROUTE_RESOLVED ps TCP pid ${CM_PID[cm]}"
	before=$(rdma resource show cm_id | grep -c "^link rx_$C0/")
	cm "destroy c2"
	[ "$(rdma resource show cm_id | grep -c "^link rx_$C0/")" = $((before - 1)) ] ||
		fail "c2 is still shown"
}

run_tests "$@"
