#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Load what oracle.py needs, and run it.

set -eu

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -e /sys/module/rdma_cm/parameters/ha_mode ] || align-load aligned >&2
for module in rdma_rxe veth rdma_ucm; do
	modprobe -q "$module" || { echo "1..0 # SKIP no module $module"; exit 4; }
done
exec python3 "$here/oracle.py" "$@"
