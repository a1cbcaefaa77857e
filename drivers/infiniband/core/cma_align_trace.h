/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Trace events of RDMA_ALIGN_WITH_NETDEVICE, beside those of cma.c.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rdma_cma

#if !defined(_CMA_ALIGN_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _CMA_ALIGN_TRACE_H

#include <linux/tracepoint.h>
#include "cma_align_priv.h"

#define show_align_state(x)				\
	__print_symbolic(x,				\
		{ 0, "aligned" },			\
		{ 1, "superseded" },			\
		{ 2, "down" })

#define show_align_reason(x)				\
	__print_symbolic(x,				\
		{ 0, "none" },				\
		{ 1, "link" },				\
		{ 2, "failover" },			\
		{ 3, "route" },				\
		{ 4, "unreachable" },			\
		{ 5, "address" },			\
		{ 6, "neighbour" },			\
		{ 7, "standby" })

TRACE_EVENT(cm_align_verdict,
	TP_PROTO(const struct cma_align_path *path, u8 old_state),

	TP_ARGS(path, old_state),

	TP_STRUCT__entry(
		__array(unsigned char, src, 16)
		__array(unsigned char, dst, 16)
		__field(u32, netns)
		__field(u32, ifindex)
		__field(u32, rdma_dev)
		__field(u32, new_ifindex)
		__field(u32, new_rdma_dev)
		__field(u32, incident)
		__field(u8, old_state)
		__field(u8, state)
		__field(u8, reason)
	),

	TP_fast_assign(
		memcpy(__entry->src, &path->key.src, 16);
		memcpy(__entry->dst, &path->key.dst, 16);
		__entry->netns = path->netns;
		__entry->ifindex = path->key.ifindex;
		__entry->rdma_dev = path->key.rdma_dev;
		__entry->new_ifindex = path->dest.ifindex;
		__entry->new_rdma_dev = path->dest.rdma_dev;
		__entry->incident = path->incident;
		__entry->old_state = old_state;
		__entry->state = path->state;
		__entry->reason = path->reason;
	),

	TP_printk("netns=%u src=%pI6c dst=%pI6c %s -> %s reason=%s ifindex=%u rdma_dev=%u new_ifindex=%u new_rdma_dev=%d incident=%u",
		__entry->netns, __entry->src, __entry->dst,
		show_align_state(__entry->old_state),
		show_align_state(__entry->state),
		show_align_reason(__entry->reason),
		__entry->ifindex, __entry->rdma_dev,
		__entry->new_ifindex, (int)__entry->new_rdma_dev,
		__entry->incident)
);

DECLARE_EVENT_CLASS(cma_align_id_class,
	TP_PROTO(const struct rdma_id_private *id_priv, u8 state, u8 reason),

	TP_ARGS(id_priv, state, reason),

	TP_STRUCT__entry(
		__field(u32, cm_id)
		__field(u8, state)
		__field(u8, reason)
	),

	TP_fast_assign(
		__entry->cm_id = id_priv->res.id;
		__entry->state = state;
		__entry->reason = reason;
	),

	TP_printk("cm.id=%u %s reason=%s",
		__entry->cm_id, show_align_state(__entry->state),
		show_align_reason(__entry->reason))
);

#define DEFINE_CMA_ALIGN_ID_EVENT(name)					\
	DEFINE_EVENT(cma_align_id_class, name,				\
		TP_PROTO(const struct rdma_id_private *id_priv,		\
			 u8 state, u8 reason),				\
		TP_ARGS(id_priv, state, reason))

DEFINE_CMA_ALIGN_ID_EVENT(cm_align_report);
DEFINE_CMA_ALIGN_ID_EVENT(cm_align_teardown);
DEFINE_CMA_ALIGN_ID_EVENT(cm_align_suppress);

#endif /* _CMA_ALIGN_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE cma_align_trace

#include <trace/define_trace.h>
