#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# stress.sh [-t SECONDS] [-s SEED] [-f]: programs that use rdma_cm from many
# threads (stress_cm.c) on the self loop of ../lib.sh, while links, routes,
# addresses, rules, nexthops, neighbours, soft-RoCE devices, namespaces and
# parameters change, owners are killed, and rdma_ucm comes and goes. Afterwards
# everything must come apart: programs, modules, netdevices.
#
# -f	allocations of rdma_cm and rdma_ucm fail now and then (failslab)
#
# What the kernel says meanwhile counts: run it on a debug kernel.

# shellcheck source-path=SCRIPTDIR source=../lib.sh
. "$(dirname "$0")/../lib.sh"

SECONDS_TO_RUN=60
FAULTS=
RANDOM_SEED=$RANDOM
while getopts t:s:f opt; do
	case $opt in
	t)	SECONDS_TO_RUN=$OPTARG ;;
	s)	RANDOM_SEED=$OPTARG ;;
	f)	FAULTS=1 ;;
	*)	exit 2 ;;
	esac
done
RANDOM=$RANDOM_SEED

STRESS_CM=$OUTPUT/stress_cm
PROGRAMS=3
THREADS=4
FAIL_SLAB=/sys/kernel/debug/failslab

# Each flapper is a process with a sequence of its own.

pause()
{
	sleep "$((RANDOM % ${1:-2})).$((RANDOM % 10))"
}

pick()
{
	local i=$((RANDOM % $#))

	shift "$i"
	echo "$1"
}

flap_link()
{
	local netdev

	netdev=$(pick "$C0" "$C1" "$S0" "$S1")
	ip link set "$netdev" down
	pause 1
	ip link set "$netdev" up
	pause 3
}

flap_route()
{
	case $((RANDOM % 5)) in
	0)	ip route del "$SERVICE" table "$TO_SERVICE" ;;
	1)	ip route replace "$SERVICE" table "$TO_SERVICE" \
			nexthop dev "$C0" nexthop dev "$C1" ;;
	2)	ip route replace "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE" ;;
	*)	ip route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" ;;
	esac
	ip route replace "$CLIENT0" dev "$S0" src "$SERVICE" table "$TO_CLIENT"
	ip route replace "$CLIENT1" dev "$S1" src "$SERVICE" table "$TO_CLIENT"
	pause 1
}

flap_addr()
{
	local netdev addr

	read -r netdev addr <<<"$(pick "$C0 $CLIENT0/$LEN" "$C1 $CLIENT1/$LEN" \
		"$S0 $SERVICE/$HOST" "$S1 $SERVICE/$HOST")"
	ip addr del "$addr" dev "$netdev"
	pause 1
	ip addr add "$addr" dev "$netdev"
	pause 3
}

flap_rule()
{
	ip rule add pref 9 to "$SERVICE" lookup "$TO_CLIENT"
	pause 1
	ip rule del pref 9
	pause 4
}

flap_nexthop()
{
	ip nexthop replace id 7001 dev "$(pick "$C0" "$C1")"
	ip route replace "$SERVICE" nhid 7001 table "$TO_SERVICE"
	pause 1
	ip nexthop replace id 7001 dev "$(pick "$C0" "$C1")"
	pause 1
	ip nexthop del id 7001
	pause 3
}

flap_neigh()
{
	local lladdr

	lladdr=$(pick "$(lladdr "$S0")" "$(lladdr "$S1")" 02:00:00:00:00:01)
	ip neigh replace "$SERVICE" lladdr "$lladdr" dev "$(pick "$C0" "$C1")" nud reachable
	pause 1
	ip neigh replace "$SERVICE" lladdr "$(lladdr "$S0")" dev "$C0" nud reachable
	ip neigh replace "$SERVICE" lladdr "$(lladdr "$S1")" dev "$C1" nud reachable
	pause 2
}

flap_rxe()
{
	local netdev

	netdev=$(pick "$C1" "$S1")
	rdma link del "rx_$netdev"
	pause 1
	rdma link add "rx_$netdev" type rxe netdev "$netdev"
	pause 6
}

# A path in another netns: soft-RoCE serves a macvlan that lives there.
flap_netns()
{
	local netns=stress_$$

	ip netns add "$netns"
	ip link add mv_$$ link "$C0" type macvlan mode bridge
	ip link set mv_$$ netns "$netns"
	ip -n "$netns" link set lo up
	ip -n "$netns" link set mv_$$ up
	ip -n "$netns" addr add 10.7.0.1/24 dev mv_$$
	ip -n "$netns" neigh replace 10.7.0.2 lladdr "$(lladdr "$S0")" dev mv_$$ nud permanent
	timeout -s KILL 6 ip netns exec "$netns" "$STRESS_CM" -t 4 -n 2 10.7.0.2 "$PORT"
	ip -n "$netns" link set mv_$$ down
	ip netns del "$netns"
	pause 4
}

flap_param()
{
	local mode

	mode=$(pick none align teardown user=align,none user=teardown nvme_rdma=align)
	{ echo "$mode" >"$PARAMS/ha_mode"
	  pick Y N >"$PARAMS/ha_passive"
	  pick Y N >"$PARAMS/ha_sticky"
	  pick 0 10 100 >"$PARAMS/ha_downdelay"
	  pick 0 10 1000 >"$PARAMS/ha_updelay"
	  cat "$PARAMS"/ha_*; } >/dev/null
	rdma resource show cm_id
	pause 3
}

FLAPPERS='flap_link flap_route flap_addr flap_rule flap_nexthop flap_neigh
flap_rxe flap_netns flap_param'

flap()
{
	RANDOM=$2
	while [ ! -e "$TMP/stop" ]; do
		"$1"
	done >/dev/null 2>&1
}

# A program is killed, or ends by itself, and comes again. Its complaint is kept.
program()
{
	local rc

	RANDOM=$1
	while [ ! -e "$TMP/stop" ]; do
		timeout -s KILL $((2 + RANDOM % 20)) "$STRESS_CM" -s "$RANDOM" \
			-t $((1 + RANDOM % 20)) -n $THREADS "$SERVICE" $((PORT + $1)) \
			>>"$TMP/said" 2>"$TMP/err.$1"
		rc=$?
		# Without rdma_ucm nothing can begin.
		if [ $rc -eq 1 ] && ! grep -q 'no event channel' "$TMP/err.$1"; then
			cat "$TMP/err.$1" >>"$TMP/broken"
		fi
		sleep 0.2
	done
}

# rdma_ucm goes when nobody has it open, so all programs are killed first.
flap_module()
{
	local i=0

	RANDOM=$1
	while [ ! -e "$TMP/stop" ]; do
		sleep $((10 + RANDOM % 10))
		[ ! -e "$TMP/stop" ] || break
		pkill -KILL -x stress_cm
		for i in $(seq 100); do
			rmmod rdma_ucm 2>/dev/null && break
			pkill -KILL -x stress_cm
			sleep 0.1
		done
		[ "$i" -lt 100 ] || echo "rdma_ucm stays" >>"$TMP/module"
		[ -d /sys/module/rdma_ucm ] || insmod "$UCM" || echo "rdma_ucm does not load" >>"$TMP/module"
		echo once >>"$TMP/reloads"
	done
}

# Calls of kmalloc() and the like from our modules.
faults_on()
{
	local name size rest

	[ -d $FAIL_SLAB ] || return 0
	while read -r name size _ _ _ rest; do
		[ "$name" = rdma_cm ] || continue
		rest=${rest%% *}
		printf '%s' "$rest" >$FAIL_SLAB/require-start
		printf '0x%x' $((rest + size)) >$FAIL_SLAB/require-end
	done </proc/modules
	echo 8 >$FAIL_SLAB/stacktrace-depth
	echo 0 >$FAIL_SLAB/verbose
	echo N >$FAIL_SLAB/ignore-gfp-wait
	echo 10 >$FAIL_SLAB/probability
	echo 1 >$FAIL_SLAB/interval
	echo -1 >$FAIL_SLAB/times
}

faults_off()
{
	[ ! -d $FAIL_SLAB ] || echo 0 >$FAIL_SLAB/probability
}

RESULT=0
NUMBER=0
result()
{
	NUMBER=$((NUMBER + 1))
	if [ "$1" = 0 ]; then
		echo "ok $NUMBER stress: $2"
	else
		echo "not ok $NUMBER stress: $2"
		[ -z "${3:-}" ] || diag "$3"
		RESULT=1
	fi
}

none_left()
{
	! pgrep -x stress_cm >/dev/null
}

[ "$(id -u)" = 0 ] || skip_all "needs root"
need_tools ip rdma pkill pgrep timeout
[ -x "$STRESS_CM" ] || skip_all "$STRESS_CM was not built"
TMP=$(mktemp -d) || exit 1
exec {NAP_FD}<> <(:)
FAMILY=4 LAST_FAMILY=4
declare -a DEFERRED=()
need_align
need_loader
UCM=${ALIGN_MODULES:-/run/vm/aligned}/rdma_ucm.ko
[ -r "$UCM" ] || UCM=$(modinfo -n rdma_ucm)
set_addresses 1
selfloop_create || skip_all "no self loop"
(selfloop) || skip_all "no self loop"

echo "TAP version 13"
echo "1..6"
diag "seed $RANDOM_SEED, $SECONDS_TO_RUN s"
[ -z "$FAULTS" ] || faults_on
for i in $(seq $PROGRAMS); do
	program "$i" &
done
for flapper in $FLAPPERS; do
	flap "$flapper" "$RANDOM" &
done
flap_module "$RANDOM" &
sleep "$SECONDS_TO_RUN"
touch "$TMP/stop"
faults_off

# Those that are not killed end by themselves.
DEADLINE=$((DEADLINE + 60))
wait_until none_left
result $? "all programs end" "$(pgrep -a -x stress_cm; echo w >/proc/sysrq-trigger)"
pkill -KILL -x stress_cm
wait
result "$([ -s "$TMP/broken" ]; echo $((!$?)))" "no program saw what cannot be" \
	"$(cat "$TMP/broken" 2>/dev/null)"
diag "$(tail -n 5 "$TMP/said")"
diag "rdma_ucm was removed and loaded $(wc -l 2>/dev/null <"$TMP/reloads" || echo 0) times"
result "$([ -s "$TMP/module" ]; echo $((!$?)))" "rdma_ucm can be removed and loaded meanwhile" \
	"$(cat "$TMP/module" 2>/dev/null)"

write_param ha_mode none
timeout 120 "$ALIGN_LOAD" none >"$TMP/unload" 2>&1
result $? "rdma_cm can be removed" "$(cat "$TMP/unload")"

topology_cleanup >/dev/null 2>&1 &
TOPOLOGY_PID=$!
cleaned()
{
	! kill -0 "$TOPOLOGY_PID" 2>/dev/null
}
wait_until cleaned && [ ! -e "/sys/class/net/$C0" ] && [ ! -e "/sys/class/net/$C1" ]
result $? "netdevices and RDMA devices can be removed" "$(ip -br link)"

timeout 60 "$ALIGN_LOAD" aligned >"$TMP/load" 2>&1
result $? "rdma_cm can be loaded again" "$(cat "$TMP/load")"
rm -rf "$TMP"
exit $RESULT
