# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What in a kernel's log makes a run fail. Sourced by vm.sh and by
# run-selftests.sh, so that both mean the same.

# Boot messages of lockdep, KASAN and kmemleak name these words too: match what
# the reports say, not the subsystem.
SPLAT_RE='WARNING: |\bBUG:|\bOops\b|Kernel panic|Call Trace:|general protection fault'
SPLAT_RE+='|INFO: task .* blocked for more than|hung_task: |detected stall'
SPLAT_RE+='|soft lockup|hard LOCKUP|possible (circular|recursive|irq lock)|inconsistent lock state'
SPLAT_RE+='|INFO: possible |suspicious RCU usage|bad unlock balance|held lock freed|\bDEADLOCK\b'
SPLAT_RE+='|locks? held when returning|Invalid wait context|INFO: trying to register non-static'
SPLAT_RE+='|KASAN: |UBSAN: |KCSAN: |KFENCE: |kmemleak: [0-9]+ new suspected|unreferenced object'
SPLAT_RE+='|refcount_t|ODEBUG: |unregister_netdevice: waiting|list_(add|del) corruption'
SPLAT_RE+='|scheduling while atomic|sleeping function called|workqueue lockup'
SPLAT_RE+='|still has [0-9]+ (objects|references)|Slab cache still has|Objects remaining'

# splat_lines LOG...: print the offending lines, each once, with what follows
# them; status 0 if there are any.
splat_lines()
{
	cat "$@" | tr -d '\r' | grep -aE "$SPLAT_RE" | awk '!seen[$0]++' | head -n 60 |
		grep -a .
}
