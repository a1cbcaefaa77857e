#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# build-kernel.sh [debug|normal]: build a small kernel for the VM runner, with
# the series in it, from the complete source of KVER's kernel, and print the
# directory for vm.sh --image:
#
#   build/kernels/NAME-HASH/boot/vmlinuz-V		V: 6.12.117-align-debug
#   build/kernels/NAME-HASH/lib/modules/V		with the stock rdma_cm and rdma_ucm
#   build/V/rdma_cm.ko, rdma_ucm.ko			ours, for align-load aligned
#
# HASH covers the version of the source and the configuration. The first run
# takes many minutes; later ones compile what changed, or nothing.
set -euo pipefail
. "$(dirname "$0")/../../../scripts/lib.sh"

here=$top/tools/testing/vm
core=drivers/infiniband/core
name=${1:-debug}
fragments=("$here/configs/normal.config")
case $name in
normal)	;;
debug)	fragments+=("$here/configs/debug.config") ;;
*)	die "no configuration '$name' (there are: normal, debug)" ;;
esac

# What decides which of our files are compiled.
inputs()
{
	cd "$top"
	find patches/"$series" include "$core" Kconfig \
		scripts/{tree,series,source}.sh -type f | sort | xargs -d '\n' sha256sum
}

up_to_date()
{
	[[ $(head -n 1 "$objects/.stamp" 2>/dev/null) == "$want" ]] &&
		[[ -e $dir/boot/vmlinuz-$v ]] &&
		(tail -n +2 "$objects/.stamp" | sha256sum --status -c - 2>/dev/null)
}

kmake()
{
	if ! env -u ARCH -u CROSS_COMPILE -u O -u KVER make -C "$tree" O="$objects" \
	     CC=gcc-12 HOSTCC=gcc-12 KBUILD_BUILD_TIMESTAMP=@0 -j "$(nproc)" "$@" \
	     >>"$log" 2>&1; then
		if full "$log"; then
			die "no space left on the disk of $build"
		fi
		grep -E -A 5 'error:|ERROR|^make.*Error' "$log" | tail -n 40 >&2 || true
		die "the $name kernel does not build (log: $log)"
	fi
}

# Kconfig drops silently what it cannot have: say it.
configure()
{
	local all=$objects/all.config line symbol

	cat "${fragments[@]}" >"$all"
	echo "CONFIG_LOCALVERSION=\"-align-$name\"" >>"$all"
	kmake KCONFIG_ALLCONFIG="$all" allnoconfig
	while read -r line; do
		case $line in
		CONFIG_*=*) grep -qxF "$line" "$objects/.config" && continue ;;
		'# CONFIG_'*' is not set')
			symbol=${line#'# '}
			grep -q "^${symbol% is not set}=" "$objects/.config" || continue ;;
		*)	continue ;;
		esac
		die "the kernel cannot be configured with: $line"
	done <"$all"
}

# The stock modules for the same kernel: the pristine files, compiled apart.
stock()
{
	local full

	[[ ! -e $objects.stock/rdma_ucm.ko ]] || return 0
	full=$("$top/scripts/source.sh" --full) || exit 1
	rm -rf "$objects.stock"
	try "cannot create $objects.stock" mkdir -p "$objects.stock"
	try "cannot copy $core" cp "$full/$core/"{cma.c,cma_trace.c,cma_configfs.c,ucma.c} \
		"$full/$core/"*.h "$objects.stock/"
	cat >"$objects.stock/Kbuild" <<-'EOT'
	obj-m := rdma_cm.o rdma_ucm.o
	CFLAGS_cma_trace.o += -I$(src)
	rdma_cm-y := cma.o cma_trace.o
	rdma_cm-$(CONFIG_INFINIBAND_ADDR_TRANS_CONFIGFS) += cma_configfs.o
	rdma_ucm-y := ucma.o
	EOT
	kmake M="$objects.stock" modules
}

# All but our two modules.
kernel_sum()
{
	(cd "$objects" && find . -name '*.ko' ! -path "*/rdma_cm.ko" \
		! -path "*/rdma_ucm.ko" | sort |
		xargs -d '\n' sha256sum arch/x86/boot/bzImage) | sha256sum
}

publish_image()
{
	local sum mods

	sum=$(kernel_sum)
	if [[ -e $dir/boot/vmlinuz-$v && $(cat "$objects/.image" 2>/dev/null) == "$sum" ]]; then
		return
	fi
	stock
	new_dir "$dir"
	mkdir "$tmp/boot"
	cp "$objects/arch/x86/boot/bzImage" "$tmp/boot/vmlinuz-$v"
	cp "$objects/.config" "$tmp/boot/config-$v"
	kmake INSTALL_MOD_PATH="$tmp" DEPMOD=true modules_install
	mods=$tmp/lib/modules/$v
	rm -f "$mods/build" "$mods/source"
	cp "$objects.stock/"rdma_{cm,ucm}.ko "$mods/kernel/$core/"
	try "depmod failed for $v" depmod -b "$tmp" "$v"
	publish_dir "$dir"
	printf '%s\n' "$sum" >"$objects/.image"
}

publish_modules()
{
	local m

	try "cannot create $build/$v" mkdir -p "$build/$v"
	for m in rdma_cm.ko rdma_ucm.ko; do
		cmp -s "$objects/$core/$m" "$build/$v/$m" && continue
		try "cannot write $build/$v/$m" cp "$objects/$core/$m" "$build/$v/$m.new"
		try "cannot write $build/$v/$m" mv "$build/$v/$m.new" "$build/$v/$m"
	done
}

resolve_kernel
v=$upstream-align-$name
hash=$({ echo "$debver ${SOURCE_TARBALL:-}"; cat "${fragments[@]}"; } | sha256sum | cut -c 1-12)
dir=$build/kernels/$name-$hash
objects=$dir.o
log=$build/kernels/$name.log
lock "kernel-$name"
want=$(inputs | sha256sum)
if up_to_date; then
	printf '%s\n' "$dir"
	exit 0
fi

lock tree-in-use
tree=$("$top/scripts/tree.sh") || exit 1
say "building the $name kernel $v (log: ${log#"$top"/})"
try "cannot create $objects" mkdir -p "$objects"
: >"$log"
[[ -e $objects/.config && -e $objects/.image ]] || configure
kmake bzImage modules
publish_image
publish_modules
{
	printf '%s\n' "$want"
	sha256sum "$build/$v/rdma_cm.ko" "$build/$v/rdma_ucm.ko"
} >"$objects/.stamp"
say "built ${dir#"$top"/}"
printf '%s\n' "$dir"
