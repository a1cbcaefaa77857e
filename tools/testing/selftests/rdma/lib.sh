# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the align_*.sh tests share: KTAP, topologies, the driver of align_cm,
# waiting with deadlines, and what is printed when a test fails.
#
# A script defines TEST_LIST, a line per test
#
#	function	families	what the contract promises
#
# where families is "4", "6", "46" or "-", then calls run_tests "$@". Each test
# runs in a subshell with fresh addresses and its own align_cm: the first
# fail() ends it. A script may define script_setup(), which runs once before
# the tests, and script_cleanup().
#
# Environment: OUTPUT (where the programs are), EXPECT_ALL_FEATURES=1 (a skip
# is a failure), ALIGN_LOAD (the program that swaps rdma_cm, see need_loader),
# RDMA_CM=stock (run on the distribution's module: what this one mends fails there),
# DEADLINE (seconds to wait for what must come).

# Variables here are for the scripts, and the functions are called indirectly.
# shellcheck disable=SC2034,SC2317

set -u
export LC_ALL=C

KSFT_PASS=0
KSFT_FAIL=1
KSFT_SKIP=4

SELF=$(basename "$0" .sh)
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
OUTPUT=${OUTPUT:-$HERE/build}
ALIGN_CM=$OUTPUT/align_cm
ALIGN_LOAD=${ALIGN_LOAD:-$(command -v align-load || true)}
PARAMS=/sys/module/rdma_cm/parameters
TRACE=/sys/kernel/tracing

TMP=
VERBOSE=
PAUSE=
ONLY=

# Short delays keep the tests fast. The margins are for slow, emulated machines:
# only a failing test waits for a deadline.
DOWNDELAY=50
UPDELAY=100
DEADLINE=${DEADLINE:-30}
QUIET_MS=800
if grep -qs '^.* [a-zA-Z] kasan_' /proc/kallsyms; then
	DEADLINE=120
	QUIET_MS=4000
fi
# What most ids ask for.
SHORT="downdelay $DOWNDELAY updelay $UPDELAY"
# For a report that depends on what bonding or the GID table do after the command
# is back, in works of their own: late enough for a slow machine.
LATER_MS=2000
LATER="downdelay $LATER_MS updelay $LATER_MS"

# KTAP.

diag()
{
	printf '%s\n' "$*" | sed 's/^/# /'
}

fail()
{
	diag "FAIL: $*"
	exit $KSFT_FAIL
}

skip()
{
	diag "$*"
	echo "$*" >"$TMP/skip"
	exit $KSFT_SKIP
}

# skip_all REASON: before the plan was printed
skip_all()
{
	echo "TAP version 13"
	if [ "${EXPECT_ALL_FEATURES:-0}" = 1 ]; then
		echo "1..1"
		echo "not ok 1 $SELF: $*"
		exit $KSFT_FAIL
	fi
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

usage()
{
	cat <<-USAGE
	usage: ${0##*/} [-v] [-p] [-t TEST]... [-h]
	  -t TEST  only this test; name, or name_4 and name_6 for one family
	  -v       show every command
	  -p       pause after a failure, before the clean-up
	  -h       this text, and the tests
	USAGE
	local name families text
	while read -r name families text; do
		[ -z "$name" ] || printf '  %-28s %-3s %s\n' "$name" "$families" "$text"
	done <<<"$TEST_LIST"
}

parse_args()
{
	local opt

	while getopts t:vph opt; do
		case $opt in
		t)	ONLY="$ONLY $OPTARG " ;;
		v)	VERBOSE=1 ;;
		p)	PAUSE=1 ;;
		h)	usage; exit 0 ;;
		*)	usage >&2; exit 1 ;;
		esac
	done
}

# Time, without a fork.

now_ms()
{
	NOW=${EPOCHREALTIME/[.,]/}
	NOW=$((NOW / 1000))
}

# nap SECONDS
nap()
{
	read -rt "$1" -u "$NAP_FD" || true
}

# wait_until COMMAND...: up to DEADLINE seconds
wait_until()
{
	local end

	now_ms
	end=$((NOW + DEADLINE * 1000))
	until "$@"; do
		now_ms
		[ "$NOW" -lt "$end" ] || return 1
		nap 0.1
	done
}

# Deferred commands of a test, the last one first.

defer()
{
	DEFERRED+=("$(printf '%q ' "$@")")
}

run_deferred()
{
	local i

	for ((i = ${#DEFERRED[@]} - 1; i >= 0; i--)); do
		eval "${DEFERRED[i]}" >/dev/null 2>&1
	done
	DEFERRED=()
}

# Running the tests.

dump_state()
{
	local log

	while [ -n "$CM_OUT" ] && pump 0.01; do :; done
	{
		echo "--- align_cm"
		[ ${#LOG[@]} -eq 0 ] || printf '%s\n' "${LOG[@]}"
		for log in 'rdma link' 'rdma resource show cm_id' 'ip -br link' 'ip -br addr' \
			'ip rule' 'ip -6 rule' 'ip -4 route show table all' \
			'ip -6 route show table all' 'ip nexthop' 'ip neigh'; do
			echo "--- $log"
			$log 2>&1 | grep -v ' table local '
		done
		echo "--- trace"
		grep -v '^#' $TRACE/trace 2>/dev/null | tail -n 40
		echo "--- dmesg"
		dmesg | tail -n 10
	} | sed 's/^/#   /'
}

end_test()
{
	local rc=$?

	trap - EXIT
	set +x
	if [ $rc -ne $KSFT_PASS ] && [ $rc -ne $KSFT_SKIP ]; then
		dump_state
		[ -z "$PAUSE" ] || read -rp "paused, press enter" </dev/tty
	fi
	run_deferred
	cm_stop
	exit $rc
}

# run_test NUMBER FUNCTION FAMILY TEXT
run_test()
{
	local number=$1 fn=$2 family=$3 text=$4 name=$2 rc

	[ "$family" = - ] || name=${fn}_$family
	text="$SELF.$name: $text"
	[ "$family" = - ] || text="$text (IPv$family)"
	rm -f "$TMP"/*
	[ ! -w $TRACE/trace ] || : >$TRACE/trace
	[ ! -w /dev/kmsg ] || echo "selftest: $SELF.$name" >/dev/kmsg

	FAMILY=$family
	[ "$FAMILY" != - ] || FAMILY=4
	(
		trap end_test EXIT
		trap 'exit 130' INT TERM
		DEFERRED=()
		set_addresses $((ADDRESS_BASE + number))
		[ -z "$VERBOSE" ] || set -x
		"$fn"
	)
	rc=$?
	LAST_FAMILY=$FAMILY
	case $rc in
	0)	echo "ok $number $text" ;;
	4)	if [ "${EXPECT_ALL_FEATURES:-0}" = 1 ]; then
			echo "not ok $number $text"
			FAILED=1
		else
			echo "ok $number $text # SKIP $(cat "$TMP/skip" 2>/dev/null)"
			SKIPPED=$((SKIPPED + 1))
		fi ;;
	*)	echo "not ok $number $text"
		FAILED=1 ;;
	esac
}

# The tests that -t selects, as "function family text" lines.
select_tests()
{
	local name families text family

	while read -r name families text; do
		[ -n "$name" ] || continue
		for family in ${families//46/4 6}; do
			if [ -n "$ONLY" ] && [[ $ONLY != *" $name "* ]] &&
			   [[ $ONLY != *" ${name}_$family "* ]]; then
				continue
			fi
			echo "$name $family $text"
		done
	done <<<"$TEST_LIST"
}

end_script()
{
	local rc=$?

	trap - EXIT INT TERM
	! declare -F script_cleanup >/dev/null || script_cleanup >/dev/null 2>&1
	topology_cleanup >/dev/null 2>&1
	[ -z "$SAVED_PARAMS" ] || restore_params
	[ ! -w $TRACE/events/rdma_cma/enable ] || echo 0 >$TRACE/events/rdma_cma/enable
	rm -rf "$TMP"
	exit $rc
}

run_tests()
{
	local name family text number=0 count

	parse_args "$@"
	[ "$(id -u)" = 0 ] || skip_all "needs root"
	need_tools ip rdma awk
	[ -x "$ALIGN_CM" ] || skip_all "$ALIGN_CM was not built"

	count=$(select_tests | wc -l)
	[ "$count" -gt 0 ] || { echo "no such test:$ONLY" >&2; exit 1; }

	FAILED=
	SKIPPED=0
	SAVED_PARAMS=
	LAST_FAMILY=
	TMP=$(mktemp -d) || exit 1
	exec {NAP_FD}<> <(:)
	trap end_script EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	# Damping is remembered for each destination: a test must not meet the
	# addresses of another one, nor a script those of the one before it.
	ADDRESS_BASE=$((RANDOM % 180 + 1))
	if declare -F script_setup >/dev/null; then
		script_setup || skip_all "cannot set up"
	fi
	[ ! -w $TRACE/events/rdma_cma/enable ] || echo 1 >$TRACE/events/rdma_cma/enable
	echo "TAP version 13"
	echo "1..$count"
	while read -r name family text; do
		number=$((number + 1))
		run_test $number "$name" "$family" "$text" </dev/null
	done < <(select_tests)

	[ -z "$FAILED" ] || exit $KSFT_FAIL
	[ $SKIPPED -lt "$count" ] || exit $KSFT_SKIP
	exit $KSFT_PASS
}

# Features.

need_tools()
{
	local tool

	for tool; do
		command -v "$tool" >/dev/null || skip_all "$tool is not installed"
	done
}

# need_modules MODULE...: those that a test uses beside rdma_cm
need_modules()
{
	local module

	for module; do
		[ -d "/sys/module/$module" ] || modprobe -q "$module" ||
			skip_all "no module $module"
	done
}

# The module under test, with its parameters at their defaults.
need_align()
{
	need_modules rdma_rxe veth
	if [ "${RDMA_CM:-}" = stock ]; then
		need_loader
		"$ALIGN_LOAD" stock >&2 || skip_all "the stock module cannot be loaded"
		return 0
	fi
	if [ ! -e $PARAMS/ha_mode ] && [ -n "$ALIGN_LOAD" ]; then
		"$ALIGN_LOAD" aligned >&2 || true
	fi
	[ -d /sys/module/rdma_ucm ] || modprobe -q rdma_ucm
	[ -e $PARAMS/ha_mode ] || skip_all "no RDMA_ALIGN_WITH_NETDEVICE in this kernel"
	save_params
}

# The kernel ULP of the tests: see kulp/align_kulp.c.
need_kulp()
{
	local dir

	[ ! -c /dev/align_kulp ] || return 0
	for dir in "${ALIGN_MODULES:-/run/vm/aligned}" "$HERE/kulp"; do
		[ ! -r "$dir/align_kulp.ko" ] || insmod "$dir/align_kulp.ko" || true
	done
	[ -c /dev/align_kulp ] || skip_all "align_kulp was not built"
}

# Tests that compare with the distribution's own module swap the two.
need_loader()
{
	[ -n "$ALIGN_LOAD" ] || skip_all "no align-load to swap rdma_cm with"
}

# Module parameters of rdma_cm.

save_params()
{
	local name

	SAVED_PARAMS=
	for name in ha_mode ha_passive ha_sticky ha_downdelay ha_updelay; do
		SAVED_PARAMS+="$name $(cat $PARAMS/$name)"$'\n'
	done
}

restore_params()
{
	local name value

	while read -r name value; do
		[ -z "$name" ] || [ ! -w "$PARAMS/$name" ] || echo "$value" >"$PARAMS/$name"
	done <<<"$SAVED_PARAMS"
}

# set_param NAME VALUE: until the end of the test
set_param()
{
	local old

	old=$(cat "$PARAMS/$1")
	defer write_param "$1" "$old"
	write_param "$1" "$2" || fail "$1=$2 was refused"
}

write_param()
{
	{ printf '%s' "$2" >"$PARAMS/$1"; } 2>/dev/null
}

# Driving align_cm. Its ids are named by the test; see align_cm.c. All programs
# of a test write to one pipe, a line at a time; pump() takes the lines in.

declare -A CM_FD=() CM_PID=() EVENTS=() COUNT=() SEEN=()
LOG=()
CM_OUT=
CM_PARTIAL=
CM_BAD=
CM_SYNC=0

# alone COMMAND...: in a process of its own. One that had the pipes to the
# programs too would keep these from seeing their end.
alone()
{
	local fd

	for fd in "${CM_FD[@]}"; do
		eval "exec $fd>&-"
	done
	exec "$@"
}

# What all programs write to.
cm_pipe()
{
	[ -z "$CM_OUT" ] || return 0
	mkfifo "$TMP/out"
	exec {CM_OUT}<>"$TMP/out"
}

# cm_start [PROGRAM [OPTION]...]: the default one is started by the first cm
cm_start()
{
	local prog=${1:-cm} fd
	shift

	cm_pipe
	mkfifo "$TMP/$prog.in"
	alone "$ALIGN_CM" "$@" <"$TMP/$prog.in" >"$TMP/out" 2>&1 &
	CM_PID[$prog]=$!
	exec {fd}>"$TMP/$prog.in"
	CM_FD[$prog]=$fd
	cm_sync "$prog"
}

# kulp_start: the kernel's ids are those of a program "kulp", which speaks as
# align_cm does
kulp_start()
{
	local fd

	cm_pipe
	exec {fd}<>/dev/align_kulp || fail "cannot open /dev/align_kulp"
	CM_FD[kulp]=$fd
	# The last one that has it open closes it.
	alone cat <&"$fd" >"$TMP/out" &
	CM_PID[kulp]=$!
	cm_sync kulp
}

kulp()
{
	[ -n "${CM_FD[kulp]:-}" ] || kulp_start
	cm_on kulp "$*"
	[ -z "$CM_BAD" ] || fail "$*: $CM_BAD"
}

# pump SECONDS: take one line in; false if none came
pump()
{
	local line id

	# What came of a line before the time was over is the begin of the next.
	if ! IFS= read -rt "$1" -u "$CM_OUT" line; then
		CM_PARTIAL+=$line
		return 1
	fi
	line=$CM_PARTIAL$line
	CM_PARTIAL=
	LOG+=("$line")
	case $line in
	*" event="*)
		id=${line#* id=}
		id=${id%% *}
		COUNT[$id]=$((${COUNT[$id]:-0} + 1))
		EVENTS[$id,${COUNT[$id]}]=$line ;;
	*" ret=-"*|*error=*)
		CM_BAD=$line ;;
	esac
}

# pump_for MS: take in what comes meanwhile
pump_for()
{
	local end

	now_ms
	end=$((NOW + $1))
	while [ "$NOW" -lt "$end" ]; do
		pump 0.1 || true
		now_ms
	done
}

# wait_line FROM GLOB: until line FROM of the log or a later one matches; sets
# LINE
wait_line()
{
	local i=$1 end

	now_ms
	end=$((NOW + DEADLINE * 1000))
	while :; do
		for ((; i < ${#LOG[@]}; i++)); do
			LINE=${LOG[i]}
			# shellcheck disable=SC2053 # a pattern
			[[ $LINE != $2 ]] || return 0
		done
		now_ms
		[ "$NOW" -lt "$end" ] || return 1
		pump 0.2 || true
	done
}

cm_sync()
{
	CM_SYNC=$((CM_SYNC + 1))
	echo "echo sync$CM_SYNC" >&"${CM_FD[$1]}"
	wait_line ${#LOG[@]} "* echo=sync$CM_SYNC" || fail "$1 does not answer"
}

# cm_on PROGRAM COMMAND: give it a command, and wait until that has run
cm_on()
{
	local prog=$1
	shift

	[ -n "${CM_FD[$prog]:-}" ] || cm_start "$prog"
	[ -z "$VERBOSE" ] || diag "$prog: $*"
	CM_BAD=
	echo "$*" >&"${CM_FD[$prog]}"
	cm_sync "$prog"
}

# cm_try COMMAND: the default program, which may fail to do it
cm_try()
{
	cm_on cm "$*"
}

# cm COMMAND: and must not
cm()
{
	cm_on cm "$*"
	[ -z "$CM_BAD" ] || fail "$*: $CM_BAD"
}

# A program that hangs in the kernel must not hang the test.
cm_stop()
{
	local prog pid

	for prog in "${!CM_FD[@]}"; do
		pid=${CM_PID[$prog]}
		[ "$prog" != kulp ] || kill "$pid" 2>/dev/null
		eval "exec ${CM_FD[$prog]}>&-"
		DEADLINE=10 wait_until cm_gone "$pid" || kill -KILL "$pid" 2>/dev/null
		DEADLINE=10 wait_until cm_gone "$pid" || diag "$prog ($pid) does not end"
	done
	CM_FD=()
	CM_PID=()
}

# Also reads on, because a program with too much to say would wait for us.
cm_gone()
{
	while pump 0.01; do :; done
	! kill -0 "$1" 2>/dev/null || grep -qs '^State:[[:space:]]Z' "/proc/$1/status"
}

# Events. Each id's events are expected in their order, and each must be
# expected: what was not is found by the next expect_event or expect_silence.

# next_event ID SECONDS: sets EVENT
next_event()
{
	local n=$((${SEEN[$1]:-0} + 1)) end

	now_ms
	end=$((NOW + $2 * 1000))
	while [ "${COUNT[$1]:-0}" -lt $n ]; do
		now_ms
		[ "$NOW" -lt "$end" ] || return 1
		pump 0.2 || true
	done
	EVENT=${EVENTS[$1,$n]}
	SEEN[$1]=$n
}

# field NAME LINE: sets FIELD
field()
{
	FIELD=" $2 "
	[[ $FIELD == *" $1="* ]] || { FIELD=; return 1; }
	FIELD=${FIELD#* "$1"=}
	FIELD=${FIELD%% *}
}

# expect_event ID EVENT [FIELD=VALUE]...
expect_event()
{
	local id=$1 event=$2 want
	shift 2

	next_event "$id" "$DEADLINE" || fail "$id: no $event in $DEADLINE s"
	for want in "event=$event" "$@"; do
		if ! field "${want%%=*}" "$EVENT" || [ "$FIELD" != "${want#*=}" ]; then
			fail "$id: expected $event $*; got $EVENT"
		fi
	done
}

# The report of an id that asked for a mode:
# expect_report ID REASON FLAGS OLD [NEW], where OLD and NEW are netdevices, or
# NETDEV/LOWER when the RDMA device is that of a lower netdevice. NEW is "none"
# when a new id would get no path; without NEW it is not tested.
expect_report()
{
	local id=$1 reason=$2 flags=$3 old=$4 new=${5:-} want

	want=("status=0" "reason=$reason" "flags=$flags" "reserved=0" "old_port=1"
	      "old_if=${IFINDEX[${old%/*}]}" "old_dev=${RDMA_INDEX[${old#*/}]}")
	if [ "$new" = none ]; then
		want+=("new_if=0" "new_dev=-1" "new_port=0")
	elif [ -n "$new" ]; then
		want+=("new_if=${IFINDEX[${new%/*}]}" "new_port=1"
		       "new_dev=${RDMA_INDEX[${new#*/}]}")
	fi
	expect_event "$id" ADDR_CHANGE "${want[@]}"
	! field pdlen "$EVENT" || fail "$id: a report without private data: $EVENT"
}

# The same for an id whose mode came from the module parameter: stock's shape.
expect_bare_report()
{
	expect_event "$1" ADDR_CHANGE status=0 pdlen=0
}

# expect_silence ID...: nothing, for QUIET_MS, the delays included
expect_silence()
{
	pump_for "$QUIET_MS"
	expect_none "$@"
}

# expect_silence_later ID...: the same for ids with the delays LATER
expect_silence_later()
{
	QUIET_MS=$((QUIET_MS + LATER_MS)) expect_silence "$@"
}

# be_later ID: give it the delays LATER
be_later()
{
	cm "set $1 downdelay $LATER_MS"
	cm "set $1 updelay $LATER_MS"
}

# expect_none ID...: nothing has come so far
expect_none()
{
	local id

	while pump 0.01; do :; done
	for id; do
		! next_event "$id" 0 || fail "$id: expected nothing; got $EVENT"
	done
}

# stamp: now, on the default program's clock, which its events have
stamp()
{
	stamp_of cm
}

# stamp_of PROGRAM
stamp_of()
{
	cm_on "$1" "echo stamp"
	STAMP=${LINE%% *}
	STAMP=${STAMP#t=}
}

# expect_after MS [BEFORE_MS]: the last event came that long after stamp
expect_after()
{
	local ms=${EVENT%% *}

	ms=$((${ms#t=} - STAMP))
	[ $ms -ge "$1" ] || fail "after $ms ms, expected $1 at least: $EVENT"
	[ $ms -le "${2:-999999}" ] || fail "after $ms ms, expected $2 at most: $EVENT"
}

# expect_timewait_at_most ID: after a teardown. It comes soon when not even a DREQ
# can be sent, because the source address has left.
expect_timewait_at_most()
{
	if next_event "$1" 2; then
		field event "$EVENT"
		[ "$FIELD" = TIMEWAIT_EXIT ] || fail "$1: expected TIMEWAIT_EXIT; got $EVENT"
	fi
	expect_silence "$1"
}

# skip_events ID EVENT: take all up to this one. None of them may be a report.
skip_events()
{
	while :; do
		next_event "$1" "$DEADLINE" || fail "$1: no $2 in $DEADLINE s"
		field event "$EVENT"
		[ "$FIELD" != "$2" ] || return 0
		case $FIELD in
		*ERROR|REJECTED|UNREACHABLE|ADDR_CHANGE)
			fail "$1: expected $2; got $EVENT" ;;
		esac
	done
}

# listen NAME [OPTION]...: on any address, because a listener on the service's
# address would listen on one of the two devices that have it
listen()
{
	local name=$1
	shift

	cm "listen $name $ANY $PORT $*"
}

# connect NAME [OPTION]...: to the service; the passive side is $PASSIVE
connect()
{
	local name=$1
	shift

	[ -n "$LISTENING" ] || listen server
	LISTENING=1
	cm "connect $name $SERVICE $PORT $*"
	skip_events "$name" ESTABLISHED
	CONNECTED=$((CONNECTED + 1))
	PASSIVE=server.$CONNECTED
	skip_events "$PASSIVE" ESTABLISHED
}
CONNECTED=0
LISTENING=

# resolve NAME [OPTION]...
resolve()
{
	local name=$1
	shift

	cm "resolve $name $SERVICE $PORT $*"
	skip_events "$name" ROUTE_RESOLVED
}

# traffic ID COUNT: must work
traffic()
{
	local from=${#LOG[@]}

	cm "traffic $1 $2"
	wait_line "$from" "* id=$1 * traffic=*" || fail "$1: traffic never ended"
	[[ $LINE == *" traffic=ok "* ]] || fail "$1: $LINE"
}

# destroy_soon NAME: nothing that this module does may hold it
destroy_soon()
{
	local from=${#LOG[@]} ms

	cm "destroy $1"
	wait_line "$from" "* id=$1 *destroyed ms=*" || fail "$1 was not destroyed"
	ms=${LINE##*ms=}
	[ "$ms" -lt 10000 ] || fail "$1 took $ms ms to destroy"
}

# Network.

declare -A IFINDEX=() RDMA_INDEX=()

run()
{
	"$@" || fail "$*"
}

# ip commands from standard input, in one process: fast, and close together
ip_batch()
{
	local text

	read -rd '' text || true
	[ -z "$VERBOSE" ] || diag "$text"
	ip "$@" -batch - <<<"$text" || fail "ip $*: $text"
}

# add_rxe NETDEV: a soft-RoCE device rx_NETDEV
add_rxe()
{
	rdma link add "rx_$1" type rxe netdev "$1" || return 1
	learn "$1"
}

# revive_rxe NETDEV...: when soft-RoCE cannot route a packet, it puts the QP in
# the error state. If that was QP 1, which sends what the connection manager
# has to say (a DREQ by a link that is down), the device never connects again.
revive_rxe()
{
	local qps netdev

	qps=$(rdma resource show qp)
	for netdev; do
		[[ $qps != *"link rx_$netdev/1 lqpn 1 type GSI state RTS "* ]] || continue
		del_rxe "rx_$netdev"
		run add_rxe "$netdev"
	done
	learn "$@"
}

del_rxe()
{
	rdma link delete "$1"
}

# remove_held COMMAND...: start what removes an RDMA device that programs use.
# rdma_cm tells its ids at once; then the verbs interface waits until every
# program has closed the device, because soft-RoCE cannot be taken away from
# them. librdmacm never closes one: see what there is to see, then let_go.
remove_held()
{
	alone "$@" &
	REMOVALS+=($!)
}
REMOVALS=()

# let_go: end the programs; what they held must go now
let_go()
{
	local pid

	cm_stop
	for pid in "${REMOVALS[@]}"; do
		wait_until cm_gone "$pid" || fail "a device is held that no program uses"
		wait "$pid" || fail "a device could not be removed"
	done
	REMOVALS=()
}

# learn NETDEV...: the numbers that a report names them and their RDMA devices by
learn()
{
	local netdev devices pattern

	devices=$'\n'$(rdma dev show)
	for netdev; do
		read -r "IFINDEX[$netdev]" <"/sys/class/net/$netdev/ifindex"
		pattern=$'\n'"([0-9]+): rx_$netdev:"
		RDMA_INDEX[$netdev]=-1
		[[ ! $devices =~ $pattern ]] || RDMA_INDEX[$netdev]=${BASH_REMATCH[1]}
	done
	return 0
}

ip_to_gid()
{
	local a b c d

	if [[ $1 == *:* ]]; then
		# fd00:a:n::1
		IFS=: read -r a b c _ <<<"$1"
		printf -v GID '%04x:%04x:%04x:0000:0000:0000:0000:%04x' \
			"0x$a" "0x$b" "0x$c" "0x${1##*:}"
	else
		IFS=. read -r a b c d <<<"$1"
		printf -v GID '0000:0000:0000:0000:0000:ffff:%02x%02x:%02x%02x' \
			"$a" "$b" "$c" "$d"
	fi
}

has_gid()
{
	local file gid

	for file in /sys/class/infiniband/"$1"/ports/1/gids/{,1}[0-9]; do
		{ read -r gid <"$file"; } 2>/dev/null || continue
		[ "$gid" != "$GID" ] || return 0
	done
	return 1
}

# wait_gid NETDEV ADDR: GIDs follow addresses from another thread
wait_gid()
{
	ip_to_gid "$2"
	wait_until has_gid "rx_$1" || fail "rx_$1 has no GID $GID for $2"
}

no_gid()
{
	! has_gid "$1"
}

wait_no_gid()
{
	ip_to_gid "$2"
	wait_until no_gid "rx_$1" || fail "rx_$1 still has the GID $GID for $2"
}

has_carrier()
{
	local carrier=

	{ read -r carrier <"/sys/class/net/$1/carrier"; } 2>/dev/null
	[ "$carrier" = 1 ]
}

no_carrier()
{
	! has_carrier "$1"
}

wait_carrier()
{
	local netdev

	for netdev; do
		wait_until has_carrier "$netdev" || fail "$netdev has no carrier"
	done
}

# lladdr NETDEV
lladdr()
{
	echo "$(<"/sys/class/net/$1/address")"
}

set_sysctls()
{
	local netdev path

	for netdev; do
		for path in rp_filter=0 accept_local=1 arp_ignore=0; do
			echo "${path#*=}" >"/proc/sys/net/ipv4/conf/$netdev/${path%=*}"
		done
		[ -d /proc/sys/net/ipv6/conf ] || continue
		for path in accept_dad=0 accept_ra=0 disable_ipv6=0; do
			echo "${path#*=}" >"/proc/sys/net/ipv6/conf/$netdev/${path%=*}"
		done
	done
}

# Topology "self loop": two soft-RoCE paths between "two hosts" in one netns,
# because soft-RoCE works in the initial one only.
#
#	      client                                    server
#	CLIENT0 10.1.n.1/24  C0 ------ veth ------ S0  SERVICE 10.9.n.1/32
#	CLIENT1 10.2.n.1/24  C1 ------ veth ------ S1  SERVICE 10.9.n.1/32
#
#	an RDMA device rx_NETDEV on each of the four; IPv6: fd00:1:n::1/64,
#	fd00:2:n::1/64 and fd00:9:n::1/128
#
#	to the service     $TO_SERVICE:  dev C0 src CLIENT0
#	to the clients     $TO_CLIENT:   CLIENT0 dev S0, CLIENT1 dev S1, src SERVICE
#
# All addresses are local, so the rules send what is looked up for output to
# two tables before the local one, and what came in by an interface to the
# local table. Without a route in those tables there is no route at all.
#
# n is new for each test: nothing is left from the test before, neighbours and
# damping least of all.

C0=c0_$$
C1=c1_$$
S0=s0_$$
S1=s1_$$
TO_SERVICE=7010
TO_CLIENT=7011
PORT=7471

set_addresses()
{
	local n=$(($1 % 250 + 1))

	if [ "$FAMILY" = 6 ]; then
		CLIENT0=fd00:1:$n::1 CLIENT1=fd00:2:$n::1 SERVICE=fd00:9:$n::1
		LEN=64 HOST=128 SERVICES=fd00:9:$n::/64 ANY=::
		# A new address is tentative until a work has run, although duplicates
		# are not looked for, and no route takes it for a source meanwhile.
		NODAD=nodad
	else
		CLIENT0=10.1.$n.1 CLIENT1=10.2.$n.1 SERVICE=10.9.$n.1
		LEN=24 HOST=32 SERVICES=10.9.$n.0/24 ANY=0.0.0.0 NODAD=
	fi
}

# ip of the family under test
ipf()
{
	ip "-$FAMILY" "$@"
}

# The rules and sysctls that a self loop needs, for netdevices NETDEV...
loop_rules()
{
	local family netdev service clients

	for family in 4 6; do
		[ $family = 4 ] && service=10.9.0.0/16 && clients='10.1.0.0/16 10.2.0.0/16'
		[ $family = 6 ] && service=fd00:9::/32 && clients='fd00:1::/32 fd00:2::/32'
		{
			for netdev; do
				echo "rule add pref 5 iif $netdev lookup local"
			done
			echo "rule add pref 10 to $service lookup $TO_SERVICE"
			echo "rule add pref 14 to $service unreachable"
			for netdev in $clients; do
				echo "rule add pref 11 to $netdev lookup $TO_CLIENT"
				echo "rule add pref 14 to $netdev unreachable"
			done
			echo "rule add pref 100 lookup local"
			echo "rule del pref 0"
		} | ip -$family -batch - || return 1
	done
	set_sysctls all "$@"
}

loop_rules_cleanup()
{
	local family pref

	for family in 4 6; do
		[ -n "$(ip -$family rule show pref 0)" ] || ip -$family rule add pref 0 lookup local
		for pref in 5 10 11 12 13 14 100; do
			while ip -$family rule del pref $pref 2>/dev/null; do :; done
		done
		ip -$family route flush table "$TO_SERVICE"
		ip -$family route flush table "$TO_CLIENT"
	done
}

# selfloop_create: once for a script
selfloop_create()
{
	local netdev

	TOPOLOGY=selfloop
	ip link add "$C0" type veth peer name "$S0" || return 1
	ip link add "$C1" type veth peer name "$S1" || return 1
	loop_rules "$C0" "$C1" "$S0" "$S1" || return 1
	for netdev in "$C0" "$C1" "$S0" "$S1"; do
		ip link set "$netdev" up || return 1
		add_rxe "$netdev" || return 1
	done
	# What the server sends by the other way back.
	lose_packets_to "$C0" fd00:2::/32 && lose_packets_to "$C1" fd00:1::/32
}

# selfloop: bring it to its first state, for a test
selfloop()
{
	revive_rxe "$C0" "$C1" "$S0" "$S1"
	flush_addresses "$C0" "$C1" "$S0" "$S1"
	ip_batch "-$FAMILY" <<-BATCH
	link set $C0 up
	link set $C1 up
	link set $S0 up
	link set $S1 up
	addr add $CLIENT0/$LEN dev $C0 $NODAD
	addr add $CLIENT1/$LEN dev $C1 $NODAD
	addr add $SERVICE/$HOST dev $S0 $NODAD
	addr add $SERVICE/$HOST dev $S1 $NODAD
	route add $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	route add $CLIENT0 dev $S0 src $SERVICE table $TO_CLIENT
	route add $CLIENT1 dev $S1 src $SERVICE table $TO_CLIENT
	BATCH
	wait_carrier "$C0" "$C1" "$S0" "$S1"
	know_neighbours
	wait_gid "$C0" "$CLIENT0"
	wait_gid "$C1" "$CLIENT1"
	wait_gid "$S0" "$SERVICE"
	wait_gid "$S1" "$SERVICE"
}

# flush_addresses NETDEV...: and the neighbours there and the routes of the
# loop. Link-local addresses stay: they go and come with the link.
flush_addresses()
{
	local netdev family

	for family in $FAMILY $LAST_FAMILY; do
		{
			for netdev; do
				echo "addr flush dev $netdev scope global"
				echo "neigh flush dev $netdev"
			done
			echo "route flush table $TO_SERVICE"
			echo "route flush table $TO_CLIENT"
		} | ip "-$family" -force -batch - 2>/dev/null
		[ "$FAMILY" != "$LAST_FAMILY" ] || break
	done
}

# rdma_resolve_addr() waits for the whole of its timeout when the neighbour
# answers too fast, which it does over a veth: let it find the neighbours.
know_neighbours()
{
	ip_batch "-$FAMILY" <<-BATCH
	neigh replace $SERVICE lladdr $(lladdr "$S0") dev $C0 nud reachable
	neigh replace $SERVICE lladdr $(lladdr "$S1") dev $C1 nud reachable
	neigh replace $CLIENT0 lladdr $(lladdr "$C0") dev $S0 nud reachable
	neigh replace $CLIENT1 lladdr $(lladdr "$C1") dev $S1 nud reachable
	BATCH
}

# The usual moves.

route_to_c1()
{
	run ipf route replace "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE"
}

route_to_c0()
{
	run ipf route replace "$SERVICE" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
}

# What a netdevice is asked for that has no route, IPv4 takes to be on link there.
# IPv6 takes another netdevice, rdma_cm and soft-RoCE with it: a request then
# arrives where the passive side has no route to its source, which rejects it
# (status 28). The netdevice only counts among routes of one metric. So each of
# the next two leaves a route by both netdevices.

# For ids that are bound to the one or the other.
route_by_both()
{
	[ "$FAMILY" = 6 ] || return 0
	run ipf route append "$SERVICE" dev "$C1" src "$CLIENT1" table "$TO_SERVICE"
}

# The route by C1 is preferred, and what is bound to C0 still gets through.
prefer_c1()
{
	if [ "$FAMILY" = 4 ]; then
		run ipf route replace "$SERVICES" dev "$C0" src "$CLIENT0" table "$TO_SERVICE"
		route_to_c1
		return
	fi
	ip_batch -6 <<-BATCH
	route append $SERVICE dev $C1 src $CLIENT1 table $TO_SERVICE
	route del $SERVICE dev $C0 table $TO_SERVICE
	route append $SERVICE dev $C0 src $CLIENT0 table $TO_SERVICE
	BATCH
}

# The best route back is over the other netdevice, while requests come in by
# the first. IPv6 considers the netdevice among routes of one metric only.
make_asymmetric()
{
	local metric=1000

	[ "$FAMILY" = 4 ] || metric=2000
	ip_batch "-$FAMILY" <<-BATCH
	route flush table $TO_CLIENT
	route add $CLIENT0 dev $S1 src $SERVICE table $TO_CLIENT metric $metric
	route append $CLIENT0 dev $S0 src $SERVICE table $TO_CLIENT metric 2000
	neigh replace $CLIENT0 lladdr $(lladdr "$C1") dev $S1 nud reachable
	BATCH
}

# keep_addresses NETDEV: IPv6 addresses go with the link, and with them the GIDs
keep_addresses()
{
	[ "$FAMILY" = 6 ] || return 0
	echo 1 >"/proc/sys/net/ipv6/conf/$1/keep_addr_on_down"
	defer eval "echo 0 >/proc/sys/net/ipv6/conf/$1/keep_addr_on_down"
}

# The last step of every test of silence: the id is still watched.
expect_still_watched()
{
	route_to_c1
	expect_report "$1" ROUTE down "$C0" "$C1"
}

# Topology "gateway": two more netdevices with RDMA devices, and a router
# between them. Beside the self loop, whose rules it needs.
#
#	      client                netns GW                 server
#	CLIENT0   GC ---- veth ---- G0     G1 ---- veth ---- GS   SERVICE
#	                            |                             FAR_SIDE
#	                            G0 has GATEWAY and TWIN, at one link-layer
#	                            address; GM, a macvlan on it, has OTHER
#
#	to the service     $TO_SERVICE:  via GATEWAY dev GC src CLIENT0
#	to the client      $TO_CLIENT:   via FAR dev GS src SERVICE

GW=gw_$$
GC=gc_$$
GS=gs_$$
G0=g0_$$
G1=g1_$$
GM=gm_$$

# gateway_create: once for a script, after selfloop_create
gateway_create()
{
	local netdev family

	ip netns add "$GW" || return 1
	ip link add "$GC" type veth peer name "$G0" netns "$GW" || return 1
	ip link add "$GS" type veth peer name "$G1" netns "$GW" || return 1
	ip -n "$GW" link add "$GM" link "$G0" type macvlan mode bridge || return 1
	ip netns exec "$GW" sysctl -qw net.ipv4.ip_forward=1 \
		net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 \
		net.ipv4.conf.all.arp_ignore=1 \
		net.ipv4.conf."$G0".arp_notify=1 \
		net.ipv6.conf."$G0".ndisc_notify=1 || return 1
	for netdev in "$G0" "$G1" "$GM"; do
		ip netns exec "$GW" sysctl -qw net.ipv4.conf."$netdev".rp_filter=0 \
			net.ipv6.conf."$netdev".accept_dad=0 || return 1
		ip -n "$GW" link set "$netdev" up || return 1
	done
	set_sysctls "$GC" "$GS"
	for netdev in "$GC" "$GS"; do
		for family in 4 6; do
			ip -$family rule add pref 5 iif "$netdev" lookup local || return 1
		done
		ip link set "$netdev" up || return 1
		add_rxe "$netdev" || return 1
	done
	GATEWAY_CREATED=1
}
GATEWAY_CREATED=

# gateway: bring it to its first state, for a test
gateway()
{
	local near=${CLIENT0%1} far=10.8.0. netdev

	[ "$FAMILY" = 4 ] || far=fd00:8::
	GATEWAY=${near}fe TWIN=${near}fd OTHER=${near}fc FAR=${far}fe
	if [ "$FAMILY" = 4 ]; then
		GATEWAY=${near}254 TWIN=${near}253 OTHER=${near}252 FAR=${far}254
	fi
	revive_rxe "$C0" "$C1" "$S0" "$S1" "$GC" "$GS"
	flush_addresses "$C0" "$C1" "$S0" "$S1" "$GC" "$GS"
	for netdev in "$G0" "$G1" "$GM"; do
		echo "addr flush dev $netdev scope global"
	done | ip -n "$GW" "-$FAMILY" -force -batch - 2>/dev/null
	ip_batch -n "$GW" "-$FAMILY" <<-BATCH
	addr add $GATEWAY/$LEN dev $G0
	addr add $TWIN/$LEN dev $G0
	addr add $OTHER/$LEN dev $GM
	addr add $FAR/$LEN dev $G1
	route replace $SERVICE dev $G1
	BATCH
	ip_batch "-$FAMILY" <<-BATCH
	link set $GC up
	link set $GS up
	addr add $CLIENT0/$LEN dev $GC $NODAD
	addr add $SERVICE/$HOST dev $GS $NODAD
	addr add ${far}1/$LEN dev $GS $NODAD
	route add $SERVICE via $GATEWAY dev $GC onlink src $CLIENT0 table $TO_SERVICE
	route add $CLIENT0 via $FAR dev $GS onlink src $SERVICE table $TO_CLIENT
	neigh replace $GATEWAY lladdr $(gw_lladdr "$G0") dev $GC nud reachable
	neigh replace $FAR lladdr $(gw_lladdr "$G1") dev $GS nud reachable
	BATCH
	wait_carrier "$GC" "$GS"
	wait_gid "$GC" "$CLIENT0"
	wait_gid "$GS" "$SERVICE"
}

# route_via GATEWAY [OPTION]...
route_via()
{
	local gw=$1
	shift

	run ipf route replace "$SERVICE" via "$gw" dev "$GC" onlink src "$CLIENT0" \
		table "$TO_SERVICE" "$@"
}

gw_lladdr()
{
	ip netns exec "$GW" cat "/sys/class/net/$1/address"
}

gateway_cleanup()
{
	ip netns del "$GW"
	ip link del "$GC"
	ip link del "$GS"
}

# lend_address NETDEV LOWER PEER: CLIENT0 is on this netdevice on top of LOWER
# instead, and the route to the service, which PEER has, leaves by it
lend_address()
{
	set_sysctls "$1"
	ip_batch "-$FAMILY" <<-BATCH
	addr del $CLIENT0/$LEN dev $2
	link set $1 up
	BATCH
	wait_no_gid "$2" "$CLIENT0"
	wait_carrier "$1"
	ip_batch "-$FAMILY" <<-BATCH
	addr add $CLIENT0/$LEN dev $1 $NODAD
	route replace $SERVICE dev $1 src $CLIENT0 table $TO_SERVICE
	neigh replace $SERVICE lladdr $(lladdr "$3") dev $1 nud reachable
	BATCH
	learn "$1"
	wait_gid "$2" "$CLIENT0"
}

# Topology "bond": the client's path is an active-backup bond of two veths into
# a bridge, which the server is on as well.
#
#	      client                 netns SW               server
#	          / P0 -- veth -- Q0 \
#	CLIENT0 BOND                  bridge -- T0 -- veth -- BS  SERVICE
#	          \ P1 -- veth -- Q1 /
#
#	RDMA devices: rx_BS, and rx_BOND or rx_P0 and rx_P1

SW=sw_$$
BOND=bo_$$
P0=p0_$$
P1=p1_$$
BS=bs_$$

# bond_create: once for a script, after selfloop_create
bond_create()
{
	local family netdev

	ip netns add "$SW" || return 1
	ip -n "$SW" link add sw type bridge || return 1
	ip -n "$SW" link set sw up || return 1
	ip link add "$BS" type veth peer name t0 netns "$SW" || return 1
	ip -n "$SW" link set t0 master sw up || return 1
	ip link set "$BS" up || return 1
	set_sysctls "$BS"
	add_rxe "$BS" || return 1
	for netdev in "$BOND" "$BS"; do
		for family in 4 6; do
			ip -$family rule add pref 5 iif "$netdev" lookup local || return 1
		done
	done
	BOND_CREATED=1
}
BOND_CREATED=

# bond FAIL_OVER_MAC bond|slaves [MIIMON]: for a test, with RDMA devices there. In
# BOND_MODE all slaves carry traffic, unless it is active-backup.
BOND_MODE=active-backup
bond()
{
	local netdev

	defer bond_destroy
	run ip link add "$BOND" type bond mode "$BOND_MODE" fail_over_mac "$1" miimon "${3:-50}"
	run ip link add "$P0" type veth peer name q0 netns "$SW"
	run ip link add "$P1" type veth peer name q1 netns "$SW"
	for netdev in q0 q1; do
		run ip -n "$SW" link set $netdev master sw up
	done
	if [ "$2" = slaves ]; then
		run ip link set "$P0" up
		run ip link set "$P1" up
		run add_rxe "$P0"
		run add_rxe "$P1"
		run ip link set "$P0" down
		run ip link set "$P1" down
	fi
	set_sysctls "$BOND" "$P0" "$P1"
	run ip link set "$P0" master "$BOND"
	run ip link set "$P1" master "$BOND"
	[ "$BOND_MODE" != active-backup ] ||
		run ip link set "$BOND" type bond active_slave "$P0" primary "$P0" primary_reselect failure
	run ip link set "$BOND" up
	[ "$2" = slaves ] || run add_rxe "$BOND"
	revive_rxe "$BS"
	flush_addresses "$C0" "$C1" "$S0" "$S1" "$BS" "$BOND"
	ip_batch "-$FAMILY" <<-BATCH
	addr add $CLIENT0/$LEN dev $BOND $NODAD
	addr add $SERVICE/$HOST dev $BS $NODAD
	route add $SERVICE dev $BOND src $CLIENT0 table $TO_SERVICE
	route add $CLIENT0 dev $BS src $SERVICE table $TO_CLIENT
	BATCH
	wait_carrier "$BOND" "$BS"
	[ "$BOND_MODE" != active-backup ] || wait_until active_slave_is "$P0" ||
		fail "$P0 does not become active"
	ip_batch "-$FAMILY" <<-BATCH
	neigh replace $SERVICE lladdr $(lladdr "$BS") dev $BOND nud reachable
	neigh replace $CLIENT0 lladdr $(lladdr "$BOND") dev $BS nud reachable
	BATCH
	learn "$BOND" "$P0" "$P1" "$BS"
	if [ "$2" = slaves ]; then
		wait_gid "$P0" "$CLIENT0"
	else
		wait_gid "$BOND" "$CLIENT0"
	fi
	wait_gid "$BS" "$SERVICE"
}

active_slave_is()
{
	[ "$(cat "/sys/class/net/$BOND/bonding/active_slave")" = "$1" ]
}

# bond_failover: the link of the active slave fails
bond_failover()
{
	run ip -n "$SW" link set q0 down
	wait_until active_slave_is "$P1" || fail "$P1 does not take over"
}

bond_failback()
{
	run ip -n "$SW" link set q0 up
	wait_carrier "$P0"
	run ip link set "$BOND" type bond active_slave "$P0"
	wait_until active_slave_is "$P0" || fail "$P0 does not take over"
}

# The programs first: they hold the RDMA devices.
bond_destroy()
{
	local netdev

	cm_stop
	for netdev in "$BOND" "$P0" "$P1"; do
		del_rxe "rx_$netdev"
		ip link del "$netdev"
	done
}

bond_cleanup()
{
	del_rxe "rx_$BS"
	ip link del "$BS"
	ip netns del "$SW"
}

# lose_packets: S0 drops what comes in, and nobody is told
lose_packets()
{
	command -v tc >/dev/null || skip "tc is not installed"
	run tc qdisc add dev "$S0" ingress
	defer tc qdisc del dev "$S0" ingress
	tc filter add dev "$S0" parent ffff: protocol all prio 1 matchall action drop ||
		skip "no matchall filter or drop action"
}

# lose_packets_to NETDEV ADDR: those of soft-RoCE over IPv6, to an address that
# NETDEV has not, or will not have soon, while another netdevice has it. Soft-RoCE
# of 6.12 follows a wild pointer, and the machine dies, when such a packet comes:
# rxe_rcv() does not find the GID and goes to "drop" before it clears pkt->qp. The
# filter stays, because the end of the programs sends packets too; addresses are
# not used again.
lose_packets_to()
{
	tc qdisc add dev "$1" ingress 2>/dev/null || true
	tc filter add dev "$1" parent ffff: protocol ipv6 prio 2 flower \
		ip_proto udp dst_port 4791 dst_ip "$2" action drop
}

TOPOLOGY=

topology_cleanup()
{
	local netdev

	[ -n "$TOPOLOGY" ] || return 0
	for netdev in "$C0" "$C1" "$S0" "$S1" "$GC" "$GS"; do
		del_rxe "rx_$netdev"
	done
	for netdev in "$C0" "$C1"; do
		ip link del "$netdev"
	done
	[ -z "$GATEWAY_CREATED" ] || gateway_cleanup
	[ -z "$BOND_CREATED" ] || bond_cleanup
	loop_rules_cleanup
}
