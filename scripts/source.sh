#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Print a directory that holds the parts of the kernel source that we need,
# pristine, from linux-source-<series> of exactly KVER's version. Only these
# parts are unpacked, once per version.
#
# SOURCE_TARBALL names a linux-source tarball to use instead of the package.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wanted=(
	Makefile
	drivers/infiniband/Kconfig
	drivers/infiniband/Makefile
	drivers/infiniband/core
	include/rdma
	include/uapi/rdma
	scripts/checkpatch.pl
	scripts/const_structs.checkpatch
	scripts/kernel-doc
	scripts/spelling.txt
)

# The tarball on stdout.
tarball()
{
	local installed deb pkg=linux-source-$series

	if [[ -n ${SOURCE_TARBALL:-} ]]; then
		[[ -r $SOURCE_TARBALL ]] || die "cannot read SOURCE_TARBALL=$SOURCE_TARBALL"
		cat "$SOURCE_TARBALL"
		return
	fi
	installed=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$pkg" \
		    2>/dev/null) || true
	if [[ $installed == "installed $debver" && -r /usr/src/$pkg.tar.xz ]]; then
		cat "/usr/src/$pkg.tar.xz"
		return
	fi
	if [[ $installed == installed\ * ]]; then
		say "$pkg ${installed#installed } is installed, KVER=$kver needs $debver"
	fi
	deb=$(fetch_deb "$pkg" "$debver" "$tmp/.download") || exit 1
	dpkg-deb --fsys-tarfile "$deb" | tar -xO "./usr/src/$pkg.tar.xz"
}

unpack()
{
	mkdir "$tmp/.download"
	tarball | tar -x -I 'xz -T0' -C "$tmp" --strip-components=1 \
		--wildcards --no-wildcards-match-slash "${wanted[@]/#/linux-source-*/}"
	rm -rf "$tmp/.download"
}

# A tarball of another kernel must not be patched, whatever it was called.
check_version()
{
	local v

	v=$(sed -nE 's/^(VERSION|PATCHLEVEL|SUBLEVEL) = ([0-9]+)$/\2/p' \
	    "$tmp/Makefile" | paste -sd.)
	[[ $v == "$upstream" ]] ||
		die "the kernel source is version $v, but KVER=$kver needs $upstream"
}

resolve_kernel
dir=$cache/linux-source-$series-$debver
if [[ -n ${SOURCE_TARBALL:-} ]]; then
	dir=$cache/linux-source-$series-tarball-$(stat -Lc %s-%Y -- "$SOURCE_TARBALL" 2>/dev/null || echo none)
fi
lock "linux-source-$series"
if [[ ! -d $dir ]]; then
	say "unpacking the RDMA core of linux-source-$series $debver"
	new_dir "$dir"
	log=$(mktemp) || die "cannot write to ${TMPDIR:-/tmp}"
	cleanup_paths+=("$log")
	if ! unpack 2> >(tee "$log" | grep '^rdma-align:' >&2); then
		if no_space || grep -q 'No space left on device' "$log"; then
			die "no space left on the disk of $build"
		fi
		grep -q '^rdma-align:' "$log" && exit 1
		die "cannot unpack linux-source-$series ($(tail -n 1 "$log"))"
	fi
	check_version
	publish_dir "$dir"
fi
printf '%s\n' "$dir"
