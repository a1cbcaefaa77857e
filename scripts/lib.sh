# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts here: where things are, how to say what went wrong, how
# to make a directory or file appear whole or not at all.
#
# Environment, all optional:
#   KVER	the kernel to build for; default: the newest that apt offers
#   KDIR	build against this kernel build tree instead of Debian's headers
#   BUILD	where everything generated goes; default: build/
#   V		1: show each compiler call

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${BUILD:-$top/build}
[[ $build == /* ]] || build=$PWD/$build
# shellcheck disable=SC2034 # read by the scripts that source this file
cache=$build/cache
arch=amd64
export LC_ALL=C
# The kernel's make must not take ours for its parent.
unset MAKEFLAGS MFLAGS MAKELEVEL

say() { printf 'rdma-align: %s\n' "$*" >&2; }

# Every failure ends here: one sentence on stderr, exit status 1.
die()
{
	trap - ERR
	say "$*"
	exit 1
}

# only_numbers ARG...: what some scripts take
only_numbers()
{
	[[ "$*" =~ ^[0-9\ ]*$ ]] || die "usage: ${0##*/} [NUMBER]..."
}

no_space()
{
	local avail

	avail=$(df -k --output=avail "$build" 2>/dev/null | tail -n 1) || return 1
	[[ -n $avail ]] && ((avail < 64))
}

# full LOG: whether what failed and wrote LOG did so for want of space. Some
# programs do not say it: fixdep knows only that its file is too short.
full()
{
	no_space ||
		grep -qE 'No space left on device|not all data was written' "$1"
}

on_error()
{
	if no_space; then
		die "no space left on the disk of $build"
	fi
	die "$(basename "$0") failed at line $1"
}

cleanup_paths=()
cleanup()
{
	((${#cleanup_paths[@]} == 0)) || rm -rf -- "${cleanup_paths[@]}"
}

# Functions and subshells too. A caller of a script that has said why it failed
# adds "|| exit 1", so that one failure is told once.
set -E
trap 'on_error $LINENO' ERR
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# try SENTENCE COMMAND...: run it; when it fails, die with the sentence and its
# last line, or with "no space left" if that is the cause.
try()
{
	local what=$1 log last

	shift
	log=$(mktemp "${TMPDIR:-/tmp}/rdma-align.XXXXXX") ||
		die "cannot write to ${TMPDIR:-/tmp}"
	cleanup_paths+=("$log")
	if "$@" 2>"$log"; then
		rm -f -- "$log"
		return 0
	fi
	last=$(grep -v '^[[:space:]]*$' "$log" | tail -n 1 || true)
	if full "$log"; then
		last=full
	fi
	rm -f -- "$log"
	[[ $last != full ]] || die "no space left on the disk of $build"
	die "$what${last:+ ($last)}"
}

# Take the lock of one generated thing until the script ends.
lock()
{
	local fd

	try "cannot create $build" mkdir -p "$build"
	exec {fd}>"$build/.lock.$1" || die "cannot write to $build"
	if ! flock -n "$fd"; then
		say "waiting for another run that makes $1"
		flock "$fd"
	fi
}

# new_dir DIR: sets $tmp to an empty directory beside DIR; publish_dir renames
# it to DIR, so that DIR is complete whenever it exists.
new_dir()
{
	tmp=$1.tmp.$$
	cleanup_paths+=("$tmp")
	try "cannot create $tmp" mkdir -p "$tmp"
}

publish_dir()
{
	rm -rf -- "$1"
	try "cannot create $1" mv -T "$tmp" "$1"
}

# --- kernels ---------------------------------------------------------------

# The version of package $1, installed or offered; nothing if unknown.
package_version()
{
	local v

	v=$(dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null |
	    sed -n 's/^installed //p') || true
	if [[ -z $v ]]; then
		v=$(apt-cache show --no-all-versions "$1" 2>/dev/null |
		    sed -n 's/^Version: //p') || true
	fi
	printf '%s' "$v"
}

# The newest linux-image-6.12.*-amd64 that apt offers, without rt, cloud,
# unsigned and dbg flavours; installed headers where apt offers nothing.
default_kver()
{
	local k

	for k in $(apt-cache pkgnames linux-image-6.12. 2>/dev/null |
		   sed -nE "s/^linux-image-(6\.12\.[0-9][^-]*-$arch)\$/\1/p" |
		   sort -rV); do
		# Names are listed for what is only installed or depended on, too.
		if [[ -n $(apt-cache madison "linux-image-$k" 2>/dev/null) ]]; then
			printf '%s' "$k"
			return 0
		fi
	done
	for k in /usr/src/linux-headers-6.12.*-"$arch"; do
		[[ -e $k/Module.symvers ]] && printf '%s\n' "${k#*/linux-headers-}"
	done | grep -vE -- '-(rt|cloud)-' | sort -V | tail -n 1
}

# Sets kver, series (6.12), upstream (6.12.117) and debver (the version of
# Debian's source package).
resolve_kernel()
{
	kver=${KVER:-$(default_kver || true)}
	[[ -n $kver ]] || die "apt knows no linux-image-6.12.*-$arch:" \
		"run 'apt-get update' as root, or set KVER"
	[[ $kver =~ ^([0-9]+\.[0-9]+)\.[0-9]+ ]] ||
		die "KVER=$kver is not the name of a kernel" \
		    "(example: 6.12.117+deb12-$arch)"
	upstream=${BASH_REMATCH[0]}
	series=${BASH_REMATCH[1]}
	[[ -d $top/patches/$series ]] ||
		die "kernel $series of KVER=$kver is not supported (supported:" \
		    "$(cd "$top/patches" && echo *))"
	# Asking apt is slow; a calling script has done it.
	if [[ ${RDMA_ALIGN_DEBVER:-} == "$kver "* ]]; then
		debver=${RDMA_ALIGN_DEBVER#* }
	elif [[ -n ${KDIR:-} ]]; then
		debver=$(apt-cache madison "linux-source-$series" 2>/dev/null |
			 sed -nE "s/^[^|]*\| *($upstream-[^ ]*) .*/\1/p" |
			 sort -rV | sed -n 1p) || true
	else
		debver=$(package_version "linux-headers-$kver")
	fi
	[[ -n $debver ]] ||
		die "unknown kernel KVER=$kver: no linux-headers-$kver is" \
		    "installed or offered by apt"
	# shellcheck disable=SC2034 # read by the scripts that source this file
	out=$build/$kver
	# What this script calls must mean the same kernel.
	export KVER=$kver RDMA_ALIGN_DEBVER="$kver $debver"
}

# Sets fixes and hooks to the patches of this kernel, in order: those that mend the
# kernel's own code, which come first, and those that call ours.
kernel_patches()
{
	local p

	fixes=() hooks=()
	for p in "$top/patches/$series"/*.patch; do
		if grep -qE '^\+.*(cma_align|rdma_set_ha)' "$p"; then
			hooks+=("$p")
		elif ((${#hooks[@]})); then
			die "$(basename "$p") does not call our code and comes after one that does"
		elif [[ -e $p ]]; then
			fixes+=("$p")
		fi
	done
}

# fetch_deb PACKAGE VERSION DIR: download into DIR, print the file's name.
fetch_deb()
{
	local size deb

	size=$(apt-cache show "$1=$2" 2>/dev/null |
	       sed -n 's/^Size: //p' | sed -n 1p) || true
	[[ -n $size ]] ||
		die "$1 version $2 is not installed and apt does not offer it"
	say "downloading $1 $2 ($((size / 1000000)) MB)"
	(cd "$3" && try "cannot download $1 $2" apt-get -q \
		-o APT::Sandbox::User="$(id -un)" download "$1=$2" >&2) || exit 1
	deb=$(find "$3" -maxdepth 1 -name "${1}_*.deb" -print -quit)
	[[ -n $deb ]] || die "cannot download $1 $2"
	printf '%s' "$deb"
}

# --- mutations --------------------------------------------------------------

# substitute SUBSTITUTIONS FROM TO: break a file. Each "s/.../.../" in Perl, several
# by semicolon, must match exactly once.
substitute()
{
	perl -0pe '
		BEGIN { $s = shift; $bad = 0 }
		for my $one (split /;(?=s\/)/, $s) {
			my ($f) = $one =~ m{^s/((?:[^/\\]|\\.)*)/}s;
			my $count = () = /$f/g;
			$bad++ if $count != 1;
			eval $one; die $@ if $@;
		}
		END { exit($bad ? 1 : 0) }
		' "$1" <"$2" >"$3" || die "this does not match $2 exactly once: $1"
}

# --- results as TAP ----------------------------------------------------------

# tap_begin NAME: results go to stdout and to build/results/NAME.tap. The plan
# comes last, so that a run that was cut short is a failed one.
tap_begin()
{
	tap_count=0
	tap_failed=0
	tap_file=$build/results/$1.tap
	try "cannot create $build/results" mkdir -p "$build/results"
	rm -f -- "$tap_file"
	tap_line "TAP version 13"
}

tap_line()
{
	printf '%s\n' "$*"
	printf '%s\n' "$*" >>"$tap_file"
}

# tap_note: stdin, as comments.
tap_note()
{
	local line

	while IFS= read -r line; do
		tap_line "# $line"
	done
}

# tap_result STATUS NAME [FILE]: FILE's text explains a failure.
tap_result()
{
	local ok=ok

	tap_count=$((tap_count + 1))
	if (($1)); then
		ok="not ok"
		tap_failed=$((tap_failed + 1))
	fi
	tap_line "$ok $tap_count - $2"
	if (($1)) && [[ -s ${3:-} ]]; then
		head -n 60 "$3" | tap_note
	fi
}

# tap_check NAME COMMAND...: one line; what the command prints explains a "not ok".
tap_check()
{
	local name=$1 status=0

	shift
	tap_why=${tap_why:-$(mktemp)} || die "cannot write to ${TMPDIR:-/tmp}"
	cleanup_paths+=("$tap_why")
	"$@" >"$tap_why" 2>&1 || status=1
	tap_result "$status" "$name" "$tap_why"
}

tap_skip()
{
	tap_count=$((tap_count + 1))
	tap_line "ok $tap_count - $1 # SKIP $2"
}

# Ends the script.
tap_end()
{
	tap_line "1..$tap_count"
	if ((tap_failed)); then
		die "$tap_failed of $tap_count checks failed (see ${tap_file#"$PWD"/})"
	fi
	exit 0
}
