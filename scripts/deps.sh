#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Install what the build, the test machine and the tests need, with apt. Does
# nothing, quickly and without root, when all is there. With --missing, print the
# packages that are not.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages=(
	# build: the compiler of Debian's kernel, and what its headers call
	make gcc-12 libc6-dev binutils patch xz-utils kmod pahole
	libelf1 libssl3 zlib1g ca-certificates git
	# kernels built from source, for tests under debug options
	bc flex bison libelf-dev libssl-dev cpio rsync
	# the test machine
	qemu-system-x86 busybox-static
	# what runs in it: programs, RDMA user space, tools
	gcc pkg-config librdmacm-dev libibverbs-dev ibverbs-providers
	rdmacm-utils ibverbs-utils iproute2 iputils-ping iputils-arping
	ethtool nvme-cli procps util-linux python3
	# checks
	sparse clang shellcheck codespell perl
)

missing()
{
	dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${packages[@]}" 2>/dev/null |
		sed -n 's/ installed$//p' | sort -u >"$have" || true
	printf '%s\n' "${packages[@]}" | sort -u | comm -23 - "$have"
}

[[ -r /etc/debian_version ]] || die "this is not Debian: install by hand: ${packages[*]}"
have=$(mktemp) || die "cannot write to ${TMPDIR:-/tmp}"
cleanup_paths+=("$have")
mapfile -t need < <(missing)
if [[ ${1:-} == --missing ]]; then
	echo "${need[*]}"
	exit 0
elif ((${#need[@]} == 0)); then
	say "all packages that are needed are installed"
	exit 0
fi

[[ $(id -u) == 0 ]] ||
	die "only root can install what is missing (run 'sudo make deps'): ${need[*]}"
say "installing ${#need[@]} packages: ${need[*]}"
export DEBIAN_FRONTEND=noninteractive
# A fresh machine may have no package lists, or lists of last month.
apt-get -q update >&2 || say "apt-get update failed; trying with the lists that are here"
apt-get -q install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${need[@]}" >&2 ||
	die "apt-get could not install: ${need[*]}"
mapfile -t need < <(missing)
((${#need[@]} == 0)) || die "still missing after installing: ${need[*]}"
