// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Trace points of RDMA_ALIGN_WITH_NETDEVICE.
 */

#define CREATE_TRACE_POINTS

#include "cma_align_priv.h"
#include "cma_align_trace.h"
