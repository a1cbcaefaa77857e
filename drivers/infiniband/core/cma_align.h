/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA_ALIGN_WITH_NETDEVICE: what cma.c sees of it.
 *
 * cma_priv.h includes this file, so it must stay small: a header that makes
 * another struct visible in cma.c changes the symbol versions of every export.
 * All that needs the networking headers is in cma_align_priv.h.
 *
 * A hook costs a patched-out branch while no id in the system asked for a mode.
 */
#ifndef _CMA_ALIGN_H
#define _CMA_ALIGN_H

#include <linux/jump_label.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct cma_align_path;
struct cma_device;
struct ib_cm_event;
struct ib_cm_id;
struct ib_device;
struct ib_gid_attr;
struct net_device;
struct rdma_cm_event;
struct rdma_dev_addr;
struct rdma_id_private;
struct sockaddr;

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN)

/**
 * struct cma_align_id - the part of an id that aligns
 * @path: The path that the id is linked to, or NULL.
 * @item: On @path's calm or pending list.
 * @work: Links the id to its path, and delivers its reports. A reference on
 *	the id is held from queueing to the end of the work.
 * @joined: When the id was linked or judged afresh, in jiffies.
 * @seq: Changes of verdict on earlier paths, less those that @path had seen
 *	when the id was linked: @path's count plus this is the id's.
 * @released: The count of @path's changes, plus 1, whose delay has passed.
 * @downdelay_ms: See RDMA_OPTION_ID_HA_DOWNDELAY.
 * @updelay_ms: See RDMA_OPTION_ID_HA_UPDELAY.
 * @mode: enum rdma_ha_mode or-ed with RDMA_HA_F_*. RDMA_HA_NONE: all else here
 *	but @pinned is unused.
 * @verdict: The last verdict that outlived its delay, as this id counts it.
 * @reported: The reason of the last report that still stands, or 0.
 * @pinned: The ULP bound the id to a source address or device.
 * @explicit: The ULP set the mode, or the ULP of the listener did.
 * @passive: A default mode covers listeners and the ids that they accept.
 * @delays_set: The ULP set the delays.
 * @initialised: @item and @work were set up.
 * @accepting: Created by a connection request that the ULP has not yet taken.
 * @established: The connection is up.
 * @ended: DISCONNECTED was told or asked for: nothing more may be reported.
 * @torn_down: This module ended the connection.
 * @unread: A report waits in the user-space event channel.
 * @lost: The channel could not take a report.
 * @missed: A verdict was not told because a report was unread.
 * @relink: Link the id to its path afresh.
 * @rejudge: The ULP set the mode: tell again what is wrong.
 *
 * @path, @item, @joined, @seq, @released, @verdict and @reported are protected by
 * the lock of the id's netns (struct cma_align_net); @path changes only under the id's
 * handler_mutex or when the id is being destroyed. The rest is written under
 * the id's lock, and read without it.
 */
struct cma_align_id {
	struct cma_align_path	*path;
	struct list_head	item;
	struct work_struct	work;
	u64			joined;
	u32			seq;
	u32			released;
	u32			downdelay_ms;
	u32			updelay_ms;
	u16			mode;
	u8			verdict;
	u8			reported;
	bool			pinned;
	bool			explicit;
	bool			passive;
	bool			delays_set;
	bool			initialised;
	bool			accepting;
	bool			established;
	bool			ended;
	bool			torn_down;
	bool			unread;
	bool			lost;
	bool			missed;
	bool			relink;
	bool			rejudge;
};

/**
 * struct cma_align_dev - the part of a cma_device that aligns
 * @handler: Tells of GID and port changes. Opaque here: struct
 *	ib_event_handler with what belongs to it. NULL: not registered.
 */
struct cma_align_dev {
	struct cma_align_ibdev *handler;
};

DECLARE_STATIC_KEY_FALSE(cma_align_key);

/* What cma_align*.c calls in cma.c. */
void cma_align_id_get(struct rdma_id_private *id_priv);
void cma_align_id_put(struct rdma_id_private *id_priv);
int cma_align_event_locked(struct rdma_id_private *id_priv,
			   struct rdma_cm_event *event);
void cma_align_destroy_unlock(struct rdma_id_private *id_priv);
bool cma_align_exch_disconnect(struct rdma_id_private *id_priv);
const struct ib_gid_attr *cma_align_find_port(struct rdma_dev_addr *dev_addr,
					      struct sockaddr *src);
typedef void (*cma_align_device_fn)(struct ib_device *device,
				    struct cma_align_dev *dev);
void cma_align_walk_devices(cma_align_device_fn fn);

/* The hooks. See each function. */
int cma_align_init(void);
void cma_align_exit(void);
void __cma_align_add_device(struct ib_device *device,
			    struct cma_align_dev *dev);
void __cma_align_remove_device(struct cma_align_dev *dev);
void cma_align_created(struct rdma_id_private *id_priv);
void __cma_align_requested(struct rdma_id_private *id_priv,
			   struct rdma_id_private *listen_id);
void __cma_align_request_taken(struct rdma_id_private *id_priv);
void __cma_align_resolved(struct rdma_id_private *id_priv);
void __cma_align_listening(struct rdma_id_private *id_priv);
void __cma_align_accepted(struct rdma_id_private *id_priv);
void __cma_align_established(struct rdma_id_private *id_priv);
void __cma_align_disconnecting(struct rdma_id_private *id_priv);
bool __cma_align_late_dreq(struct rdma_id_private *id_priv,
			   struct ib_cm_id *cm_id);
void __cma_align_forget(struct rdma_id_private *id_priv);
bool __cma_align_owns(const struct rdma_id_private *id_priv);
void __cma_align_netdev_event(struct net_device *ndev, unsigned long event);
void __cma_align_netevent(unsigned long event, void *ctx);

/* Call fn(args) only while some id has a mode. */
#define cma_align_hook(fn, ...)						\
	do {								\
		if (static_branch_unlikely(&cma_align_key))		\
			__cma_align_##fn(__VA_ARGS__);			\
	} while (0)

#define cma_align_add_device(device, dev) \
	cma_align_hook(add_device, device, dev)
#define cma_align_requested(id_priv, listen_id) \
	cma_align_hook(requested, id_priv, listen_id)
#define cma_align_request_taken(id_priv) \
	cma_align_hook(request_taken, id_priv)
#define cma_align_resolved(id_priv)	cma_align_hook(resolved, id_priv)
#define cma_align_listening(id_priv)	cma_align_hook(listening, id_priv)
#define cma_align_accepted(id_priv)	cma_align_hook(accepted, id_priv)
#define cma_align_established(id_priv)	cma_align_hook(established, id_priv)
#define cma_align_disconnecting(id_priv) \
	cma_align_hook(disconnecting, id_priv)
#define cma_align_forget(id_priv)	cma_align_hook(forget, id_priv)
#define cma_align_netdev_event(ndev, event) \
	cma_align_hook(netdev_event, ndev, event)
#define cma_align_netevent(event, ctx)	cma_align_hook(netevent, event, ctx)

/* rdma_resolve_addr() overwrites the request with its result: keep this of it. */
#define cma_align_save_request(id_priv, is_pinned)			\
	((id_priv)->align.pinned = (is_pinned))

static inline void cma_align_init_device(struct cma_align_dev *dev)
{
	dev->handler = NULL;
}

static inline void cma_align_remove_device(struct cma_align_dev *dev)
{
	if (dev->handler)
		__cma_align_remove_device(dev);
}

/* Upstream's own ADDR_CHANGE and UNREACHABLE are not for this id. */
static inline bool cma_align_owns(const struct rdma_id_private *id_priv)
{
	return static_branch_unlikely(&cma_align_key) &&
	       __cma_align_owns(id_priv);
}

static inline bool cma_align_late_dreq(struct rdma_id_private *id_priv,
				       struct ib_cm_id *cm_id)
{
	return static_branch_unlikely(&cma_align_key) &&
	       __cma_align_late_dreq(id_priv, cm_id);
}

#else /* CONFIG_INFINIBAND_RDMACM_ALIGN */

struct cma_align_id {
};

struct cma_align_dev {
};

static inline int cma_align_init(void)
{
	return 0;
}

static inline void cma_align_exit(void)
{
}

static inline bool cma_align_owns(const struct rdma_id_private *id_priv)
{
	return false;
}

static inline bool cma_align_late_dreq(struct rdma_id_private *id_priv,
				       struct ib_cm_id *cm_id)
{
	return false;
}

static inline void cma_align_save_request(struct rdma_id_private *id_priv,
					  bool is_pinned)
{
}

static inline void cma_align_init_device(struct cma_align_dev *dev)
{
}

static inline void cma_align_add_device(struct ib_device *device,
					struct cma_align_dev *dev)
{
}

static inline void cma_align_remove_device(struct cma_align_dev *dev)
{
}

static inline void cma_align_created(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_requested(struct rdma_id_private *id_priv,
				       struct rdma_id_private *listen_id)
{
}

static inline void cma_align_request_taken(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_resolved(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_listening(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_accepted(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_established(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_disconnecting(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_forget(struct rdma_id_private *id_priv)
{
}

static inline void cma_align_netdev_event(struct net_device *ndev,
					  unsigned long event)
{
}

static inline void cma_align_netevent(unsigned long event, void *ctx)
{
}

#endif /* CONFIG_INFINIBAND_RDMACM_ALIGN */

#endif /* _CMA_ALIGN_H */
