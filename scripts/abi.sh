#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Are our modules drop-in replacements? Compares them with the distribution's
# own binaries: the symbol versions that other modules were built against, the
# layout of struct rdma_id_private that ib_core.ko was compiled with (it reads
# the struct, and no symbol version covers that), vermagic and dependencies.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

max_growth=128
core=drivers/infiniband/core

resolve_kernel
headers=$("$top/scripts/headers.sh") || exit 1
source=$("$top/scripts/source.sh") || exit 1
image=$("$top/scripts/image.sh") || exit 1
for m in rdma_cm rdma_ucm; do
	[[ -e $out/$m.ko ]] || die "$out/$m.ko is missing: run 'make' first"
done

work=$(mktemp -d) || die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$work")
for m in ib_core rdma_cm rdma_ucm; do
	stock=$(find "$image/lib/modules/$kver/kernel/$core" -name "$m.ko*" -print -quit)
	[[ -n $stock ]] || die "linux-image-$kver has no $m.ko"
	case $stock in
	*.xz) try "cannot read $stock" xz -dc "$stock" ;;
	*) cat "$stock" ;;
	esac >"$work/$m.ko"
done
cd "$work"

# "symbol crc type" of each symbol that module $1 exports.
exports()
{
	sed -nE "s#^(0x[0-9a-f]+)\t([^\t]+)\t([^\t]*/)?$1\t([^\t]+).*#\2 \1 \4#p" "$2" | sort
}

# "member @offset size" of each member of the struct, from pahole's output.
members()
{
	sed -nE 's#^\t+(.*[;{}a-z_0-9])[ \t]*/\* +([0-9]+(: *[0-9]+)?) +([0-9]+) \*/$#\1 @\2 \4#p' "$1" |
		tr -s ' \t' ' '
}

layout()
{
	pahole -F btf --btf_base "$headers/vmlinux" -C rdma_id_private "$1" >"$2" 2>"$2.err" &&
		[[ $(struct_size "$2") -gt 0 ]]
}

struct_size() { sed -nE 's#.*/\* size: ([0-9]+),.*#\1#p' "$1"; }

offset()
{
	awk -v m="$2" '{ sub(/;$/, "", $(NF - 2)); if ($(NF - 2) == m) { sub(/@/, "", $(NF - 1)); print $(NF - 1); exit } }' "$1"
}

same() { diff --label stock --label ours -U0 "$1" "$2"; }

# code VARIANT: assemble and compile the patched files without our symbol, put
# their disassembly into $work/VARIANT; "mended" has the kernel's files with the
# fixes at the head of the series and without our hooks. All variants at one place:
# messages hold the file's name.
code()
{
	local dir=$work/tree o

	mkdir "$dir" "$work/$1"
	"$top/scripts/assemble.sh" "$source" "$dir" || return 1
	rm -f "$dir/$core"/cma_align*.c
	sed -i '/-DCONFIG_INFINIBAND_RDMACM_ALIGN/d' "$dir/$core/Kbuild"
	if [[ $1 == mended ]]; then
		cp -R "$source/$core"/{cma*.[ch],ucma.c} "$dir/$core/"
		cat /dev/null "${fixes[@]}" |
			patch -d "$dir" -p1 --fuzz=0 -s --no-backup-if-mismatch || return 1
	fi
	make --no-print-directory -C "$headers" M="$dir/$core" -j "$(nproc)" \
		cma.o cma_trace.o cma_configfs.o ucma.o >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log"; return 1; }
	for o in cma cma_trace cma_configfs ucma; do
		# Without addresses: instructions and what they refer to.
		objdump -d -r --no-show-raw-insn "$dir/$core/$o.o" |
			sed -E '/file format/d; s/^ *[0-9a-f]+:/:/' >"$work/$1/$o"
	done
	rm -rf "$dir"
}

off_is_upstream()
{
	code mended && code off && [[ -s $work/mended/cma ]] &&
		diff -r -U2 "$work/mended" "$work/off"
}

tap_begin abi

for m in rdma_cm rdma_ucm; do
	for field in vermagic depends alias; do
		# The order of dependencies is an accident of the link.
		modinfo -F "$field" "$m.ko" | tr ',' '\n' | sort >stock
		modinfo -F "$field" "$out/$m.ko" | tr ',' '\n' | sort >ours
		tap_check "$m.ko: $field is the distribution's" same stock ours
	done
	exports "$m" "$headers/Module.symvers" >stock
	exports "$m" "$out/Module.symvers" >ours
	# Nothing but additions: lines of stock that are not among ours.
	comm -23 stock ours >changed
	tap_check "$m.ko: each of the $(wc -l <stock) exported symbols has the distribution's version" \
		eval '[[ ! -s changed ]] || { echo "symbols that are missing or changed:"; cat changed; false; }'
	comm -13 <(cut -d' ' -f1 stock) <(cut -d' ' -f1 ours) >added
	[[ ! -s added ]] || { echo "$m.ko exports in addition:"; cat added; } | tap_note
done
modprobe --show-exports rdma_cm.ko | awk '{ print $2, $1 }' | sort >stock
exports rdma_cm "$headers/Module.symvers" | cut -d' ' -f1,2 | sort >ours
tap_check "Module.symvers is that of the image" same stock ours

tap_check "ib_core.ko of the distribution tells struct rdma_id_private" layout ib_core.ko stock.struct
tap_check "rdma_cm.ko tells struct rdma_id_private" layout "$out/rdma_cm.ko" ours.struct
members stock.struct >stock.members
members ours.struct >ours.members
# Each stock member, where it was; a lost member is a moved one.
moved()
{
	[[ -s stock.members ]] || return 1
	grep -vxFf ours.members stock.members
}
tap_check "no member of struct rdma_id_private moved ($(wc -l <stock.members) compared)" \
	eval '! moved'
s=$(struct_size stock.struct)
o=$(struct_size ours.struct)
tap_check "struct rdma_id_private grew by at most $max_growth bytes" \
	eval "((${o:-9999} - ${s:-0} <= $max_growth)) || { echo '${s:-?} -> ${o:-?} bytes'; false; }"
{
	printf '%-16s %7s %7s\n' "rdma_id_private" stock ours
	for m in id state qp_num res ece; do
		printf '%-16s %7s %7s\n' "$m" "$(offset stock.members "$m")" \
			"$(offset ours.members "$m")"
	done
	printf '%-16s %7s %7s\n' size "${s:-?}" "${o:-?}"
} | tap_note

kernel_patches
say "compiling upstream's code, and ours without CONFIG_INFINIBAND_RDMACM_ALIGN"
tap_check "without CONFIG_INFINIBAND_RDMACM_ALIGN the code is upstream's and ${#fixes[@]} fixes" off_is_upstream

tap_end
