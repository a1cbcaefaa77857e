/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * RDMA_ALIGN_WITH_NETDEVICE: keep an rdma_cm_id aligned with the IP stack.
 *
 * This header is the whole user ABI. It needs nothing but <linux/types.h>, so
 * that a program which builds on an unmodified librdmacm can copy or include
 * it:
 *
 *	__u32 mode = RDMA_ALIGN_WITH_NETDEVICE | RDMA_HA_F_RESTORED;
 *
 *	ret = rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_HA_MODE,
 *			      &mode, sizeof(mode));
 *
 * A kernel without this feature answers ENOSYS.
 */
#ifndef _UAPI_RDMA_CM_ALIGN_H
#define _UAPI_RDMA_CM_ALIGN_H

#include <linux/types.h>

/*
 * Options of level RDMA_OPTION_ID. Each value is a __u32. They may be set in
 * any state of the id. EINVAL: wrong length, unknown mode or flag, delay out of
 * range; the id is then unchanged.
 */
#define RDMA_OPTION_ID_HA_MODE		4	/* a mode or-ed with flags */
#define RDMA_OPTION_ID_HA_DOWNDELAY	5	/* milliseconds, 0..60000 */
#define RDMA_OPTION_ID_HA_UPDELAY	6	/* milliseconds, 0..600000 */

/**
 * enum rdma_ha_mode - what rdma_cm does when an id's path is misaligned
 * @RDMA_HA_NONE: Nothing beyond upstream's rdma_cm.
 * @RDMA_ALIGN_WITH_NETDEVICE: Deliver RDMA_CM_EVENT_ADDR_CHANGE. The
 *	connection is not touched: the ULP decides.
 * @RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN: End the connection: the ULP gets
 *	RDMA_CM_EVENT_DISCONNECTED and later RDMA_CM_EVENT_TIMEWAIT_EXIT. Ids
 *	that are not connected, and UD ids, are told by ADDR_CHANGE.
 */
enum rdma_ha_mode {
	RDMA_HA_NONE				= 0,
	RDMA_ALIGN_WITH_NETDEVICE		= 1,
	RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN	= 2,
};

#define RDMA_HA_MODE_MASK	0xff	/* the mode in the option's value */

/* Flags, or-ed to the mode. */
#define RDMA_HA_F_STICKY	0x100	/* report only when the path is down */
#define RDMA_HA_F_RESTORED	0x200	/* also report a reported id that is aligned again */
#define RDMA_HA_F_STANDBY	0x400	/* also report the standby path: not implemented yet */

/* Delays: ranges and defaults in milliseconds. */
#define RDMA_HA_DOWNDELAY_MAX_MS	60000
#define RDMA_HA_UPDELAY_MAX_MS		600000
#define RDMA_HA_DOWNDELAY_DEFAULT_MS	100
#define RDMA_HA_UPDELAY_DEFAULT_MS	5000

/**
 * enum rdma_align_reason - why an id is reported
 * @RDMA_ALIGN_REASON_LINK: The netdevice is gone or down, its carrier is lost,
 *	or the RDMA port is not active.
 * @RDMA_ALIGN_REASON_FAILOVER: The netdevice now uses another RDMA device,
 *	port, GID entry or hardware address.
 * @RDMA_ALIGN_REASON_ROUTE: The route now leaves by another netdevice.
 * @RDMA_ALIGN_REASON_UNREACHABLE: There is no route at all.
 * @RDMA_ALIGN_REASON_ADDRESS: The source address left the netdevice.
 * @RDMA_ALIGN_REASON_NEIGHBOUR: The next hop is reached at another link-layer
 *	address.
 * @RDMA_ALIGN_REASON_STANDBY: Nothing is wrong: the new_* fields name the
 *	standby path. Not implemented yet.
 *
 * Where several hold, the first of LINK, ADDRESS, FAILOVER, ROUTE, UNREACHABLE,
 * NEIGHBOUR is told.
 */
enum rdma_align_reason {
	RDMA_ALIGN_REASON_LINK		= 1,
	RDMA_ALIGN_REASON_FAILOVER	= 2,
	RDMA_ALIGN_REASON_ROUTE		= 3,
	RDMA_ALIGN_REASON_UNREACHABLE	= 4,
	RDMA_ALIGN_REASON_ADDRESS	= 5,
	RDMA_ALIGN_REASON_NEIGHBOUR	= 6,
	RDMA_ALIGN_REASON_STANDBY	= 7,
};

/* struct rdma_align_event.flags */
#define RDMA_ALIGN_EV_PATH_DOWN	0x1	/* the id's path is down, not just superseded */
#define RDMA_ALIGN_EV_RESTORED	0x2	/* a reported id is aligned again */

#define RDMA_ALIGN_NO_RDMA_DEV	(~(__u32)0)	/* new_rdma_dev: none */

/**
 * struct rdma_align_event - private data of ADDR_CHANGE
 * @reason: enum rdma_align_reason. With RDMA_ALIGN_EV_RESTORED: the reason that
 *	had been reported.
 * @flags: RDMA_ALIGN_EV_*.
 * @old_ifindex: The netdevice of the id's own path.
 * @new_ifindex: The netdevice that a new id would get now. 0: none.
 * @old_rdma_dev: Index of the id's RDMA device, as "rdma dev" shows it.
 * @new_rdma_dev: The RDMA device that a new id would get now.
 *	RDMA_ALIGN_NO_RDMA_DEV: none.
 * @old_port: The id's RDMA port.
 * @new_port: The RDMA port that a new id would get now. 0: none.
 * @reserved: 0.
 * @seq: Changes of verdict on this id so far, unreported ones included.
 * @incident: The same for every id that is reported for one change of the
 *	network.
 * @reserved2: 0.
 *
 * Delivered with ADDR_CHANGE to an id whose ULP set the mode: in param.conn, or
 * for UD ids in param.ud, as private_data of private_data_len bytes. An id
 * whose mode came from the module parameter gets the event without it. Valid
 * until the event is acknowledged. Later kernels may append members: accept a
 * private_data_len that is larger.
 */
struct rdma_align_event {
	__u32 reason;
	__u32 flags;
	__u32 old_ifindex;
	__u32 new_ifindex;
	__u32 old_rdma_dev;
	__u32 new_rdma_dev;
	__u8  old_port;
	__u8  new_port;
	__u16 reserved;
	__u32 seq;
	__u32 incident;
	__u32 reserved2;
};

#endif /* _UAPI_RDMA_CM_ALIGN_H */
