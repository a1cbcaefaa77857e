#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Is the VM runner to be trusted? Each way in which a run can fail is provoked.
# TAP, also left in build/results/vm.tap.

set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../../.." && pwd -P)
build=${BUILD:-$top/build}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$build/results"
tap=$build/results/vm.tap
: >"$tap"

say()
{
	echo "$*" | tee -a "$tap"
}
say "TAP version 13"

tests=0
bad=0

# check TEXT COMMAND...: one line of TAP
check()
{
	local text=$1 word=ok
	shift
	"$@" >"$tmp/diag" 2>&1 || word='not ok'
	tests=$((tests + 1))
	[ "$word" = ok ] || bad=$((bad + 1))
	[ "$word" = ok ] || say "$(cat "$tmp/diag")"
	say "$word $tests $text"
}

# vm NAME [OPTION]... -- COMMAND...: leaves NAME.{rc,out,err} and NAME/
vm()
{
	local name=$1 rc=0
	shift
	"$here/vm.sh" --out "$tmp/$name" "$@" >"$tmp/$name.out" 2>"$tmp/$name.err" || rc=$?
	echo $rc >"$tmp/$name.rc"
}

rc_is()
{
	[ "$(cat "$tmp/$1.rc")" = "$2" ] && return
	echo "# status $(cat "$tmp/$1.rc"), not $2"
	sed 's/^/# /' "$tmp/$1.err"
	return 1
}

has()
{
	grep -q -- "$2" "$tmp/$1" && return
	echo "# '$2' is not in $1:"
	head -n 20 "$tmp/$1" | sed 's/^/# /'
	return 1
}

has_not()
{
	! grep -q -- "$2" "$tmp/$1"
}

# The first run alone, because it prepares the caches; then two at a time.
# Its command tells what it sees, and when.
cat >"$tmp/script" <<'SCRIPT'
echo "first $KVER"; sleep 3; echo second >&2
echo third >/dev/stdout
for i in $(seq 20); do echo "log $i" >/dev/kmsg; echo "out $i"; done
pwd
echo kept >/out/kept
echo changed >"$0.data"
align-load stock && [ -d /sys/module/rdma_ucm ] && echo "loaded"
align-load none && [ ! -d /sys/module/rdma_cm ] && echo "removed"
exit 42
SCRIPT
cp "$tmp/script" "$build/results/vm-script"
echo "as it was" >"$build/results/vm-script.data"
(
	cd "$here" || exit
	mkfifo "$tmp/live"
	while read -r line; do
		printf '%s %s\n' "$(date +%s)" "$line"
	done <"$tmp/live" >"$tmp/good.times" &
	"$here/vm.sh" --out "$tmp/good" -- bash "$build/results/vm-script" \
		>"$tmp/live" 2>"$tmp/good.err"
	echo $? >"$tmp/good.rc"
	wait
)
cut -d' ' -f2- "$tmp/good.times" >"$tmp/good.out" 2>/dev/null
live()
{
	local a b

	a=$(awk '/first/ { print $1 }' "$tmp/good.times")
	b=$(awk '/second/ { print $1 }' "$tmp/good.times")
	[ $((b - a)) -ge 2 ]
}
check "the status of the command is passed on" rc_is good 42
check "stdout, stderr and /dev/stdout of the command arrive" \
	grep -qzP 'first[^\n]*\nsecond\nthird\nout 1\n' "$tmp/good.out"
check "they arrive while the command runs" live
check "kernel lines are in the log" has good/console.log 'log 20'
check "kernel lines are not in the output" has_not good.out 'log 20'
check "the current directory is the caller's" has good.out "^$here\$"
check "/out is the host's" has good/kept kept
check "what the guest writes elsewhere stays in the guest" \
	grep -q 'as it was' "$build/results/vm-script.data"
check "align-load loads the distribution's modules" has good.out '^loaded$'
check "align-load removes them" has good.out '^removed$'
rm -f "$build/results/vm-script" "$build/results/vm-script.data"

vm splat -- sh -c 'echo "WARNING: CPU: 1 PID: 1 at selfcheck" >/dev/kmsg' &
vm crash -- sh -c 'echo before; sleep 1; echo c >/proc/sysrq-trigger; sleep 60' &
wait
vm hang --timeout 12 -- sleep 1000 &
vm quiet -- sh -c 'echo "kasan: KernelAddressSanitizer initialized; DEBUG: fine" >/dev/kmsg; sleep 30 & exit 0' &
wait
# A QEMU whose first BROKEN_BOOTS guests die at once.
mkdir "$tmp/bin"
cat >"$tmp/bin/qemu-system-x86_64" <<'SCRIPT'
#!/bin/bash
boots=$(cat "$BOOT_COUNT" 2>/dev/null || echo 0)
echo $((boots + 1)) >"$BOOT_COUNT"
[ "$boots" -lt "$BROKEN_BOOTS" ] || exec /usr/bin/qemu-system-x86_64 "$@"
for arg; do
	case $arg in
	file:*/console.log) echo "Kernel panic - not syncing: broken boot" >"${arg#file:}" ;;
	esac
done
exit 1
SCRIPT
chmod 755 "$tmp/bin/qemu-system-x86_64"
PATH=$tmp/bin:$PATH BOOT_COUNT=$tmp/boots1 BROKEN_BOOTS=2 VM_ACCEL=tcg vm reboot -- sh -c 'echo up; exit 5' &
PATH=$tmp/bin:$PATH BOOT_COUNT=$tmp/boots2 BROKEN_BOOTS=100 VM_ACCEL=tcg vm noboot -- true &
wait
vm noimage --image "$tmp/nowhere" --kver 1.2.3 -- true
BUILD=$tmp/empty vm nobuild -- true

check "a warning in the kernel's log fails the run" rc_is splat 99
check "the warning is printed" has splat.err 'WARNING: CPU: 1 PID: 1 at selfcheck'
check "a dead guest fails the run" rc_is crash 97
check "its last words are printed" has crash.err 'sysrq triggered crash'
check "it is not booted again" has_not crash.err 'vm.sh: boot'
check "what the command said before arrives" has crash.out before
check "a hung guest is killed at the deadline" rc_is hang 98
check "harmless kernel lines and a leftover process do not fail the run" rc_is quiet 0
check "a guest that dies before the command is booted again" rc_is reboot 5
check "its command then runs once" test "$(grep -c up "$tmp/reboot.out")" = 1
check "that is said" has reboot.err 'vm.sh: boot 2 of at most 3 died'
check "with the log" has reboot/console-boot2.log 'broken boot'
check "a guest that never boots fails the run" rc_is noboot 97
check "after the third boot" test "$(cat "$tmp/boots2")" = 3
check "without an image there is no VM" rc_is noimage 96
check "and one sentence says so" test "$(wc -l <"$tmp/noimage.err")" = 1
check "neither is there one before anything was built" rc_is nobuild 96
check "and that tells what to do" has nobuild.err "'make image' fetches one"

# tap RC INPUT: what run-selftests.sh makes of it, in one line
tap()
{
	printf '%b' "$2" | awk -v name=x -v rc="$1" -v errs="$tmp/errs" -v stat="$tmp/stat" \
		-f "$here/tap.awk" | tr '\n' '|'
}
is()
{
	[ "$1" = "$2" ] && return
	echo "# got  $1"
	echo "# want $2"
	return 1
}
: >"$tmp/errs"
check "TAP: good output is kept" is \
	"$(tap 0 'TAP version 13\n1..2\nok 1 a\n# d\nok 2 b # SKIP c\n')" \
	'TAP version 13|1..2|ok 1 a|# d|ok 2 b # SKIP c|'
check "TAP: other lines become diagnostics" is \
	"$(tap 1 'TAP version 13\n1..1\n[ 1.2] rxe\nnot ok 1 a\n')" \
	'TAP version 13|1..1|# [ 1.2] rxe|not ok 1 a|'
check "TAP: a missing plan is a failure" is "$(tap 0 'ok 1 a\n')" \
	'TAP version 13|1..2|ok 1 a|not ok 2 x: printed no plan, exit status 0|'
check "TAP: missing tests are a failure" is "$(tap 0 '1..3\nok 1 a\n')" \
	'TAP version 13|1..2|ok 1 a|not ok 2 x: planned 3 tests and ran 1|'
check "TAP: a status that contradicts the lines is a failure" is "$(tap 1 '1..1\nok 1 a\n')" \
	'TAP version 13|1..2|ok 1 a|not ok 2 x: exit status 1|'
check "TAP: a skip of the whole script is none" is "$(tap 4 '1..0 # SKIP no rxe\n')" \
	'TAP version 13|1..0 # SKIP no rxe|'
check "TAP: no output is a failure" is "$(tap 127 '')" \
	'TAP version 13|1..1|not ok 1 x: printed no plan, exit status 127|'
echo "splat" >"$tmp/errs"
check "TAP: a kernel warning is a failure of its own" is "$(tap 99 '1..1\nok 1 a\n')" \
	"TAP version 13|1..2|ok 1 a|# splat|not ok 2 x: the kernel's log has a warning|"
check "TAP: so is a dead guest" is "$(tap 97 '1..2\nok 1 a\n')" \
	'TAP version 13|1..3|ok 1 a|not ok 2 x: planned 2 tests and ran 1|# splat|not ok 3 x: the guest died|'

say "1..$tests"
[ $bad -eq 0 ] || say "# $bad of $tests failed"
exit $((bad > 0))
