#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Static checks of what git tracks here. The kernel's own files are checked only
# where our patches added a line.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

core=drivers/infiniband/core

resolve_kernel
headers=$("$top/scripts/headers.sh") || exit 1
source=$("$top/scripts/source.sh") || exit 1
cd "$top"
lock "$kver-lint"
lint=$out/lint

# Tracked files that are there; without git, everything.
mapfile -t files < <(
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files
	else
		find . -path ./build -prune -o -type f -printf '%P\n'
	fi | while read -r f; do
		[[ -f $f && ! -L $f ]] && printf '%s\n' "$f"
	done | sort)

# matching PATTERN: the files whose path matches the extended regexp.
matching()
{
	printf '%s\n' "${files[@]}" | grep -E "$1" || true
}

have()
{
	command -v "$1" >/dev/null && return 0
	tap_skip "$2" "$1 is not installed (make deps)"
	return 1
}

# --- text ------------------------------------------------------------------

# License texts, patches (their licence is that of the file they change) and
# the prose in the top directory carry no tag.
spdx()
{
	local f bad=0

	for f in "${files[@]}"; do
		case $f in
		LICENSES/*|*.patch|README*|CONTRIBUTING*|MAINTAINERS*) continue ;;
		*.json|*.svg|*.png|*/README|.mailmap) continue ;;
		esac
		[[ -s $f ]] || continue
		head -n 3 "$f" | grep -q 'SPDX-License-Identifier: ' && continue
		echo "$f: no SPDX-License-Identifier in the first three lines"
		bad=1
	done
	return "$bad"
}

whitespace()
{
	! matching '\.(c|h|sh|rst)$|(^|/)(Makefile|Kbuild|Kconfig|README)$' |
		xargs -d '\n' grep -nE '[[:blank:]]+$' /dev/null
}

scripts_of()
{
	local f

	for f in "${files[@]}"; do
		if [[ $f == *.sh ]] || head -n 1 "$f" | grep -aqE '^#!.*\b(ba|da|)sh\b'; then
			printf '%s\n' "$f"
		fi
	done
}

# iif: a word of "ip rule".
run_codespell()
{
	matching . | grep -vE '^(LICENSES/|patches/.*/base$)|\.svg$' |
		xargs -d '\n' codespell --ignore-words-list=iif,inh,als,te
}

# --- C -----------------------------------------------------------------------

# checkpatch leaves a cache where it runs: not in the repository.
run_checkpatch()
{
	(cd "$lint/checkpatch" && perl "$source/scripts/checkpatch.pl" --strict \
		--show-types --terse --no-summary "$@")
}

prepare_checkpatch()
{
	rm -rf "$lint/checkpatch"
	try "cannot create $lint" mkdir -p "$lint/checkpatch"
	ln -s "$top"/* "$top/.checkpatch.conf" "$lint/checkpatch/"
}

# Some rules do not fit some files.
checkpatch_exceptions()
{
	case $1 in
	tools/*)
		# User space: no __printf(), and PRIu64 is inttypes.h's.
		echo --ignore PREFER_DEFINED_ATTRIBUTE_MACRO,CAMELCASE ;;
	*_trace.h)
		# The form of trace events in the whole kernel.
		echo --ignore OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,SPACING ;;
	*/cma_align.h)
		# Stubs of hooks that are configured out use no argument.
		echo --ignore MACRO_ARG_UNUSED ;;
	esac
}

check_file()
{
	# shellcheck disable=SC2046 # options, as words
	run_checkpatch $(checkpatch_exceptions "$1") -f "$1"
}

run_kernel_doc()
{
	local f bad=0

	for f in $(matching '^(drivers|include)/.*\.[ch]$'); do
		perl "$source/scripts/kernel-doc" -none -Wall -Werror "$f" || bad=1
	done
	return "$bad"
}

# build_with NAME ARGUMENTS...: compile everything; $lint/NAME.log has the
# compiler's messages.
build_with()
{
	local name=$1 dir=$lint/$1

	shift
	rm -rf "$dir"
	try "cannot create $dir" mkdir -p "$dir"
	scripts/assemble.sh "$source" "$dir" || exit 1
	make -C "$headers" M="$dir/$core" -j "$(nproc)" -k W=1 "$@" modules \
		>"$lint/$name.log" 2>&1
}

# The lines of file $2, the assembled form of the kernel's $1, that are ours.
our_lines()
{
	if [[ -e $1 ]]; then
		diff --old-line-format= --unchanged-line-format= \
			--new-line-format='%dn
' "$1" "$2" || true
	else
		seq "$(wc -l <"$2")"
	fi
}

# new_warnings NAME: messages about our files and lines; fails if there are any.
new_warnings()
{
	local dir=$lint/$1 f

	sed -nE "s#^$dir/(([^:]+):([0-9]+)(:[0-9]+)?: (warning|error): .*)#\2 \3 \1#p" \
		"$lint/$1.log" | sort -u >"$lint/$1.warnings"
	cut -d' ' -f1 "$lint/$1.warnings" | sort -u | while read -r f; do
		our_lines "$source/$f" "$dir/$f" |
			awk -v f="$f" '
				FNR == NR { ours[$1]; next }
				$1 == f && $2 in ours { sub(/^[^ ]* [^ ]* /, ""); print }
			' - "$lint/$1.warnings"
	done >"$lint/$1.new"
	cat "$lint/$1.new"
	[[ ! -s $lint/$1.new ]]
}

compiles()
{
	local name=$1

	build_with "$@" && return 0
	grep -E ': (fatal )?error:|^make.*Error' "$lint/$name.log"
	return 1
}

compile_checks()
{
	tap_check "$1: everything compiles" compiles "${@:2}"
	tap_check "$1: no warning about what is ours" new_warnings "$2"
}

tap_begin lint

tap_check "each file says its licence (SPDX) in its first three lines" spdx
tap_check "no white space at the end of a line" whitespace
if have shellcheck "shellcheck"; then
	for f in $(scripts_of); do
		tap_check "shellcheck $f" shellcheck "$f"
	done
fi
if have codespell "codespell"; then
	tap_check "codespell" run_codespell
fi
tap_check "the table of changes is that of the tests" scripts/coverage.py --check \
	Documentation/infiniband/rdma_cm_align_coverage.rst
prepare_checkpatch
for f in $(matching '^(drivers|include|compat|tools)/.*\.[ch]$'); do
	tap_check "checkpatch --strict $f" check_file "$f"
done
for f in $(matching '^patches/.*\.patch$'); do
	tap_check "checkpatch --strict $f" run_checkpatch "$f"
done
tap_check "kernel-doc of our sources and headers" run_kernel_doc
say "compiling with all warnings and sparse"
if have sparse "gcc W=1 and sparse"; then
	compile_checks "gcc W=1 and sparse" gcc C=2 CHECK=sparse
fi
say "compiling with clang"
if have "${CLANG:-clang}" "clang W=1"; then
	compile_checks "clang W=1" clang CC="$top/scripts/clang-for-gcc.sh"
fi
tap_end
