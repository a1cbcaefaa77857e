#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# install.sh [--uninstall]: put the modules into DESTDIR/lib/modules/KVER/updates,
# where depmod prefers them to the distribution's, or take them away again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules=(rdma_cm.ko rdma_ucm.ko)

resolve_kernel
# "depmod -b /" makes paths that begin with "//": -b only below a DESTDIR.
root='' base=()
if [[ -n ${DESTDIR:-} && $(realpath -m -- "$DESTDIR") != / ]]; then
	root=$(realpath -m -- "$DESTDIR")
	base=(-b "$root")
fi
lib=$root/lib/modules/$kver
updates=$lib/updates

[[ -d $lib/kernel ]] || {
	hint=
	[[ -z $root && $(uname -r) != "$kver" ]] && hint="; for the running kernel: KVER=$(uname -r)"
	die "kernel $kver is not installed in ${root:-/} (no $lib/kernel)$hint"
}
[[ -w $lib ]] || {
	hint=
	[[ $(id -u) == 0 ]] || hint=" (only root can)"
	die "cannot write to $lib$hint"
}

refresh()
{
	try "depmod failed" depmod "${base[@]}" "$kver"
}

# Where would modprobe take the module from?
chosen() { modinfo "${base[@]}" -k "$kver" -n "$1" 2>/dev/null || true; }

notices()
{
	local f=/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c

	say "a loaded rdma_cm stays until it is unloaded or the machine boots again"
	say "if your initramfs holds rdma_cm (root over RDMA):" \
		"update-initramfs -u -k $kver"
	if [[ -r $f && $(od -An -t u1 -j 4 -N 1 "$f" | tr -d ' ') == 1 ]]; then
		say "secure boot is on: this kernel loads only signed modules." \
			"Sign both with a key that you enrolled (mokutil --import):" \
			"/usr/lib/linux-kbuild-${kver%-"$arch"}/scripts/sign-file sha256 KEY CERT $updates/MODULE"
	else
		say "with secure boot, both modules must be signed with an enrolled key"
	fi
}

if [[ ${1:-} == --uninstall ]]; then
	found=
	for m in "${modules[@]}"; do
		[[ -e $updates/$m ]] || continue
		found=1
		try "cannot remove $updates/$m" rm -f "$updates/$m"
	done
	[[ $found ]] || { say "nothing to remove from $updates"; exit 0; }
	rmdir "$updates" 2>/dev/null || true
	refresh
	for m in "${modules[@]}"; do
		[[ $(chosen "${m%.ko}") != "$updates"/* ]] || die "$m is still chosen from $updates"
	done
	say "removed; $kver uses the distribution's rdma_cm and rdma_ucm again"
	notices
	exit 0
fi

for m in "${modules[@]}"; do
	[[ -e $out/$m ]] || die "$out/$m is missing: run 'make' first"
done
try "cannot create $updates" mkdir -p "$updates"
for m in "${modules[@]}"; do
	cleanup_paths+=("$updates/$m.new")
	try "cannot write $updates/$m" cp "$out/$m" "$updates/$m.new"
	try "cannot strip $m" strip --strip-debug "$updates/$m.new"
	chmod 644 "$updates/$m.new"
done
for m in "${modules[@]}"; do
	try "cannot write $updates/$m" mv "$updates/$m.new" "$updates/$m"
done
refresh
for m in "${modules[@]}"; do
	[[ $(chosen "${m%.ko}") == "$updates/$m" ]] ||
		die "depmod prefers another ${m%.ko} to $updates/$m (see /etc/depmod.d)"
done
say "installed ${modules[*]} into $updates"
notices
