#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# clang as the compiler of a kernel that was configured for gcc: drops the few
# options that only gcc knows. For warnings; what it compiles is never loaded.
set -euo pipefail

args=()
for arg; do
	case $arg in
	-mfunction-return=*|-mrecord-mcount|-fconserve-stack) continue ;;
	-ftrivial-auto-var-init=*) continue ;;
	-Wno-alloc-size-larger-than|-Wno-maybe-uninitialized) continue ;;
	-Werror=unknown-warning-option) continue ;;
	-Wimplicit-fallthrough=*) arg=-Wimplicit-fallthrough ;;
	esac
	args+=("$arg")
done
# The per-CPU macros of the kernel's headers name an address space twice.
exec "${CLANG:-clang}" "${args[@]}" -Qunused-arguments \
	-Wno-unknown-warning-option -Wno-duplicate-decl-specifier
