#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Build rdma_cm.ko and rdma_ucm.ko for KVER into build/KVER/.
#
# The modules are there only while they match their inputs: build/KVER/.stamp,
# written last, holds the checksum of all inputs and of both modules; whatever
# does not match is built again.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

modules=(rdma_cm.ko rdma_ucm.ko)

# One checksum of everything that decides what the modules contain.
inputs()
{
	cd "$top"
	echo "$kver $debver $headers ${EXTRA_CFLAGS:-}"
	{
		find patches/"$series" compat include scripts/Kbuild \
			drivers/infiniband/core/cma_align*.[ch] -type f 2>/dev/null
		printf '%s\n' scripts/assemble.sh scripts/build.sh \
			"$headers/Module.symvers" "$headers/.config"
		find "$source/drivers/infiniband/core" -maxdepth 1 \
			\( -name 'cma*.c' -o -name 'ucma.c' -o -name '*.h' \)
	} | sort | xargs -d '\n' sha256sum
}

up_to_date()
{
	[[ -e $out/.stamp ]] &&
		[[ $(head -n 1 "$out/.stamp") == "$want" ]] &&
		(cd "$out" && tail -n +2 .stamp | sha256sum --status -c - 2>/dev/null)
}

compile()
{
	local missing log=$out/build.log obj=$out/src/drivers/infiniband/core

	if ! make --no-print-directory -C "$headers" M="$obj" V="${V:-0}" modules \
	     -j "$(nproc)" 2>&1 | tee "$log" | sed '/^make.*ing directory/d' >&2; then
		if full "$log"; then
			die "no space left on the disk of $build"
		fi
		# The compiler has spoken; what it did finish may be kept.
		rm -f "$out/.building"
		missing=$("$top/scripts/deps.sh" --missing 2>/dev/null) || missing=''
		[[ -z $missing ]] || missing="; not installed (make deps): $missing"
		die "the modules for $kver do not compile (log: $log)$missing"
	fi
}

publish()
{
	local m

	for m in "${modules[@]}"; do
		try "cannot write $out/$m" cp "$out/src/drivers/infiniband/core/$m" "$out/$m.new"
		try "cannot write $out/$m" mv "$out/$m.new" "$out/$m"
	done
	cp "$out/src/drivers/infiniband/core/Module.symvers" "$out/Module.symvers"
	(cd "$out" && echo "$want" && sha256sum "${modules[@]}") >"$out/.stamp.new"
	mv "$out/.stamp.new" "$out/.stamp"
}

cd "$top"
resolve_kernel
headers=$(scripts/headers.sh) || exit 1
source=$(scripts/source.sh) || exit 1
lock "$kver"
want=$(inputs | sha256sum | cut -d' ' -f1)
if up_to_date; then
	say "${out#"$top"/}/rdma_cm.ko and rdma_ucm.ko are up to date"
	exit 0
fi

try "cannot create $out" mkdir -p "$out"
rm -f "$out/.stamp" "${modules[@]/#/$out/}"
# An interrupted run may have left half an object file behind.
[[ ! -e $out/.building ]] || rm -rf "$out/src"
try "cannot write to $out" touch "$out/.building"
say "building rdma_cm.ko and rdma_ucm.ko for $kver"
while :; do
	scripts/assemble.sh "$source" "$out/src" || exit 1
	compile
	now=$(inputs | sha256sum | cut -d' ' -f1)
	[[ $now != "$want" ]] || break
	want=$now
	say "the sources changed meanwhile: building again"
done
publish
rm -f "$out/.building"
say "built ${out#"$top"/}/rdma_cm.ko and rdma_ucm.ko"
