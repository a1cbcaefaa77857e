#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The story, told in the virtual machine; demo.sh starts it and report.py reads
# its logs.
#
#	guest.sh stock|aligned PROGRAMS OUT
#
# Two paths between "two hosts" in one kernel, each through a switch, with a
# soft-RoCE device on either end:
#
#	client      10.1.0.1  c0 --- p0 [switch0] q0 --- s0  10.9.0.1   service
#	            10.2.0.1  c1 --- p1 [switch1] q1 --- s1  10.9.0.1
#
# A link fails at its switch's port (p0, p1): the client's netdevice loses the
# carrier, the service notices nothing.
#
# Policy rules keep the kernel from short-cutting them over lo. Which link the
# client's traffic should take is one route:
#
#	ip route replace table 10 10.9.0.1 dev c0|c1 src 10.1.0.1|10.2.0.1

set -euo pipefail

side=$1 bin=$2 out=$3
readonly service=10.9.0.1
readonly patience_s=25		# for a connection to recover by itself
# In memory, because several programs append to it, which 9p does not order.
log=/tmp/$side.log
: >"$log"

now_us()
{
	echo "${EPOCHREALTIME/[.,]/}"
}

# mark KIND TEXT: a line of the script's own in the timeline
mark()
{
	echo "$(now_us) script $*" >>"$log"
}

progress()
{
	echo "  [$side] $*"
}

# step TEXT: what happens to the network from here on is one row of the table
step()
{
	progress "$1"
	mark step "$1"
}

set_up_network()
{
	local i

	for i in 0 1; do
		ip link add "switch$i" type bridge
		ip link add "c$i" type veth peer name "p$i"
		ip link add "s$i" type veth peer name "q$i"
		ip link set "p$i" master "switch$i"
		ip link set "q$i" master "switch$i"
		ip address add "10.$((i + 1)).0.1/24" dev "c$i"
		ip address add "$service/32" dev "s$i"
	done
	for i in c0 c1 s0 s1 all; do
		echo 0 >"/proc/sys/net/ipv4/conf/$i/rp_filter"
		echo 1 >"/proc/sys/net/ipv4/conf/$i/accept_local"
	done
	echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6
	for i in c0 c1 s0 s1; do
		ip rule add pref 5 iif "$i" lookup local
	done
	ip rule add pref 10 to "$service" lookup 10
	ip rule add pref 11 to 10.1.0.1 lookup 11
	ip rule add pref 11 to 10.2.0.1 lookup 11
	ip rule add pref 100 lookup local
	ip rule del pref 0
	for i in switch0 switch1 c0 c1 p0 p1 q0 q1 s0 s1; do
		ip link set "$i" up
	done
	ip link add lost type dummy
	ip link set lost up
	for i in 0 1; do
		tc qdisc add dev "c$i" clsact
		ip neighbour add "$service" dev "c$i" nud permanent \
			lladdr "$(cat "/sys/class/net/s$i/address")"
		ip neighbour add "10.$((i + 1)).0.1" dev "s$i" nud permanent \
			lladdr "$(cat "/sys/class/net/c$i/address")"
		ip route add table 11 "10.$((i + 1)).0.1" dev "s$i" src "$service"
	done
	route_to 0
	modprobe rdma_rxe
	for i in c0 c1 s0 s1; do
		rdma link add "rx_$i" type rxe netdev "$i"
	done
}

route_to()
{
	ip route replace table 10 "$service" dev "c$1" src "10.$(($1 + 1)).0.1"
}

# A link fails as hardware sees it: what is sent is lost, the carrier goes, and
# nothing else happens. Soft-RoCE alone would let more happen, because it sends
# through the IP stack: a QP that is refused a packet while the carrier goes down
# is in the error state at once (and if it is the one for connection management,
# the device never connects again), and a QP cannot be destroyed as long as one
# of its packets waits for ARP. So packets go to a dummy, and neighbours are
# permanent. (Over a veth they had better be: its answer to ARP comes before the
# kernel waits for it, and address resolution then takes its full second.)
fail_link()
{
	tc filter add dev "c$1" egress matchall action mirred egress redirect dev lost
	ip link set "p$1" down
}

repair_link()
{
	tc filter del dev "c$1" egress
	ip link set "p$1" up
}

last_answer_us()
{
	local us

	[ -e "$1" ] && read -r us _ <"$1" && echo "$((10#$us))" || echo 0
}

# settle METER SECONDS: wait until data has flowed since SECONDS after now, but
# not for ever
settle()
{
	local meter=$1 start wanted

	start=$(now_us)
	wanted=$((start + $2 * 1000000))
	while [ "$(last_answer_us "$meter")" -lt "$wanted" ]; do
		if [ $(($(now_us) - start)) -gt $((patience_s * 1000000)) ]; then
			progress "nothing flows after $patience_s s"
			mark gaveup "$patience_s"
			return
		fi
		sleep 0.1
	done
}

# wait_for SECONDS COMMAND...
wait_for()
{
	local end=$((SECONDS + $1))

	shift
	until "$@"; do
		[ $SECONDS -lt $end ] || return 1
		sleep 0.1
	done
}

has_answers()
{
	[ "$(last_answer_us "$1")" -gt 0 ]
}

# --- a program on librdmacm ------------------------------------------------

story_rc()
{
	local server client how='' meter=/tmp/rc.meter

	[ "$side" = stock ] || how=align
	mark story rc
	"$bin/demo_rc" server 7471 "$log" &
	server=$!
	sleep 0.5
	# shellcheck disable=SC2086 # empty is no argument
	"$bin/demo_rc" client "$service" 7471 "$log" "$meter" $how &
	client=$!
	wait_for 20 has_answers "$meter" || { mark bad "no connection"; return 1; }
	settle "$meter" 2
	mark start "requests are answered"

	step "the route moves to c1, both links work"
	route_to 1
	settle "$meter" 3
	step "link c0 fails, no route uses it"
	fail_link 0
	settle "$meter" 3
	step "link c0 is repaired"
	repair_link 0
	settle "$meter" 2
	step "link c1 fails, the route moves to c0"
	fail_link 1
	route_to 0
	settle "$meter" 3
	mark end "of the story"
	repair_link 1

	kill "$client"
	wait "$client" || mark bad "the client ended with $?"
	kill "$server"
	wait "$server" || mark bad "the server ended with $?"
	sleep 0.5
}

# --- the kernel's nvme_rdma --------------------------------------------------

nqn=nqn.2014-08.org.nvmexpress:demo
nvmet=/sys/kernel/config/nvmet

target_up()
{
	local subsys=$nvmet/subsystems/$nqn port=$nvmet/ports/1

	modprobe brd rd_nr=1 rd_size=16384
	modprobe nvmet-rdma
	mkdir "$subsys"
	echo 1 >"$subsys/attr_allow_any_host"
	mkdir "$subsys/namespaces/1"
	echo /dev/ram0 >"$subsys/namespaces/1/device_path"
	echo 1 >"$subsys/namespaces/1/enable"
	mkdir "$port"
	echo rdma >"$port/addr_trtype"
	echo ipv4 >"$port/addr_adrfam"
	# Not bound to a device: connections come in by whichever works.
	echo 0.0.0.0 >"$port/addr_traddr"
	echo 4420 >"$port/addr_trsvcid"
	ln -s "$subsys" "$port/subsystems/$nqn"
}

target_down()
{
	local subsys=$nvmet/subsystems/$nqn port=$nvmet/ports/1

	rm "$port/subsystems/$nqn"
	rmdir "$port"
	echo 0 >"$subsys/namespaces/1/enable"
	rmdir "$subsys/namespaces/1" "$subsys"
	modprobe -r nvmet-rdma
	modprobe -r brd
}

# nvme_path: the RDMA device under the host's connections, into the timeline
nvme_path()
{
	local dev

	dev=$(rdma resource show cm_id | sed -nE 's/^link (rx_c[01]).*state CONNECT .*comm \[nvme_rdma\].*/\1/p' |
		sort -u | tr '\n' ' ')
	mark path "${dev:-none}"
}

story_nvme()
{
	local io ctrl meter=/tmp/io.meter

	mark story nvme
	target_up
	modprobe nvme-rdma
	nvme connect -t rdma -a "$service" -s 4420 -n "$nqn" -q "$nqn:host" \
		-I 0f5ad8a4-7d2e-4a52-9c8e-0d4a3f0c6c11 \
		--nr-io-queues=2 --keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=60
	wait_for 10 test -b /dev/nvme0n1
	ctrl=/sys/class/nvme/nvme0
	"$bin/demo_io" /dev/nvme0n1 $ctrl/state "$log" "$meter" &
	io=$!
	wait_for 20 has_answers "$meter" || { mark bad "no I/O"; return 1; }
	settle "$meter" 2
	nvme_path
	mark start "blocks are written and read"

	step "link c0 fails, the route moves to c1"
	fail_link 0
	route_to 1
	settle "$meter" 3
	nvme_path
	step "link c0 is repaired"
	repair_link 0
	settle "$meter" 2
	step "link c1 fails, the route moves to c0"
	fail_link 1
	route_to 0
	settle "$meter" 3
	nvme_path
	mark end "of the story"
	repair_link 1

	kill "$io"
	wait "$io" || mark bad "the reader and writer ended with $?"
	nvme disconnect -n "$nqn" >/dev/null
	target_down
}

save_log()
{
	cp "$log" "$out/"
}
trap 'save_log; kill $(jobs -p) 2>/dev/null' EXIT
# What there is must be there too if the guest dies.
(while sleep 5; do save_log; done) &

progress "loading the $side modules"
if [ "$side" = stock ]; then
	align-load stock
else
	align-load aligned ha_mode=nvme_rdma=align
fi
[ -d /sys/class/net/c0 ] || set_up_network
route_to 0
story_rc
story_nvme
align-load none
progress "done"
