// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: the link between ids and paths.
 *
 * Ids with the same request that came to the same path share it. An id is linked
 * when its address is resolved, when a request makes it, when it listens, or when
 * it gets a mode later; the key is built from what cma.c keeps of the resolution,
 * so that all four come to the same.
 */

#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/slab.h>
#include <net/ipv6.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_sa.h>

#include "cma_align_priv.h"

void cma_align_put_path(struct cma_align_path *path)
{
	if (refcount_dec_and_test(&path->refs))
		kfree(path);
}

void cma_align_set_dirty(struct cma_align_net *anet,
			 struct cma_align_path *path)
{
	lockdep_assert_held(&anet->lock);
	if (path->dirty)
		return;
	path->dirty = true;
	list_add_tail(&path->dirty_item, &anet->dirty);
}

void cma_align_clear_due(struct cma_align_net *anet,
			 struct cma_align_path *path)
{
	if (!RB_EMPTY_NODE(&path->due.node))
		timerqueue_del(&anet->due, &path->due);
}

/* At @when look at the path again. Only the earliest time counts. */
void cma_align_set_due(struct cma_align_net *anet,
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

/* When the present verdict of the path is due for an id. */
u64 cma_align_due(const struct cma_align_path *path,
		  const struct cma_align_id *align, u64 now)
{
	return max(path->since, align->joined) + cma_align_delay(path, now);
}

void cma_align_set_hidden(struct cma_align_net *anet,
			  struct cma_align_path *path, bool hidden)
{
	lockdep_assert_held(&anet->lock);
	if (hidden != list_empty(&path->hidden_item))
		return;
	if (hidden) {
		list_add_tail(&path->hidden_item, &anet->hidden);
		anet->nr_hidden++;
	} else {
		list_del_init(&path->hidden_item);
		anet->nr_hidden--;
	}
}

/* Judge the id afresh: what it was told for stands no more in the way. */
void cma_align_rejudge_locked(struct cma_align_net *anet,
			      struct cma_align_id *align)
{
	struct cma_align_path *path = align->path;

	lockdep_assert_held(&anet->lock);
	align->joined = cma_align_now();
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
	cma_align_set_hidden(anet, path, false);
	if (path->dirty)
		list_del_init(&path->dirty_item);
	cma_align_damp_put(anet, path->damp);
	cma_align_put_path(path);
}

void cma_align_unlink(struct rdma_id_private *id_priv)
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
bool cma_align_is_passive(const struct rdma_id_private *id_priv)
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
 * IPv6 resolves an id by another netdevice than that of its source address when
 * the preferred route leaves there. What the ULP bound it to still is where its
 * traffic leaves, by its GID; it was never reached by a route there.
 */
static void cma_align_bound_key(const struct rdma_dev_addr *dev_addr,
				struct cma_align_key *key)
{
	struct net_device *ndev;

	if (!key->gid_attr)
		return;
	rcu_read_lock();
	ndev = rcu_dereference(key->gid_attr->ndev);
	if (ndev && ndev->ifindex != key->ifindex &&
	    net_eq(dev_net(ndev), dev_addr->net)) {
		key->ifindex = ndev->ifindex;
		key->route_ifindex = ndev->ifindex;
		key->gateway = false;
		memset(key->src_ll, 0, sizeof(key->src_ll));
		memcpy(key->src_ll, ndev->dev_addr,
		       min_t(int, ndev->addr_len, CMA_ALIGN_LL_LEN));
	}
	rcu_read_unlock();
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
		if (key->pinned)
			cma_align_bound_key(dev_addr, key);
	}
	return true;
}

bool cma_align_linkable(const struct rdma_id_private *id_priv)
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

/* @path has its key. */
void cma_align_init_path(struct cma_align_net *anet,
			 struct cma_align_path *path,
			 struct cma_device *cma_dev)
{
	struct cma_align_key *key = &path->key;

	path->netns = anet->net->ns.inum;
	path->cma_dev = cma_dev;
	path->since = cma_align_now();
	path->dest.rdma_dev = RDMA_ALIGN_NO_RDMA_DEV;
	path->ll_known = key->ll_known;
	memcpy(path->ll, key->ll, sizeof(path->ll));
	if (key->kind == CMA_ALIGN_PASSIVE && key->route_ifindex) {
		path->nexthop = key->gw;
		path->nexthop_known = true;
	}
	refcount_set(&path->refs, 1);
	INIT_LIST_HEAD(&path->dirty_item);
	INIT_LIST_HEAD(&path->hidden_item);
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
void cma_align_link(struct rdma_id_private *id_priv)
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
	cma_align_init_path(anet, spare, id_priv->cma_dev);

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
		align->joined = cma_align_now();
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
