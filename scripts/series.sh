#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Export what is here as patches for "git am" on a kernel tree, into
# build/series/<kernel>/: what mends the kernel's own code; our files; the hook
# patches, which compile without them being configured; the Kconfig symbol, after
# them, so that each step builds; the selftests and the documentation.
# The result is applied to the pristine source again before it is kept.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

resolve_kernel
command -v git >/dev/null || die "git is not installed (make deps)"
source=$("$top/scripts/source.sh") || exit 1
cd "$top"
dir=$build/series/$series
work=$(mktemp -d) || die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$work")
tree=$work/tree

# The same input gives the same patches, whoever exports them.
who=$(git log -1 --format='%an|%ae|%ad' 2>/dev/null) || true
IFS='|' read -r name email date <<<"${who:-rdma-align|rdma-align@localhost|2026-01-01T00:00:00Z}"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=$name GIT_AUTHOR_EMAIL=$email GIT_AUTHOR_DATE=$date
export GIT_COMMITTER_NAME=$name GIT_COMMITTER_EMAIL=$email GIT_COMMITTER_DATE=$date
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

git_in() { try "git ${2:-} failed in $1" git -C "$1" "${@:2}" >/dev/null; }

# The kernel's own files as a git tree of one commit.
pristine()
{
	git_in "$work" init -q -b main "$1"
	cp -R "$source"/{Documentation,drivers,include,tools} "$1/"
	git_in "$1" add -A
	git_in "$1" commit -q -m "linux-source-$series $debver"
	git_in "$1" tag base
}

# commit: stdin is the message.
commit()
{
	git_in "$tree" add -A
	git_in "$tree" commit -q -F -
}

our_files()
{
	mkdir -p "$tree/$core"
	shopt -s nullglob
	objects=()
	for f in "$core"/cma_align*.[ch]; do
		cp "$f" "$tree/$f"
		[[ $f == *.h ]] || objects+=("$(basename "$f" .c).o")
	done
	shopt -u nullglob
	cp -R include "$tree/"
	commit <<-EOT
	RDMA/cma: Add RDMA_ALIGN_WITH_NETDEVICE

	rdma_cm resolves an id to a netdevice, an RDMA device and a next hop once.
	When the IP stack changes its mind later, the connection stays where it
	was, and its ULP hears nothing unless a bond fails over and changes its
	hardware address. So a storage or RPC connection that could go on over
	another path waits for its transport's timeouts instead.

	Add the machinery that compares an id's path with what the IP stack would
	choose now, and tells the ULP (ADDR_CHANGE) or ends the connection
	(DISCONNECTED), as the ULP or the administrator asked. Nothing calls it
	yet.
	EOT
}

# A patch is a mail or has its message above the first diff.
kernel_patch()
{
	local p=$1 mail=$work/mail

	if grep -qE '^(Subject|From): ' "$p"; then
		{ head -n 1 "$p" | grep -q '^From ' ||
			echo "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"
		  cat "$p"; } >"$mail"
		git_in "$tree" am -q --patch-format=mbox "$mail"
		return
	fi
	git_in "$tree" apply --index "$p"
	{ sed -E '/^(---|diff )/,$d' "$p" | grep . ||
		basename "$p" .patch | sed -E 's/^[0-9]+-//; y/-/ /'; } |
		git_in "$tree" commit -q -F -
}

kunit_tests()
{
	mkdir -p "$tree/$core/tests"
	cp "$core/tests/.kunitconfig" "$core"/tests/*.[ch] "$tree/$core/tests/"
	commit <<-EOT
	RDMA/cma: Add KUnit tests of RDMA_ALIGN_WITH_NETDEVICE

	The index of paths against a naive model, the verdict by each clause of
	its documentation, delays and damping with a clock that the tests set, the
	marks of the notifiers, and what the module parameters accept.
	EOT
}

kconfig()
{
	local k=drivers/infiniband/Kconfig m=$core/Makefile
	# shellcheck disable=SC2016 # make's variable
	local anchor='rdma_cm-$(CONFIG_INFINIBAND_ADDR_TRANS_CONFIGFS) += cma_configfs.o'

	if ! grep -q '^config INFINIBAND_VIRT_DMA$' "$source/$k" ||
	   ! grep -qxF "$anchor" "$source/$m"; then
		die "$k or $m of linux-source-$series $debver is not as expected"
	fi
	# shellcheck disable=SC2016 # make's variables
	{
		awk -v ours="$top/Kconfig" '
			/^config INFINIBAND_VIRT_DMA$/ {
				while ((getline line < ours) > 0)
					if (line !~ /^#/)
						print line
				print ""
			}
			{ print }' "$source/$k" >"$tree/$k"
		{
			echo
			printf 'CFLAGS_cma_align_trace.o +=\t-I$(src)\n'
			printf 'rdma_cm-$(CONFIG_INFINIBAND_RDMACM_ALIGN) +='
			printf ' \\\n\t\t\t\t%s' "${objects[@]}"
			echo
		} >"$work/lines"
		awk -v anchor="$anchor" -v ours="$work/lines" '
			{ print }
			$0 == anchor { while ((getline line < ours) > 0) print line }
			' "$source/$m" >"$tree/$m"
	}
	commit <<-EOT
	RDMA/cma: Add CONFIG_INFINIBAND_RDMACM_ALIGN

	Build RDMA_ALIGN_WITH_NETDEVICE into rdma_cm. Off by default: without it,
	the hooks compile to nothing.
	EOT
}

# insert_before LINE FILE: stdin goes before this line of the kernel's FILE.
insert_before()
{
	grep -qxF "$1" "$source/$2" ||
		die "$2 of linux-source-$series $debver is not as expected"
	awk -v line="$1" '
		NR == FNR { new = new $0 "\n"; next }
		$0 == line { printf "%s", new }
		{ print }' - "$source/$2" >"$tree/$2"
}

selftests()
{
	local dir=tools/testing/selftests/rdma

	mkdir -p "$tree/$dir"
	cp --parents -t "$tree" "$dir"/{Makefile,TESTS,*.sh,*.c,*.py} "$dir"/oracle/*.{py,sh} \
		"$dir"/kulp/{Makefile,*.c}
	printf '%s\n' /align_cm /opt_errors "/kulp/*.ko" "/kulp/*.mod" "/kulp/*.mod.c" |
		cat <(echo "# SPDX-License-Identifier: GPL-2.0") - >"$tree/$dir/.gitignore"
	insert_before "TARGETS += resctrl" tools/testing/selftests/Makefile <<<"TARGETS += rdma"
	commit <<-EOT
	selftests/rdma: Test RDMA_ALIGN_WITH_NETDEVICE over soft-RoCE

	Each script makes two hosts with links, bonds, routes, next-hop objects, VLANs
	in a network namespace, connects over soft-RoCE on both ends, changes the
	network as an administrator would, and compares what each id heard with what
	it should have heard. The oracle does the same with changes at random.

	They need rdma_rxe, rdma_ucm, librdmacm, iproute2, and a machine whose RDMA
	devices nobody else uses: a virtual one.
	EOT
}

documentation()
{
	local f

	for f in Documentation/infiniband/*.rst Documentation/ABI/testing/*; do
		mkdir -p "$tree/$(dirname "$f")"
		cp "$f" "$tree/$f"
	done
	for f in Documentation/infiniband/*.rst; do
		echo "   $(basename "$f" .rst)"
	done | insert_before "   sysfs" Documentation/infiniband/index.rst
	commit <<-EOT
	docs: Describe RDMA_ALIGN_WITH_NETDEVICE

	For authors of programs, for administrators, and for those who want to know
	which change of the network means what, with the test that shows it.
	EOT
}

lock "series-$series"
try "cannot write to $work" mkdir "$tree"
pristine "$tree"
kernel_patches
for p in "${fixes[@]}"; do
	kernel_patch "$p"
done
our_files
for p in "${hooks[@]}"; do
	kernel_patch "$p"
done
if ((${#objects[@]})); then
	kunit_tests
	kconfig
fi
selftests
documentation

new_dir "$dir"
try "cannot write $tmp" git -C "$tree" format-patch -q --zero-commit \
	--no-signature -N --numbered -o "$tmp" base..HEAD
# Prove that it applies, with git am, and gives the same tree.
try "cannot write to $work" mkdir "$work/check"
pristine "$work/check"
try "the series does not apply to linux-source-$series $debver" \
	git -C "$work/check" am -q "$tmp"/*.patch
[[ $(git -C "$work/check" rev-parse 'HEAD^{tree}') == $(git -C "$tree" rev-parse 'HEAD^{tree}') ]] ||
	die "the series does not give the tree that it was made from"
publish_dir "$dir"
say "$(find "$dir" -name '*.patch' | wc -l) patches in ${dir#"$PWD"/}, for git am on $upstream"
