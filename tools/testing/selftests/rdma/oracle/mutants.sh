#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mutants.sh DIR OPTION...: run oracle.py with the modules of each DIR/NUMBER after the
# other. Leaves what it printed in /out/NUMBER. See scripts/mutate-oracle.sh.

set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mutants=$1
shift

for module in rdma_rxe veth; do
	modprobe -q "$module" || exit 4
done
for number in $(find "$mutants" -mindepth 1 -type d -printf '%f\n' | grep '^[0-9]*$' | sort -n); do
	ALIGN_MODULES=$mutants/$number align-load aligned || exit 1
	timeout 500 python3 "$here/oracle.py" "$@" >"/out/$number" 2>&1
	echo "mutant $number: $?"
done
