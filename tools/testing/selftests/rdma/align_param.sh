#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The module parameters: for ids that set nothing themselves. See lib.sh for
# the topology.
#
# Such ids get ADDR_CHANGE in its stock shape, without private data.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
defaults		-	6: the defaults
good_modes		-	6, ha_mode: what is accepted, and read back
bad_modes		-	6, ha_mode: empty, unknown, double, malformed: EINVAL, the old one stays
good_numbers		-	6, delays and bools: what is accepted
bad_numbers		-	6, delays and bools: EINVAL, the old one stays
mode_for_user		46	6, user=align: a program that sets nothing gets ADDR_CHANGE without private data
mode_for_all		4	6: a bare mode is for the rest, programs included
mode_for_others		4	6: a bare mode with user=none, and a mode for another ULP
teardown_for_user	46	6, user=teardown: DISCONNECTED
afterwards		4	6: only ids created afterwards
own_mode		4	6: an id that sets a mode itself, NONE as well
own_delays		4	6: delays that an id sets itself
downdelay		4	6, ha_downdelay
updelay			4	6, ha_updelay
sticky			4	6, ha_sticky: superseded is silent, down is told
passive_off		4	6, ha_passive=N: listeners and what they accept are not covered
passive_on		4	6, ha_passive=Y: they are
while_connecting	4	2: a default-mode id is not told of a superseded path before ESTABLISHED, but after
down_connecting		4	2: it is told of a path that is down
off_again		4	6: ha_mode=none: new ids have none
bad_at_load		-	6: a bad value does not load
set_at_load		-	6: a good one does
'

script_setup()
{
	need_align
	selfloop_create
}

is_param()
{
	local value

	value=$(cat "$PARAMS/$1")
	[ "$value" = "$2" ] || fail "$1 is '$value', expected '$2'"
}

# refused NAME VALUE: written as a shell does, with a newline
refused()
{
	local before errors

	before=$(cat "$PARAMS/$1")
	! errors=$(dd of="$PARAMS/$1" bs=65536 <<<"$2" 2>&1) || fail "$1='$2' was accepted"
	[[ $errors == *"Invalid argument"* ]] || fail "$1='$2': expected EINVAL; got $errors"
	is_param "$1" "$before"
}

defaults()
{
	[ -n "$ALIGN_LOAD" ] || skip "no align-load to load the module anew with"
	"$ALIGN_LOAD" aligned >&2 || fail "the module does not load"
	is_param ha_mode none
	is_param ha_passive N
	is_param ha_sticky N
	is_param ha_downdelay 100
	is_param ha_updelay 5000
}

good_modes()
{
	local value

	for value in none align teardown user=align nvme_rdma=align,rpcrdma=teardown,user=none \
		     align,user=none user=teardown,align none,nvme_rdma=align; do
		set_param ha_mode "$value"
		is_param ha_mode "$value"
	done
	# A shell's echo adds a newline.
	echo align >"$PARAMS/ha_mode" || fail "align with a newline"
	is_param ha_mode align
	write_param ha_mode none
}

bad_modes()
{
	local value

	set_param ha_mode nvme_rdma=align,user=none
	for value in '' ' ' foo Align ALIGN aligns alig 1 0x1 ',' 'align,' ',align' align,,teardown \
		     align,teardown align,align user=align,user=align user=align,user=none \
		     user= =align = user=foo user==align user=align=none user:align \
		     'user=align none' 'user =align' 'user= align' 'align teardown' \
		     align+restored user=align+sticky nvme_rdma nvme_rdma=align,align,none; do
		refused ha_mode "$value"
	done
	value=$(printf 'x%.0s' {1..5000})
	refused ha_mode "$value=align"
}

good_numbers()
{
	local value

	for value in 0 1 60000; do
		set_param ha_downdelay "$value"
		is_param ha_downdelay "$value"
	done
	for value in 0 1 600000; do
		set_param ha_updelay "$value"
		is_param ha_updelay "$value"
	done
	for value in ha_passive ha_sticky; do
		set_param "$value" Y
		is_param "$value" Y
		set_param "$value" N
		is_param "$value" N
		set_param "$value" 1
		is_param "$value" Y
	done
}

bad_numbers()
{
	local value

	for value in '' ' ' -1 60001 4294967296 99999999999999999999 1s ten 1.5; do
		refused ha_downdelay "$value"
	done
	for value in '' ' ' -1 600001 4294967296 99999999999999999999 1s ten 1.5; do
		refused ha_updelay "$value"
	done
	for value in maybe 7 ''; do
		refused ha_passive "$value"
		refused ha_sticky "$value"
	done
}

short_delays()
{
	set_param ha_downdelay "$DOWNDELAY"
	set_param ha_updelay "$UPDELAY"
}

mode_for_user()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	connect c1
	route_to_c1
	expect_bare_report c1
	expect_silence c1 "$PASSIVE"
	# No flags, so nothing is told of the way back.
	route_to_c0
	expect_silence c1
}

mode_for_all()
{
	selfloop
	short_delays
	set_param ha_mode align
	connect c1
	route_to_c1
	expect_bare_report c1
}

mode_for_others()
{
	selfloop
	short_delays
	set_param ha_mode align,user=none
	connect c1
	set_param ha_mode nvme_rdma=align
	connect c2
	set_param ha_mode user=align,none
	connect c3
	route_to_c1
	expect_bare_report c3
	expect_silence c1 c2
}

teardown_for_user()
{
	selfloop
	short_delays
	set_param ha_mode user=teardown
	connect c1
	route_to_c1
	expect_event c1 DISCONNECTED status=0
	expect_event c1 TIMEWAIT_EXIT status=0
}

afterwards()
{
	selfloop
	short_delays
	connect c1
	set_param ha_mode user=align
	connect c2
	set_param ha_mode none
	route_to_c1
	expect_bare_report c2
	expect_silence c1
}

own_mode()
{
	selfloop
	short_delays
	set_param ha_mode user=teardown
	connect c1 mode none
	connect c2 mode align "$SHORT"
	connect c3
	route_to_c1
	expect_report c2 ROUTE down "$C0" "$C1"
	expect_event c3 DISCONNECTED
	expect_silence c1 c2
}

own_delays()
{
	selfloop
	set_param ha_mode user=align
	set_param ha_downdelay 60000
	connect c1 downdelay 50
	connect c2
	route_to_c1
	expect_bare_report c1
	expect_silence c2
}

downdelay()
{
	selfloop
	set_param ha_mode user=align
	set_param ha_downdelay 3000
	set_param ha_updelay 0
	connect c1
	stamp
	route_to_c1
	expect_bare_report c1
	expect_after 3000
}

superseding_route()
{
	run ipf route add "$SERVICES" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	route_to_c1
}

updelay()
{
	selfloop
	set_param ha_mode user=align
	set_param ha_downdelay 0
	set_param ha_updelay 3000
	connect c1
	stamp
	superseding_route
	expect_bare_report c1
	expect_after 3000
}

sticky()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	set_param ha_sticky Y
	connect c1
	superseding_route
	expect_silence c1
	run ipf route del "$SERVICES" table "$TO_SERVICE"
	expect_bare_report c1
}

way_back_to_s1()
{
	run ipf route replace "$CLIENT0" dev "$S1" src "$SERVICE" table "$TO_CLIENT"
}

passive_off()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	connect c1
	way_back_to_s1
	expect_silence "$PASSIVE" server
	route_to_c1
	expect_bare_report c1
}

passive_on()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	set_param ha_passive Y
	connect c1
	way_back_to_s1
	expect_bare_report "$PASSIVE"
	expect_silence server c1
}

# A connection request that waits for an answer.
start_connecting()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	cm "listen server $ANY $PORT noaccept"
	cm "connect c1 $SERVICE $PORT"
	skip_events server.1 CONNECT_REQUEST
	skip_events c1 ROUTE_RESOLVED
}

while_connecting()
{
	start_connecting
	superseding_route
	expect_silence c1
	cm "accept server.1"
	expect_event c1 ESTABLISHED
	expect_bare_report c1
}

down_connecting()
{
	start_connecting
	run ip link set "$C0" down
	expect_bare_report c1
}

off_again()
{
	selfloop
	short_delays
	set_param ha_mode user=align
	connect c1
	write_param ha_mode none
	connect c2
	route_to_c1
	expect_bare_report c1
	expect_silence c2
}

bad_at_load()
{
	local value

	[ -n "$ALIGN_LOAD" ] || skip "no align-load to load the module anew with"
	defer "$ALIGN_LOAD" aligned
	for value in ha_mode=foo ha_mode=user=align,user=align ha_downdelay=60001 ha_updelay=-1; do
		! "$ALIGN_LOAD" aligned "$value" >/dev/null 2>&1 || fail "$value was accepted"
	done
}

set_at_load()
{
	[ -n "$ALIGN_LOAD" ] || skip "no align-load to load the module anew with"
	defer "$ALIGN_LOAD" aligned
	"$ALIGN_LOAD" aligned ha_mode=user=align,nvme_rdma=teardown ha_downdelay=50 \
		ha_updelay=100 ha_passive=1 ha_sticky=1 >&2 || fail "the module does not load"
	is_param ha_mode user=align,nvme_rdma=teardown
	is_param ha_downdelay 50
	is_param ha_updelay 100
	is_param ha_passive Y
	is_param ha_sticky Y
	selfloop
	connect c1
	route_to_c1
	expect_bare_report c1
}

run_tests "$@"
