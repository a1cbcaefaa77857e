#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Print the directory to build modules of KVER against: KDIR if set, the
# installed headers, or else the header packages unpacked under the cache.
# Debian's header package cannot be installed without the kernel itself, and a
# build must not change what the machine boots next.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

resolve_kernel
if [[ -n ${KDIR:-} ]]; then
	[[ -e $KDIR/Module.symvers ]] || die "KDIR=$KDIR is not a built kernel tree"
	realpath -- "$KDIR"
	exit 0
fi
if [[ -e /usr/src/linux-headers-$kver/Module.symvers ]]; then
	printf '%s\n' "/usr/src/linux-headers-$kver"
	exit 0
fi

dir=$cache/headers-$kver
lock "headers-$kver"
if [[ ! -d $dir ]]; then
	new_dir "$dir"
	try "cannot create $tmp" mkdir "$tmp/.download"
	# Flavours share them: linux-headers-V-common, or -common-rt.
	mapfile -t more < <(apt-cache show "linux-headers-$kver=$debver" 2>/dev/null |
		sed -n 's/^Depends: //p' | tr ',' '\n' |
		sed -nE 's/^ *(linux-headers-[^ ]*-common[^ ]*|linux-kbuild-[^ ]*).*/\1/p')
	((${#more[@]} == 2)) ||
		die "linux-headers-$kver does not depend on common headers and kbuild as expected"
	for pkg in "linux-headers-$kver" "${more[@]}"; do
		deb=$(fetch_deb "$pkg" "$debver" "$tmp/.download") || exit 1
		try "cannot unpack $pkg" dpkg-deb -x "$deb" "$tmp"
	done
	rm -rf "$tmp/.download"
	# The headers' Makefile includes the common one by its installed path.
	try "cannot write to $tmp" sed -i "s|/usr/src/|$dir/usr/src/|" \
		"$tmp/usr/src/linux-headers-$kver/Makefile"
	publish_dir "$dir"
fi
printf '%s\n' "$dir/usr/src/linux-headers-$kver"
