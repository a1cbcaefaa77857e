#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# mutate.sh [NUMBER]...: prove that the KUnit tests can fail. Break the code in
# one place after the other, and expect that some test notices. Works in the tree
# and with the objects of kunit.sh, which must have passed before; both are put
# right at the end.
#
# A mutation is a file, a substitution in Perl, which must match exactly once,
# and what it takes away.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

mutations()
{
	grep -v '^#' <<'EOT'
index	s/0xff >> bits/0x7f >> bits/	a prefix ends too early
index	s/ipv6_addr_prefix\(&range->first, addr, prefix_len\)/range->first = *addr/	a prefix begins too late
index	s/first, &rb_path\(n\)->key.dst, sizeof\(\*first\)\) <= 0/first, &rb_path(n)->key.dst, sizeof(*first)) < 0/	a walk skips its first destination
index	s/if \(cma_align_key_cmp\(key, &rb_path\(n\)->key\) < 0\)/if (cma_align_key_cmp(key, &rb_path(n)->key) <= 0)/	a resumed walk meets a path again
index	s/n = cmp < 0 \? n->rb_left : n->rb_right;/n = cmp < 0 ? n->rb_right : n->rb_left;/	a path is not found
index	s/t->value == tag && n > above/t->value == tag && n >= above/	a walk over a tag never ends
index	s/if \(t->value == tag\)\n\t\t\t\tfound = t;/found = t;/	a walk over a tag meets another tag
index	s/t->value > tag \|\| /t->value >= tag || /	a resumed walk over a tag starts again
index	s/return a < b;/return a > b;/	the order of equal tags is not that of the walk
index	s/\t\tRB_CLEAR_NODE\(&t->node\);/\t\t;/	a tag that was taken away seems to be there
index	s/\t\tif \(!RB_EMPTY_NODE\(&path->tags\[i\].node\)\)\n\t\t\trb_erase/\t\tif (0)\n\t\t\trb_erase/	a deleted path keeps its tags
index	s/nexthop->s6_addr32, 4, ifindex\);/nexthop->s6_addr32, 4, 0);/;s/4, ~ifindex\)/4, 1)/	next hops of two netdevices share a tag
index	s/\t\tif \(t->value == tag\)\n\t\t\treturn;/\t\treturn;/	a tag cannot be replaced
verdict	s/bool link = view->link && view->port;/bool link = view->link;/	a dead RDMA port is well
verdict	s/bool link = view->link && view->port;/bool link = view->port;/	a dead link is well
verdict	s/if \(!link \|\| !view->addr \|\| !view->gid/if (!link || !view->gid/	a lost address is not down
verdict	s/\|\| !view->gid \|\| no_route/|| no_route/	a deleted GID is not down
verdict	s/ \|\| no_route \|\|\n/ ||\n/	no route is not down
verdict	s/\(moved && !view->own_route\)/false/	a route that left for good is not down
verdict	s/\(moved && !view->own_route\)/moved/	a route that moved is down
verdict	s/!view->gid \|\| !view->hwaddr\)\n/!view->gid)\n/	another hardware address is well
verdict	s/else if \(moved\)\n/else if (moved && !view->neigh_differs)\n/	NEIGHBOUR before ROUTE
verdict	s/else if \(!view->addr\)\n/else if (!view->addr && view->gid)\n/	FAILOVER before ADDRESS
verdict	s/if \(!link\)\n/if (!link && view->addr)\n/	ADDRESS before LINK
verdict	s/else if \(view->neigh_differs\)\n/else if (0)\n/	another next hop is well
damp	s/\(60 \* HZ\)/(59 * HZ)/	quiet after 59 seconds
damp	s/now - damp->last >= CMA_ALIGN_QUIET\)/now - damp->last > CMA_ALIGN_QUIET)/	quiet one tick too late
damp	s/now - damp->last < CMA_ALIGN_QUIET \? /now - damp->last <= CMA_ALIGN_QUIET ? /	damped one tick too long
damp	s/if \(damp->last && damp->incident == path->incident\)\n\t\treturn;//	an incident counts once for each path
damp	s/damp->incident = path->incident;//	an incident is not remembered
damp	s/\t\tdamp->level = 0;/\t\t;/	damping never ends
damp	s/damp->level\+\+;/damp->level += 2;/	delays are multiplied by four
damp	s/damp->level < CMA_ALIGN_LEVEL_MAX/true/	the level overflows
damp	s/\(u64\)delay << level, CMA_ALIGN_DAMPED_MAX_MS/(u64)delay << level, 600000/	no limit of 60 seconds
damp	s/max_t\(u32, delay, damped\)/damped/	a long updelay is shortened
damp	s/min\(path->level, cma_align_damp_level\(path->damp, now\)\)/cma_align_damp_level(path->damp, now)/	a later report lengthens a delay that runs
damp	s/min\(path->level, cma_align_damp_level\(path->damp, now\)\)/path->level/	quiet seconds do not shorten a delay
damp	s/path->state == CMA_ALIGN_DOWN \? path->key.downdelay_ms/path->state != CMA_ALIGN_ALIGNED ? path->key.downdelay_ms/	a superseded path has the downdelay
damp	s/if \(!damp->last\)\n\t\tcma_align_damp_free\(anet, damp\);//	what was never reported is remembered
damp	s/\t\tlist_del_init\(&damp->unused\);\n\t\tanet->nr_unused_damps--;/\t\t;/	what is used again counts as unused
damp	s/now - damp->last < CMA_ALIGN_QUIET &&\n/now - damp->last <= CMA_ALIGN_QUIET &&\n/	a quiet destination is kept
damp	s/anet->nr_unused_damps <= CMA_ALIGN_DAMPS_UNUSED/true/	no limit of remembered destinations
damp	s/n = cmp < 0 \? n->rb_left : n->rb_right;/n = n->rb_left;/	a destination is not found again
path	s/max\(path->since, align->joined\)/path->since/	a late id does not wait
path	s/max\(path->since, align->joined\)/align->joined/	a change does not start the delay
path	s/if \(path->due.expires <= when\)\n\t\t\treturn;//	the latest due time counts
path	s/align->released = 0;\n\tlist_move_tail\(&align->item, &path->pending\);/align->released = 0;/	an id that must be judged again is not pending
path	s/align->seq \+= path->changes;/align->seq = 0;/	the count of changes is lost
work	s/\tpath->since = cma_align_now\(\);/\t;/	the delay counts from long ago
work	s/\tpath->changes\+\+;/\t;/	changes are not counted
work	s/\tlist_splice_tail_init\(&path->calm, &path->pending\);/\t;/	nobody hears of a change
work	s/path->level = cma_align_damp_level\(path->damp, path->since\);/path->level = 0;/	nothing is damped
work	s/path->incident = anet->incident;//	an incident has no number
work	s/path->reason = verdict.reason;//	no reason is told
work	s/path->dest = view->dest;//	no new path is told
work	s/align->verdict && due > now\)/align->verdict \&\& due >= now)/	told one tick too late
work	s/align->verdict && due > now\)/align->verdict \&\& due > now + 1)/	told one tick too early
work	s/\t\t\tcma_align_set_due\(anet, path, due\);/\t\t\t;/	the worker does not come again
work	s/if \(cma_align_id_verdict\(align, path->state\) !=\n\t\t    align->verdict && due > now\)/if (path->state != align->verdict \&\& due > now)/	a sticky id holds up others
work	s/time_after_eq64\(/time_after64(/	due one tick too late
work	s/if \(both \|\| v4 == cma_align_is_v4\(&path->key.dst\)\)/if (true)/	an IPv6 prefix means IPv4 destinations
report	s/state == CMA_ALIGN_SUPERSEDED && align->mode & RDMA_HA_F_STICKY/false/	sticky is ignored
report	s/align->mode & RDMA_HA_F_STICKY/align->mode/	every id is sticky
report	s/align->released != path->changes \+ 1/false/	told before the delay has passed
report	s/\tif \(verdict == align->verdict &&\n/\tif (false \&\&\n/	told again and again
report	s/align->missed \|= align->unread;//	what came and went unread is not told
report	s/align->verdict = verdict;/;/	what was told is not remembered
report	s/tell = reason && align->mode & RDMA_HA_F_RESTORED;/tell = reason;/	RESTORED without being asked
report	s/tell = reason && align->mode & RDMA_HA_F_RESTORED;/tell = align->mode \& RDMA_HA_F_RESTORED;/	RESTORED of what was never told
report	s/cma_align_damp_report\(path, cma_align_now\(\)\);//	reports do not damp
report	s/ev->seq = align->seq \+ path->changes;/ev->seq = path->changes;/	an id counts what was before it
report	s/else if \(align->verdict == CMA_ALIGN_ALIGNED\)/else if (0)/	a sticky id is not told that it may stay
report	s/\tif \(align->accepting\)\n\t\treturn true;\n//	an id is told before its ULP knows it
report	s/align->verdict = report->old_verdict;//	a report without memory is lost
report	s/READ_ONCE\(id_priv->state\) != RDMA_CM_LISTEN &&\n\t       state != CMA_ALIGN_DOWN;/READ_ONCE(id_priv->state) != RDMA_CM_LISTEN;/	a default id hears nothing before ESTABLISHED
report	s/return !align->explicit && !align->established &&/return false \&\&/	a default id is bothered before ESTABLISHED
events	s/\tif \(i == CMA_ALIGN_MARKS_TAG\)\n\t\tmarks->all = true;\n\telse if/\tif (i == CMA_ALIGN_MARKS_TAG)\n\t\t;\n\telse if/	a change is lost when the marks are full
events	s/cma_align_widen\(&marks->ranges\[i - 1\], range\);/;/	a prefix is lost when the marks are full
events	s/\t\ta->first = b->first;/\t\t;/	a prefix is widened at one end only
events	s/\t\ta->last = b->last;/\t\t;/	a prefix is widened at the other end only
events	s/if \(cma_align_covers\(&marks->ranges\[i\], range\)\)/if (true)/	a second prefix is taken for the first
events	s/if \(info->family != AF_INET && info->family != AF_INET6\)\n\t\treturn NOTIFY_DONE;//	multicast routes are taken for routes
events	s/htonl\(entry->dst\)/entry->dst/	a route's prefix is read in the wrong order
events	s/if \(READ_ONCE\(anet->registering\)\)\n\t\treturn NOTIFY_DONE;//	the replay is taken for changes
events	s/FIB_EVENT_RULE_ADD \|\| event == FIB_EVENT_RULE_DEL/FIB_EVENT_RULE_ADD/	a deleted rule is not noticed
events	s/\tcase NEXTHOP_EVENT_REPLACE:\n//	a replaced nexthop object is not noticed
events	s/\tcase NEXTHOP_EVENT_RES_TABLE_PRE_REPLACE:\n//	a replaced resilient group is not noticed
events	s/if \(!cma_align_index_tagged\(anet, tag, NULL\)\)\n\t\tgoto out;//	what concerns nobody is marked
events	s/now - anet->last_mark > CMA_ALIGN_INCIDENT_GAP/now - anet->last_mark >= CMA_ALIGN_INCIDENT_GAP/	one incident becomes two
events	s/ \|\|\n\t    now - anet->first_mark > CMA_ALIGN_INCIDENT_MAX//	an incident never ends
events	s/anet->marks.wait_rtnl = true;//	the worker looks before a change can be seen
events	s/anet->marks.wait_rcu = true;//	the worker looks before an IPv6 change can be seen
param	s/strreplace\(word, '-', '_'\);//	dashes are refused
param	s/ \|\| \*mode != CMA_ALIGN_UNSET//	double words are accepted
param	s/if \(len && val\[len - 1\] == '\\n'\)\n\t\tlen--;//	a newline is refused
param	s/defaults->rest = RDMA_HA_NONE;/;/	what is not listed has no mode
param	s/\tif \(ret\) \{\n\t\tkfree\(defaults\);\n\t\treturn ret;\n\t\}/\t;/	a bad value replaces the old one
param	s/if \(!mode\)\n\t\treturn cma_align_parse_mode\(word, &defaults->rest\);/if (!mode)\n\t\treturn 0;/	a bare mode is ignored
param	s/ \? -EINVAL : 0;/;/	a number that is too large is another error
param	s/RDMA_HA_DOWNDELAY_MAX_MS\);/RDMA_HA_DOWNDELAY_MAX_MS - 1);/	the largest downdelay is refused
param	s/RDMA_HA_UPDELAY_MAX_MS\);/RDMA_HA_UPDELAY_MAX_MS + 1);/	too large an updelay is accepted
param	s/i >= 0 && defaults->ulp/i > 0 \&\& defaults->ulp/	programs have no mode of their own
EOT
}

# As it was when the tests passed: who works on the code may go on meanwhile.
restore()
{
	local f

	for f in "$saved"/*; do
		cmp -s "$f" "$tree/$core/${f##*/}" && continue
		cp "$f" "$tree/$core/${f##*/}.new"
		mv "$tree/$core/${f##*/}.new" "$tree/$core/${f##*/}"
	done
}

# The mutated file is renamed over the old one: the tree may hold links.
mutate()
{
	substitute "$2" "$saved/$1" "$tree/$core/$1.new"
	mv "$tree/$core/$1.new" "$tree/$core/$1"
}

compile()
{
	env -u ARCH -u CROSS_COMPILE -u O make -s -C "$tree" ARCH=um \
		O="$objects" -j "$(nproc)" linux >"$log" 2>&1
}

# Prints the tests that noticed. A kernel that dies or hangs was noticed too.
run()
{
	local plan

	timeout 60 "$objects/linux" mem=128M kunit_shutdown=halt \
		>"$build/mutate.out" 2>&1 </dev/null || { echo "the kernel died"; return; }
	sed -nE 's/^ *not ok [0-9]+ //p' "$build/mutate.out"
	plan=$(sed -nE 's/^1\.\.([0-9]+).*/\1/p' "$build/mutate.out")
	grep -qE "^(not )?ok ${plan:-none} " "$build/mutate.out" ||
		echo "the kernel did not run all suites"
}

only_numbers "$@"
resolve_kernel
cd "$top"
"$top/scripts/kunit.sh" || exit 1
lock kunit
lock tree-in-use
objects=$build/kunit
log=$build/mutate.log
tree=$(tail -n 1 "$objects/.stamp")
rm -f "$objects/.stamp"
saved=$(mktemp -d) || die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$saved")
cp "$tree/$core"/cma_align*.c "$saved/"
trap 'restore; cleanup' EXIT

tap_begin mutate
number=0
while IFS=$'\t' read -r name sub what; do
	number=$((number + 1))
	if (($#)) && [[ " $* " != *" $number "* ]]; then
		continue
	fi
	mutate "cma_align_$name.c" "$sub"
	if compile; then
		noticed=$(run)
		status=0
		[[ -n $noticed ]] || status=1
		tap_result "$status" "$number: $name: $what"
		sort -u <<<"$noticed" | head -n 3 | tap_note
	else
		tap_result 1 "$number: $name: $what (does not compile)" "$log"
	fi
	restore
done < <(mutations)
compile || die "the tests' kernel does not build any more (log: $log)"
tap_end
