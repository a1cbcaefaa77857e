#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# mutate-oracle.sh [NUMBER]...: prove that the oracle can fail. Break the module in
# one place after the other, and expect that a run of the oracle notices.
#
# A mutation is a file, a substitution in Perl, which must match exactly once,
# and what it takes away. Works on a copy of what scripts/build.sh assembled.
#
#   SEED=, STEPS=	of each run, see tools/testing/vm/run-oracle.sh
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

mutations()
{
	grep -v '^#' <<'EOT'
events	s/(const struct in_ifaddr \*ifa = ptr;\n)/$1\treturn NOTIFY_DONE;\n/	IPv4 addresses are not listened to
events	s/(struct fib_nh_notifier_info \*nh;\n)/$1\treturn;\n/	IPv4 routes are not listened to
events	s/event == FIB_EVENT_RULE_ADD \|\| event == FIB_EVENT_RULE_DEL/false/	rules are not listened to
events	s/cma_align_nexthop_event\(.*?\n\{\K/\n\treturn NOTIFY_DONE;/s	nexthop objects are not listened to
events	s/\tcase NEXTHOP_EVENT_REPLACE:\n//	a replaced nexthop object is not noticed
events	s/(\t\tcma_align_neigh_update\(ctx\);\n)/\t\t;\n/	neighbours are not listened to
events	s/if \(!\(READ_ONCE\(neigh->nud_state\) & NUD_VALID\)\)\n\t\treturn;/return;/	no neighbour entry counts as valid
events	s/\tcase IB_EVENT_GID_CHANGE:\n//	GID events are not listened to
events	s/\tcase IB_EVENT_PORT_ERR:\n\tcase IB_EVENT_PORT_ACTIVE:\n//	RDMA port events are not listened to
events	s/\tswitch \(event\) \{\n\tcase NETDEV_UP:/\treturn;\n\tswitch (event) {\n\tcase NETDEV_UP:/	netdevices are not listened to
events	s/anet->marks.wait_rtnl = true;//	the worker looks before a change can be seen
verdict	s/\tif \(key->pinned\)\n\t\tret = cma_align_look_pinned/\tif (false)\n\t\tret = cma_align_look_pinned/	pinned ids follow routes to other netdevices
verdict	s/if \(key->gateway && \(ret \|\| !hop.local\) &&/if (false \&\&/	pinned ids behind a gateway need no route
verdict	s/if \(key->gateway && \(ret \|\| !hop.local\) &&/if ((ret || !hop.local) \&\&/	pinned ids on link need a route
verdict	s/return m.has_hop && m.has_own;/return false;/	members of a multipath route do not count
verdict	s/view->own_route = cma_align_route_by\(net, key, src, own\);/view->own_route = true;/	a route that left for good is not down
verdict	s/view->own_route = cma_align_route_by\(net, key, src, own\);/view->own_route = false;/	a route that moved is down
verdict	s/\tif \(!link\)\n\t\tverdict.reason = RDMA_ALIGN_REASON_LINK;\n\telse if \(!view->addr\)/\tif (!link \&\& view->addr)\n\t\tverdict.reason = RDMA_ALIGN_REASON_LINK;\n\telse if (!view->addr)/	ADDRESS before LINK
verdict	s/else if \(!view->addr\)\n/else if (!view->addr \&\& view->gid)\n/	FAILOVER before ADDRESS
verdict	s/else if \(moved\)\n/else if (moved \&\& !view->addr)\n/	a moved route has no reason of its own
verdict	s/!view->gid \|\| !view->hwaddr\)\n/!view->gid)\n/	another hardware address is well
verdict	s/if \(memcmp\(ll, path->ll, sizeof\(ll\)\)\)/if (false)/	another link-layer address is well
verdict	s/view->gid = cma_align_gid_present\(key, device\);/view->gid = cma_align_gid_valid(key, device);/	a listener wants its own GID entry back
verdict	s/view->gid = !view->dest.port \|\|/view->gid =/	a listener whose address just left is told
verdict	s/\t\tsrc = hop.src;/\t\t;/	the new path has the old source address
events	s/\tcase IB_EVENT_PORT_ERR:\n\tcase IB_EVENT_PORT_ACTIVE:\n//;s/\tswitch \(event\) \{\n\tcase NETDEV_UP:/\treturn;\n\tswitch (event) {\n\tcase NETDEV_UP:/	neither netdevices nor RDMA ports are listened to
events	s/\tcase IB_EVENT_GID_CHANGE:\n//;s/(const struct in_ifaddr \*ifa = ptr;\n)/$1\treturn NOTIFY_DONE;\n/	neither IPv4 addresses nor GIDs are listened to
report	s/state == CMA_ALIGN_SUPERSEDED && align->mode & RDMA_HA_F_STICKY/false/	sticky is ignored
report	s/tell = reason && align->mode & RDMA_HA_F_RESTORED;/tell = reason;/	RESTORED without being asked
report	s/tell = reason && align->mode & RDMA_HA_F_RESTORED;/tell = false;/	RESTORED is never told
report	s/\tif \(verdict == align->verdict &&\n/\tif (false \&\&\n/	told again and again
report	s/\t    cma_align_tears_down\(id_priv\)\)/\t    false)/	teardown is like align
EOT
}

compile()
{
	local m

	make -s -C "$headers" M="$work/src/$core" modules -j "$(nproc)" >"$work/$number.log" 2>&1 ||
		return 1
	mkdir -p "$work/mutants/$number"
	for m in rdma_cm rdma_ucm; do
		cp "$work/src/$core/$m.ko" "$work/mutants/$number/"
	done
}

# What the oracle complained about.
complaint()
{
	local text=$work/out/$1

	grep -E '^#   ( *verdict|seed|.* was resolved|.* the passive side)' "$text" |
		head -n 3 | cut -c1-300
	grep -E '^(not )?ok' "$text"
}

only_numbers "$@"
resolve_kernel
cd "$top"
"$top/scripts/build.sh" || exit 1
headers=$(scripts/headers.sh) || exit 1
lock mutate-oracle
work=$build/mutate-oracle
saved=$work/saved
rm -rf "$work"
mkdir -p "$saved"
cp -r "$out/src" "$work/src"
cp "$out/src/$core"/cma_align*.c "$saved/"

declare -A what
number=0
while IFS=$'\t' read -r name sub text; do
	number=$((number + 1))
	if (($#)) && [[ " $* " != *" $number "* ]]; then
		continue
	fi
	what[$number]="$name: $text"
	substitute "$sub" "$saved/cma_align_$name.c" "$work/src/$core/cma_align_$name.c"
	compile || die "mutation $number does not compile (log: $work/$number.log)"
	cp "$saved/cma_align_$name.c" "$work/src/$core/"
done < <(mutations)

steps=${STEPS:-60} seeds=${SEED:-11,12}
mkdir -p "$work/out"
tools/testing/vm/vm.sh --timeout $((${#what[@]} * 600 + 120)) --out "$work/out" -- \
	tools/testing/selftests/rdma/oracle/mutants.sh "$work/mutants" \
	--seed "$seeds" --steps "$steps" --first --verbose >"$work/vm.log" 2>&1 || true

tap_begin mutate-oracle
for number in $(printf '%s\n' "${!what[@]}" | sort -n); do
	status=1
	! grep -q '^not ok' "$work/out/$number" 2>/dev/null || status=0
	tap_result "$status" "$number: ${what[$number]}"
	[[ ! -e $work/out/$number ]] || complaint "$number" | tap_note
done
tap_end
