// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: hear of changes.
 *
 * A notifier names what changed and queues the worker of the netns: it
 * allocates nothing, walks nothing, and takes one leaf lock for one lookup in
 * the index. Several notifiers run before their change can be seen by a lookup;
 * the mark says what the worker must wait for.
 *
 *   source		context			visible
 *   netdevice		process, RTNL		when RTNL is free
 *   inetaddr		process, RTNL		now
 *   inet6addr		any, often atomic	now
 *   IPv4 FIB, rules	atomic, RTNL		when RTNL is free
 *   IPv6 FIB		atomic, tb6_lock	after a grace period: the table
 *						changes with BH off
 *   nexthop objects	process, RTNL		when RTNL is free
 *   neighbour		any			now
 *   redirect		any, softirq		now
 *   IB events		work, may hold the	now
 *			GID table's mutex
 *
 * The netdevice and neighbour notifiers are cma.c's own. The others are
 * registered by the worker while some id of the netns has a mode.
 */

#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <net/addrconf.h>
#include <net/fib_notifier.h>
#include <net/fib_rules.h>
#include <net/inet_dscp.h>
#include <net/ip6_fib.h>
#include <net/ip_fib.h>
#include <net/neighbour.h>
#include <net/netevent.h>
#include <net/nexthop.h>
#include <rdma/ib_verbs.h>

#include "cma_align_priv.h"

/*
 * Marks that follow each other within the first time belong to one incident, as
 * a link that goes down takes addresses, routes and GIDs along; but for no
 * longer than the second.
 */
#define CMA_ALIGN_INCIDENT_GAP	(HZ / 5)
#define CMA_ALIGN_INCIDENT_MAX	(HZ * 2)

/* The netns that have ids with a mode; protects the list and the next two. */
static DEFINE_MUTEX(cma_align_global_mutex);
static LIST_HEAD(cma_align_nets);

static void cma_align_marked(struct cma_align_net *anet, unsigned int visible)
{
	u64 now = cma_align_now();

	lockdep_assert_held(&anet->lock);
	if (visible & CMA_ALIGN_VISIBLE_RTNL)
		anet->marks.wait_rtnl = true;
	if (visible & CMA_ALIGN_VISIBLE_RCU)
		anet->marks.wait_rcu = true;
	if (now - anet->last_mark > CMA_ALIGN_INCIDENT_GAP ||
	    now - anet->first_mark > CMA_ALIGN_INCIDENT_MAX) {
		anet->incident++;
		anet->first_mark = now;
	}
	anet->last_mark = now;
	cma_align_queue_net(anet);
}

/**
 * cma_align_mark_tag - something that paths depend on has changed
 * @anet: The netns.
 * @tag: What.
 * @visible: How the change becomes visible, CMA_ALIGN_VISIBLE_*.
 *
 * Context: Any. O(log N), allocates nothing.
 */
void cma_align_mark_tag(struct cma_align_net *anet, u64 tag,
			unsigned int visible)
{
	struct cma_align_marks *marks = &anet->marks;
	unsigned long flags;
	int i;

	if (!atomic_read(&anet->users))
		return;
	spin_lock_irqsave(&anet->lock, flags);
	if (!cma_align_index_tagged(anet, tag, NULL))
		goto out;
	for (i = 0; i < marks->nr_tags; i++)
		if (marks->tags[i] == tag)
			break;
	if (i == CMA_ALIGN_MARKS_TAG)
		marks->all = true;
	else if (i == marks->nr_tags)
		marks->tags[marks->nr_tags++] = tag;
	cma_align_marked(anet, visible);
out:
	spin_unlock_irqrestore(&anet->lock, flags);
}

static bool cma_align_covers(const struct cma_align_range *a,
			     const struct cma_align_range *b)
{
	return memcmp(&a->first, &b->first, sizeof(a->first)) <= 0 &&
	       memcmp(&a->last, &b->last, sizeof(a->last)) >= 0;
}

static void cma_align_widen(struct cma_align_range *a,
			    const struct cma_align_range *b)
{
	if (memcmp(&b->first, &a->first, sizeof(a->first)) < 0)
		a->first = b->first;
	if (memcmp(&b->last, &a->last, sizeof(a->last)) > 0)
		a->last = b->last;
}

/**
 * cma_align_mark_range - the way to some destinations has changed
 * @anet: The netns.
 * @range: The destinations.
 * @visible: How the change becomes visible, CMA_ALIGN_VISIBLE_*.
 *
 * Context: Any. O(log N), allocates nothing.
 */
void cma_align_mark_range(struct cma_align_net *anet,
			  const struct cma_align_range *range,
			  unsigned int visible)
{
	struct cma_align_marks *marks = &anet->marks;
	struct cma_align_path *path;
	unsigned long flags;
	int i;

	if (!atomic_read(&anet->users))
		return;
	spin_lock_irqsave(&anet->lock, flags);
	path = cma_align_index_first(anet, &range->first);
	if (!path || memcmp(&path->key.dst, &range->last,
			    sizeof(range->last)) > 0)
		goto out;
	for (i = 0; i < marks->nr_ranges; i++)
		if (cma_align_covers(&marks->ranges[i], range))
			break;
	if (i == CMA_ALIGN_MARKS_RANGE)
		cma_align_widen(&marks->ranges[i - 1], range);
	else if (i == marks->nr_ranges)
		marks->ranges[marks->nr_ranges++] = *range;
	cma_align_marked(anet, visible);
out:
	spin_unlock_irqrestore(&anet->lock, flags);
}

/**
 * cma_align_mark_all - anything may have changed
 * @anet: The netns.
 * @visible: How the change becomes visible, CMA_ALIGN_VISIBLE_*.
 *
 * Context: Any. O(1), allocates nothing.
 */
void cma_align_mark_all(struct cma_align_net *anet, unsigned int visible)
{
	unsigned long flags;

	if (!atomic_read(&anet->users))
		return;
	spin_lock_irqsave(&anet->lock, flags);
	anet->marks.all = true;
	cma_align_marked(anet, visible);
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_mark_dev(struct cma_align_net *anet, u32 ifindex,
			       unsigned int visible)
{
	cma_align_mark_tag(anet, cma_align_tag(CMA_ALIGN_TAG_DEV, ifindex),
			   visible);
	cma_align_mark_tag(anet, cma_align_tag(CMA_ALIGN_TAG_ROUTE, ifindex),
			   visible);
}

static void cma_align_mark_v4(struct cma_align_net *anet, __be32 addr,
			      int prefix_len, unsigned int visible)
{
	struct cma_align_range range;
	struct in6_addr mapped;

	ipv6_addr_set_v4mapped(addr, &mapped);
	cma_align_prefix(&mapped, 96 + prefix_len, &range);
	cma_align_mark_range(anet, &range, visible);
}

static void cma_align_mark_v6(struct cma_align_net *anet,
			      const struct in6_addr *addr, int prefix_len,
			      unsigned int visible)
{
	struct cma_align_range range;

	cma_align_prefix(addr, prefix_len, &range);
	cma_align_mark_range(anet, &range, visible);
}

/*
 * Without a FIB event, carrier that comes back makes an IPv6 route usable again
 * where routes over dead links are ignored.
 */
static bool cma_align_routes_return(struct net_device *ndev)
{
	struct inet6_dev *idev;
	bool ret;

	if (!netif_carrier_ok(ndev))
		return false;
	rcu_read_lock();
	idev = __in6_dev_get(ndev);
	ret = idev && READ_ONCE(idev->cnf.ignore_routes_with_linkdown);
	rcu_read_unlock();
	return ret;
}

/**
 * __cma_align_netdev_event - hook of cma.c's netdevice notifier
 * @ndev: Netdevice.
 * @event: NETDEV_*.
 *
 * Context: Process context, RTNL held.
 */
void __cma_align_netdev_event(struct net_device *ndev, unsigned long event)
{
	struct cma_align_net *anet = cma_align_net(dev_net(ndev));

	switch (event) {
	case NETDEV_UP:
	case NETDEV_CHANGE:
		if (atomic_read(&anet->users) && cma_align_routes_return(ndev)) {
			cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_RTNL);
			return;
		}
		break;
	case NETDEV_DOWN:
	case NETDEV_REGISTER:
	case NETDEV_UNREGISTER:
	case NETDEV_CHANGEADDR:
	case NETDEV_CHANGEUPPER:
	case NETDEV_BONDING_FAILOVER:
		break;
	default:
		return;
	}
	cma_align_mark_dev(anet, ndev->ifindex, CMA_ALIGN_VISIBLE_RTNL);
}

/*
 * IPv4 tells of a redirect by an update of the new gateway's entry, in which
 * nothing changed. No path knows that gateway yet.
 */
static bool cma_align_is_redirect(const struct neighbour *neigh)
{
	struct in_device *in_dev;
	bool ret;

	if (neigh->tbl->family != AF_INET || READ_ONCE(neigh->dead) ||
	    time_before(jiffies, READ_ONCE(neigh->updated) + 2))
		return false;
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(neigh->dev);
	ret = in_dev && IN_DEV_RX_REDIRECTS(in_dev);
	rcu_read_unlock();
	return ret;
}

static void cma_align_neigh_update(const struct neighbour *neigh)
{
	struct cma_align_net *anet = cma_align_net(dev_net(neigh->dev));
	struct in6_addr nexthop;

	/* Only an entry that is valid proves anything. */
	if (!(READ_ONCE(neigh->nud_state) & NUD_VALID))
		return;
	if (neigh->tbl->family == AF_INET)
		ipv6_addr_set_v4mapped(*(__be32 *)neigh->primary_key, &nexthop);
	else if (neigh->tbl->family == AF_INET6)
		nexthop = *(struct in6_addr *)neigh->primary_key;
	else
		return;
	if (cma_align_is_redirect(neigh))
		cma_align_mark_dev(anet, neigh->dev->ifindex,
				   CMA_ALIGN_VISIBLE_NOW);
	cma_align_mark_tag(anet, cma_align_nexthop_tag(neigh->dev->ifindex,
						       &nexthop),
			   CMA_ALIGN_VISIBLE_NOW);
}

static void cma_align_redirect(const struct netevent_redirect *redirect)
{
	struct net *net = dev_net(redirect->neigh->dev);
	struct cma_align_net *anet = cma_align_net(net);

	if (redirect->neigh->tbl->family == AF_INET6)
		cma_align_mark_v6(anet, redirect->daddr, 128,
				  CMA_ALIGN_VISIBLE_NOW);
	else
		cma_align_mark_v4(anet, *(__be32 *)redirect->daddr, 32,
				  CMA_ALIGN_VISIBLE_NOW);
}

/**
 * __cma_align_netevent - hook of cma.c's netevent notifier
 * @event: NETEVENT_*.
 * @ctx: Its argument.
 *
 * Context: Any, often softirq.
 */
void __cma_align_netevent(unsigned long event, void *ctx)
{
	switch (event) {
	case NETEVENT_NEIGH_UPDATE:
		cma_align_neigh_update(ctx);
		break;
	case NETEVENT_REDIRECT:
		cma_align_redirect(ctx);
		break;
	}
}

/*
 * Context: Process context, RTNL held.
 *
 * One command may remove and add several addresses, and is told of each: what
 * is there meanwhile is no news.
 *
 * The range is for listeners, whose destination is their own address: it may
 * appear on a netdevice that they do not know.
 */
static int cma_align_inetaddr_event(struct notifier_block *nb,
				    unsigned long event, void *ptr)
{
	const struct in_ifaddr *ifa = ptr;
	struct net_device *ndev = ifa->ifa_dev->dev;
	struct cma_align_net *anet = cma_align_net(dev_net(ndev));

	cma_align_mark_dev(anet, ndev->ifindex, CMA_ALIGN_VISIBLE_RTNL);
	cma_align_mark_v4(anet, ifa->ifa_local, 32, CMA_ALIGN_VISIBLE_RTNL);
	return NOTIFY_DONE;
}

static struct notifier_block cma_align_inetaddr_nb = {
	.notifier_call = cma_align_inetaddr_event,
};

/*
 * Context: Any: router advertisements add addresses in softirq.
 *
 * An address is announced before duplicate address detection is over; its end
 * is told by the local route, see cma_align_fib6_entry().
 */
static int cma_align_inet6addr_event(struct notifier_block *nb,
				     unsigned long event, void *ptr)
{
	const struct inet6_ifaddr *ifa = ptr;
	struct net_device *ndev = ifa->idev->dev;
	struct cma_align_net *anet = cma_align_net(dev_net(ndev));

	cma_align_mark_dev(anet, ndev->ifindex, CMA_ALIGN_VISIBLE_NOW);
	cma_align_mark_v6(anet, &ifa->addr, 128, CMA_ALIGN_VISIBLE_NOW);
	return NOTIFY_DONE;
}

static struct notifier_block cma_align_inet6addr_nb = {
	.notifier_call = cma_align_inet6addr_event,
};

static void cma_align_fib4(struct cma_align_net *anet, unsigned long event,
			   struct fib_notifier_info *info)
{
	struct fib_entry_notifier_info *entry;
	struct fib_nh_notifier_info *nh;

	switch (event) {
	case FIB_EVENT_ENTRY_REPLACE:
	case FIB_EVENT_ENTRY_APPEND:
	case FIB_EVENT_ENTRY_ADD:
	case FIB_EVENT_ENTRY_DEL:
		entry = container_of(info, struct fib_entry_notifier_info,
				     info);
		cma_align_mark_v4(anet, htonl(entry->dst), entry->dst_len,
				  CMA_ALIGN_VISIBLE_RTNL);
		break;
	case FIB_EVENT_NH_DEL:
		nh = container_of(info, struct fib_nh_notifier_info, info);
		if (nh->fib_nh->fib_nh_dev)
			cma_align_mark_dev(anet,
					   nh->fib_nh->fib_nh_dev->ifindex,
					   CMA_ALIGN_VISIBLE_RTNL);
		break;
	case FIB_EVENT_NH_ADD:
		/* Any path may prefer it. Comes when a link comes up. */
		cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_RTNL);
		break;
	}
}

static void cma_align_fib6(struct cma_align_net *anet, unsigned long event,
			   struct fib_notifier_info *info)
{
	struct fib6_entry_notifier_info *entry;
	struct fib6_info *rt;

	switch (event) {
	case FIB_EVENT_ENTRY_REPLACE:
	case FIB_EVENT_ENTRY_APPEND:
	case FIB_EVENT_ENTRY_ADD:
	case FIB_EVENT_ENTRY_DEL:
		entry = container_of(info, struct fib6_entry_notifier_info,
				     info);
		rt = entry->rt;
		/* The end of duplicate address detection. */
		if (rt->fib6_type == RTN_LOCAL && !rt->nh &&
		    rt->fib6_nh->fib_nh_dev)
			cma_align_mark_dev(anet,
					   rt->fib6_nh->fib_nh_dev->ifindex,
					   CMA_ALIGN_VISIBLE_RCU);
		cma_align_mark_v6(anet, &rt->fib6_dst.addr, rt->fib6_dst.plen,
				  CMA_ALIGN_VISIBLE_RCU);
		break;
	}
}

/*
 * Of the routes to a prefix the kernel announces only the first, which is one
 * with a TOS if there is any. What becomes of the one that rdma_cm uses is then
 * not heard: the worker looks at the paths now and then.
 */
static bool cma_align_has_tos(unsigned long event,
			      const struct fib_notifier_info *info)
{
	const struct fib_entry_notifier_info *entry =
		container_of(info, struct fib_entry_notifier_info, info);

	switch (event) {
	case FIB_EVENT_ENTRY_REPLACE:
	case FIB_EVENT_ENTRY_APPEND:
	case FIB_EVENT_ENTRY_ADD:
		return inet_dscp_to_dsfield(entry->dscp);
	}
	return false;
}

/*
 * Context: Atomic: RCU read side, for IPv6 also with BH off. A value other than
 * NOTIFY_DONE would veto the user's change.
 */
static int cma_align_fib_event(struct notifier_block *nb, unsigned long event,
			       void *ptr)
{
	struct cma_align_net *anet =
		container_of(nb, struct cma_align_net, fib_nb);
	struct fib_notifier_info *info = ptr;

	if (info->family == AF_INET && cma_align_has_tos(event, info))
		WRITE_ONCE(anet->tos_routes, true);
	/* The replay of the whole table at registration. */
	if (READ_ONCE(anet->registering))
		return NOTIFY_DONE;
	/* Multicast routing shares the chain. */
	if (info->family != AF_INET && info->family != AF_INET6)
		return NOTIFY_DONE;

	if (event == FIB_EVENT_RULE_ADD || event == FIB_EVENT_RULE_DEL)
		cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_RTNL);
	else if (info->family == AF_INET)
		cma_align_fib4(anet, event, info);
	else
		cma_align_fib6(anet, event, info);
	return NOTIFY_DONE;
}

/*
 * Context: Process context, RTNL held for all that matters.
 *
 * The routes that use a nexthop object are not told when it is replaced, and
 * the object does not know their prefixes.
 */
static int cma_align_nexthop_event(struct notifier_block *nb,
				   unsigned long event, void *ptr)
{
	struct cma_align_net *anet =
		container_of(nb, struct cma_align_net, nexthop_nb);

	switch (event) {
	case NEXTHOP_EVENT_REPLACE:
	case NEXTHOP_EVENT_DEL:
	/* All that is told when a resilient group gets other members. */
	case NEXTHOP_EVENT_RES_TABLE_PRE_REPLACE:
		cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_RTNL);
	}
	return NOTIFY_DONE;
}

/* GID and port changes of any device: few, fixed, and shared by all netns. */
#define CMA_ALIGN_IB_MARKS	16

static struct {
	spinlock_t	lock;	/* protects the others */
	u64		tags[CMA_ALIGN_IB_MARKS];
	unsigned int	nr;
	bool		all;
} cma_align_ib_marks = {
	.lock = __SPIN_LOCK_UNLOCKED(cma_align_ib_marks.lock),
};

struct cma_align_ibdev {
	struct ib_event_handler	handler;
};

static void cma_align_ib_work_fn(struct work_struct *work)
{
	u64 tags[CMA_ALIGN_IB_MARKS];
	struct cma_align_net *anet;
	unsigned int nr, i;
	bool all;

	spin_lock_irq(&cma_align_ib_marks.lock);
	nr = cma_align_ib_marks.nr;
	all = cma_align_ib_marks.all;
	memcpy(tags, cma_align_ib_marks.tags, nr * sizeof(tags[0]));
	cma_align_ib_marks.nr = 0;
	cma_align_ib_marks.all = false;
	spin_unlock_irq(&cma_align_ib_marks.lock);

	mutex_lock(&cma_align_global_mutex);
	list_for_each_entry(anet, &cma_align_nets, item) {
		if (all) {
			cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_NOW);
			continue;
		}
		for (i = 0; i < nr; i++)
			cma_align_mark_tag(anet, tags[i],
					   CMA_ALIGN_VISIBLE_NOW);
		cma_align_mark_tag(anet, CMA_ALIGN_TAG_LISTENERS,
				   CMA_ALIGN_VISIBLE_NOW);
	}
	mutex_unlock(&cma_align_global_mutex);
}

static DECLARE_WORK(cma_align_ib_work, cma_align_ib_work_fn);

/*
 * Context: Process context. The caller may hold the device's event_handler_rwsem,
 * its GID table's mutex and RTNL: only marks and queues.
 */
static void cma_align_ib_event(struct ib_event_handler *handler,
			       struct ib_event *event)
{
	unsigned long flags;
	unsigned int i;
	u64 tag;

	switch (event->event) {
	case IB_EVENT_GID_CHANGE:
	case IB_EVENT_PORT_ERR:
	case IB_EVENT_PORT_ACTIVE:
		break;
	default:
		return;
	}

	tag = cma_align_port_tag(event->device->index, event->element.port_num);
	spin_lock_irqsave(&cma_align_ib_marks.lock, flags);
	for (i = 0; i < cma_align_ib_marks.nr; i++)
		if (cma_align_ib_marks.tags[i] == tag)
			break;
	if (i == CMA_ALIGN_IB_MARKS)
		cma_align_ib_marks.all = true;
	else if (i == cma_align_ib_marks.nr)
		cma_align_ib_marks.tags[cma_align_ib_marks.nr++] = tag;
	spin_unlock_irqrestore(&cma_align_ib_marks.lock, flags);
	queue_work(cma_align_wq, &cma_align_ib_work);
}

static bool cma_align_global_registered;	/* under cma.c's lock */

/**
 * __cma_align_add_device - hook: an RDMA device appeared
 * @device: The device.
 * @dev: Our part of its cma_device.
 *
 * A no-op until the other global notifiers are registered too.
 *
 * Context: Process context, cma.c's lock held.
 */
void __cma_align_add_device(struct ib_device *device, struct cma_align_dev *dev)
{
	if (!READ_ONCE(cma_align_global_registered) || dev->handler)
		return;
	dev->handler = kzalloc(sizeof(*dev->handler),
			       GFP_KERNEL | __GFP_NOFAIL);
	INIT_IB_EVENT_HANDLER(&dev->handler->handler, device,
			      cma_align_ib_event);
	ib_register_event_handler(&dev->handler->handler);
}

/**
 * __cma_align_remove_device - hook: an RDMA device goes
 * @dev: Our part of its cma_device.
 *
 * Context: Process context. The device is not on cma.c's list any more, or
 * cma.c's lock is held.
 */
void __cma_align_remove_device(struct cma_align_dev *dev)
{
	ib_unregister_event_handler(&dev->handler->handler);
	kfree(dev->handler);
	dev->handler = NULL;
}

static void cma_align_remove_device_cb(struct ib_device *device,
				       struct cma_align_dev *dev)
{
	cma_align_remove_device(dev);
}

static void cma_align_hold_global(struct cma_align_net *anet)
{
	mutex_lock(&cma_align_global_mutex);
	if (list_empty(&cma_align_nets)) {
		register_inetaddr_notifier(&cma_align_inetaddr_nb);
		register_inet6addr_notifier(&cma_align_inet6addr_nb);
		WRITE_ONCE(cma_align_global_registered, true);
		cma_align_walk_devices(__cma_align_add_device);
	}
	list_add_tail(&anet->item, &cma_align_nets);
	mutex_unlock(&cma_align_global_mutex);
	anet->global_held = true;
}

static void cma_align_put_global(struct cma_align_net *anet)
{
	mutex_lock(&cma_align_global_mutex);
	list_del_init(&anet->item);
	if (list_empty(&cma_align_nets)) {
		WRITE_ONCE(cma_align_global_registered, false);
		cma_align_walk_devices(cma_align_remove_device_cb);
		unregister_inet6addr_notifier(&cma_align_inet6addr_nb);
		unregister_inetaddr_notifier(&cma_align_inetaddr_nb);
	}
	mutex_unlock(&cma_align_global_mutex);
	anet->global_held = false;
}

/**
 * cma_align_listen_to - register what a netns needs
 * @anet: The netns.
 *
 * What is registered already is left alone. After a success every path must be
 * looked at: what changed before was not heard.
 *
 * Context: The worker, or the exit of the netns. Takes RTNL.
 *
 * Return: 0; -EBUSY: the routes change faster than they can be replayed, call
 * again; another error of the registrations.
 */
int cma_align_listen_to(struct cma_align_net *anet)
{
	bool was_registered = anet->fib_registered && anet->nexthop_registered;
	int ret;

	if (!anet->global_held)
		cma_align_hold_global(anet);
	if (!anet->fib_registered) {
		anet->fib_nb.notifier_call = cma_align_fib_event;
		WRITE_ONCE(anet->tos_routes, false);
		WRITE_ONCE(anet->registering, true);
		ret = register_fib_notifier(anet->net, &anet->fib_nb, NULL,
					    NULL);
		WRITE_ONCE(anet->registering, false);
		if (ret)
			return ret;
		anet->fib_registered = true;
	}
	if (!anet->nexthop_registered) {
		anet->nexthop_nb.notifier_call = cma_align_nexthop_event;
		ret = register_nexthop_notifier(anet->net, &anet->nexthop_nb,
						NULL);
		if (ret)
			return ret;
		anet->nexthop_registered = true;
	}
	/* What was announced while it was not heard may not be visible yet. */
	if (!was_registered)
		cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_RTNL |
					 CMA_ALIGN_VISIBLE_RCU);
	return 0;
}

/**
 * cma_align_ignore - undo cma_align_listen_to()
 * @anet: The netns.
 *
 * Context: The worker, or the exit of the netns. Takes RTNL.
 */
void cma_align_ignore(struct cma_align_net *anet)
{
	if (anet->nexthop_registered)
		unregister_nexthop_notifier(anet->net, &anet->nexthop_nb);
	anet->nexthop_registered = false;
	if (anet->fib_registered)
		unregister_fib_notifier(anet->net, &anet->fib_nb);
	anet->fib_registered = false;
	if (anet->global_held)
		cma_align_put_global(anet);
}

/* All netns are gone: nothing queues the work any more. */
void cma_align_events_exit(void)
{
	cancel_work_sync(&cma_align_ib_work);
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_events_kunit.c"
#endif
