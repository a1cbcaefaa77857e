/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RDMA_ALIGN_WITH_NETDEVICE: shared by cma_align*.c only.
 *
 * Objects and owners
 *
 *   cma_align_net	one for each netns, part of its pernet storage. Owns the
 *			index, the marks, the worker and the timer.
 *   cma_align_path	what ids with the same request and the same resolved
 *			path share: one look, one verdict, one due time. Lives
 *			while an id is linked to it or the worker holds it.
 *   cma_align_damp	what a destination remembers of its last reports. Lives
 *			while a path leads there, and for a while after.
 *   cma_align_id	embedded in the id.
 *
 * The way of an event
 *
 *   notifier (any context, often atomic): names what changed, by a tag or a
 *   range of destinations, in fixed storage: cma_align_mark_*(). Nothing is
 *   allocated, so nothing can be lost; what is not indexed is not marked.
 *     -> worker: waits until the change can be seen, finds the paths that it
 *        may concern, looks at the present state of the stack for each.
 *     -> verdict: a pure function of what was seen.
 *     -> the ids of a path whose verdict changed become pending. When the delay
 *        has passed the worker looks again, and queues the work of each id for
 *        which the verdict still holds.
 *     -> id work: takes the handler_mutex and delivers, or tears down.
 *
 * Locks, outermost first
 *
 *   rdma_id_private.handler_mutex	fences delivery, as in cma.c
 *   cma.c's lock			list of devices
 *   rdma_id_private.lock		struct cma_align_id, where it says so
 *   cma_align_net.lock			index, marks, paths, damping; a leaf,
 *					taken in any context, held for a bounded
 *					number of steps
 *
 * The worker waits for RTNL and for an RCU grace period with nothing held: no
 * lock, no reference on an id or a device. Hence a driver that removes its RDMA
 * device under RTNL never waits for us.
 *
 * When memory runs out: a path is allocated when an id is linked, in a context
 * that may sleep, and does not fail. From the notifier to the delivery only
 * lookups allocate, in the IP stack; one that fails for lack of memory is done
 * again.
 */
#ifndef _CMA_ALIGN_PRIV_H
#define _CMA_ALIGN_PRIV_H

#include <linux/if_infiniband.h>
#include <linux/in6.h>
#include <linux/jiffies.h>
#include <linux/rbtree.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <linux/timerqueue.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_cm_align.h>

#include "cma_priv.h"

#define CMA_ALIGN_LL_LEN	INFINIBAND_ALEN

/**
 * enum cma_align_state - verdict on a path
 * @CMA_ALIGN_ALIGNED: The IP stack would still carry the traffic over it.
 * @CMA_ALIGN_SUPERSEDED: It works, but the stack would use another.
 * @CMA_ALIGN_DOWN: It carries nothing.
 */
enum cma_align_state {
	CMA_ALIGN_ALIGNED,
	CMA_ALIGN_SUPERSEDED,
	CMA_ALIGN_DOWN,
};

/**
 * enum cma_align_kind - what a path is judged by
 * @CMA_ALIGN_ACTIVE: All that an active id was resolved to.
 * @CMA_ALIGN_PASSIVE: As active, but the route counts only as far as it changed
 *	since the request arrived.
 * @CMA_ALIGN_LISTENER: Whether listening again would find another RDMA device.
 * @CMA_ALIGN_PORT: Only the RDMA port: loopback and AF_IB know no netdevice.
 */
enum cma_align_kind {
	CMA_ALIGN_ACTIVE,
	CMA_ALIGN_PASSIVE,
	CMA_ALIGN_LISTENER,
	CMA_ALIGN_PORT,
};

/**
 * struct cma_align_key - what makes a path: the request and what it came to
 * @dst: Destination; IPv4 as a mapped address. First, so that the index is
 *	ordered by destination. A listener: its own address.
 * @src: Source address.
 * @gid_attr: Identity of the id's GID table entry.
 * @ifindex: The id's netdevice.
 * @route_ifindex: The netdevice of the baseline route. 0: there was none.
 * @rdma_dev: Index of the RDMA device.
 * @downdelay_ms: Ids of another delay are on a path of their own, so that a
 * @updelay_ms: path has one due time.
 * @gw: Passive only: next hop of the baseline route.
 * @ll: Link-layer address of the next hop that the id uses. Its length is the
 *	netdevice's, at most CMA_ALIGN_LL_LEN.
 * @src_ll: Link-layer address that the netdevice had.
 * @family: AF_INET, AF_INET6; AF_UNSPEC for CMA_ALIGN_PORT.
 * @port: RDMA port.
 * @kind: enum cma_align_kind.
 * @pinned: The ULP bound it.
 * @gateway: It was reached through a gateway.
 * @ll_known: @ll is valid.
 * @reserved: 0.
 * @addr_checked: @src must be on the netdevice. Always so for RoCE, whose GIDs
 *	are the netdevice's addresses.
 *
 * Compared with memcmp(): no padding may be left undefined.
 */
struct cma_align_key {
	struct in6_addr		dst;
	struct in6_addr		src;
	struct in6_addr		gw;
	const struct ib_gid_attr *gid_attr;
	u32			ifindex;
	u32			route_ifindex;
	u32			rdma_dev;
	u32			downdelay_ms;
	u32			updelay_ms;
	u8			ll[CMA_ALIGN_LL_LEN];
	u8			src_ll[CMA_ALIGN_LL_LEN];
	u8			family;
	u8			port;
	u8			kind;
	u8			pinned;
	u8			gateway;
	u8			ll_known;
	u8			addr_checked;
	u8			reserved[5];
};

/**
 * struct cma_align_dest - where a new id would go
 * @ifindex: Netdevice. 0: none.
 * @rdma_dev: RDMA device. RDMA_ALIGN_NO_RDMA_DEV: none.
 * @port: RDMA port. 0: none.
 */
struct cma_align_dest {
	u32	ifindex;
	u32	rdma_dev;
	u8	port;
};

/**
 * enum cma_align_route - where the route leaves
 * @CMA_ALIGN_ROUTE_OWN: By the path's netdevice and next hop, or it does not
 *	matter.
 * @CMA_ALIGN_ROUTE_OTHER: By another netdevice.
 * @CMA_ALIGN_ROUTE_NONE: There is none.
 */
enum cma_align_route {
	CMA_ALIGN_ROUTE_OWN,
	CMA_ALIGN_ROUTE_OTHER,
	CMA_ALIGN_ROUTE_NONE,
};

/**
 * struct cma_align_view - what was seen of a path, in plain values
 * @link: The netdevice is there, up, and has carrier.
 * @port: The RDMA port is active.
 * @addr: The source address is valid on the netdevice.
 * @gid: The path's own GID table entry was not deleted.
 * @hwaddr: The netdevice has the link-layer address that it had.
 * @own_route: Some route to the destination leaves by the path's netdevice.
 * @neigh_differs: The next hop is known to be at another link-layer address.
 * @route: See enum cma_align_route.
 * @dest: Where a new id would go.
 * @route_ifindex: The netdevice by which the route leaves now. 0: none.
 * @nexthop: The next hop in use on the path's netdevice, whose neighbour entry
 *	matters; valid with @has_nexthop.
 * @has_nexthop: ...
 * @adopt_nexthop: @nexthop is the path's own from now on: it is the first that
 *	was seen, or has the link-layer address that the id uses.
 * @ll: Link-layer address to compare with from now on, with @adopt_ll.
 * @adopt_ll: The baseline had none.
 * @hidden: The verdict hangs on a route that is not the chosen one; the kernel
 *	announces only changes of that.
 * @asking: The next hop changed, and the new one is not yet found.
 */
struct cma_align_view {
	bool			link;
	bool			port;
	bool			addr;
	bool			gid;
	bool			hwaddr;
	bool			own_route;
	bool			neigh_differs;
	enum cma_align_route	route;
	struct cma_align_dest	dest;
	u32			route_ifindex;
	struct in6_addr		nexthop;
	bool			has_nexthop;
	bool			adopt_nexthop;
	bool			adopt_ll;
	bool			hidden;
	bool			asking;
	u8			ll[CMA_ALIGN_LL_LEN];
};

/**
 * struct cma_align_verdict - what a view means
 * @state: See enum cma_align_state.
 * @reason: enum rdma_align_reason; 0 when aligned.
 */
struct cma_align_verdict {
	enum cma_align_state	state;
	u8			reason;
};

/*
 * Tags: what a path depends on, besides its destination. A tag is a kind in the
 * upper byte and a value below, so that one tree serves all kinds.
 */
enum cma_align_tag_kind {
	CMA_ALIGN_TAG_DEV,	/* ifindex of the path's netdevice */
	CMA_ALIGN_TAG_ROUTE,	/* ifindex by which the route leaves now */
	CMA_ALIGN_TAG_NEXTHOP,	/* hash of (ifindex, next hop) in use now */
	CMA_ALIGN_TAG_PORT,	/* RDMA device index and port; 0: a listener */
	CMA_ALIGN_TAG_MAX
};

struct cma_align_tag {
	struct rb_node	node;
	u64		value;
};

static inline u64 cma_align_tag(enum cma_align_tag_kind kind, u64 value)
{
	return (u64)kind << 56 | (value & GENMASK_ULL(55, 0));
}

static inline u64 cma_align_port_tag(u32 rdma_dev, u32 port)
{
	return cma_align_tag(CMA_ALIGN_TAG_PORT,
			     ((u64)rdma_dev << 16 | (port & 0xffff)) + 1);
}

/* The paths that are indexed under this instead of a port. */
#define CMA_ALIGN_TAG_LISTENERS	cma_align_tag(CMA_ALIGN_TAG_PORT, 0)

u64 cma_align_nexthop_tag(u32 ifindex, const struct in6_addr *nexthop);

/**
 * struct cma_align_damp - how often a destination was reported lately
 * @node: In cma_align_net.damps, by @dst.
 * @unused: In cma_align_net.unused_damps while @users is 0, oldest first.
 * @dst: The destination.
 * @last: When it was last reported, in jiffies.
 * @users: Paths that lead there.
 * @incident: What it was last reported for.
 * @level: The delays are doubled so often.
 *
 * Protected by cma_align_net.lock.
 */
struct cma_align_damp {
	struct rb_node		node;
	struct list_head	unused;
	struct in6_addr		dst;
	u64			last;
	u32			users;
	u32			incident;
	u8			level;
};

/**
 * struct cma_align_path - what ids of one request and one path share
 * @node: In cma_align_net.paths, by @key.
 * @tags: In cma_align_net.tags. Unset tags are not in it.
 * @due: In cma_align_net.due while a pending id waits for its delay.
 * @dirty_item: In the worker's list while @dirty.
 * @hidden_item: In cma_align_net.hidden, see struct cma_align_view.
 * @calm: Ids that have the verdict @state.
 * @pending: Ids that have another verdict, or must be asked again.
 * @key: Immutable.
 * @damp: See struct cma_align_damp.
 * @cma_dev: The ids' device. Valid while @nr_ids is not 0.
 * @refs: 1 while @nr_ids is not 0, and one for the worker that holds it.
 * @nr_ids: Ids on @calm and @pending.
 * @netns: Inode number of the netns, for the trace.
 * @since: When @state was entered, in jiffies.
 * @changes: Changes of @state so far.
 * @incident: What @state was entered for.
 * @nexthop: The path's own next hop, once it is known.
 * @ll: Link-layer address of the next hop that the ids use: @key's, or the
 *	first that was seen.
 * @dest: Where a new id would go, when not aligned.
 * @state: enum cma_align_state.
 * @reason: enum rdma_align_reason, when not aligned.
 * @settling: How often a passing state was looked at again.
 * @asks: How often the stack was asked where the next hop is.
 * @level: Damping when @state was entered.
 * @looked: There was a look.
 * @dirty: It must be looked at.
 * @nexthop_known: @nexthop is valid.
 * @ll_known: @ll is valid.
 *
 * Protected by cma_align_net.lock, but for @key, which is immutable.
 */
struct cma_align_path {
	struct rb_node		node;
	struct cma_align_tag	tags[CMA_ALIGN_TAG_MAX];
	struct timerqueue_node	due;
	struct list_head	dirty_item;
	struct list_head	hidden_item;
	struct list_head	calm;
	struct list_head	pending;
	struct cma_align_key	key;
	struct cma_align_damp	*damp;
	struct cma_device	*cma_dev;
	refcount_t		refs;
	u32			nr_ids;
	u32			netns;
	u64			since;
	u32			changes;
	u32			incident;
	struct in6_addr		nexthop;
	struct cma_align_dest	dest;
	u8			state;
	u8			reason;
	u8			settling;
	u8			level;
	u8			asks;
	bool			looked;
	bool			dirty;
	bool			nexthop_known;
	bool			ll_known;
	u8			ll[CMA_ALIGN_LL_LEN];
};

#define CMA_ALIGN_MARKS_TAG	16
#define CMA_ALIGN_MARKS_RANGE	8

struct cma_align_range {
	struct in6_addr	first;
	struct in6_addr	last;
};

/**
 * struct cma_align_marks - what changed and was not yet looked at
 * @ranges: Changed prefixes. The last one grows when there is no room.
 * @tags: Changed netdevices, next hops, ports.
 * @nr_ranges: Used in @ranges.
 * @nr_tags: Used in @tags.
 * @all: Look at every path.
 * @wait_rtnl: The change is visible once RTNL was free.
 * @wait_rcu: The change is visible after a grace period.
 */
struct cma_align_marks {
	struct cma_align_range	ranges[CMA_ALIGN_MARKS_RANGE];
	u64			tags[CMA_ALIGN_MARKS_TAG];
	u8			nr_ranges;
	u8			nr_tags;
	bool			all;
	bool			wait_rtnl;
	bool			wait_rcu;
};

/* How a change becomes visible to a lookup, for the marks. */
enum cma_align_visible {
	CMA_ALIGN_VISIBLE_NOW	= 0,
	CMA_ALIGN_VISIBLE_RTNL	= BIT(0),
	CMA_ALIGN_VISIBLE_RCU	= BIT(1),
};

/**
 * struct cma_align_net - a netns
 * @net: The netns; no reference is held.
 * @lock: Protects all below but what says otherwise.
 * @paths: Paths by key, so by destination.
 * @tags: Paths by tag.
 * @damps: Damping by destination.
 * @unused_damps: Those that no path uses.
 * @nr_unused_damps: Their number.
 * @due: Paths by due time.
 * @dirty: Paths to look at.
 * @hidden: Paths to look at now and then.
 * @nr_hidden: Their number.
 * @marks: What changed.
 * @last_mark: When the last mark was set, in jiffies.
 * @first_mark: When the first mark of the present incident was set.
 * @incident: Number of the present incident.
 * @users: Ids that have a mode.
 * @active: It is counted in cma_align_key. Protected by cma_align_key_mutex.
 * @fib_registered: Worker only. Likewise the next three.
 * @nexthop_registered: ...
 * @global_held: ...
 * @tos_routes: Some route has a TOS: see cma_align_has_tos().
 * @last_poll: When what is not announced was last looked for, in jiffies. Worker
 *	only.
 * @genid: The state of the IPv4 routes at that time. Worker only.
 * @registering: The FIB notifier replays; ignore it.
 * @exiting: The netns goes away.
 * @fib_nb: ...
 * @nexthop_nb: ...
 * @item: In cma_align_nets while @global_held.
 * @work: The worker.
 * @timer: Queues the worker when a path is due.
 */
struct cma_align_net {
	struct net		*net;
	spinlock_t		lock;	/* see above */
	struct rb_root		paths;
	struct rb_root		tags;
	struct rb_root		damps;
	struct list_head	unused_damps;
	u32			nr_unused_damps;
	struct timerqueue_head	due;
	struct list_head	dirty;
	struct list_head	hidden;
	u32			nr_hidden;
	struct cma_align_marks	marks;
	u64			last_mark;
	u64			first_mark;
	u32			incident;
	atomic_t		users;
	bool			active;
	bool			fib_registered;
	bool			nexthop_registered;
	bool			global_held;
	bool			registering;
	bool			tos_routes;
	u64			last_poll;
	int			genid;
	bool			exiting;
	struct notifier_block	fib_nb;
	struct notifier_block	nexthop_nb;
	struct list_head	item;
	struct work_struct	work;
	struct timer_list	timer;
};

extern struct workqueue_struct *cma_align_wq;

static inline bool cma_align_is_v4(const struct in6_addr *addr)
{
	return ipv6_addr_v4mapped(addr);
}

/* The clock of all delays, in jiffies. A test may set it. */
#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
u64 cma_align_now(void);
#else
static inline u64 cma_align_now(void)
{
	return get_jiffies_64();
}
#endif

/* cma_align.c */
struct cma_align_net *cma_align_net(struct net *net);
struct cma_align_net *cma_align_id_net(const struct rdma_id_private *id_priv);
void cma_align_queue_net(struct cma_align_net *anet);
void cma_align_queue_id(struct rdma_id_private *id_priv);
void cma_align_deactivate(struct cma_align_net *anet);
u16 cma_align_mode(const struct rdma_id_private *id_priv);

/* cma_align_path.c; the first six and the due time need cma_align_net.lock */
void cma_align_set_dirty(struct cma_align_net *anet,
			 struct cma_align_path *path);
void cma_align_clear_due(struct cma_align_net *anet,
			 struct cma_align_path *path);
void cma_align_set_due(struct cma_align_net *anet, struct cma_align_path *path,
		       u64 when);
void cma_align_set_hidden(struct cma_align_net *anet,
			  struct cma_align_path *path, bool hidden);
void cma_align_rejudge_locked(struct cma_align_net *anet,
			      struct cma_align_id *align);
u64 cma_align_due(const struct cma_align_path *path,
		  const struct cma_align_id *align, u64 now);
void cma_align_init_path(struct cma_align_net *anet,
			 struct cma_align_path *path,
			 struct cma_device *cma_dev);
void cma_align_put_path(struct cma_align_path *path);
bool cma_align_is_passive(const struct rdma_id_private *id_priv);
bool cma_align_linkable(const struct rdma_id_private *id_priv);
void cma_align_link(struct rdma_id_private *id_priv);
void cma_align_unlink(struct rdma_id_private *id_priv);

/* cma_align_report.c */
u8 cma_align_id_verdict(const struct cma_align_id *align, u8 state);
bool cma_align_is_ud(const struct rdma_id_private *id_priv);
void cma_align_id_work(struct work_struct *work);

/* cma_align_work.c */
void cma_align_net_work(struct work_struct *work);
void cma_align_timer(struct timer_list *t);

/* cma_align_damp.c; all need cma_align_net.lock */
struct cma_align_damp *cma_align_damp_get(struct cma_align_net *anet,
					  const struct in6_addr *dst,
					  struct cma_align_damp **spare);
void cma_align_damp_put(struct cma_align_net *anet,
			struct cma_align_damp *damp);
void cma_align_damp_report(struct cma_align_path *path, u64 now);
u8 cma_align_damp_level(const struct cma_align_damp *damp, u64 now);
u64 cma_align_delay(const struct cma_align_path *path, u64 now);

/* cma_align_param.c */
extern bool cma_align_ha_passive;
extern bool cma_align_ha_sticky;
extern unsigned int cma_align_ha_downdelay;
extern unsigned int cma_align_ha_updelay;
u8 cma_align_default_mode(const struct rdma_id_private *id_priv);

/* cma_align_index.c; all need cma_align_net.lock */
int cma_align_key_cmp(const struct cma_align_key *a,
		      const struct cma_align_key *b);
struct cma_align_path *cma_align_index_find(struct cma_align_net *anet,
					    const struct cma_align_key *key);
void cma_align_index_add(struct cma_align_net *anet,
			 struct cma_align_path *path);
void cma_align_index_del(struct cma_align_net *anet,
			 struct cma_align_path *path);
void cma_align_index_retag(struct cma_align_net *anet,
			   struct cma_align_path *path,
			   enum cma_align_tag_kind kind, u64 tag);
struct cma_align_path *
cma_align_index_first(struct cma_align_net *anet, const struct in6_addr *first);
struct cma_align_path *cma_align_index_next(struct cma_align_path *path);
struct cma_align_path *cma_align_index_after(struct cma_align_net *anet,
					     const struct cma_align_key *key);
struct cma_align_path *
cma_align_index_tagged(struct cma_align_net *anet, u64 tag,
		       const struct cma_align_path *after);
void cma_align_prefix(const struct in6_addr *addr, unsigned int prefix_len,
		      struct cma_align_range *range);

/* cma_align_verdict.c */
void cma_align_baseline(struct net *net, struct cma_align_key *key);
bool cma_align_addr_on(struct net *net, u32 ifindex,
		       const struct in6_addr *addr);
int cma_align_look(struct cma_align_net *anet, struct cma_align_path *path,
		   struct cma_align_view *view);
struct cma_align_verdict
cma_align_judge(const struct cma_align_view *view);

/* cma_align_events.c */
void cma_align_mark_tag(struct cma_align_net *anet, u64 tag,
			unsigned int visible);
void cma_align_mark_range(struct cma_align_net *anet,
			  const struct cma_align_range *range,
			  unsigned int visible);
void cma_align_mark_all(struct cma_align_net *anet, unsigned int visible);
int cma_align_listen_to(struct cma_align_net *anet);
void cma_align_ignore(struct cma_align_net *anet);
void cma_align_events_exit(void);

#endif /* _CMA_ALIGN_PRIV_H */
