#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Does the build say what is wrong, in one sentence, and leave nothing behind
# that a second make would trust? Each test breaks a copy of the repository.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

resolve_kernel
kver_ok=$kver
"$top/scripts/headers.sh" >/dev/null || exit 1
image=$("$top/scripts/image.sh") || exit 1
source=$("$top/scripts/source.sh") || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/rdma-align-test.XXXXXX") ||
	die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$work")
chmod 755 "$work"
log=$work/log
real_build=$build

# copy_repo: a fresh copy in $repo, its own build directory in $BUILD, the
# unpacked source shared.
n=0
copy_repo()
{
	n=$((n + 1))
	repo=$work/$n/repo
	export BUILD=$work/$n/build
	mkdir -p "$repo" "$BUILD/cache"
	(cd "$top" && cp -R Makefile Kconfig scripts patches compat include drivers tools "$repo/")
	ln -s "$source" "$BUILD/cache/"
	link_headers
}

# Where they are not installed, they are in the cache.
link_headers()
{
	if [[ -d $real_build/cache/headers-$kver_ok ]]; then
		ln -s "$real_build/cache/headers-$kver_ok" "$BUILD/cache/"
	fi
}

# fails PATTERN COMMAND...: it fails, with exactly one sentence of ours, which
# matches; and there is no module, stamp or temporary directory.
fails()
{
	local pattern=$1

	shift
	if "$@" >"$log" 2>&1; then
		echo "it succeeded"
		cat "$log"
		return 1
	fi
	# Progress is no complaint.
	grep '^rdma-align:' "$log" |
		grep -vE '^rdma-align: (building|unpacking|taking|downloading|waiting) ' >"$log.said" || true
	if [[ $(wc -l <"$log.said") != 1 ]] || ! grep -qE "$pattern" "$log.said"; then
		echo "expected one sentence like: $pattern"
		cat "$log"
		return 1
	fi
	nothing_left
}

nothing_left()
{
	local left

	left=$(find "$BUILD" \( -path '*/src' -prune \) -o \( -name '*.ko' -o -name .stamp \
		-o -name '*.tmp.*' -o -name '*.new' -o -name '*.list' \) -print 2>/dev/null)
	[[ -z $left ]] || { echo "left behind: $left"; return 1; }
}

in_repo() { (cd "$repo" && "$@"); }

make_with() { in_repo env "$@" make -s build; }

# --- what is asked for ------------------------------------------------------

unknown_kver()
{
	copy_repo
	fails "unknown kernel KVER=$series.999" make_with KVER="$series.999+deb12-amd64" &&
		fails "kernel 5.10 of KVER=5.10.3-amd64 is not supported" make_with KVER=5.10.3-amd64 &&
		fails "KVER=latest is not the name of a kernel" make_with KVER=latest &&
		fails "KDIR=/nonexistent is not a built kernel" make_with KDIR=/nonexistent
}

other_source()
{
	local d=linux-source-$series

	copy_repo
	mkdir -p "$work/$d"
	printf 'VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n' >"$work/$d/Makefile"
	(cd "$source" && cp -R --parents "$core" Documentation include scripts tools \
		drivers/infiniband/[KM]* "$work/$d/")
	tar -cJf "$work/other.tar.xz" -C "$work" "$d"
	fails "kernel source is version 6.12.1, but KVER=.* needs $upstream" \
		make_with SOURCE_TARBALL="$work/other.tar.xz" &&
		echo garbage >"$work/bad.tar.xz" &&
		fails "cannot unpack bad.tar.xz" make_with SOURCE_TARBALL="$work/bad.tar.xz" &&
		fails "cannot read SOURCE_TARBALL" make_with SOURCE_TARBALL="$work/none.tar.xz"
}

# --- patches ------------------------------------------------------------------

# new_patch FILE SED: a last patch that makes this edit to FILE as it is after
# the other patches.
new_patch()
{
	local dir=$work/$n/assembled

	rm -rf "$dir"
	mkdir -p "$dir"
	in_repo scripts/assemble.sh "$source" "$dir"
	[[ -e $dir/$1 ]] || { mkdir -p "$dir/$(dirname "$1")"; cp "$source/$1" "$dir/$1"; }
	mkdir -p "$dir/a/$(dirname "$1")" "$dir/b/$(dirname "$1")"
	cp "$dir/$1" "$dir/a/$1"
	sed "$2" "$dir/$1" >"$dir/b/$1"
	(cd "$dir" && diff -u "a/$1" "b/$1") >>"$repo/patches/$series/9999-test.patch" || true
	grep -q " $1\$" "$repo/patches/$series/base" ||
		(cd "$source" && sha256sum "$1") >>"$repo/patches/$series/base"
}

bad_patch()
{
	copy_repo
	new_patch "$core"/cma.c '/^static int cma_init\|^static int __init cma_init/s/$/ \/* x *\//'
	sed -i -E '/^ /s/[a-z]/X/g' "$repo/patches/$series/9999-test.patch"
	fails "patches/$series/9999-test.patch does not apply" make_with V=0
}

fuzzy_patch()
{
	copy_repo
	new_patch "$core"/cma.c '/^static int __init cma_init/s/$/ \/* x *\//'
	# One line of context is off: patch would take that with fuzz.
	awk '/^@@/ { n = NR } n && NR == n + 1 { $0 = $0 "x" } { print }' \
		"$repo/patches/$series/9999-test.patch" >"$work/fuzzy"
	cp "$work/fuzzy" "$repo/patches/$series/9999-test.patch"
	fails "patches/$series/9999-test.patch (does not apply|applies only with fuzz)" make_with V=0
}

wrong_hash()
{
	copy_repo
	sed -i -E "s#^[0-9a-f]{8}(.*$core/cma.c)\$#00000000\1#" "$repo/patches/$series/base"
	fails "$core/cma.c of linux-source.* is not the file that patches/$series was made for" \
		make_with V=0 &&
		rm "$repo/patches/$series/base" &&
		fails "patches/$series/base is missing" make_with V=0
}

no_hash()
{
	copy_repo
	new_patch "$core"/cma_configfs.c '1s/$/ \/* x *\//'
	sed -i '/cma_configfs.c/d' "$repo/patches/$series/base"
	fails "patches/$series/base has no checksum of $core/cma_configfs.c" make_with V=0
}

# --- the machine --------------------------------------------------------------

# As on a machine where dpkg-query knows no package.
no_packages()
{
	copy_repo
	mkdir -p "$work/$n/bin"
	printf '#!/bin/sh\nexit 1\n' >"$work/$n/bin/dpkg-query"
	chmod 755 "$work/$n/bin/dpkg-query"
}

# Whoever is not root.
no_root()
{
	local as=()

	no_packages
	chmod -R a+rX "$work/$n"
	[[ $(id -u) != 0 ]] || as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	fails "only root can install what is missing .*: .*gcc-12" \
		in_repo "${as[@]}" env PATH="$work/$n/bin:$PATH" scripts/deps.sh
}

deps_quick()
{
	local start

	copy_repo
	start=$(date +%s%N)
	in_repo scripts/deps.sh
	start=$((($(date +%s%N) - start) / 1000000))
	((start < 2000)) || { echo "took $start ms"; return 1; }
}

# Everything but QEMU in the PATH.
no_qemu()
{
	local bin=$work/$n/bin status=0

	copy_repo
	bin=$work/$n/bin
	mkdir -p "$bin"
	find /usr/local/bin /usr/bin /usr/sbin /bin /sbin -maxdepth 1 \( -type f -o -type l \) \
		! -name 'qemu*' ! -name kvm -print0 2>/dev/null |
		xargs -0 ln -sf -t "$bin"
	in_repo env PATH="$bin" timeout 30 tools/testing/vm/vm.sh --kver "$kver_ok" \
		--timeout 10 -- true >"$log" 2>&1 || status=$?
	if ((status == 0)) || [[ $(wc -l <"$log") != 1 ]] || ! grep -qi qemu "$log"; then
		echo "expected a failure and one sentence about QEMU; status $status and:"
		cat "$log"
		return 1
	fi
}

# with_disk SIZE SOURCE COMMAND...: with a build directory of that size. SOURCE:
# the unpacked source that it has already.
with_disk()
{
	local size=$1 have=$2 status=0

	shift 2
	rm -rf "$BUILD"
	mkdir -p "$BUILD"
	mount -t tmpfs -o "size=$size" none "$BUILD" || return 1
	mkdir "$BUILD/cache"
	link_headers
	[[ ! $have ]] || ln -s "$have" "$BUILD/cache/"
	"$@" || status=1
	umount "$BUILD"
	return "$status"
}

full_disk()
{
	copy_repo
	# The source does not fit; its copy does not fit; the objects do not.
	with_disk 1m "" fails "no space left on the disk" make_with V=0 &&
		with_disk 500k "$source" fails "no space left on the disk" make_with V=0 &&
		with_disk 5m "$source" fails "no space left on the disk" make_with V=0
}

can_mount()
{
	mkdir -p "$work/mnt"
	mount -t tmpfs none "$work/mnt" 2>/dev/null && umount "$work/mnt"
}

# --- a build that was broken off, and one that breaks the ABI ----------------

interrupted()
{
	local pid i

	copy_repo
	new_patch "$core"/cma_priv.h 's/^\tstruct rdma_restrack_entry[ \t]*res;/\tlong intruder;\n&/'
	new_patch include/rdma/rdma_cm.h 's/^\tRDMA_CM_EVENT_TIMEWAIT_EXIT/\tRDMA_CM_EVENT_TEST,\n&/'
	abi_repo=$repo
	abi_build=$BUILD
	set -m
	(cd "$repo" && exec scripts/build.sh) >"$log" 2>&1 &
	pid=$!
	set +m
	for ((i = 0; i < 300; i++)); do
		[[ -z $(find "$BUILD/$kver_ok/src" -name '*.o.cmd' -print -quit 2>/dev/null) ]] || break
		sleep 0.1
	done
	kill -KILL -- "-$pid" 2>/dev/null || { cat "$log"; return 1; }
	wait "$pid" 2>/dev/null || true
	[[ -e $BUILD/$kver_ok/.building ]] || { echo "it was over already"; return 1; }
	nothing_left
}

resumed()
{
	repo=$abi_repo
	export BUILD=$abi_build
	make_with V=0 >"$log" 2>&1 || { cat "$log"; return 1; }
	grep -q 'CC.*/cma.o' "$log" || { echo "old objects were trusted"; cat "$log"; return 1; }
	[[ -s $BUILD/$kver_ok/rdma_cm.ko && -s $BUILD/$kver_ok/rdma_ucm.ko ]]
}

idle()
{
	make_with V=0 >"$log" 2>&1
	grep -q 'up to date' "$log" || { cat "$log"; return 1; }
}

damaged()
{
	truncate -s 1000 "$BUILD/$kver_ok/rdma_cm.ko"
	make_with V=0 >"$log" 2>&1
	modinfo -F vermagic "$BUILD/$kver_ok/rdma_cm.ko" | grep -q "$kver_ok" ||
		{ cat "$log"; return 1; }
}

abi_fails()
{
	ln -sfn "$image" "$BUILD/cache/image-$kver_ok"
	if in_repo scripts/abi.sh >"$log" 2>&1; then
		echo "abi found nothing wrong"
		return 1
	fi
	if ! grep -qE '^not ok .*exported symbols' "$log" ||
	   ! grep -qE '^not ok .*no member of struct rdma_id_private moved' "$log"; then
		cat "$log"
		return 1
	fi
}

compile_error()
{
	echo '#error broken' >"$repo/$core/cma_align_broken.c"
	fails "do not compile" make_with V=0
}

# A compiler's helper that is missing may be why.
compile_missing()
{
	no_packages
	echo '#error broken' >"$repo/$core/cma_align_broken.c"
	fails "do not compile .*; not installed \(make deps\): .*pahole" \
		env PATH="$work/$n/bin:$PATH" make -C "$repo" --no-print-directory
}

# --- install --------------------------------------------------------------------

install_nowhere()
{
	copy_repo
	fails "kernel ${kver_ok//+/\\+} is not installed in $work/root" \
		in_repo env DESTDIR="$work/root" scripts/install.sh
}

# machine: $root with the kernel's modules, as a machine has them.
machine()
{
	local lib

	root=$work/machine
	lib=$root/lib/modules/$kver_ok
	rm -rf "$root"
	mkdir -p "$lib/kernel/drivers/infiniband"
	cp -R "$image/lib/modules/$kver_ok/kernel/drivers/infiniband/core" "$lib/kernel/drivers/infiniband/"
	cp "$image/lib/modules/$kver_ok"/modules.{order,builtin,builtin.modinfo} "$lib/"
	depmod -b "$root" "$kver_ok" 2>/dev/null
	before=$(cd "$root" && find . -type f | sort | xargs sha256sum)
}

# in_machine COMMAND...: DESTDIR empty, and that is the machine's /lib/modules.
in_machine()
{
	mkdir -p /lib/modules /etc/depmod.d "$root/etc/depmod.d"
	# shellcheck disable=SC2016 # the inner shell's
	in_repo env -u DESTDIR unshare -m sh -c '
		mount --bind "$1/lib/modules" /lib/modules &&
		mount --bind "$1/etc/depmod.d" /etc/depmod.d && shift && exec "$@"' sh "$root" "$@"
}

below_destdir() { in_repo env DESTDIR="$root/." "$@"; }

# installs AS: with install.sh, then modprobe's choice is ours; without it again
# all is as it was.
installs()
{
	local how=$1 m

	machine
	"$how" scripts/install.sh || return 1
	for m in rdma_cm rdma_ucm; do
		modinfo -b "$root" -k "$kver_ok" -n "$m" | grep -q "/updates/$m.ko\$" || return 1
	done
	modinfo -p "$root/lib/modules/$kver_ok/updates/rdma_cm.ko" | grep -q '^ha_mode:' || return 1
	"$how" scripts/install.sh --uninstall || return 1
	diff <(echo "$before") <(cd "$root" && find . -type f | sort | xargs sha256sum) || return 1
	"$how" scripts/install.sh --uninstall 2>&1 | grep 'nothing to remove'
}

# depmod.d says that another directory goes first.
install_outvoted()
{
	machine
	mkdir -p "$root/etc/depmod.d"
	mkdir "$root/lib/modules/$kver_ok/extra"
	cp "$root/lib/modules/$kver_ok"/kernel/drivers/infiniband/core/rdma_cm.ko* \
		"$root/lib/modules/$kver_ok/extra/"
	echo "search extra updates built-in" >"$root/etc/depmod.d/x.conf"
	if in_machine scripts/install.sh >"$log" 2>&1; then
		echo "it succeeded"
		return 1
	fi
	grep 'depmod prefers another rdma_cm' "$log"
}

tap_begin build
tap_check "an unknown, unsupported or malformed KVER is told" unknown_kver
tap_check "kernel source of another version is refused" other_source
tap_check "a patch that does not apply is told" bad_patch
tap_check "a patch that needs fuzz is refused" fuzzy_patch
tap_check "a source file with another checksum is refused" wrong_hash
tap_check "a patched file without a checksum is refused" no_hash
tap_check "deps says what is missing when it is not root" no_root
tap_check "deps is quick when all is there" deps_quick
tap_check "the VM runner says that QEMU is missing" no_qemu
tap_check "install refuses where the kernel is not installed" install_nowhere
if can_mount; then
	tap_check "a full disk is told" full_disk
else
	tap_skip "a full disk is told" "cannot mount a tmpfs"
fi
tap_check "a killed build leaves no module" interrupted
tap_check "the next build starts over and succeeds" resumed
tap_check "a third build has nothing to do" idle
tap_check "a damaged module is replaced" damaged
tap_check "install and uninstall below a DESTDIR" installs below_destdir
if can_mount; then
	tap_check "install and uninstall on the machine itself" installs in_machine
	tap_check "install tells when depmod prefers another module" install_outvoted
else
	tap_skip "install and uninstall on the machine itself" "cannot mount"
	tap_skip "install tells when depmod prefers another module" "cannot mount"
fi
tap_check "abi notices a moved member and a changed symbol version" abi_fails
tap_check "a compile error leaves no module" compile_error
tap_check "a compile error says what is not installed" compile_missing
tap_end
