#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Print a directory that holds the parts of the kernel source that we need,
# pristine, from linux-source-<series> of exactly KVER's version. Only these
# parts are unpacked, once per version; with --full, all of it.
#
# SOURCE_TARBALL names a linux-source tarball to use instead of the package.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wanted=(
	Documentation/infiniband/index.rst
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
	tools/testing/selftests/Makefile
)

# Sets $tarball, after a download if need be.
find_tarball()
{
	local installed deb pkg=linux-source-$series

	if [[ -n ${SOURCE_TARBALL:-} ]]; then
		[[ -r $SOURCE_TARBALL ]] || die "cannot read SOURCE_TARBALL=$SOURCE_TARBALL"
		tarball=$SOURCE_TARBALL
		return
	fi
	installed=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$pkg" \
		    2>/dev/null) || true
	tarball=/usr/src/$pkg.tar.xz
	[[ $installed != "installed $debver" || ! -r $tarball ]] || return 0
	if [[ $installed == installed\ * ]]; then
		say "$pkg ${installed#installed } is installed, KVER=$kver needs $debver"
	fi
	try "cannot create $tmp" mkdir "$tmp/.download"
	deb=$(fetch_deb "$pkg" "$debver" "$tmp/.download") || exit 1
	say "unpacking $pkg $debver"
	try "cannot unpack $pkg" dpkg-deb --vextract "$deb" "$tmp/.download" >/dev/null
	rm -f "$deb"
	tarball=$tmp/.download/usr/src/$pkg.tar.xz
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

# has_all DIR: it was unpacked, and by a version of this script that wanted no less.
has_all()
{
	local f

	for f in "${wanted[@]}"; do
		[[ -e $1/$f ]] || return 1
	done
}

resolve_kernel
what=linux-source part="the RDMA core" strip=("${wanted[@]/#//}")
if [[ ${1:-} == --full ]]; then
	what=linux part=everything strip=("")
fi
dir=$cache/$what-$series-$debver
if [[ -n ${SOURCE_TARBALL:-} ]]; then
	dir=$cache/$what-$series-tarball-$(stat -Lc %s-%Y -- "$SOURCE_TARBALL" 2>/dev/null || echo none)
fi
lock "$what-$series"
if ! has_all "$dir"; then
	new_dir "$dir"
	find_tarball
	say "taking $part out of ${tarball##*/} ($debver)"
	try "cannot unpack ${tarball##*/}" tar -x -I 'xz -T0' -f "$tarball" \
		-C "$tmp" --strip-components=1 --wildcards \
		--no-wildcards-match-slash "${strip[@]/#/linux-source-*}"
	rm -rf "$tmp/.download"
	check_version
	publish_dir "$dir"
fi
printf '%s\n' "$dir"
