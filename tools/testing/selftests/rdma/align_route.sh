#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The route of an active id moves, and moves back. See lib.sh for the topology.
#
# Down or superseded is what tells most of these tests apart: after "ip route
# replace" no route leaves by the id's own netdevice any more, so its path is
# down; after a better route was added beside it the path still works.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
moved			46	1: no route leaves by the netdevice any more: down, ROUTE; the connection is untouched; R33, R86
moved_back		46	2, RESTORED: a reported id that is aligned again is told, once
moved_back_unflagged	46	2: without RESTORED the way back is silent, the next move is a new edge
moved_on		4	2: each change of verdict is one report, none for what was reported
deleted			46	1: no route at all: down, UNREACHABLE, no new path
unreachable		46	1: an unreachable route is no route: down, UNREACHABLE
blackhole		46	1: a blackhole route is no route: down, UNREACHABLE
prohibit		46	1: a prohibit route is no route: down, UNREACHABLE
throw			46	1: a throw route leaves it to another table, of another netdevice: down, ROUTE
default_route		46	1: the default route moves to another netdevice: down, ROUTE
more_specific		46	1: a more specific route by another netdevice: superseded, ROUTE
better_metric		46	1: a route of better metric by another netdevice: superseded, ROUTE
rule			46	1: a rule that prefers another table: superseded, ROUTE; R56
rule_restored		46	2, RESTORED: the rule is gone again; R56
sticky			46	2, STICKY: superseded is silent, down is reported
two_delays		46	3: downdelay for down, updelay for superseded
zero_delay		4	3: delay 0 reports at once
back_in_time		46	3: after the delay only what still holds is reported
verdict_in_delay	4	3: when the verdict changes, the delay of the new one counts
damped			4	3: reports within 60 s double the delays of a destination
damping_outlives_id	4	3: damping is kept for the destination, a new id inherits it; R51
undamped		4	3: delay 0 set by the ULP is never damped
teardown		46	2, mode 2: DISCONNECTED, then TIMEWAIT_EXIT, each once
teardown_superseded	46	2, mode 2: a superseded path is torn down, after updelay
teardown_ud		46	2, mode 2 on UD acts as mode 1
teardown_resolved	46	2, mode 2 on an id that is not connected acts as mode 1
resolved		46	2, mode 1 on an id that is only resolved
ud			46	4: a UD id has the private data in param.ud
set_late		46	4: a mode set on a misaligned id reports it
set_none		4	2, mode 0: nothing is told any more
new_device		4	4: new_* name a device that was added later
new_without_rdma	4	4: new_* say that there is no RDMA device
'

script_setup()
{
	need_align
	selfloop_create
}

moved()
{
	selfloop
	connect c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_silence c1 "$PASSIVE"
	# Soft-RoCE looks IPv6 routes up by packet, and would leave by the other.
	[ "$FAMILY" = 6 ] || traffic c1 10
	route_to_c0
	traffic c1 10
}

moved_back()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
}

moved_back_unflagged()
{
	selfloop
	connect c1 mode align "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
}

moved_on()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	# It is still the same: misaligned, and told.
	run ipf route change "$SERVICE" dev "$C1" table "$TO_SERVICE"
	expect_silence c1
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
}

deleted()
{
	selfloop
	connect c1 mode align "$SHORT"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$C0" none
	expect_silence c1
}

# forbid TYPE: the route to the service becomes one of a type without next hop
forbid()
{
	if [ "$FAMILY" = 6 ]; then
		# IPv6 has it beside the other, on lo.
		run ipf route add "$1" "$SERVICE" table "$TO_SERVICE" metric 1
		run ipf route del "$SERVICE" dev "$C0" table "$TO_SERVICE"
	else
		run ipf route replace "$1" "$SERVICE" table "$TO_SERVICE"
	fi
}

unreachable()
{
	selfloop
	connect c1 mode align "$SHORT"
	forbid unreachable
	expect_report c1 UNREACHABLE down "$C0" none
}

blackhole()
{
	selfloop
	connect c1 mode align "$SHORT"
	forbid blackhole
	expect_report c1 UNREACHABLE down "$C0" none
}

prohibit()
{
	selfloop
	connect c1 mode align "$SHORT"
	forbid prohibit
	expect_report c1 UNREACHABLE down "$C0" none
}

throw()
{
	selfloop
	connect c1 mode align downdelay 50 updelay 60000
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$OTHER_TABLE"
	defer ipf route flush table "$OTHER_TABLE"
	run ipf rule add pref 13 to "$SERVICE" lookup "$OTHER_TABLE"
	defer ipf rule del pref 13
	expect_silence c1
	forbid throw
	expect_report c1 ROUTE down "$C0" "$C1"
}

default_route()
{
	selfloop
	run ipf route add default dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	connect c1 mode align+restored "$SHORT"
	run ipf route replace default dev "$C1" src "$CLIENT1" table "$TO_SERVICE"
	expect_report c1 ROUTE down "$C0" "$C1"
	run ipf route replace default dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	expect_report c1 ROUTE restored "$C0" "$C0"
	run ipf route del default table "$TO_SERVICE"
	expect_report c1 UNREACHABLE down "$C0" none
}

# The route to the service becomes one of a wider prefix.
wide_route()
{
	run ipf route add "$SERVICES" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	run ipf route del "$SERVICE" table "$TO_SERVICE"
}

more_specific()
{
	selfloop
	wide_route
	connect c1 mode align+restored "$SHORT"
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE"
	expect_report c1 ROUTE none "$C0" "$C1"
	[ "$FAMILY" = 6 ] || traffic c1 10
	run ipf route del "$SERVICE" table "$TO_SERVICE"
	expect_report c1 ROUTE restored "$C0" "$C0"
}

# The route to the service becomes one that a better one can be added to.
weak_route()
{
	run ipf route add "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE" metric 2000
	run ipf route del "$SERVICE" table "$TO_SERVICE" metric $((FAMILY == 6 ? 1024 : 0))
}

better_route()
{
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE" metric 1000
}

better_metric()
{
	selfloop
	weak_route
	connect c1 mode align+restored "$SHORT"
	better_route
	expect_report c1 ROUTE none "$C0" "$C1"
	run ipf route del "$SERVICE" table "$TO_SERVICE" metric 1000
	expect_report c1 ROUTE restored "$C0" "$C0"
}

OTHER_TABLE=7012

add_rule()
{
	run ipf route add "$SERVICE" dev "$C1" src "$CLIENT1" table "$OTHER_TABLE"
	defer ipf route flush table "$OTHER_TABLE"
	run ipf rule add pref 9 to "$SERVICE" lookup "$OTHER_TABLE"
	defer ipf rule del pref 9
}

rule()
{
	selfloop
	connect c1 mode align "$SHORT"
	add_rule
	expect_report c1 ROUTE none "$C0" "$C1"
}

rule_restored()
{
	selfloop
	connect c1 mode align+restored "$SHORT"
	add_rule
	expect_report c1 ROUTE none "$C0" "$C1"
	run ipf rule del pref 9
	expect_report c1 ROUTE restored "$C0" "$C0"
}

sticky()
{
	selfloop
	weak_route
	connect c1 mode align+sticky "$SHORT"
	better_route
	expect_silence c1
	run ipf route del "$SERVICE" dev "$C0" table "$TO_SERVICE"
	expect_report c1 ROUTE down "$C0" "$C1"
}

two_delays()
{
	selfloop
	weak_route
	connect quick_up mode align downdelay 60000 updelay 0
	connect slow_up mode align downdelay 0 updelay 4000
	stamp
	better_route
	expect_report quick_up ROUTE none "$C0" "$C1"
	expect_none slow_up
	expect_report slow_up ROUTE none "$C0" "$C1"
	expect_after 4000
	cm "destroy quick_up"
	cm "destroy slow_up"

	selfloop
	connect quick_down mode align downdelay 0 updelay 60000
	connect slow_down mode align downdelay 4000 updelay 0
	stamp
	route_to_c1
	expect_report quick_down ROUTE down "$C0" "$C1"
	expect_none slow_down
	expect_report slow_down ROUTE down "$C0" "$C1"
	expect_after 4000
}

zero_delay()
{
	selfloop
	connect c1 mode align downdelay 0 updelay 60000
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 0 3000
}

back_in_time()
{
	selfloop
	connect c1 mode align+restored downdelay 2000 updelay 2000
	route_to_c1
	route_to_c0
	QUIET_MS=$((QUIET_MS + 2000)) expect_silence c1
	expect_still_watched c1
}

verdict_in_delay()
{
	selfloop
	weak_route
	connect c1 mode align downdelay 1000 updelay 60000
	better_route
	nap 1
	stamp
	run ipf route del "$SERVICE" dev "$C0" table "$TO_SERVICE"
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 1000 20000
}

# A report within 60 s of the last one doubles: the second doubles the third's.
damped()
{
	selfloop
	connect c1 mode align downdelay 2000 updelay 100
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 2000
	route_to_c0
	expect_silence c1
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 2000
	route_to_c0
	expect_silence c1
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 4000
	route_to_c0
	expect_silence c1
	stamp
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_after 8000
}

damping_outlives_id()
{
	selfloop
	connect c1 mode align downdelay 1000 updelay 100
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_silence c1
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	cm "destroy c1"
	route_to_c0
	connect c2 mode align downdelay 1000 updelay 60000
	stamp
	route_to_c1
	expect_report c2 ROUTE down "$C0" "$C1"
	expect_after 2000
}

undamped()
{
	selfloop
	connect c1 mode align+restored downdelay 0 updelay 0
	for _ in 1 2 3 4 5 6 7 8; do
		stamp
		route_to_c1
		expect_report c1 ROUTE down "$C0" "$C1"
		expect_after 0 5000
		route_to_c0
		expect_report c1 ROUTE restored "$C0" "$C0"
	done
}

teardown()
{
	selfloop
	connect c1 mode teardown "$SHORT"
	route_to_c1
	expect_event c1 DISCONNECTED status=0
	expect_event c1 TIMEWAIT_EXIT status=0
	expect_silence c1
}

teardown_superseded()
{
	selfloop
	weak_route
	connect c1 mode teardown downdelay 0 updelay 1500
	stamp
	better_route
	expect_event c1 DISCONNECTED status=0
	expect_after 1500
	expect_event c1 TIMEWAIT_EXIT status=0
}

connect_ud()
{
	cm "listen udserver $ANY $PORT ud"
	cm "connect c1 $SERVICE $PORT ud $*"
	skip_events c1 ESTABLISHED
}

teardown_ud()
{
	selfloop
	connect_ud mode teardown "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_silence c1
}

teardown_resolved()
{
	selfloop
	resolve c1 mode teardown "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_silence c1
}

resolved()
{
	selfloop
	resolve c1 mode align+restored "$SHORT"
	cm "resolve c2 $SERVICE $PORT addronly mode align $SHORT"
	skip_events c2 ADDR_RESOLVED
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_report c2 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
	expect_silence c1 c2
}

ud()
{
	selfloop
	connect_ud mode align+restored "$SHORT"
	route_to_c1
	expect_report c1 ROUTE down "$C0" "$C1"
	route_to_c0
	expect_report c1 ROUTE restored "$C0" "$C0"
}

set_late()
{
	selfloop
	connect c1 "$SHORT"
	route_to_c1
	expect_silence c1
	cm "set c1 mode align"
	expect_report c1 ROUTE down "$C0" "$C1"
	expect_silence c1
}

set_none()
{
	selfloop
	connect c1 mode align "$SHORT"
	cm "set c1 mode none"
	route_to_c1
	expect_silence c1
	cm "set c1 mode align"
	expect_report c1 ROUTE down "$C0" "$C1"
}

# A third path that is not there when the id is resolved.
add_third_path()
{
	run ip link add "c2_$$" type veth peer name "s2_$$"
	defer ip link del "c2_$$"
	set_sysctls "c2_$$" "s2_$$"
	run ip link set "s2_$$" up
	run ip link set "c2_$$" up
	run ip addr add "10.3.0.1/24" dev "c2_$$"
	learn "c2_$$"
}

new_device()
{
	selfloop
	connect c1 mode align "$SHORT"
	add_third_path
	run add_rxe "c2_$$"
	defer del_rxe "rx_c2_$$"
	wait_carrier "c2_$$"
	wait_gid "c2_$$" 10.3.0.1
	run ipf route replace "$SERVICE" dev "c2_$$" src 10.3.0.1 table "$TO_SERVICE"
	expect_report c1 ROUTE down "$C0" "c2_$$"
}

new_without_rdma()
{
	selfloop
	connect c1 mode align "$SHORT"
	add_third_path
	run ipf route replace "$SERVICE" dev "c2_$$" src 10.3.0.1 table "$TO_SERVICE"
	expect_report c1 ROUTE down "$C0"
	field new_dev "$EVENT"
	[ "$FIELD" = -1 ] || fail "new_dev is not none: $EVENT"
	field new_port "$EVENT"
	[ "$FIELD" = 0 ] || fail "new_port is not none: $EVENT"
}

run_tests "$@"
