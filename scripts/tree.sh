#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Print a directory that holds the complete kernel source of KVER with our
# series in it, to build whole kernels from (with O=). It starts as links to the
# pristine tree. Files that did not change keep their time, so that a build
# there compiles only what it must. A file that the series leaves alone must not
# be written to.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

resolve_kernel
full=$("$top/scripts/source.sh" --full) || exit 1
"$top/scripts/series.sh" || exit 1
dir=$cache/tree-${full##*/linux-}
lock "tree-$series"

if [[ ! -d $dir ]]; then
	say "linking the kernel's source to ${dir#"$top"/}"
	new_dir "$dir"
	try "cannot write to $tmp" cp -al "$full/." "$tmp/"
	publish_dir "$dir"
fi

# The state that the touched files shall have.
new_dir "$dir.series"
patches=("$build/series/$series"/*.patch)
sed -nE 's#^(--- a|\+\+\+ b)/([^[:space:]]+).*#\2#p' "${patches[@]}" |
	sort -u >"$tmp/.files"
while read -r f; do
	[[ -e $full/$f ]] || continue
	try "cannot copy $f" mkdir -p "$tmp/$(dirname "$f")"
	try "cannot copy $f" cp "$full/$f" "$tmp/$f"
done <"$tmp/.files"
for p in "${patches[@]}"; do
	try "${p##*/} does not apply" patch -d "$tmp" -p1 --fuzz=0 --batch \
		--forward --no-backup-if-mismatch --quiet <"$p" >&2
done

# Never write through a link: new files are renamed over the old ones.
put()
{
	cmp -s "$1/$2" "$dir/$2" && return
	try "cannot write $dir/$2" mkdir -p "$dir/$(dirname "$2")"
	try "cannot write $dir/$2" cp "$1/$2" "$dir/$2.new"
	try "cannot write $dir/$2" mv "$dir/$2.new" "$dir/$2"
}

if [[ -e $dir/.series ]]; then
	comm -23 "$dir/.series" "$tmp/.files" | while read -r f; do
		if [[ -e $full/$f ]]; then
			put "$full" "$f"
		else
			rm -f -- "$dir/$f"
		fi
	done
fi
# Before the first write, so that a run that was cut short is made up for.
sort -u "$tmp/.files" "$dir/.series" 2>/dev/null >"$tmp/.touched" || true
try "cannot write to $dir" cp "$tmp/.touched" "$dir/.series"
while read -r f; do
	[[ ! -e $tmp/$f ]] || put "$tmp" "$f"
done <"$tmp/.files"
try "cannot write to $dir" cp "$tmp/.files" "$dir/.series"
printf '%s\n' "$dir"
