#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Boot a distribution kernel under QEMU and run one command (or a shell) in it.
# See the README beside this file.
#
#   host                                   guest
#   vm.sh -> QEMU  -serial file            ttyS0: the kernel's log, nothing else
#            -virtfs / (read-only)         the root, below an overlay in memory
#            -virtfs RUN, OUT, MODULES     /run/vm, /out, /lib/modules/KVER
#            virtserialport -> fifo        what COMMAND prints
#            RUN/status                    COMMAND's exit status
#
# The status tells who failed: COMMAND's own one, or
#   97  the guest died (panic, triple fault, QEMU error)
#   98  the guest or COMMAND did not end before the deadline
#   99  the kernel's log has a warning, an Oops, ... although COMMAND may be fine
#   96  the virtual machine could not be started at all

set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
build=${BUILD:-$top/build}
# shellcheck source=tools/testing/vm/splat.sh
. "$here/splat.sh"

readonly RC_START=96 RC_CRASH=97 RC_HANG=98 RC_SPLAT=99
readonly BOOTS=3	# at most, until a guest runs the command

die()
{
	echo "vm.sh: $*" >&2
	exit $RC_START
}

usage()
{
	cat <<-'USAGE'
	usage: vm.sh [options] (--shell | -- COMMAND [ARG]...)
	  --kver V       kernel release (default: $KVER, or the newest image there is)
	  --image DIR    extracted kernel package: boot/vmlinuz-V and lib/modules/V
	                 (default: $VM_IMAGE, or build/cache/image-V)
	  --modules DIR  where align-load finds rdma_cm.ko and rdma_ucm.ko
	                 (default: build/V)
	  --cpus N       (default: the host's, at most 2)
	  --mem M        MiB (default: 2048)
	  --timeout SEC  deadline (default: 300; --shell: none)
	  --out DIR      host directory that the guest writes as /out; console.log
	                 and dmesg.log are left there
	  --append ARGS  more kernel arguments
	  --qemu ARGS    more QEMU arguments
	  --accel A      tcg or kvm (default: $VM_ACCEL, or kvm if a probe booted)
	  --keep         keep the default --out directory also after success
	USAGE
}

kver=${KVER:-} image=${VM_IMAGE:-} modules='' cpus='' mem=2048 timeout='' out=''
append='' qemu_extra='' accel=${VM_ACCEL:-} shell='' keep=''

while [ $# -gt 0 ]; do
	case $1 in
	--kver|--image|--modules|--cpus|--mem|--timeout|--out|--append|--qemu|--accel)
		[ $# -ge 2 ] || die "option $1 needs a value"
		case $1 in
		--kver)		kver=$2 ;;
		--image)	image=$2 ;;
		--modules)	modules=$2 ;;
		--cpus)		cpus=$2 ;;
		--mem)		mem=$2 ;;
		--timeout)	timeout=$2 ;;
		--out)		out=$2 ;;
		--append)	append=$2 ;;
		--qemu)		qemu_extra=$2 ;;
		--accel)	accel=$2 ;;
		esac
		shift 2 ;;
	--shell)	shell=1; shift ;;
	--keep)		keep=1; shift ;;
	-h|--help)	usage; exit 0 ;;
	--)		shift; break ;;
	*)		usage >&2; die "unknown option $1" ;;
	esac
done

if [ -n "$shell" ]; then
	[ $# -eq 0 ] || die "--shell takes no command"
	[ -t 0 ] || die "--shell needs a terminal; without one: vm.sh -- COMMAND"
else
	[ $# -gt 0 ] || { usage >&2; die "no command given"; }
fi

for n in "$mem" "${cpus:-1}" "${timeout:-0}"; do
	[[ $n =~ ^[0-9]+$ ]] || die "'$n' is not a number"
done
[ "$mem" -ge 512 ] || die "--mem $mem: a guest needs at least 512 MiB"

need()
{
	command -v "$1" >/dev/null || die "$1 is not installed (Debian package $2; 'make deps' installs it)"
}
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
need xz xz-utils
need depmod kmod
need flock util-linux
grep -qa 'BusyBox v' "$(command -v busybox)" 2>/dev/null ||
	die "busybox is not usable"
if ldd "$(command -v busybox)" >/dev/null 2>&1; then
	die "busybox is not static (Debian package busybox-static; 'make deps' installs it)"
fi

# The kernel: a release that was asked for, else the newest one at hand.
newest()
{
	local d v

	for d in "$@"; do
		v=${d##*/boot/vmlinuz-}
		if [ -e "$d" ]; then
			echo "$v"
		fi
	done | sort -V | tail -n 1
}

if [ -z "$kver" ]; then
	if [ -n "$image" ]; then
		kver=$(newest "$image"/boot/vmlinuz-*)
	else
		kver=$(newest "$build"/cache/image-*/boot/vmlinuz-*)
	fi
	[ -n "$kver" ] || die "no kernel image in ${image:-$build/cache} ('make image' fetches one)"
fi
image=${image:-$build/cache/image-$kver}
vmlinuz=$image/boot/vmlinuz-$kver
[ -r "$vmlinuz" ] || die "no kernel image $vmlinuz ('make image KVER=$kver' fetches it)"
[ -d "$image/lib/modules/$kver" ] || die "no modules in $image/lib/modules/$kver"
image=$(cd "$image" && pwd -P)
vmlinuz=$image/boot/vmlinuz-$kver

if [ -n "$modules" ]; then
	[ -r "$modules/rdma_cm.ko" ] || die "no rdma_cm.ko in $modules"
else
	modules=$build/$kver
fi

if [ -z "$cpus" ]; then
	cpus=$(nproc)
	[ "$cpus" -le 2 ] || cpus=2
fi
if [ -z "$timeout" ]; then
	timeout=300
	[ -z "$shell" ] || timeout=0
fi

cache=$build/cache/vm
run='' out_tmp='' qemu_pid=''
mkdir -p "$cache" || die "cannot create $cache"

# shellcheck disable=SC2317 # called by the trap
cleanup()
{
	local rc=$?

	trap - EXIT INT TERM HUP
	if [ -n "$qemu_pid" ]; then
		kill -KILL "$qemu_pid" 2>/dev/null || true
		wait "$qemu_pid" 2>/dev/null || true
	fi
	[ -z "$run" ] || rm -rf "$run"
	if [ -n "$out_tmp" ]; then
		if [ "$rc" -eq 0 ] && [ -z "$keep" ]; then
			rm -rf "$out_tmp"
		elif [ -e "$out_tmp/console.log" ]; then
			echo "vm.sh: logs are in $out_tmp" >&2
		else
			rm -rf "$out_tmp"
		fi
	fi
	exit "$rc"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# Decompressed copy of the image's modules, made once: busybox' insmod and a
# plain insmod in a test want them that way. What no test can use is left out.
prepare_modules()
{
	local key dir tmp

	key=$(printf '%s %s' "$image" "$(stat -c '%s %Y' "$vmlinuz" \
		"$image/lib/modules/$kver/modules.order" 2>/dev/null | tr '\n' ' ')" |
		cksum | cut -d' ' -f1)
	dir=$cache/$kver-$key
	modtree=$dir/lib/modules/$kver
	[ -e "$dir/ready" ] && return

	exec 8>"$cache/$kver.lock"
	flock 8
	if [ ! -e "$dir/ready" ]; then
		tmp=$(mktemp -d "$cache/tmp.XXXXXX")
		mkdir -p "$tmp/lib/modules/$kver"
		tar -C "$image/lib/modules/$kver" -cf - \
			--exclude=./kernel/sound \
			--exclude=./kernel/drivers/{gpu,media,iio,hid,input,usb,staging,sound,mmc,mtd,comedi,pinctrl,platform,power,thunderbolt,video,hwmon,leds,char/tpm,i2c,gpio,mfd,rtc,regulator,firmware,isdn,bluetooth,ata,spi,soundwire,thermal,edac,message,accel} \
			--exclude=./kernel/drivers/net/{wireless,can,usb,phy,wwan,ieee802154,dsa} \
			--exclude=./build --exclude=./source --exclude='./vmlinux*' \
			. | tar -C "$tmp/lib/modules/$kver" -xf -
		find "$tmp/lib" -name '*.ko.xz' -print0 |
			xargs -0 -r -n 200 -P 2 xz -d
		find "$tmp/lib" -name '*.ko.zst' -print0 |
			xargs -0 -r -n 200 zstd -q -d --rm
		find "$tmp/lib" -name '*.ko.gz' -print0 | xargs -0 -r gzip -d
		depmod -b "$tmp" "$kver"
		touch "$tmp/ready"
		rm -rf "$dir"
		mv "$tmp" "$dir"
	fi
	exec 8>&-
}

# make_initramfs FILE INIT [MODULE]...
make_initramfs()
{
	local file=$1 init=$2 tree word ko _
	shift 2

	tree=$run/initramfs
	rm -rf "$tree"
	mkdir -p "$tree"/{bin,lib,proc,sys,dev,newroot}
	cp "$(command -v busybox)" "$tree/bin/busybox"
	cp "$init" "$tree/init"
	chmod 755 "$tree/init"
	: >"$tree/lib/order"
	for m; do
		modprobe -d "${modtree%/lib/modules/*}" -S "$kver" \
			 --show-depends "$m" 2>/dev/null || true
	done | while read -r word ko _; do
		[ "$word" = insmod ] || continue
		[ -e "$tree/lib/${ko##*/}" ] && continue
		cp "$ko" "$tree/lib/"
		echo "${ko##*/}" >>"$tree/lib/order"
	done
	(cd "$tree" && find . | cpio -o -H newc --quiet) >"$file"
}

machine=(-M q35 -nodefaults -no-user-config -display none -no-reboot -nic none)
karg_base="console=ttyS0 ignore_loglevel log_buf_len=4M panic=-1 oops=panic \
random.trust_cpu=on no_timer_check apparmor=0 net.ifnames=0 nokaslr \
rcupdate.rcu_cpu_stall_timeout=60 watchdog_thresh=30"

accel_args()
{
	case $1 in
	kvm)	machine+=(-accel kvm -cpu host) ;;
	tcg)	machine+=(-accel 'tcg,thread=multi' -cpu "${VM_TCG_CPU:-qemu64,+rdrand}") ;;
	*)	die "unknown accelerator '$1'" ;;
	esac
}

# /dev/kvm may be there and yet be unable to run a kernel, so believe only a
# boot. The answer is kept until the host boots again.
choose_accel()
{
	local id file probe=$run/probe

	accel=tcg
	[ -r /dev/kvm ] && [ -w /dev/kvm ] || return 0
	id=$(cat /proc/sys/kernel/random/boot_id)
	file=$cache/kvm-probe
	exec 8>"$file.lock"
	flock 8
	if [ ! -e "$file" ] || [ "$(cut -d' ' -f1 <"$file")" != "$id" ]; then
		make_initramfs "$probe.img" "$here/init-probe"
		# In a shell of its own, which may say that QEMU aborted.
		(timeout -s KILL 15 qemu-system-x86_64 "${machine[@]}" \
			-accel kvm -cpu host -m 256 -smp "$cpus" \
			-kernel "$vmlinuz" -initrd "$probe.img" \
			-append "$karg_base" -serial "file:$probe.log"; :) \
			</dev/null >/dev/null 2>&1 || true
		if grep -qa 'vm-probe: booted' "$probe.log" 2>/dev/null; then
			echo "$id kvm" >"$file"
		else
			echo "$id tcg" >"$file"
		fi
	fi
	accel=$(cut -d' ' -f2 <"$file")
	exec 8>&-
}

run=$(mktemp -d "${TMPDIR:-/tmp}/vm.XXXXXX") || die "cannot create a temporary directory"
if [ -z "$out" ]; then
	mkdir -p "$build/vm"
	# Of failed runs keep the last ones.
	find "$build/vm" -maxdepth 1 -name 'run.*' -mmin +60 -printf '%T@ %p\n' |
		sort -rn | tail -n +20 | cut -d' ' -f2- | xargs -r -d '\n' rm -rf
	out_tmp=$(mktemp -d "$build/vm/run.XXXXXX")
	chmod 755 "$out_tmp"
	out=$out_tmp
else
	mkdir -p "$out" || die "cannot create $out"
	out=$(cd "$out" && pwd -P)
fi
rm -f "$out"/console*.log "$out/dmesg.log"

prepare_modules
[ -n "$accel" ] || choose_accel
accel_args "$accel"

# What the guest reads from /run/vm. Our modules are copied: a make at the same
# time must not change what a running guest loads.
share=$run/share
mkdir -p "$share/bin" "$share/aligned"
cp "$here/guest-init" "$share/init"
cp "$here/align-load" "$share/bin/"
chmod 755 "$share/init" "$share/bin/align-load"
for ko in rdma_cm.ko rdma_ucm.ko align_kulp.ko; do
	[ ! -r "$modules/$ko" ] || cp "$modules/$ko" "$share/aligned/"
done
{
	echo "$top" >"$share/top"
	printf 'vm_kver=%q\nvm_top=%q\nvm_cwd=%q\nvm_timeout=%q\nvm_shell=%q\n' \
		"$kver" "$top" "$PWD" "$timeout" "$shell"
	[ -z "$shell" ] || printf 'vm_stty=%q\nvm_term=%q\n' \
		"$(stty size | { read -r r c; echo "rows $r cols $c"; })" "${TERM:-vt100}"
} >"$share/config"
[ $# -eq 0 ] || printf '%q ' "$@" >"$share/command"

make_initramfs "$run/initramfs.img" "$here/init" virtio_pci virtio_console \
	9pnet_virtio 9p overlay configfs

fs()	# fs TAG PATH [OPTION]
{
	machine+=(-virtfs "local,path=${2//,/,,},mount_tag=$1,security_model=none,multidevs=remap${3:-}")
}
fs root / ,readonly=on
fs modules "$modtree" ,readonly=on
fs run "$share"
fs out "$out"

machine+=(-smp "$cpus" -m "$mem" -kernel "$vmlinuz" -initrd "$run/initramfs.img"
	-append "$karg_base $append" -serial "file:${out//,/,,}/console.log"
	-device virtio-serial-pci)
if [ -n "$shell" ]; then
	machine+=(-chardev 'stdio,id=command,signal=off' -device 'virtconsole,chardev=command')
else
	mkfifo "$run/stdout"
	machine+=(-chardev "file,id=command,path=$run/stdout"
		-device 'virtserialport,chardev=command,name=command')
fi
# shellcheck disable=SC2206 # words are wanted
machine+=($qemu_extra)

tail_log()
{
	echo "vm.sh: the last lines of the kernel's log:" >&2
	tr -d '\r' <"$out/console.log" | tail -n 60 | sed 's/^/  | /' >&2
}

# boot: run the guest once; leaves QEMU's status in rc
boot()
{
	local cat_pid

	rc=0
	rm -f "$out/console.log"
	if [ -n "$shell" ]; then
		local tty

		tty=$(stty -g)
		timeout --foreground -s KILL "$timeout" \
			qemu-system-x86_64 "${machine[@]}" 2>"$run/qemu.err" || rc=$?
		stty "$tty"
	else
		cat "$run/stdout" &
		cat_pid=$!
		timeout --foreground -s KILL "$timeout" \
			qemu-system-x86_64 "${machine[@]}" </dev/null >/dev/null 2>"$run/qemu.err" &
		qemu_pid=$!
		wait "$qemu_pid" || rc=$?
		qemu_pid=''
		# QEMU may have failed before it opened the fifo.
		[ $rc -eq 0 ] || : 2>/dev/null <>"$run/stdout"
		if [ ! -e "$out/console.log" ]; then
			kill "$cat_pid" 2>/dev/null || true
		fi
		wait "$cat_pid" 2>/dev/null || true
	fi

	if [ ! -e "$out/console.log" ] ||
	   { [ $rc -ne 0 ] && [ ! -s "$out/console.log" ] && [ $rc -ne 137 ]; }; then
		die "QEMU did not start (status $rc): $(tail -n 1 "$run/qemu.err")"
	fi
}

# came_up: did the guest get as far as the command, or was it killed at the
# deadline?
came_up()
{
	[ -n "$shell" ] || [ -e "$share/status" ] || [ $rc -eq 137 ] ||
		grep -qa 'vm-init: command starts' "$out/console.log"
}

# A guest that dies before it runs the command has run nothing but the
# distribution's kernel, so that tells nothing about the command: boot it again,
# and say so. One that dies later is a result.
for ((attempt = 1; ; attempt++)); do
	start=$SECONDS
	boot
	if came_up || [ $attempt -eq $BOOTS ]; then
		break
	fi
	echo "vm.sh: boot $attempt of at most $BOOTS died after $((SECONDS - start)) s, before the command (QEMU: status $rc, '$(tail -n 1 "$run/qemu.err")')" >&2
	tail_log
	mv "$out/console.log" "$out/console-boot$attempt.log"
done

[ ! -e "$share/dmesg.log" ] || mv "$share/dmesg.log" "$out/dmesg.log"
# A dead guest could not save its log: the console has the same lines.
[ -e "$out/dmesg.log" ] || tr -d '\r' <"$out/console.log" >"$out/dmesg.log"

if grep -qa 'Kernel panic - not syncing' "$out/console.log"; then
	echo "vm.sh: the guest's kernel died after $((SECONDS - start)) s" >&2
	tail_log
	exit $RC_CRASH
fi
if [ ! -e "$share/status" ]; then
	if [ "$rc" -eq 137 ]; then
		echo "vm.sh: not finished after $timeout s: killed" >&2
		tail_log
		exit $RC_HANG
	fi
	echo "vm.sh: the guest died after $((SECONDS - start)) s: $(tail -n 1 "$run/qemu.err")" >&2
	tail_log
	exit $RC_CRASH
fi
if splat=$(splat_lines "$out/console.log" "$out/dmesg.log"); then
	echo "vm.sh: the kernel's log has:" >&2
	printf '  | %s\n' "${splat//$'\n'/$'\n'  | }" >&2
	exit $RC_SPLAT
fi
exit "$(cat "$share/status")"
