#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# mutate-selftests.sh [NUMBER]...: prove that the selftests can fail. Build the
# modules with one thing broken after the other, run the scripts that are to
# notice, and list the tests that passed nevertheless. Works on a copy in
# build/mutate/; takes an hour or two, and is no part of "make check".
#
#   T=	run only these scripts
#   ARGS=	arguments for each of them, e.g. '-t name'
#
# A mutation is a file, a substitution in Perl, which must match exactly once, the
# scripts, and what it takes away. A test may pass if what it claims is not what
# was taken away; so the list is for a person to read.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

mutations()
{
	grep -v '^#' <<'EOT'
cma_align_report	s/if \(!cma_align_next_report\(id_priv, &report\)\)/cma_align_next_report(id_priv, &report);\n\tif (true)/	route link addr neigh nexthop bond passive pinned teardown device mcast netns param life	nothing is ever told
cma_align_verdict	s/verdict.state = CMA_ALIGN_ALIGNED;\n/verdict.reason = RDMA_ALIGN_REASON_ROUTE;\n/	silent option param loop netns device	every path is misaligned
cma_align_events	s/case NETDEV_DOWN:\n//	link device bond	a netdevice that goes down is not heard
cma_align_events	s/cma_align_mark_v4\(anet, htonl\(entry->dst\), entry->dst_len,\n\t\t\t\t  CMA_ALIGN_VISIBLE_RTNL\);/;/	route mcast netns	IPv4 routes are not heard
cma_align_events	s/if \(event == FIB_EVENT_RULE_ADD \|\| event == FIB_EVENT_RULE_DEL\)/if (false)/	route netns	rules are not heard
cma_align_events	s/switch \(event\) \{\n\tcase NEXTHOP/switch (-1ul) {\n\tcase NEXTHOP/	nexthop	nexthop objects are not heard
cma_align_events	s/if \(!\(READ_ONCE\(neigh->nud_state\) & NUD_VALID\)\)\n\t\treturn;/return;/	neigh	neighbours are not heard
cma_align_events	s/case NETEVENT_REDIRECT:\n\t\tcma_align_redirect\(ctx\);/case NETEVENT_REDIRECT:/	neigh	IPv6 redirects are not heard
cma_align_verdict	s/bool link = view->link && view->port;/bool link = true;/	link device bond	a dead link is well
cma_align_verdict	s/if \(!link \|\| !view->addr \|\| !view->gid/if (!link || !view->gid/	addr device	a lost address is not down
cma_align_verdict	s/\t\tverdict.reason = RDMA_ALIGN_REASON_NEIGHBOUR;/\t\tverdict.state = CMA_ALIGN_ALIGNED;/	neigh pinned	another next hop is well
cma_align	s/void __cma_align_disconnecting\(struct rdma_id_private \*id_priv\)\n\{\n/$&\treturn;\n/	teardown life	rdma_disconnect() of the ULP is not heard
cma_align_report	s/if \(!cma_align_exch_disconnect\(id_priv\)\)\n\t\treturn 0;/cma_align_exch_disconnect(id_priv);/;s/if \(!cma_align_linkable\(id_priv\)\)\n\t\treturn 0;//;s/if \(!cma_align_linkable\(id_priv\)\) \{/if (false) {/	teardown life	what is disconnected is told nevertheless
cma_align_report	s/if \(!cma_align_exch_disconnect\(id_priv\)\)\n\t\treturn 0;//;s/align.torn_down = true;/align.torn_down = false;/	teardown	a teardown does not change the state of the id
cma_align	s/(?s)void __cma_align_forget.*?bool had;\n/$&\n\tschedule_timeout_uninterruptible(15 * HZ);/	life teardown	rdma_destroy_id() takes 15 s
cma_align	s/> RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN\)\n\t\treturn -EINVAL;/>= RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN)\n\t\treturn -EINVAL;/;s/if \(optlen != sizeof\(val\)\)/if (optlen < sizeof(val))/;s/default:\n\t\treturn -ENOSYS;/default:\n\t\treturn 0;/	option	options are accepted and refused wrongly
cma_align_param	s/if \(i < 0 \|\| \*mode != CMA_ALIGN_UNSET\)\n\t\treturn -EINVAL;/if (i < 0)\n\t\ti = 0;/;s/if \(i < 0\)\n\t\treturn -EINVAL;/if (i < 0)\n\t\treturn 0;/;s/return param_set_uint_minmax\(val, kp, 0, max\) \? -EINVAL : 0;/return 0;/;s/ha_updelay = RDMA_HA_UPDELAY_DEFAULT_MS;/ha_updelay = 5;/;s/defaults \? defaults->text : "none"/"none"/	param	parameters are not parsed
EOT
}

# copy_repo: what the build and the tests need; the downloads are shared
copy_repo()
{
	rm -rf "$work"
	try "cannot create $work" mkdir -p "$work/build"
	(cd "$top" && cp -R Makefile Kconfig scripts patches compat include drivers tools "$work/")
	ln -s "$cache" "$work/build/cache"
}

run_scripts()
{
	local name names=''

	for name; do
		if [[ -z ${wanted:-} || " $wanted " == *" $name "* ]]; then
			names+=" align_$name"
		fi
	done
	[[ -n $names ]] || return 1
	T=${names# } DEADLINE=5 "$work/tools/testing/vm/run-selftests.sh" || true
}

only_numbers "$@"
resolve_kernel
export KVER=$kver
# Both are for the scripts called here.
unset BUILD
wanted=${T:-}
unset T
work=$build/mutate
number=0
while IFS=$'\t' read -r file sub scripts what; do
	number=$((number + 1))
	if (($#)) && [[ " $* " != *" $number "* ]]; then
		continue
	fi
	copy_repo
	substitute "$sub" "$top/$core/$file.c" "$work/$core/$file.c"
	say "$number: $what"
	(cd "$work" && make -s build) || die "$number does not compile"
	# shellcheck disable=SC2086 # words are wanted
	run_scripts $scripts || continue
	echo "$number: $what; these tests passed:"
	cat "$work"/build/results/selftest-*.tap | sed -nE 's/^ok [0-9]+ /  /p'
done < <(mutations)
