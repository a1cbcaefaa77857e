/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA_ALIGN_WITH_NETDEVICE: the kernel API for ULPs.
 *
 * Separate from rdma_cm.h, so that no type of an existing export changes. A ULP
 * that must also load on a kernel without the feature probes for it:
 *
 *	set = symbol_get(rdma_set_ha_mode);
 */
#ifndef _RDMA_CM_ALIGN_H
#define _RDMA_CM_ALIGN_H

#include <linux/errno.h>
#include <uapi/rdma/rdma_cm_align.h>

struct rdma_cm_id;

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN)

int rdma_set_ha_mode(struct rdma_cm_id *id, u32 mode);
int rdma_set_ha_delays(struct rdma_cm_id *id, u32 downdelay_ms, u32 updelay_ms);

/* For rdma_ucm. */
int rdma_set_ha_option(struct rdma_cm_id *id, int optname, const void *optval,
		       size_t optlen);
void rdma_ha_event_done(struct rdma_cm_id *id, bool read);

#else

static inline int rdma_set_ha_mode(struct rdma_cm_id *id, u32 mode)
{
	return -ENOSYS;
}

static inline int rdma_set_ha_delays(struct rdma_cm_id *id, u32 downdelay_ms,
				     u32 updelay_ms)
{
	return -ENOSYS;
}

static inline int rdma_set_ha_option(struct rdma_cm_id *id, int optname,
				     const void *optval, size_t optlen)
{
	return -ENOSYS;
}

static inline void rdma_ha_event_done(struct rdma_cm_id *id, bool read)
{
}

#endif

#endif /* _RDMA_CM_ALIGN_H */
