#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Unpack linux-image-KVER under the cache, for the test machine to boot, and
# print where: boot/vmlinuz-KVER, lib/modules/KVER. It is never installed here.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

resolve_kernel
dir=$cache/image-$kver
lock "image-$kver"
if [[ ! -d $dir ]]; then
	new_dir "$dir"
	try "cannot create $tmp" mkdir "$tmp/.download"
	deb=$(fetch_deb "linux-image-$kver" "$debver" "$tmp/.download") || exit 1
	say "unpacking linux-image-$kver"
	try "cannot unpack linux-image-$kver" dpkg-deb -x "$deb" "$tmp"
	rm -rf "$tmp/.download"
	[[ -e $tmp/boot/vmlinuz-$kver && -d $tmp/lib/modules/$kver ]] ||
		die "linux-image-$kver holds no kernel"
	try "depmod failed for linux-image-$kver" depmod -b "$tmp" "$kver"
	publish_dir "$dir"
fi
printf '%s\n' "$dir"
