#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# From the first report of an id to its last, and what holds what. See lib.sh
# for the topology.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
after_disconnect	46	2: nothing after the own rdma_disconnect()
after_disconnected	46	2: nothing after DISCONNECTED
one_unread		46	2: never more than one unread report in the channel
unread_latest		4	2: what is read after a pause ends with the present state
unread_many		4	2: one unread report for each of many ids
counted			46	4: seq counts the changes of verdict, unreported ones included
incident		46	4: incident is the same for all ids of one change
incident_link		4	4: also on both sides of a link, and for each destination
incident_next		4	4: and another one for the next change
destroy_in_delay	4	2: a pending delay does not hold rdma_destroy_id
destroy_unread		4	2: nor does an unread report; R14
killed			4	2: a program that is killed leaves nothing behind; R25, R74
mode_again		4	4: setting the same mode again tells nothing new
many_ids		4	2: each of many ids is told once; R2
storm			4	3: 1000 ids, a route that flaps for 10 s as fast as it can: what damping allows at most, the end is told
idle			46	3: no timer is armed while nothing is pending
delay_changed		4	3: changing a delay while one is running
churn			4	2: ids come and go while the route flaps; R68
unload			-	5: the module can be removed after use, while a DREQ is out as well
'

script_setup()
{
	need_align
	selfloop_create
}

after_disconnect()
{
	selfloop
	connect c1 mode align "$SHORT"
	cm "disconnect c1"
	route_to_c1
	expect_event c1 DISCONNECTED
	route_to_c0
	expect_event c1 TIMEWAIT_EXIT
	route_to_c1
	expect_silence c1
	connect c2 mode align "$SHORT"
	route_to_c0
	expect_report c2 ROUTE down "$C1" "$C0"
	expect_silence c1
}

after_disconnected()
{
	selfloop
	connect c1 mode align "$SHORT"
	connect c2 mode align "$SHORT"
	cm "disconnect server.1"
	expect_event c1 DISCONNECTED
	expect_event c1 TIMEWAIT_EXIT
	route_to_c1
	expect_report c2 ROUTE down "$C0" "$C1"
	expect_silence c1
}

# flap N: away and back
flap()
{
	local i

	for ((i = 0; i < $1; i++)); do
		route_to_c1
		nap 0.3
		route_to_c0
		nap 0.3
	done
}

# What was in the channel at one moment cannot be seen from here. But after it
# was read, nothing changes any more: one that waited, and one that followed.
one_unread()
{
	local n=0

	selfloop
	connect c1 mode align+restored downdelay 0 updelay 0
	cm "pause"
	flap 5
	cm "resume"
	expect_silence
	while next_event c1 1; do
		field event "$EVENT"
		[ "$FIELD" = ADDR_CHANGE ] || fail "expected ADDR_CHANGE; got $EVENT"
		n=$((n + 1))
	done
	[ "$n" -ge 1 ] || fail "no report was kept"
	[ "$n" -le 2 ] || fail "$n reports after a pause"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
}

unread_latest()
{
	selfloop
	connect c1 mode align downdelay 0 updelay 0
	cm "pause"
	flap 3
	route_to_c1
	nap 0.5
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	nap 0.5
	cm "resume"
	expect_silence
	while next_event c1 1; do
		LAST=$EVENT
	done
	field reason "${LAST:-}"
	[ "$FIELD" = UNREACHABLE ] || fail "the last report is not of the present: ${LAST:-none}"
}

unread_many()
{
	local i n

	selfloop
	cm "resolve c $SERVICE $PORT count 20 mode align+restored downdelay 0 updelay 0"
	for ((i = 1; i <= 20; i++)); do
		skip_events "c-$i" ROUTE_RESOLVED
	done
	cm "pause"
	flap 4
	cm "resume"
	expect_silence
	for ((i = 1; i <= 20; i++)); do
		n=0
		while next_event "c-$i" 0; do
			n=$((n + 1))
		done
		[ "$n" = 1 ] || [ "$n" = 2 ] || fail "c-$i: $n reports after a pause"
	done
}

counted()
{
	local first

	selfloop
	connect c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	field seq "$EVENT"
	first=$FIELD
	route_to_c0
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	field seq "$EVENT"
	# Aligned again, which nobody asked to be told, and misaligned.
	[ "$FIELD" = $((first + 2)) ] || fail "seq: expected $((first + 2)); got $EVENT"
}

# incident_of ID REASON FLAGS OLD [NEW]
incident_of()
{
	expect_report "$@"
	field incident "$EVENT"
	[ "${INCIDENT:=$FIELD}" = "$FIELD" ] || fail "expected incident $INCIDENT; got $EVENT"
}
INCIDENT=

incident()
{
	selfloop
	connect c1 mode align "$SHORT"
	connect c2 mode align+restored "$SHORT"
	resolve c3 mode align downdelay 500 updelay 500
	route_to_c1
	incident_of c1 ROUTE down "$C0" "$C1"
	incident_of c2 ROUTE down "$C0" "$C1"
	incident_of c3 ROUTE down "$C0" "$C1"
}

incident_link()
{
	local addr=${SERVICE%1}88

	selfloop
	ip_batch "-$FAMILY" <<-BATCH
	addr add $addr/$HOST dev $S0
	route add $addr dev $C0 src $CLIENT0 table $TO_SERVICE
	neigh replace $addr lladdr $(lladdr "$S0") dev $C0 nud reachable
	BATCH
	connect c1 mode align "$SHORT"
	cm "resolve c2 $addr $PORT mode align $SHORT"
	skip_events c2 ROUTE_RESOLVED
	run ip link set "$C0" down
	incident_of c1 LINK down "$C0" none
	incident_of c2 LINK down "$C0" none
}

incident_next()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	field incident "$EVENT"
	INCIDENT=$FIELD
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
	field incident "$EVENT"
	[ "$FIELD" != "$INCIDENT" ] || fail "another change, the same incident: $EVENT"
}

destroy_in_delay()
{
	selfloop
	connect c1 mode align downdelay 60000 updelay 600000
	resolve c2 mode align downdelay 60000 updelay 600000
	route_to_c1
	expect_silence c1 c2
	destroy_soon c1
	destroy_soon c2
}

destroy_unread()
{
	selfloop
	connect c1 mode align+restored downdelay 0 updelay 0
	connect c2 mode teardown downdelay 0 updelay 0
	cm "pause"
	flap 2
	route_to_c1
	cm "disconnect c1"
	route_to_c0
	destroy_soon c1
	destroy_soon c2
	cm "resume"
}

killed()
{
	selfloop
	cm_start victim
	listen server
	LISTENING=1
	cm_on victim "connect v $SERVICE $PORT mode align+restored downdelay 0 updelay 0"
	cm_on victim "resolve w $SERVICE $PORT count 50 mode align downdelay 60000 updelay 60000"
	skip_events v ESTABLISHED
	cm_on victim "pause"
	flap 2
	route_to_c1
	kill -KILL "${CM_PID[victim]}"
	wait_until cm_gone "${CM_PID[victim]}" || fail "the program does not die"
	route_to_c0
	connect c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
}

mode_again()
{
	selfloop
	connect c1 mode align "$SHORT"
	cm "set c1 mode align"
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	cm "set c1 downdelay 0"
	expect_silence c1
}

many_ids()
{
	local i

	selfloop
	cm "resolve c $SERVICE $PORT count 200 mode align $SHORT"
	for ((i = 1; i <= 200; i++)); do
		skip_events "c-$i" ROUTE_RESOLVED
	done
	route_to_c1
	for ((i = 1; i <= 200; i++)); do
		incident_of "c-$i" ROUTE down "$C0" "$C1"
	done
	nap 1
	for ((i = 1; i <= 200; i++)); do
		expect_none "c-$i"
	done
}

# told ID: how often it was told, and where to at last
told()
{
	local i

	TOLD=0 LAST=
	for ((i = 1; i <= ${COUNT[$1]:-0}; i++)); do
		[[ ${EVENTS[$1,$i]} == *" event=ADDR_CHANGE "* ]] || continue
		TOLD=$((TOLD + 1))
		field new_if "${EVENTS[$1,$i]}"
		LAST=$FIELD
	done
}

STORM_IDS=1000
STORM_S=10

all_told_of_c1()
{
	local i

	while pump 0.01; do :; done
	for ((i = 1; i <= STORM_IDS; i++)); do
		told "s-$i"
		[ "$LAST" = "${IFINDEX[$C1]}" ] || return 1
	done
}

# Delays are 50 ms, 50 ms, and then twice as long each time. A program that has
# nothing to do with it must get through meanwhile.
storm()
{
	local i ms start delay=$DOWNDELAY allowed=2 changes=1

	selfloop
	cm "resolve s $SERVICE $PORT count $STORM_IDS mode align downdelay $DOWNDELAY updelay $DOWNDELAY"
	for ((i = 1; i <= STORM_IDS; i++)); do
		skip_events "s-$i" ROUTE_RESOLVED
	done
	for ((i = 0; i < 500; i++)); do
		echo "route replace $SERVICE dev $C1 src $CLIENT1 table $TO_SERVICE"
		echo "route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE"
	done >"$TMP/storm"
	now_ms
	start=$NOW
	while [ "$NOW" -lt $((start + STORM_S * 1000)) ]; do
		run ip "-$FAMILY" -batch "$TMP/storm"
		changes=$((changes + 1000))
		cm_on other "echo alive"
		now_ms
	done
	route_to_c1
	now_ms
	ms=$((NOW - start))
	diag "$changes changes in $ms ms"
	cm "echo alive"

	for ((; ms > 0; ms -= delay, delay *= 2)); do
		allowed=$((allowed + 1))
	done
	wait_until all_told_of_c1 || fail "not all ids were told the end"
	for ((i = 1; i <= STORM_IDS; i++)); do
		told "s-$i"
		[ "$TOLD" -le "$allowed" ] || fail "s-$i was told $TOLD times, $allowed at most are allowed"
	done
	diag "each id was told $TOLD times, $allowed at most are allowed"
}

# timers COMMAND...: how often our timer was set while it ran; sets TIMERS
timers()
{
	local dir=$TRACE/instances/timers_$$

	mkdir "$dir" || skip "no trace instances"
	defer rmdir "$dir"
	echo 1 >"$dir/events/timer/timer_start/enable"
	"$@"
	echo 0 >"$dir/events/timer/timer_start/enable"
	TIMERS=$(grep -c 'function=cma_align_timer' "$dir/trace")
	rmdir "$dir"
}

repaired()
{
	route_to_c0
	expect_report c1 UNREACHABLE restored "$C0" "$C0"
}

idle()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	connect c2 mode align+sticky "$SHORT"
	resolve c3 mode teardown "$SHORT"
	expect_silence c1 c2 c3
	timers pump_for 3000
	[ "$TIMERS" = 0 ] || fail "$TIMERS timers while all are aligned"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$C0" none
	expect_report c2 UNREACHABLE down "$C0" none
	expect_report c3 UNREACHABLE down "$C0" none
	timers pump_for 3000
	[ "$TIMERS" = 0 ] || fail "$TIMERS timers while all was told"
	# And that it can be seen.
	timers repaired
	[ "$TIMERS" -gt 0 ] || fail "no timer although a delay was running"
}

delay_changed()
{
	selfloop
	connect c1 mode align downdelay 60000 updelay 60000
	connect c2 mode align downdelay 500 updelay 60000
	route_to_c1
	# Shorter than what has passed: at once; longer: counted from the change.
	nap 0.2
	cm "set c1 downdelay 100"
	cm "set c2 downdelay 3000"
	stamp
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after -2000 1500
	expect_report c2 ROUTE down "$C0" "$C1"
	expect_after 1500
}

churn()
{
	local i

	selfloop
	listen server mode align "$SHORT"
	LISTENING=1
	for ((i = 1; i <= 8; i++)); do
		cm_try "listen l$i $ANY $((PORT + i)) mode align downdelay 0 updelay 0"
		cm_try "connect c$i $SERVICE $PORT mode teardown downdelay 0 updelay 0"
		cm_try "resolve r$i $SERVICE $PORT mode align+restored downdelay 0 updelay 0"
		route_to_c1
		route_to_c0
		cm_try "destroy r$i"
		cm_try "destroy c$i"
		cm_try "destroy l$i"
	done
	# Not damped: the flaps have doubled the delays of the destination.
	connect last mode align downdelay 0 updelay 0
	route_to_c1
	expect_report last ROUTE down "$C0" "$C1"
}

unload()
{
	local begin

	[ -n "$ALIGN_LOAD" ] || skip "no align-load to remove rdma_cm with"
	selfloop
	connect c1 mode teardown "$SHORT"
	resolve c2 mode align downdelay 60000 updelay 60000
	lose_packets
	route_to_c1
	expect_event c1 DISCONNECTED
	cm_stop
	now_ms
	begin=$NOW
	timeout 60 "$ALIGN_LOAD" none >&2 || fail "rdma_cm cannot be removed"
	now_ms
	defer "$ALIGN_LOAD" aligned
	[ $((NOW - begin)) -lt 30000 ] || fail "removing rdma_cm took $((NOW - begin)) ms"
	[ ! -d /sys/module/rdma_cm ] || fail "rdma_cm is still there"
}

run_tests "$@"
