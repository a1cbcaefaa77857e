#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# assemble.sh SOURCE DIR: fill DIR with what is compiled: the kernel's own
# files from SOURCE, checked against patches/<series>/base and patched without
# fuzz, and our own files. Files that did not change keep their time, so that
# Kbuild compiles only what it must.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

source=$1
dir=$2
core=drivers/infiniband/core

resolve_kernel
patches=$top/patches/$series
shopt -s nullglob
hooks=("$patches"/*.patch)
shopt -u nullglob

# The files that the patches touch, each once. New files are not in base.
patched_files()
{
	cat /dev/null "${hooks[@]}" |
		sed -nE 's|^--- a/([^[:space:]]+).*|\1|p' | sort -u
}

check_base()
{
	local file sum known

	[[ -r $patches/base ]] || die "patches/$series/base is missing"
	while read -r file; do
		[[ -r $source/$file ]] ||
			die "a patch changes $file, which linux-source-$series $debver does not have"
		sum=$(sha256sum "$source/$file")
		known=$(awk -v f="$file" '$2 == f { print $1 }' "$patches/base")
		[[ -n $known ]] ||
			die "patches/$series/base has no checksum of $file, which a patch changes"
		grep -qx "${sum%% *}" <<<"$known" ||
			die "$file of linux-source-$series $debver is not the file that" \
			    "patches/$series was made for: take a KVER of another version," \
			    "or see 'Another kernel' in CONTRIBUTING"
	done < <({ awk '/^[0-9a-f]{64} / { print $2 }' "$patches/base"; patched_files; } | sort -u)
}

copy_in()
{
	local f

	try "cannot write to $tmp" mkdir -p "$tmp/$core" "$tmp/include" "$tmp/compat"
	for f in cma.c cma_trace.c cma_configfs.c ucma.c; do
		try "cannot copy $f" cp "$source/$core/$f" "$tmp/$core/"
	done
	try "cannot copy headers" cp "$source/$core/"*.h "$tmp/$core/"
	# Headers elsewhere are the kernel's own unless a patch touches them.
	while read -r f; do
		[[ -e $tmp/$f ]] && continue
		case $f in
		include/*)
			try "cannot copy $f" mkdir -p "$tmp/$(dirname "$f")"
			try "cannot copy $f" cp "$source/$f" "$tmp/$f" ;;
		esac
	done < <(patched_files)
}

apply_patches()
{
	local p log

	log=$(mktemp) || die "cannot write to ${TMPDIR:-/tmp}"
	cleanup_paths+=("$log")
	for p in "${hooks[@]}"; do
		if ! patch -d "$tmp" -p1 --fuzz=0 --no-backup-if-mismatch \
		     --batch --forward <"$p" >"$log" 2>&1; then
			no_space && die "no space left on the disk of $build"
			cat "$log" >&2
			die "patches/$series/$(basename "$p") does not apply to" \
			    "linux-source-$series $debver"
		fi
		if grep -q 'with fuzz' "$log"; then
			die "patches/$series/$(basename "$p") applies only with fuzz"
		fi
	done
}

add_ours()
{
	local f

	for f in "$top/$core"/cma_align*.[ch]; do
		[[ -e $f ]] || continue
		try "cannot copy $f" cp "$f" "$tmp/$core/"
	done
	try "cannot copy include/" cp -R "$top/include/." "$tmp/include/"
	while read -r f; do
		try "cannot copy $f" mkdir -p "$tmp/$(dirname "$f")"
		try "cannot copy $f" cp "$top/$f" "$tmp/$f"
	done < <(cd "$top" && find compat -name '*.h')
	try "cannot copy Kbuild" cp "$top/scripts/Kbuild" "$tmp/$core/Kbuild"
}

# Bring DIR to the state of $tmp, touching only what differs.
sync()
{
	local f

	(cd "$tmp" && find . -type f -printf '%P\n' | sort) >"$tmp.list"
	cleanup_paths+=("$tmp.list")
	if [[ -e $dir/.files ]]; then
		comm -23 "$dir/.files" "$tmp.list" | while read -r f; do
			rm -f -- "$dir/$f"
		done
	fi
	while read -r f; do
		cmp -s "$tmp/$f" "$dir/$f" && continue
		try "cannot write $dir/$f" mkdir -p "$dir/$(dirname "$f")"
		try "cannot write $dir/$f" cp "$tmp/$f" "$dir/$f.new"
		try "cannot write $dir/$f" mv "$dir/$f.new" "$dir/$f"
	done <"$tmp.list"
	try "cannot write $dir/.files" cp "$tmp.list" "$dir/.files"
}

check_base
new_dir "$dir.assemble"
copy_in
apply_patches
add_ours
sync
