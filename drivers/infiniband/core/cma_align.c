// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: keep ids aligned with the IP stack.
 *
 * An RDMA connection stays with the netdevice, RDMA device, addresses and next
 * hop that it was resolved to, while the IP stack moves on. For an id that asks,
 * rdma_cm compares the two, and tells the ULP or ends the connection when they
 * differ.
 *
 * This file has modes and parameters, the link between ids and paths, the
 * worker, delays and damping, and the delivery. See cma_align_priv.h for the
 * objects, the way of an event and the locks.
 *
 * Left out on purpose: a dead peer, or a failure beyond the first hop that
 * changes no route. Keepalives see these.
 */

#include <linux/inet.h>
#include <linux/module.h>
#include <net/ipv6.h>
#include <net/netns/generic.h>
#include <net/rtnetlink.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_sa.h>
#include <rdma/iw_cm.h>

#include "cma_align_priv.h"
#include "cma_align_trace.h"

/* Paths or ids handled before cma_align_net.lock is dropped for a moment. */
#define CMA_ALIGN_BATCH		64
/* A passing state, or a stack that could not answer: look again after. */
#define CMA_ALIGN_RETRY		(HZ / 50 ?: 1)
/* Notifiers could not be registered, or a report not be queued: again after. */
#define CMA_ALIGN_RETRY_LATE	(HZ / 10 ?: 1)
/* Damping. */
#define CMA_ALIGN_QUIET		(60 * HZ)
#define CMA_ALIGN_DAMPED_MAX_MS	60000
#define CMA_ALIGN_DAMPS_UNUSED	1024

DEFINE_STATIC_KEY_FALSE(cma_align_key);
struct workqueue_struct *cma_align_wq;
static DEFINE_MUTEX(cma_align_key_mutex);
static unsigned int cma_align_net_id;

static void cma_align_id_work(struct work_struct *work);

struct cma_align_net *cma_align_net(struct net *net)
{
	return net_generic(net, cma_align_net_id);
}

static struct cma_align_net *cma_align_id_net(const struct rdma_id_private *id)
{
	return cma_align_net(id->id.route.addr.dev_addr.net);
}

/* Context: Any. */
void cma_align_queue_net(struct cma_align_net *anet)
{
	if (!READ_ONCE(anet->exiting))
		queue_work(cma_align_wq, &anet->work);
}

/* The caller knows that the id is not yet being freed. Context: Any. */
static void cma_align_queue_id(struct rdma_id_private *id_priv)
{
	cma_align_id_get(id_priv);
	if (!queue_work(cma_align_wq, &id_priv->align.work))
		cma_align_id_put(id_priv);
}

/*
 * Count an id that has a mode. From the first one on the hooks are live; its
 * netns' notifiers are registered by the worker, and what they missed until
 * then is looked at.
 */
static void cma_align_get_net(struct cma_align_net *anet)
{
	if (atomic_inc_not_zero(&anet->users))
		return;
	mutex_lock(&cma_align_key_mutex);
	if (!anet->active) {
		static_branch_inc(&cma_align_key);
		anet->active = true;
	}
	atomic_inc(&anet->users);
	mutex_unlock(&cma_align_key_mutex);
	cma_align_queue_net(anet);
}

static void cma_align_put_net(struct cma_align_net *anet)
{
	if (atomic_dec_and_test(&anet->users))
		cma_align_queue_net(anet);
}

static void cma_align_deactivate(struct cma_align_net *anet)
{
	mutex_lock(&cma_align_key_mutex);
	if (anet->active && !atomic_read(&anet->users)) {
		anet->active = false;
		static_branch_dec(&cma_align_key);
	}
	mutex_unlock(&cma_align_key_mutex);
}

/*
 * Modes.
 */

static void cma_align_setup(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;

	lockdep_assert_held(&id_priv->lock);
	if (align->initialised)
		return;
	INIT_LIST_HEAD(&align->item);
	INIT_WORK(&align->work, cma_align_id_work);
	align->initialised = true;
}

static void cma_align_default_delays(struct cma_align_id *align)
{
	if (align->delays_set)
		return;
	align->downdelay_ms = READ_ONCE(cma_align_ha_downdelay);
	align->updelay_ms = READ_ONCE(cma_align_ha_updelay);
}

/**
 * cma_align_created - hook: an id was created by a ULP
 * @id_priv: The id; nobody else knows it yet.
 *
 * Context: Process context.
 */
void cma_align_created(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;
	u8 mode;

	mode = cma_align_default_mode(id_priv);
	if (!mode)
		return;

	cma_align_get_net(cma_align_id_net(id_priv));
	spin_lock_irqsave(&id_priv->lock, flags);
	cma_align_setup(id_priv);
	cma_align_default_delays(align);
	align->mode = mode;
	if (READ_ONCE(cma_align_ha_sticky))
		align->mode |= RDMA_HA_F_STICKY;
	align->passive = READ_ONCE(cma_align_ha_passive);
	spin_unlock_irqrestore(&id_priv->lock, flags);
}

/* The mode that counts: a default does not cover listeners unless it says so. */
static u16 cma_align_mode(const struct rdma_id_private *id_priv)
{
	const struct cma_align_id *align = &id_priv->align;
	u16 mode = READ_ONCE(align->mode);

	if (mode && !align->explicit && !align->passive &&
	    READ_ONCE(id_priv->state) == RDMA_CM_LISTEN)
		return RDMA_HA_NONE;
	return mode;
}

bool __cma_align_owns(const struct rdma_id_private *id_priv)
{
	return cma_align_mode(id_priv);
}

/**
 * rdma_set_ha_mode - align an id with the IP stack
 * @id: Communication identifier.
 * @mode: enum rdma_ha_mode, or-ed with RDMA_HA_F_* flags.
 *
 * From now on the ULP is told by RDMA_CM_EVENT_ADDR_CHANGE, or the connection
 * is ended, when the id's path is misaligned; if it is at this moment, that is
 * told after its delay. With RDMA_HA_NONE the id behaves as if this had never
 * been called, and as no module parameter can change.
 *
 * Context: Process context, may sleep; in any state of the id, also from within
 * its event handler.
 *
 * Return: 0; -EINVAL: unknown mode or flag, the id is unchanged.
 */
int rdma_set_ha_mode(struct rdma_cm_id *id, u32 mode)
{
	struct rdma_id_private *id_priv =
		container_of(id, struct rdma_id_private, id);
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;
	bool had;

	if (mode & ~(RDMA_HA_MODE_MASK | RDMA_HA_F_STICKY |
		     RDMA_HA_F_RESTORED | RDMA_HA_F_STANDBY) ||
	    (mode & RDMA_HA_MODE_MASK) > RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN)
		return -EINVAL;
	if (!(mode & RDMA_HA_MODE_MASK))
		mode = RDMA_HA_NONE;

	if (mode)
		cma_align_get_net(anet);
	spin_lock_irqsave(&id_priv->lock, flags);
	cma_align_setup(id_priv);
	had = align->mode;
	cma_align_default_delays(align);
	align->explicit = true;
	align->rejudge = true;
	WRITE_ONCE(align->mode, mode);
	spin_unlock_irqrestore(&id_priv->lock, flags);

	if (mode || had)
		cma_align_queue_id(id_priv);
	if (had)
		cma_align_put_net(anet);
	return 0;
}
EXPORT_SYMBOL_GPL(rdma_set_ha_mode);

static void cma_align_set_delays(struct rdma_id_private *id_priv,
				 const u32 *downdelay_ms, const u32 *updelay_ms)
{
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;
	bool queue;

	spin_lock_irqsave(&id_priv->lock, flags);
	cma_align_setup(id_priv);
	cma_align_default_delays(align);
	align->delays_set = true;
	align->relink = true;
	if (downdelay_ms)
		align->downdelay_ms = *downdelay_ms;
	if (updelay_ms)
		align->updelay_ms = *updelay_ms;
	queue = align->mode;
	spin_unlock_irqrestore(&id_priv->lock, flags);
	if (queue)
		cma_align_queue_id(id_priv);
}

/**
 * rdma_set_ha_delays - how long a path must be misaligned before it is reported
 * @id: Communication identifier.
 * @downdelay_ms: Milliseconds, 0..RDMA_HA_DOWNDELAY_MAX_MS, for a path that is
 *	down.
 * @updelay_ms: Milliseconds, 0..RDMA_HA_UPDELAY_MAX_MS, for a path that works
 *	but is superseded, and for one that is aligned again.
 *
 * 0 reports at once, and is never damped. A delay that runs is measured by the
 * new value, from the same start.
 *
 * Context: As rdma_set_ha_mode().
 *
 * Return: 0; -EINVAL: one is out of range, the id is unchanged.
 */
int rdma_set_ha_delays(struct rdma_cm_id *id, u32 downdelay_ms, u32 updelay_ms)
{
	if (downdelay_ms > RDMA_HA_DOWNDELAY_MAX_MS ||
	    updelay_ms > RDMA_HA_UPDELAY_MAX_MS)
		return -EINVAL;
	cma_align_set_delays(container_of(id, struct rdma_id_private, id),
			     &downdelay_ms, &updelay_ms);
	return 0;
}
EXPORT_SYMBOL_GPL(rdma_set_ha_delays);

/**
 * rdma_set_ha_option - an option of user space
 * @id: Communication identifier.
 * @optname: RDMA_OPTION_ID_HA_*.
 * @optval: The value, in kernel memory.
 * @optlen: Its length in bytes.
 *
 * For rdma_ucm.
 *
 * Context: As rdma_set_ha_mode().
 *
 * Return: 0; -ENOSYS: unknown option; -EINVAL: wrong length, or a value that is
 * unknown or out of range, the id is unchanged.
 */
int rdma_set_ha_option(struct rdma_cm_id *id, int optname, const void *optval,
		       size_t optlen)
{
	struct rdma_id_private *id_priv =
		container_of(id, struct rdma_id_private, id);
	u32 val;

	switch (optname) {
	case RDMA_OPTION_ID_HA_MODE:
	case RDMA_OPTION_ID_HA_DOWNDELAY:
	case RDMA_OPTION_ID_HA_UPDELAY:
		break;
	default:
		return -ENOSYS;
	}
	if (optlen != sizeof(val))
		return -EINVAL;
	memcpy(&val, optval, sizeof(val));

	switch (optname) {
	case RDMA_OPTION_ID_HA_DOWNDELAY:
		if (val > RDMA_HA_DOWNDELAY_MAX_MS)
			return -EINVAL;
		cma_align_set_delays(id_priv, &val, NULL);
		return 0;
	case RDMA_OPTION_ID_HA_UPDELAY:
		if (val > RDMA_HA_UPDELAY_MAX_MS)
			return -EINVAL;
		cma_align_set_delays(id_priv, NULL, &val);
		return 0;
	default:
		return rdma_set_ha_mode(id, val);
	}
}
EXPORT_SYMBOL_GPL(rdma_set_ha_option);

/*
 * Damping.
 */

static struct cma_align_damp *cma_align_damp_find(struct cma_align_net *anet,
						  const struct in6_addr *dst)
{
	struct rb_node *n = anet->damps.rb_node;

	while (n) {
		struct cma_align_damp *damp =
			rb_entry(n, struct cma_align_damp, node);
		int cmp = memcmp(dst, &damp->dst, sizeof(*dst));

		if (!cmp)
			return damp;
		n = cmp < 0 ? n->rb_left : n->rb_right;
	}
	return NULL;
}

static bool cma_align_damp_less(struct rb_node *a, const struct rb_node *b)
{
	return memcmp(&rb_entry(a, struct cma_align_damp, node)->dst,
		      &rb_entry(b, struct cma_align_damp, node)->dst,
		      sizeof(struct in6_addr)) < 0;
}

static void cma_align_damp_free(struct cma_align_net *anet,
				struct cma_align_damp *damp)
{
	list_del(&damp->unused);
	anet->nr_unused_damps--;
	rb_erase(&damp->node, &anet->damps);
	kfree(damp);
}

/* No timer forgets what is not used: the next use does, and a limit. */
static void cma_align_damp_purge(struct cma_align_net *anet, u64 now)
{
	struct cma_align_damp *damp;

	while ((damp = list_first_entry_or_null(&anet->unused_damps,
						struct cma_align_damp,
						unused))) {
		if (now - damp->last < CMA_ALIGN_QUIET &&
		    anet->nr_unused_damps <= CMA_ALIGN_DAMPS_UNUSED)
			break;
		cma_align_damp_free(anet, damp);
	}
}

/* Takes over @spare if there is none yet. */
static struct cma_align_damp *cma_align_damp_get(struct cma_align_net *anet,
						 const struct in6_addr *dst,
						 struct cma_align_damp **spare)
{
	struct cma_align_damp *damp = cma_align_damp_find(anet, dst);

	lockdep_assert_held(&anet->lock);
	if (!damp) {
		damp = *spare;
		*spare = NULL;
		damp->dst = *dst;
		INIT_LIST_HEAD(&damp->unused);
		rb_add(&damp->node, &anet->damps, cma_align_damp_less);
	} else if (!damp->users) {
		list_del_init(&damp->unused);
		anet->nr_unused_damps--;
	}
	damp->users++;
	return damp;
}

static void cma_align_damp_put(struct cma_align_net *anet,
			       struct cma_align_damp *damp)
{
	lockdep_assert_held(&anet->lock);
	if (--damp->users)
		return;
	list_add_tail(&damp->unused, &anet->unused_damps);
	anet->nr_unused_damps++;
	if (!damp->last)
		cma_align_damp_free(anet, damp);
	cma_align_damp_purge(anet, get_jiffies_64());
}

/* A destination was reported. One incident counts once. */
static void cma_align_damp_report(struct cma_align_path *path, u64 now)
{
	struct cma_align_damp *damp = path->damp;

	if (damp->last && damp->incident == path->incident)
		return;
	if (!damp->last || now - damp->last >= CMA_ALIGN_QUIET)
		damp->level = 0;
	else if (damp->level < 16)
		damp->level++;
	damp->last = now;
	damp->incident = path->incident;
}

static u8 cma_align_damp_level(const struct cma_align_damp *damp, u64 now)
{
	return damp->last && now - damp->last < CMA_ALIGN_QUIET ? damp->level :
								  0;
}

/*
 * How long the present verdict must last. A report of the same incident over
 * another path must not lengthen it: the level is the one that held when the
 * verdict was reached, until it is back to normal.
 */
static u64 cma_align_delay(const struct cma_align_path *path, u64 now)
{
	u32 delay = path->state == CMA_ALIGN_DOWN ? path->key.downdelay_ms :
						    path->key.updelay_ms;
	u8 level = min(path->level, cma_align_damp_level(path->damp, now));
	u64 damped = min_t(u64, (u64)delay << level, CMA_ALIGN_DAMPED_MAX_MS);

	return msecs_to_jiffies(max_t(u32, delay, damped));
}

/* When the present verdict of the path is due for an id. */
static u64 cma_align_due(const struct cma_align_path *path,
			 const struct cma_align_id *align, u64 now)
{
	return max(path->since, align->joined) + cma_align_delay(path, now);
}

/*
 * Ids and paths.
 */

static void cma_align_put_path(struct cma_align_path *path)
{
	if (refcount_dec_and_test(&path->refs))
		kfree(path);
}

static void cma_align_set_dirty(struct cma_align_net *anet,
				struct cma_align_path *path)
{
	lockdep_assert_held(&anet->lock);
	if (path->dirty)
		return;
	path->dirty = true;
	list_add_tail(&path->dirty_item, &anet->dirty);
}

static void cma_align_clear_due(struct cma_align_net *anet,
				struct cma_align_path *path)
{
	if (!RB_EMPTY_NODE(&path->due.node))
		timerqueue_del(&anet->due, &path->due);
}

/* At @when look at the path again. Only the earliest time counts. */
static void cma_align_set_due(struct cma_align_net *anet,
			      struct cma_align_path *path, u64 when)
{
	lockdep_assert_held(&anet->lock);
	if (!RB_EMPTY_NODE(&path->due.node)) {
		if (path->due.expires <= when)
			return;
		timerqueue_del(&anet->due, &path->due);
	}
	path->due.expires = when;
	timerqueue_add(&anet->due, &path->due);
}

/* Judge the id afresh: what it was told for stands no more in the way. */
static void cma_align_rejudge_locked(struct cma_align_net *anet,
				     struct cma_align_id *align)
{
	struct cma_align_path *path = align->path;

	lockdep_assert_held(&anet->lock);
	align->joined = get_jiffies_64();
	align->released = 0;
	list_move_tail(&align->item, &path->pending);
	cma_align_set_dirty(anet, path);
	cma_align_queue_net(anet);
}

static void cma_align_unlink_locked(struct cma_align_net *anet,
				    struct cma_align_id *align)
{
	struct cma_align_path *path = align->path;

	lockdep_assert_held(&anet->lock);
	align->path = NULL;
	align->seq += path->changes;
	list_del_init(&align->item);
	if (--path->nr_ids)
		return;
	cma_align_index_del(anet, path);
	cma_align_clear_due(anet, path);
	if (path->dirty)
		list_del_init(&path->dirty_item);
	cma_align_damp_put(anet, path->damp);
	cma_align_put_path(path);
}

static void cma_align_unlink(struct rdma_id_private *id_priv)
{
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;

	spin_lock_irqsave(&anet->lock, flags);
	if (align->path)
		cma_align_unlink_locked(anet, align);
	spin_unlock_irqrestore(&anet->lock, flags);
}

static bool cma_align_from_sockaddr(const struct sockaddr_storage *ss,
				    struct in6_addr *addr)
{
	switch (ss->ss_family) {
	case AF_INET:
		ipv6_addr_set_v4mapped(((struct sockaddr_in *)ss)->sin_addr.s_addr,
				       addr);
		return true;
	case AF_INET6:
		*addr = ((struct sockaddr_in6 *)ss)->sin6_addr;
		return true;
	}
	return false;
}

/* Passive ids never own a port. */
static bool cma_align_is_passive(const struct rdma_id_private *id_priv)
{
	return !id_priv->bind_list;
}

/* A passive id that is linked already keeps the baseline that it has. */
static void cma_align_passive_key(const struct rdma_id_private *id_priv,
				  struct cma_align_key *key)
{
	const struct cma_align_path *path = id_priv->align.path;
	u8 *dmac = id_priv->id.route.path_rec ?
		   sa_path_get_dmac(id_priv->id.route.path_rec) : NULL;

	key->kind = CMA_ALIGN_PASSIVE;
	if (path && path->key.kind == CMA_ALIGN_PASSIVE) {
		key->route_ifindex = path->key.route_ifindex;
		key->gw = path->key.gw;
		key->gateway = path->key.gateway;
		key->ll_known = path->key.ll_known;
		memcpy(key->ll, path->key.ll, sizeof(key->ll));
		return;
	}
	if (dmac) {
		memcpy(key->ll, dmac, ETH_ALEN);
		key->ll_known = true;
	}
	cma_align_baseline(id_priv->id.route.addr.dev_addr.net, key);
}

/*
 * The path of an id, from what the id was resolved to. Of a passive id the
 * route is taken as it is now.
 *
 * Return: false: the id has none, in its present state.
 */
static bool cma_align_make_key(struct rdma_id_private *id_priv,
			       struct cma_align_key *key)
{
	const struct rdma_addr *addr = &id_priv->id.route.addr;
	const struct rdma_dev_addr *dev_addr = &addr->dev_addr;
	const struct cma_align_id *align = &id_priv->align;
	struct ib_device *device = id_priv->id.device;
	size_t ll_len = dev_addr->dev_type == ARPHRD_INFINIBAND ?
			INFINIBAND_ALEN : ETH_ALEN;

	lockdep_assert_held(&id_priv->handler_mutex);
	if (!id_priv->cma_dev || id_priv->internal_id)
		return false;

	memset(key, 0, sizeof(*key));
	key->gid_attr = dev_addr->sgid_attr;
	key->rdma_dev = device->index;
	key->port = id_priv->id.port_num;
	key->downdelay_ms = align->downdelay_ms;
	key->updelay_ms = align->updelay_ms;
	key->kind = CMA_ALIGN_PORT;
	if (!dev_addr->bound_dev_if ||
	    !cma_align_from_sockaddr(&addr->src_addr, &key->src) ||
	    !cma_align_from_sockaddr(&addr->dst_addr, &key->dst))
		return true;

	key->family = addr->src_addr.ss_family;
	key->ifindex = dev_addr->bound_dev_if;
	memcpy(key->src_ll, dev_addr->src_dev_addr, ll_len);
	key->addr_checked = rdma_protocol_roce(device, key->port) ||
			    cma_align_addr_on(dev_addr->net, key->ifindex,
					      &key->src);
	if (READ_ONCE(id_priv->state) == RDMA_CM_LISTEN) {
		key->kind = CMA_ALIGN_LISTENER;
		key->dst = key->src;
	} else if (cma_align_is_passive(id_priv)) {
		cma_align_passive_key(id_priv, key);
	} else {
		key->kind = CMA_ALIGN_ACTIVE;
		/* A scope id binds to a netdevice. */
		key->pinned = align->pinned ||
			      ipv6_addr_type(&key->dst) & IPV6_ADDR_LINKLOCAL;
		key->route_ifindex = key->ifindex;
		key->gateway = dev_addr->network == RDMA_NETWORK_IPV4 ||
			       dev_addr->network == RDMA_NETWORK_IPV6;
		memcpy(key->ll, dev_addr->dst_dev_addr, ll_len);
		key->ll_known = true;
	}
	return true;
}

static bool cma_align_linkable(const struct rdma_id_private *id_priv)
{
	switch (READ_ONCE(id_priv->state)) {
	case RDMA_CM_ADDR_RESOLVED:
	case RDMA_CM_ROUTE_QUERY:
	case RDMA_CM_ROUTE_RESOLVED:
	case RDMA_CM_CONNECT:
	case RDMA_CM_LISTEN:
		return cma_align_mode(id_priv) && !id_priv->align.ended;
	default:
		return false;
	}
}

static void cma_align_init_path(struct cma_align_net *anet,
				struct cma_align_path *path,
				struct rdma_id_private *id_priv)
{
	struct cma_align_key *key = &path->key;

	path->netns = anet->net->ns.inum;
	path->cma_dev = id_priv->cma_dev;
	path->since = get_jiffies_64();
	path->dest.rdma_dev = RDMA_ALIGN_NO_RDMA_DEV;
	path->ll_known = key->ll_known;
	memcpy(path->ll, key->ll, sizeof(path->ll));
	if (key->kind == CMA_ALIGN_PASSIVE && key->route_ifindex) {
		path->nexthop = key->gw;
		path->nexthop_known = true;
	}
	refcount_set(&path->refs, 1);
	INIT_LIST_HEAD(&path->dirty_item);
	INIT_LIST_HEAD(&path->calm);
	INIT_LIST_HEAD(&path->pending);
	timerqueue_init(&path->due);
}

static void cma_align_add_path(struct cma_align_net *anet,
			       struct cma_align_path *path)
{
	const struct cma_align_key *key = &path->key;
	u64 port = key->kind == CMA_ALIGN_LISTENER ?
		   CMA_ALIGN_TAG_LISTENERS :
		   cma_align_port_tag(key->rdma_dev, key->port);

	lockdep_assert_held(&anet->lock);
	cma_align_index_add(anet, path);
	cma_align_index_retag(anet, path, CMA_ALIGN_TAG_PORT, port);
	if (key->ifindex)
		cma_align_index_retag(anet, path, CMA_ALIGN_TAG_DEV,
				      cma_align_tag(CMA_ALIGN_TAG_DEV,
						    key->ifindex));
	cma_align_set_dirty(anet, path);
}

/* Only the delays changed: what is known of the path still holds. */
static void cma_align_copy_path(struct cma_align_path *to,
				const struct cma_align_path *from)
{
	to->since = from->since;
	to->changes = from->changes;
	to->incident = from->incident;
	to->level = from->level;
	to->nexthop = from->nexthop;
	to->nexthop_known = from->nexthop_known;
	to->dest = from->dest;
	to->state = from->state;
	to->reason = from->reason;
	to->looked = from->looked;
	to->ll_known = from->ll_known;
	memcpy(to->ll, from->ll, sizeof(to->ll));
}

/*
 * Link the id to its path, creating it if it is the first. A path that is known
 * to be misaligned makes the id pending at once.
 *
 * The allocations do not fail: they are small, and this is the last moment at
 * which a caller could have been told.
 */
static void cma_align_link(struct rdma_id_private *id_priv)
{
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	struct cma_align_path *path, *spare;
	struct cma_align_damp *damp;
	bool relink;
	unsigned long flags;

	lockdep_assert_held(&id_priv->handler_mutex);
	spare = kzalloc(sizeof(*spare), GFP_KERNEL | __GFP_NOFAIL);
	damp = kzalloc(sizeof(*damp), GFP_KERNEL | __GFP_NOFAIL);
	WRITE_ONCE(align->relink, false);
	if (!cma_align_make_key(id_priv, &spare->key))
		goto out;
	cma_align_init_path(anet, spare, id_priv);

	spin_lock_irqsave(&anet->lock, flags);
	relink = align->path;
	path = cma_align_index_find(anet, &spare->key);
	if (path && path == align->path)
		goto unlock;
	if (!path) {
		path = spare;
		spare = NULL;
		path->damp = cma_align_damp_get(anet, &path->key.dst, &damp);
		if (relink)
			cma_align_copy_path(path, align->path);
		cma_align_add_path(anet, path);
	}
	path->nr_ids++;
	if (relink) {
		align->joined = max(align->joined, align->path->since);
		cma_align_unlink_locked(anet, align);
	} else {
		align->joined = get_jiffies_64();
	}
	align->path = path;
	align->seq -= path->changes;
	align->released = 0;
	if (path->looked && path->state == align->verdict) {
		list_add_tail(&align->item, &path->calm);
	} else {
		list_add_tail(&align->item, &path->pending);
		cma_align_set_dirty(anet, path);
	}
	cma_align_queue_net(anet);
unlock:
	spin_unlock_irqrestore(&anet->lock, flags);
out:
	kfree(damp);
	kfree(spare);
}

/*
 * Delivery. All under the id's handler_mutex.
 */

/* A sticky id minds only a path that is down. */
static u8 cma_align_id_verdict(const struct cma_align_id *align, u8 state)
{
	if (state == CMA_ALIGN_SUPERSEDED && align->mode & RDMA_HA_F_STICKY)
		return CMA_ALIGN_ALIGNED;
	return state;
}

/* ESTABLISHED or the ULP's answer will bring it up again. */
static bool cma_align_must_wait(const struct rdma_id_private *id_priv, u8 state)
{
	const struct cma_align_id *align = &id_priv->align;

	if (align->accepting || READ_ONCE(align->unread))
		return true;
	return !align->explicit && !align->established &&
	       READ_ONCE(id_priv->state) != RDMA_CM_LISTEN &&
	       state != CMA_ALIGN_DOWN;
}

/**
 * struct cma_align_report - what an id is to be told
 * @ev: The event's private data.
 * @state: The verdict.
 * @old_verdict: To go back to when the report could not be queued.
 * @old_reported: Likewise.
 */
struct cma_align_report {
	struct rdma_align_event	ev;
	u8			state;
	u8			old_verdict;
	u8			old_reported;
};

static void cma_align_fill_event(struct rdma_align_event *ev,
				 const struct cma_align_path *path,
				 const struct cma_align_id *align, u8 reason)
{
	const struct cma_align_key *key = &path->key;

	memset(ev, 0, sizeof(*ev));
	ev->reason = reason;
	ev->old_ifindex = key->ifindex;
	ev->old_rdma_dev = key->rdma_dev;
	ev->old_port = key->port;
	if (path->state == CMA_ALIGN_ALIGNED) {
		ev->flags = RDMA_ALIGN_EV_RESTORED;
		ev->new_ifindex = key->ifindex;
		ev->new_rdma_dev = key->rdma_dev;
		ev->new_port = key->port;
	} else {
		if (path->state == CMA_ALIGN_DOWN)
			ev->flags = RDMA_ALIGN_EV_PATH_DOWN;
		else if (align->verdict == CMA_ALIGN_ALIGNED)
			ev->flags = RDMA_ALIGN_EV_RESTORED;
		ev->new_ifindex = path->dest.ifindex;
		ev->new_rdma_dev = path->dest.rdma_dev;
		ev->new_port = path->dest.port;
	}
	ev->seq = align->seq + path->changes;
	ev->incident = path->incident;
}

/*
 * Is there something to tell the id now? Settles the id's verdict, so that it
 * is told once.
 */
static bool cma_align_next_report(struct rdma_id_private *id_priv,
				  struct cma_align_report *report)
{
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	struct cma_align_path *path;
	bool tell = false;
	unsigned long flags;
	u8 verdict, reason;

	spin_lock_irqsave(&anet->lock, flags);
	path = align->path;
	/* The verdict changed since: its delay has yet to pass. */
	if (!path || align->released != path->changes + 1)
		goto unlock;
	verdict = cma_align_id_verdict(align, path->state);
	if (verdict == align->verdict ||
	    cma_align_must_wait(id_priv, path->state))
		goto unlock;

	report->state = path->state;
	report->old_verdict = align->verdict;
	report->old_reported = align->reported;
	align->verdict = verdict;
	if (verdict == CMA_ALIGN_ALIGNED) {
		reason = align->reported;
		align->reported = 0;
		tell = reason && align->mode & RDMA_HA_F_RESTORED;
	} else {
		reason = path->reason;
		align->reported = reason;
		tell = true;
	}
	if (tell) {
		cma_align_fill_event(&report->ev, path, align, reason);
		cma_align_damp_report(path, get_jiffies_64());
	} else {
		trace_cm_align_suppress(id_priv, path->state, reason);
	}
unlock:
	spin_unlock_irqrestore(&anet->lock, flags);
	return tell;
}

static bool cma_align_is_ud(const struct rdma_id_private *id_priv)
{
	return id_priv->id.qp_type == IB_QPT_UD;
}

static int cma_align_notify(struct rdma_id_private *id_priv,
			    struct cma_align_report *report)
{
	struct rdma_cm_event event = { .event = RDMA_CM_EVENT_ADDR_CHANGE };
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;
	int ret;

	if (align->explicit && cma_align_is_ud(id_priv)) {
		event.param.ud.private_data = &report->ev;
		event.param.ud.private_data_len = sizeof(report->ev);
	} else if (align->explicit) {
		event.param.conn.private_data = &report->ev;
		event.param.conn.private_data_len = sizeof(report->ev);
	}

	trace_cm_align_report(id_priv, report->state, report->ev.reason);
	align->lost = false;
	if (!rdma_is_kernel_res(&id_priv->res))
		WRITE_ONCE(align->unread, true);
	ret = cma_align_event_locked(id_priv, &event);
	if (ret || !align->lost)
		return ret;

	/* The channel had no memory for it: again a little later. */
	spin_lock_irqsave(&anet->lock, flags);
	align->verdict = report->old_verdict;
	align->reported = report->old_reported;
	if (align->path) {
		align->joined = get_jiffies_64() + CMA_ALIGN_RETRY_LATE;
		align->released = 0;
		list_move_tail(&align->item, &align->path->pending);
		cma_align_set_due(anet, align->path, align->joined);
		cma_align_queue_net(anet);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
	return 0;
}

/*
 * End the connection as if the peer had: a kernel QP goes to the error state,
 * the ULP hears DISCONNECTED at once, and the DREQ is retried in the background
 * by the CM, which drops it when the id is destroyed.
 */
static int cma_align_teardown(struct rdma_id_private *id_priv,
			      const struct cma_align_report *report)
{
	struct rdma_cm_event event = { .event = RDMA_CM_EVENT_DISCONNECTED };

	trace_cm_align_teardown(id_priv, report->state, report->ev.reason);
	id_priv->align.torn_down = true;
	if (rdma_cap_iw_cm(id_priv->id.device, id_priv->id.port_num))
		iw_cm_disconnect(id_priv->cm_id.iw, 1);
	else
		rdma_disconnect(&id_priv->id);
	id_priv->align.ended = true;
	if (!cma_align_exch_disconnect(id_priv))
		return 0;
	return cma_align_event_locked(id_priv, &event);
}

static int cma_align_deliver(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;
	struct cma_align_report report = {};

	lockdep_assert_held(&id_priv->handler_mutex);
	if (!cma_align_linkable(id_priv))
		return 0;
	if (!cma_align_next_report(id_priv, &report))
		return 0;
	if ((align->mode & RDMA_HA_MODE_MASK) ==
	    RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN &&
	    align->established && !cma_align_is_ud(id_priv) &&
	    align->verdict != CMA_ALIGN_ALIGNED)
		return cma_align_teardown(id_priv, &report);
	return cma_align_notify(id_priv, &report);
}

/* The ULP set the mode again: what it was told before does not count. */
static void cma_align_forget_reports(struct rdma_id_private *id_priv)
{
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;

	WRITE_ONCE(align->rejudge, false);
	spin_lock_irqsave(&anet->lock, flags);
	align->verdict = CMA_ALIGN_ALIGNED;
	align->reported = 0;
	if (align->path)
		cma_align_rejudge_locked(anet, align);
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_id_work(struct work_struct *work)
{
	struct rdma_id_private *id_priv =
		container_of(work, struct rdma_id_private, align.work);
	struct cma_align_id *align = &id_priv->align;
	enum rdma_cm_state state;

	rdma_lock_handler(&id_priv->id);
	state = READ_ONCE(id_priv->state);
	if (state == RDMA_CM_DESTROYING || state == RDMA_CM_DEVICE_REMOVAL)
		goto out;
	if (READ_ONCE(align->rejudge))
		cma_align_forget_reports(id_priv);
	if (!cma_align_linkable(id_priv)) {
		cma_align_unlink(id_priv);
		goto out;
	}
	if (!align->path || READ_ONCE(align->relink))
		cma_align_link(id_priv);
	if (cma_align_deliver(id_priv)) {
		/* As cma_work_handler(): the destruction waits for all. */
		cma_align_id_put(id_priv);
		cma_align_destroy_unlock(id_priv);
		return;
	}
out:
	rdma_unlock_handler(&id_priv->id);
	cma_align_id_put(id_priv);
}

/**
 * rdma_ha_event_done - an ADDR_CHANGE left the user-space event channel
 * @id: Its id. The caller keeps it from being destroyed.
 * @read: The program read it. Otherwise it could not be queued, and this is
 *	called from within the event handler.
 *
 * For rdma_ucm: an id never has more than one unread report in its channel.
 * What changed meanwhile follows.
 *
 * Context: Process context.
 */
void rdma_ha_event_done(struct rdma_cm_id *id, bool read)
{
	struct rdma_id_private *id_priv =
		container_of(id, struct rdma_id_private, id);
	struct cma_align_id *align = &id_priv->align;

	if (!READ_ONCE(align->unread))
		return;
	align->lost = !read;
	WRITE_ONCE(align->unread, false);
	if (read)
		cma_align_queue_id(id_priv);
}
EXPORT_SYMBOL_GPL(rdma_ha_event_done);

/*
 * The life of an id: hooks of cma.c.
 */

/**
 * __cma_align_resolved - hook: the id's address was resolved
 * @id_priv: The id. The ULP was not yet told.
 *
 * Context: Process context, handler_mutex held.
 */
void __cma_align_resolved(struct rdma_id_private *id_priv)
{
	if (cma_align_linkable(id_priv))
		cma_align_link(id_priv);
}

/**
 * __cma_align_listening - hook: the id listens
 * @id_priv: The id.
 *
 * Context: Process context.
 */
void __cma_align_listening(struct rdma_id_private *id_priv)
{
	if (cma_align_mode(id_priv) && !id_priv->internal_id)
		cma_align_queue_id(id_priv);
}

/**
 * __cma_align_requested - hook: a connection request made an id
 * @id_priv: The new id.
 * @listen_id: The id that listens; of a wildcard listener its part on this
 *	device.
 *
 * Inherits, and takes the baseline before the ULP sees the id.
 *
 * Context: Process context, both handler_mutexes held.
 */
void __cma_align_requested(struct rdma_id_private *id_priv,
			   struct rdma_id_private *listen_id)
{
	struct rdma_id_private *parent = listen_id->internal_id ?
					 listen_id->id.context : listen_id;
	const struct cma_align_id *from = &parent->align;
	struct cma_align_id *align = &id_priv->align;
	u16 mode = cma_align_mode(parent);
	unsigned long flags;

	if (!mode)
		return;
	cma_align_get_net(cma_align_id_net(id_priv));
	spin_lock_irqsave(&id_priv->lock, flags);
	cma_align_setup(id_priv);
	align->explicit = from->explicit;
	align->passive = from->passive;
	align->delays_set = from->delays_set;
	align->downdelay_ms = from->downdelay_ms;
	align->updelay_ms = from->updelay_ms;
	align->accepting = true;
	align->mode = mode;
	spin_unlock_irqrestore(&id_priv->lock, flags);
	cma_align_link(id_priv);
}

/* Something that a report had to wait for is over. */
static void cma_align_rejudge(struct rdma_id_private *id_priv)
{
	struct cma_align_net *anet = cma_align_id_net(id_priv);
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;

	if (!align->mode)
		return;
	spin_lock_irqsave(&anet->lock, flags);
	if (align->path)
		cma_align_rejudge_locked(anet, align);
	spin_unlock_irqrestore(&anet->lock, flags);
	if (align->relink)
		cma_align_queue_id(id_priv);
}

/**
 * __cma_align_request_taken - hook: the ULP took the connection request
 * @id_priv: The new id.
 *
 * A user-space id hears nothing until it accepts: its channel drops events.
 *
 * Context: Process context, handler_mutex held.
 */
void __cma_align_request_taken(struct rdma_id_private *id_priv)
{
	if (!rdma_is_kernel_res(&id_priv->res))
		return;
	id_priv->align.accepting = false;
	cma_align_rejudge(id_priv);
}

/**
 * __cma_align_accepted - hook: rdma_accept() succeeded
 * @id_priv: The id: a passive one, or an active one that accepts the response.
 *
 * Context: Process context, handler_mutex held.
 */
void __cma_align_accepted(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;

	align->accepting = false;
	if (!cma_align_is_passive(id_priv) || cma_align_is_ud(id_priv))
		align->established = true;
	cma_align_rejudge(id_priv);
}

/**
 * __cma_align_established - hook: the connection is up
 * @id_priv: The id. The ULP was not yet told.
 *
 * Context: Process context, handler_mutex held.
 */
void __cma_align_established(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;

	align->established = true;
	/* An iWARP device may have changed the addresses. */
	if (rdma_cap_iw_cm(id_priv->id.device, id_priv->id.port_num))
		align->relink = true;
	cma_align_rejudge(id_priv);
}

/**
 * __cma_align_disconnecting - hook: the ULP called rdma_disconnect()
 * @id_priv: The id.
 *
 * Context: Process context.
 */
void __cma_align_disconnecting(struct rdma_id_private *id_priv)
{
	if (!cma_align_is_ud(id_priv) &&
	    READ_ONCE(id_priv->state) == RDMA_CM_CONNECT)
		WRITE_ONCE(id_priv->align.ended, true);
}

/**
 * __cma_align_late_dreq - hook: the peer asked to disconnect
 * @id_priv: The id.
 * @cm_id: Its ib_cm_id.
 *
 * After a teardown upstream would drop the request, and the peer would repeat
 * it. Answer it: the two requests crossed.
 *
 * Context: Process context, handler_mutex held.
 *
 * Return: true: it was answered.
 */
bool __cma_align_late_dreq(struct rdma_id_private *id_priv,
			   struct ib_cm_id *cm_id)
{
	if (!id_priv->align.torn_down)
		return false;
	ib_send_cm_drep(cm_id, NULL, 0);
	return true;
}

/**
 * __cma_align_forget - hook: the id is being destroyed, or its device goes
 * @id_priv: The id.
 *
 * A pending delay holds nothing up: it belongs to the path. A report that is
 * queued is dropped; one that is being delivered fences by the handler_mutex.
 *
 * Context: Process context. May run in the id's own work.
 */
void __cma_align_forget(struct rdma_id_private *id_priv)
{
	struct cma_align_id *align = &id_priv->align;
	unsigned long flags;
	bool had;

	if (!align->initialised)
		return;
	spin_lock_irqsave(&id_priv->lock, flags);
	had = align->mode;
	WRITE_ONCE(align->mode, RDMA_HA_NONE);
	spin_unlock_irqrestore(&id_priv->lock, flags);
	cma_align_unlink(id_priv);
	if (cancel_work(&align->work))
		cma_align_id_put(id_priv);
	if (had)
		cma_align_put_net(cma_align_id_net(id_priv));
}

/*
 * The worker of a netns.
 */

/* Unlock for a moment after each batch. */
static bool cma_align_breathe(struct cma_align_net *anet, unsigned int *n,
			      unsigned long *flags)
{
	if (++*n % CMA_ALIGN_BATCH)
		return false;
	spin_unlock_irqrestore(&anet->lock, *flags);
	cond_resched();
	spin_lock_irqsave(&anet->lock, *flags);
	return true;
}

static void cma_align_collect_range(struct cma_align_net *anet,
				    const struct cma_align_range *range)
{
	bool v4 = cma_align_is_v4(&range->first);
	struct cma_align_path *path;
	struct cma_align_key key;
	unsigned long flags;
	unsigned int n = 0;

	spin_lock_irqsave(&anet->lock, flags);
	path = cma_align_index_first(anet, &range->first);
	while (path && memcmp(&path->key.dst, &range->last,
			      sizeof(range->last)) <= 0) {
		/* An IPv6 prefix may span the mapped IPv4 addresses. */
		if (v4 == cma_align_is_v4(&path->key.dst))
			cma_align_set_dirty(anet, path);
		key = path->key;
		if (cma_align_breathe(anet, &n, &flags))
			path = cma_align_index_after(anet, &key);
		else
			path = cma_align_index_next(path);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_collect_tag(struct cma_align_net *anet, u64 tag)
{
	struct cma_align_path *path = NULL;
	unsigned long flags;
	unsigned int n = 0;

	spin_lock_irqsave(&anet->lock, flags);
	while ((path = cma_align_index_tagged(anet, tag, path))) {
		cma_align_set_dirty(anet, path);
		cma_align_breathe(anet, &n, &flags);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_collect_all(struct cma_align_net *anet)
{
	static const struct in6_addr first;
	struct cma_align_path *path;
	struct cma_align_key key;
	unsigned long flags;
	unsigned int n = 0;

	spin_lock_irqsave(&anet->lock, flags);
	path = cma_align_index_first(anet, &first);
	while (path) {
		cma_align_set_dirty(anet, path);
		key = path->key;
		if (cma_align_breathe(anet, &n, &flags))
			path = cma_align_index_after(anet, &key);
		else
			path = cma_align_index_next(path);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
}

/* Wait until what was marked can be seen, then find the paths concerned. */
static void cma_align_collect(struct cma_align_net *anet)
{
	struct cma_align_marks marks;
	unsigned long flags;
	int i;

	spin_lock_irqsave(&anet->lock, flags);
	marks = anet->marks;
	memset(&anet->marks, 0, sizeof(anet->marks));
	spin_unlock_irqrestore(&anet->lock, flags);

	if (marks.wait_rtnl) {
		rtnl_lock();
		rtnl_unlock();
	}
	if (marks.wait_rcu)
		synchronize_rcu();

	if (marks.all) {
		cma_align_collect_all(anet);
		return;
	}
	for (i = 0; i < marks.nr_ranges; i++)
		cma_align_collect_range(anet, &marks.ranges[i]);
	for (i = 0; i < marks.nr_tags; i++)
		cma_align_collect_tag(anet, marks.tags[i]);
}

/* Paths whose delay has passed are looked at again before they are told. */
static void cma_align_collect_due(struct cma_align_net *anet)
{
	struct timerqueue_node *due;
	struct cma_align_path *path;
	unsigned long flags;
	unsigned int n = 0;

	spin_lock_irqsave(&anet->lock, flags);
	while ((due = timerqueue_getnext(&anet->due)) &&
	       time_after_eq64(get_jiffies_64(), (u64)due->expires)) {
		path = container_of(due, struct cma_align_path, due);
		timerqueue_del(&anet->due, due);
		cma_align_set_dirty(anet, path);
		cma_align_breathe(anet, &n, &flags);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
}

/* Take over what the look has shown. */
static void cma_align_update(struct cma_align_net *anet,
			     struct cma_align_path *path,
			     const struct cma_align_view *view)
{
	struct cma_align_verdict verdict = cma_align_judge(view);
	u8 old_state = path->state;

	lockdep_assert_held(&anet->lock);
	path->looked = true;
	path->settling = 0;
	path->dest = view->dest;
	path->reason = verdict.reason;
	if (view->has_nexthop && view->adopt_nexthop) {
		path->nexthop = view->nexthop;
		path->nexthop_known = true;
	}
	if (view->adopt_ll) {
		memcpy(path->ll, view->ll, sizeof(path->ll));
		path->ll_known = true;
	}
	cma_align_index_retag(anet, path, CMA_ALIGN_TAG_ROUTE,
			      view->route_ifindex ?
			      cma_align_tag(CMA_ALIGN_TAG_ROUTE,
					    view->route_ifindex) : 0);
	cma_align_index_retag(anet, path, CMA_ALIGN_TAG_NEXTHOP,
			      view->has_nexthop ?
			      cma_align_nexthop_tag(path->key.route_ifindex,
						    &view->nexthop) : 0);
	if (verdict.state == old_state)
		return;

	path->state = verdict.state;
	path->since = get_jiffies_64();
	path->changes++;
	path->incident = anet->incident;
	path->level = cma_align_damp_level(path->damp, path->since);
	list_splice_tail_init(&path->calm, &path->pending);
	trace_cm_align_verdict(path, old_state);
}

/*
 * Ids whose delay has passed get their work queued, in the order in which they
 * became pending; the path is due again for the first of the others.
 */
static void cma_align_release(struct cma_align_net *anet,
			      struct cma_align_path *path, unsigned long *flags)
{
	struct rdma_id_private *id_priv;
	struct cma_align_id *align;
	unsigned int n = 0;
	u64 now, due;

	lockdep_assert_held(&anet->lock);
	while ((align = list_first_entry_or_null(&path->pending,
						 struct cma_align_id, item))) {
		now = get_jiffies_64();
		due = cma_align_due(path, align, now);
		if (cma_align_id_verdict(align, path->state) !=
		    align->verdict && due > now) {
			cma_align_set_due(anet, path, due);
			break;
		}
		list_move_tail(&align->item, &path->calm);
		align->released = path->changes + 1;
		id_priv = container_of(align, struct rdma_id_private, align);
		if (cma_align_id_verdict(align, path->state) != align->verdict)
			cma_align_queue_id(id_priv);
		else
			trace_cm_align_suppress(id_priv, path->state,
						path->reason);
		cma_align_breathe(anet, &n, flags);
	}
}

static void cma_align_look_at(struct cma_align_net *anet,
			      struct cma_align_path *path)
{
	struct cma_align_view view;
	unsigned long flags;
	int ret;

	ret = cma_align_look(anet, path, &view);
	spin_lock_irqsave(&anet->lock, flags);
	if (!path->nr_ids)
		goto out;
	cma_align_clear_due(anet, path);
	if (ret) {
		if (ret == -EAGAIN)
			path->settling++;
		cma_align_set_due(anet, path,
				  get_jiffies_64() + CMA_ALIGN_RETRY);
		goto out;
	}
	cma_align_update(anet, path, &view);
	cma_align_release(anet, path, &flags);
out:
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_look_at_dirty(struct cma_align_net *anet)
{
	struct cma_align_path *path;
	unsigned long flags;

	for (;;) {
		spin_lock_irqsave(&anet->lock, flags);
		path = list_first_entry_or_null(&anet->dirty,
						struct cma_align_path,
						dirty_item);
		if (path) {
			list_del_init(&path->dirty_item);
			path->dirty = false;
			refcount_inc(&path->refs);
		}
		spin_unlock_irqrestore(&anet->lock, flags);
		if (!path)
			return;
		cma_align_look_at(anet, path);
		cma_align_put_path(path);
		cond_resched();
	}
}

static void cma_align_arm_timer(struct cma_align_net *anet, bool retry)
{
	u64 now = get_jiffies_64(), when = U64_MAX;
	struct timerqueue_node *due;
	unsigned long flags;

	if (retry)
		when = now + CMA_ALIGN_RETRY_LATE;
	spin_lock_irqsave(&anet->lock, flags);
	due = timerqueue_getnext(&anet->due);
	if (due)
		when = min_t(u64, when, due->expires);
	if (when != U64_MAX && !anet->exiting)
		mod_timer(&anet->timer,
			  jiffies + (when > now ? when - now : 0));
	spin_unlock_irqrestore(&anet->lock, flags);
}

static void cma_align_timer(struct timer_list *t)
{
	struct cma_align_net *anet = from_timer(anet, t, timer);

	cma_align_queue_net(anet);
}

static void cma_align_net_work(struct work_struct *work)
{
	struct cma_align_net *anet =
		container_of(work, struct cma_align_net, work);
	bool retry = false;

	if (!atomic_read(&anet->users)) {
		cma_align_ignore(anet);
		cma_align_deactivate(anet);
		return;
	}
	/* Until the routes can be heard of, look at every path now and then. */
	if (cma_align_listen_to(anet)) {
		cma_align_mark_all(anet, CMA_ALIGN_VISIBLE_NOW);
		retry = true;
	}
	cma_align_collect(anet);
	cma_align_collect_due(anet);
	cma_align_look_at_dirty(anet);
	cma_align_arm_timer(anet, retry);
}

static int __net_init cma_align_init_net(struct net *net)
{
	struct cma_align_net *anet = cma_align_net(net);

	anet->net = net;
	spin_lock_init(&anet->lock);
	anet->paths = RB_ROOT;
	anet->tags = RB_ROOT;
	anet->damps = RB_ROOT;
	INIT_LIST_HEAD(&anet->unused_damps);
	timerqueue_init_head(&anet->due);
	INIT_LIST_HEAD(&anet->dirty);
	INIT_LIST_HEAD(&anet->item);
	INIT_WORK(&anet->work, cma_align_net_work);
	timer_setup(&anet->timer, cma_align_timer, 0);
	return 0;
}

/*
 * Ids keep their netns, so none is left. Nothing queues the work once exiting
 * is set and both it and the timer were waited for: either may have started the
 * other before.
 */
static void __net_exit cma_align_exit_net(struct net *net)
{
	struct cma_align_net *anet = cma_align_net(net);
	struct cma_align_damp *damp, *next;
	unsigned long flags;

	spin_lock_irqsave(&anet->lock, flags);
	WRITE_ONCE(anet->exiting, true);
	spin_unlock_irqrestore(&anet->lock, flags);
	cancel_work_sync(&anet->work);
	timer_delete_sync(&anet->timer);
	cancel_work_sync(&anet->work);

	cma_align_ignore(anet);
	cma_align_deactivate(anet);
	WARN_ON(!RB_EMPTY_ROOT(&anet->paths));
	rbtree_postorder_for_each_entry_safe(damp, next, &anet->damps, node)
		kfree(damp);
}

static struct pernet_operations cma_align_net_ops = {
	.init = cma_align_init_net,
	.exit = cma_align_exit_net,
	.id = &cma_align_net_id,
	.size = sizeof(struct cma_align_net),
};

/**
 * cma_align_init - hook: the module is loaded
 *
 * Context: Process context.
 *
 * Return: 0 or a negative errno.
 */
int cma_align_init(void)
{
	int ret;

	/*
	 * Looks and deliveries are apart from cma.c's queue, which is ordered:
	 * there one slow ULP would hold up all others.
	 */
	cma_align_wq = alloc_workqueue("rdma_cm_align",
				       WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!cma_align_wq)
		return -ENOMEM;
	ret = register_pernet_subsys(&cma_align_net_ops);
	if (ret)
		destroy_workqueue(cma_align_wq);
	return ret;
}

/**
 * cma_align_exit - hook: the module is unloaded; no id is left
 *
 * Context: Process context.
 */
void cma_align_exit(void)
{
	unregister_pernet_subsys(&cma_align_net_ops);
	cma_align_events_exit();
	destroy_workqueue(cma_align_wq);
}
