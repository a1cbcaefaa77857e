#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Mode 0 is exactly upstream rdma_cm, event for event: the same story is told
# to the same program three times, and what its ids heard is compared.
#
#	stock	the distribution's module
#	none	ours with ha_mode=none, and no id that asked
#	beside	ours with ha_mode=none, while ids of another program have modes
#
# Compared are the events of each id, in their order, without times. Stock
# repeats some events for as long as a neighbour fails: repetitions count once.
# See lib.sh for the topology. R32.
#
# Environment: MODE0_PARAMS, parameters for ours, to see the comparison fail:
# with 'ha_mode=align ha_passive=1 ha_updelay=100' most stories must.

# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

TEST_LIST='
disconnected		46	2, mode 0: a connection that the program ends
peer_disconnected	46	2, mode 0: one that the peer ends
rejected		4	2, mode 0: one that nobody listens for
route_moved		46	2, mode 0: the route moves, and back
route_deleted		46	2, mode 0: the route is deleted
link_down		46	2, mode 0: the link is taken down, and up
carrier_lost		4	2, mode 0: the carrier is lost, and is back
address_deleted		46	2, mode 0: the source address is deleted, and added
neighbour_changed	46	2, mode 0: the neighbour changes, which stock answers with UNREACHABLE
neighbour_failed	4	2, mode 0: the neighbour fails
nexthop_replaced	4	2, mode 0: a nexthop object is replaced
unrelated		4	2, mode 0: other addresses, routes and rules
ud			4	2, mode 0: a UD id
resolved		4	2, mode 0: ids that are not connected
pinned			4	2, mode 0: a bound id
listener		4	2, mode 0: a listener on an address that moves
device_removed		4	2, mode 0: the RDMA device is removed
bond_fails_over		4	2, mode 0: a bond fails over to another MAC, which stock answers with ADDR_CHANGE
'

SETTLE_MS=1200

# The stories. Each leaves the network to the next selfloop().

tell_disconnected()
{
	connect c1
	traffic c1 5
	cm "disconnect c1"
	skip_events c1 TIMEWAIT_EXIT
}

tell_peer_disconnected()
{
	connect c1
	cm "disconnect $PASSIVE"
	skip_events c1 TIMEWAIT_EXIT
	skip_events "$PASSIVE" TIMEWAIT_EXIT
}

tell_rejected()
{
	cm "connect c1 $SERVICE $((PORT + 5))"
	while next_event c1 "$DEADLINE"; do
		field event "$EVENT"
		[ "$FIELD" != REJECTED ] || break
	done
}

tell_route_moved()
{
	connect c1
	route_to_c1
	settle
	route_to_c0
	settle
}

tell_route_deleted()
{
	connect c1
	run ipf route del "$SERVICE" table "$TO_SERVICE"
}

tell_link_down()
{
	connect c1
	run ip link set "$C0" down
	settle
	ip_batch "-$FAMILY" <<-BATCH
	link set $C0 up
	addr replace $CLIENT0/$LEN dev $C0
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
}

tell_carrier_lost()
{
	connect c1
	run ip link set "$S0" down
	wait_until no_carrier "$C0" || fail "$C0 keeps its carrier"
	settle
	run ip link set "$S0" up
	wait_carrier "$C0"
}

tell_address_deleted()
{
	connect c1
	run ipf addr del "$CLIENT0/$LEN" dev "$C0"
	settle
	ip_batch "-$FAMILY" <<-BATCH
	addr add $CLIENT0/$LEN dev $C0
	route replace $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
}

tell_neighbour_changed()
{
	connect c1
	resolve c2
	run ipf neigh replace "$SERVICE" lladdr 02:00:00:00:00:99 dev "$C0" nud reachable
}

tell_neighbour_failed()
{
	connect c1
	run ipf neigh replace "$SERVICE" lladdr "$(lladdr "$S0")" dev "$C0" nud stale
	settle
	run ipf neigh del "$SERVICE" dev "$C0"
}

tell_nexthop_replaced()
{
	run ipf nexthop add id 7777 dev "$C0"
	defer ip nexthop del id 7777
	run ipf route replace "$SERVICE" nhid 7777 table "$TO_SERVICE"
	connect c1
	run ipf nexthop replace id 7777 dev "$C1"
}

tell_unrelated()
{
	connect c1
	run ipf addr add "${CLIENT0%1}9/$LEN" dev "$C0"
	run ipf route add "${SERVICE%1}9" dev "$C1" table "$TO_SERVICE"
	run ipf rule add pref 8 to "${SERVICE%1}9" lookup "$TO_SERVICE"
	run ip link set "$C0" mtu 1400
	run ip link set "$C0" mtu 1500
	run ipf rule del pref 8
	run ipf addr del "${CLIENT0%1}9/$LEN" dev "$C0"
}

tell_ud()
{
	cm "listen server $ANY $PORT ud"
	cm "connect c1 $SERVICE $PORT ud"
	skip_events c1 ESTABLISHED
	route_to_c1
	settle
	run ipf neigh replace "$SERVICE" lladdr 02:00:00:00:00:99 dev "$C0" nud reachable
}

tell_resolved()
{
	resolve c1
	cm "resolve c2 $SERVICE $PORT addronly"
	skip_events c2 ADDR_RESOLVED
	route_to_c1
	settle
	run ip link set "$C0" down
}

tell_pinned()
{
	connect c1 src "$CLIENT0"
	route_to_c1
	settle
	run ip link set "$C0" down
}

tell_listener()
{
	local addr=${SERVICE%1}77

	run ipf addr add "$addr/$HOST" dev "$S0"
	wait_gid "$S0" "$addr"
	cm "listen special $addr $PORT"
	run ipf route add "$addr" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
	run ipf neigh replace "$addr" lladdr "$(lladdr "$S0")" dev "$C0" nud reachable
	cm "connect c1 $addr $PORT"
	skip_events c1 ESTABLISHED
	run ipf addr del "$addr/$HOST" dev "$S0"
	run ipf addr add "$addr/$HOST" dev "$S1"
	wait_gid "$S1" "$addr"
}

tell_device_removed()
{
	connect c1
	remove_held rdma link delete "rx_$C0"
	skip_events c1 DEVICE_REMOVAL
	settle
	remove_held rdma link delete "rx_$S0"
	skip_events "$PASSIVE" DEVICE_REMOVAL
	settle
	let_go
}

tell_bond_fails_over()
{
	connect c1
	bond_failover
}

settle()
{
	pump_for $SETTLE_MS
}

# record VARIANT STORY FAMILY NUMBER
record()
{
	local file=$TMP/.records/$1/$2_$3

	FAMILY=$3
	set_addresses $((ADDRESS_BASE + $4))
	[ ! -w /dev/kmsg ] || echo "selftest: $SELF: $1 $2_$3" >/dev/kmsg
	(
		trap end_test EXIT
		DEFERRED=()
		selfloop
		[ "$2" != bond_fails_over ] || bond 1 bond
		[ "$1" != beside ] || watch_beside
		"tell_$2"
		settle
		printf '%s\n' "${LOG[@]}" | grep ' event=' | grep -v ' id=beside' |
			sed 's/^t=[0-9]* //' | sort -s -k 1,1 | uniq >"$file"
	)
	LAST_FAMILY=$3
}

# Ids with modes whose paths are those of the story.
watch_beside()
{
	cm_start other
	cm_on other "resolve beside1 $SERVICE $PORT mode align+restored+standby $SHORT"
	skip_events beside1 ROUTE_RESOLVED
	cm_on other "resolve beside2 $SERVICE $PORT mode teardown $SHORT"
	skip_events beside2 ROUTE_RESOLVED
	cm_on other "listen beside3 $ANY $((PORT + 9)) mode align $SHORT"
}

record_all()
{
	local story family number=0

	mkdir -p "$TMP/.records/$1"
	while read -r story family _; do
		number=$((number + 1))
		rm -f "$TMP"/*.in "$TMP/out"
		record "$1" "$story" "$family" $number </dev/null >&2 ||
			diag "$1: $story was not told" >&2
	done < <(select_tests)
}

script_setup()
{
	need_loader
	need_modules rdma_rxe veth bonding
	"$ALIGN_LOAD" stock >&2 || return 1
	selfloop_create && bond_create || return 1
	record_all stock
	# shellcheck disable=SC2086 # words are wanted
	"$ALIGN_LOAD" aligned ${MODE0_PARAMS:-} >&2 || return 1
	need_align
	record_all none
	record_all beside
}

# compare STORY: what each variant heard
compare()
{
	local dir=$TMP/.records variant

	[ -s "$dir/stock/$1_$FAMILY" ] || fail "stock: nothing was recorded"
	[ -z "$VERBOSE" ] || diag "$(<"$dir/stock/$1_$FAMILY")"
	for variant in none beside; do
		diff -u --label stock --label "$variant" "$dir/stock/$1_$FAMILY" \
			"$dir/$variant/$1_$FAMILY" || fail "$1: $variant is not like stock"
	done
}

# heard EVENT STORY: the story is one that stock does tell
heard()
{
	grep -q " event=$1 " "$TMP/.records/stock/$2_$FAMILY" ||
		fail "stock told no $1: $(cat "$TMP/.records/stock/$2_$FAMILY")"
}

disconnected()
{
	compare disconnected
	heard TIMEWAIT_EXIT disconnected
}

peer_disconnected()
{
	compare peer_disconnected
	heard TIMEWAIT_EXIT peer_disconnected
}

rejected()
{
	compare rejected
	heard REJECTED rejected
}

neighbour_changed()
{
	compare neighbour_changed
	heard UNREACHABLE neighbour_changed
}

device_removed()
{
	compare device_removed
	heard DEVICE_REMOVAL device_removed
}

bond_fails_over()
{
	compare bond_fails_over
	heard ADDR_CHANGE bond_fails_over
}

for story in route_moved route_deleted link_down carrier_lost address_deleted neighbour_failed \
	     nexthop_replaced unrelated ud pinned listener; do
	eval "$story() { compare $story; heard ESTABLISHED $story; }"
done
resolved() { compare resolved; heard ADDR_RESOLVED resolved; }

run_tests "$@"
