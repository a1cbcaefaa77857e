// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: is a path still the one that the IP stack uses?
 *
 * cma_align_look() asks the present state of the stack, and writes down what it
 * saw in plain values. cma_align_judge() decides, from these values alone.
 *
 * The lookups ask what rdma_resolve_addr() would ask: no TOS, mark or uid; for
 * an id that is not pinned neither source nor netdevice, since the hash of a
 * multipath route covers the source.
 *
 * All but cma_align_judge() runs in the worker or where an id is linked: it may
 * sleep, holds no lock of cma_align, and waits for no RTNL.
 */

#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/ip_fib.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6_stubs.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <net/nexthop.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "core_priv.h"
#include "cma_align_priv.h"

/* So many looks at a passing state before it is believed. */
#define CMA_ALIGN_SETTLE_LOOKS	10

/**
 * struct cma_align_hop - the answer of a lookup
 * @ifindex: The netdevice. For a destination on this host: the one that has it.
 * @nexthop: The gateway, or the destination if there is none.
 * @src: The source address that goes with it.
 * @gateway: There is one.
 * @local: The destination is on this host: there is no neighbour.
 */
struct cma_align_hop {
	u32		ifindex;
	struct in6_addr	nexthop;
	struct in6_addr	src;
	bool		gateway;
	bool		local;
};

static __be32 cma_align_v4(const struct in6_addr *addr)
{
	return addr->s6_addr32[3];
}

/* A lookup that failed for lack of memory says nothing. */
static bool cma_align_no_answer(int ret)
{
	return ret == -ENOMEM || ret == -ENOBUFS;
}

/*
 * rdma_cm does not use the loopback device: it takes the netdevice that has the
 * destination address.
 */
static u32 cma_align_holder(struct net *net, const struct in6_addr *addr,
			    u32 ifindex)
{
	struct net_device *ndev = NULL;
	u32 holder = 0;

	rcu_read_lock();
	if (cma_align_is_v4(addr)) {
		ndev = __ip_dev_find(net, cma_align_v4(addr), false);
	} else if (ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL) {
		ndev = dev_get_by_index_rcu(net, ifindex);
		if (ndev && !ipv6_chk_addr(net, addr, ndev, 1))
			ndev = NULL;
	} else if (ipv6_mod_enabled()) {
		ndev = ipv6_dev_find(net, addr, NULL);
	}
	if (ndev)
		holder = ndev->ifindex;
	rcu_read_unlock();
	return holder;
}

static int cma_align_lookup4(struct net *net, const struct cma_align_key *key,
			     const struct in6_addr *src, u32 oif,
			     struct cma_align_hop *hop)
{
	struct flowi4 fl4 = {
		.daddr = cma_align_v4(&key->dst),
		.saddr = src ? cma_align_v4(src) : 0,
		.flowi4_oif = oif,
	};
	struct rtable *rt;

	rt = ip_route_output_key(net, &fl4);
	if (IS_ERR(rt))
		return PTR_ERR(rt);

	hop->ifindex = rt->dst.dev->ifindex;
	hop->local = rt->rt_type == RTN_LOCAL;
	hop->gateway = rt->rt_uses_gateway;
	ipv6_addr_set_v4mapped(fl4.saddr, &hop->src);
	if (!rt->rt_uses_gateway)
		hop->nexthop = key->dst;
	else if (rt->rt_gw_family == AF_INET6)
		hop->nexthop = rt->rt_gw6;
	else
		ipv6_addr_set_v4mapped(rt->rt_gw4, &hop->nexthop);
	ip_rt_put(rt);
	return 0;
}

static int cma_align_lookup6(struct net *net, const struct cma_align_key *key,
			     const struct in6_addr *src, u32 oif,
			     struct cma_align_hop *hop)
{
	struct flowi6 fl6 = {
		.daddr = key->dst,
		.flowi6_oif = oif,
	};
	struct dst_entry *dst;
	struct rt6_info *rt;

	if (!ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	if (src)
		fl6.saddr = *src;
	dst = ipv6_stub->ipv6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return PTR_ERR(dst);

	rt = dst_rt6_info(dst);
	hop->ifindex = dst->dev->ifindex;
	hop->local = rt->rt6i_flags & RTF_LOCAL;
	hop->gateway = rt->rt6i_flags & RTF_GATEWAY;
	hop->nexthop = *rt6_nexthop(rt, &key->dst);
	hop->src = fl6.saddr;
	dst_release(dst);
	return 0;
}

/*
 * What would carry a packet to the path's destination? @src and @oif may be
 * NULL and 0.
 *
 * Return: 0, -ENOMEM or -ENOBUFS: no answer; another error: there is no route.
 */
static int cma_align_lookup(struct net *net, const struct cma_align_key *key,
			    const struct in6_addr *src, u32 oif,
			    struct cma_align_hop *hop)
{
	int ret;

	memset(hop, 0, sizeof(*hop));
	if (key->family == AF_INET)
		ret = cma_align_lookup4(net, key, src, oif, hop);
	else
		ret = cma_align_lookup6(net, key, src, oif, hop);
	if (ret)
		return ret;

	if (hop->local) {
		hop->ifindex = cma_align_holder(net, &key->dst, hop->ifindex);
		hop->nexthop = key->dst;
		hop->gateway = false;
	}
	return 0;
}

static bool cma_align_route_by4(struct net *net,
				const struct cma_align_key *key,
				const struct in6_addr *src, u32 ifindex)
{
	struct flowi4 fl4 = {
		.daddr = cma_align_v4(&key->dst),
		.saddr = src ? cma_align_v4(src) : 0,
		.flowi4_oif = ifindex,
	};
	struct fib_result res;
	bool found;

	rcu_read_lock();
	found = !fib_lookup(net, &fl4, &res, 0) && res.type == RTN_UNICAST;
	rcu_read_unlock();
	return found;
}

static bool cma_align_route_by6(struct net *net,
				const struct cma_align_key *key,
				const struct in6_addr *src, u32 ifindex)
{
	struct rt6_info *rt;
	bool found;

	if (!ipv6_mod_enabled())
		return false;
	rt = rt6_lookup(net, &key->dst, src, ifindex, NULL, RT6_LOOKUP_F_IFACE);
	if (!rt)
		return false;
	found = rt->dst.dev->ifindex == ifindex && !rt->dst.error &&
		!(rt->rt6i_flags & (RTF_REJECT | RTF_LOCAL));
	ip6_rt_put(rt);
	return found;
}

/*
 * Does some route to the destination leave by this netdevice? The output
 * lookups cannot tell: with a netdevice given IPv4 assumes that the destination
 * is on link where it finds no route, and IPv6 answers with another netdevice.
 */
static bool cma_align_route_by(struct net *net, const struct cma_align_key *key,
			       const struct in6_addr *src, u32 ifindex)
{
	return key->family == AF_INET ?
	       cma_align_route_by4(net, key, src, ifindex) :
	       cma_align_route_by6(net, key, src, ifindex);
}

/**
 * struct cma_align_members - the members of the chosen route
 * @hop: One that must be among them, for the others to count: a redirect is no
 *	member, and overrides them.
 * @own: The one looked for.
 * @ifindex: Its netdevice.
 * @has_hop: @hop was met.
 * @has_own: @own was met, and is not dead.
 */
struct cma_align_members {
	const struct cma_align_hop	*hop;
	const struct in6_addr		*own;
	u32				ifindex;
	bool				has_hop;
	bool				has_own;
};

static void cma_align_member(struct cma_align_members *m,
			     const struct fib_nh_common *nhc,
			     const struct in6_addr *dst, bool dead)
{
	struct in6_addr nexthop;

	if (!nhc->nhc_dev)
		return;
	switch (nhc->nhc_gw_family) {
	case AF_INET:
		ipv6_addr_set_v4mapped(nhc->nhc_gw.ipv4, &nexthop);
		break;
	case AF_INET6:
		nexthop = nhc->nhc_gw.ipv6;
		break;
	default:
		nexthop = *dst;
	}
	if (nhc->nhc_dev->ifindex == m->hop->ifindex &&
	    ipv6_addr_equal(&nexthop, &m->hop->nexthop))
		m->has_hop = true;
	if (!dead && nhc->nhc_dev->ifindex == m->ifindex &&
	    (!m->own || ipv6_addr_equal(&nexthop, m->own)))
		m->has_own = true;
}

static void cma_align_members4(struct net *net, const struct cma_align_key *key,
			       const struct in6_addr *src,
			       struct cma_align_members *m)
{
	struct flowi4 fl4 = {
		.daddr = cma_align_v4(&key->dst),
		.saddr = src ? cma_align_v4(src) : 0,
	};
	struct fib_result res;
	int i;

	rcu_read_lock();
	if (!fib_lookup(net, &fl4, &res, 0) && res.fi) {
		for (i = 0; i < fib_info_num_path(res.fi); i++) {
			struct fib_nh_common *nhc = fib_info_nhc(res.fi, i);
			bool dead = nhc->nhc_flags & RTNH_F_DEAD;

			if (nhc->nhc_flags & RTNH_F_LINKDOWN && nhc->nhc_dev) {
				struct in_device *in_dev =
					__in_dev_get_rcu(nhc->nhc_dev);

				if (in_dev &&
				    IN_DEV_IGNORE_ROUTES_WITH_LINKDOWN(in_dev))
					dead = true;
			}
			cma_align_member(m, nhc, &key->dst, dead);
		}
	}
	rcu_read_unlock();
}

struct cma_align_members6 {
	struct cma_align_members	*m;
	const struct in6_addr		*dst;
};

static int cma_align_member6(struct fib6_nh *nh, void *arg)
{
	struct cma_align_members6 *a = arg;

	cma_align_member(a->m, &nh->nh_common, a->dst,
			 nh->fib_nh_flags & RTNH_F_DEAD);
	return 0;
}

static void cma_align_members6(struct net *net, const struct cma_align_key *key,
			       const struct in6_addr *src,
			       struct cma_align_members *m)
{
	struct cma_align_members6 arg = { .m = m, .dst = &key->dst };
	struct flowi6 fl6 = { .daddr = key->dst };
	struct fib6_info *from, *sibling;
	struct dst_entry *dst;

	if (src)
		fl6.saddr = *src;
	dst = ipv6_stub->ipv6_dst_lookup_flow(net, NULL, &fl6, NULL);
	if (IS_ERR(dst))
		return;

	rcu_read_lock();
	from = rcu_dereference(dst_rt6_info(dst)->from);
	if (from && from->nh) {
		nexthop_for_each_fib6_nh(from->nh, cma_align_member6, &arg);
	} else if (from) {
		cma_align_member6(from->fib6_nh, &arg);
		if (READ_ONCE(from->fib6_nsiblings))
			list_for_each_entry_rcu(sibling, &from->fib6_siblings,
						fib6_siblings)
				cma_align_member6(sibling->fib6_nh, &arg);
	}
	rcu_read_unlock();
	dst_release(dst);
}

/*
 * Is (@ifindex, @own) a member of the route that was chosen, and not dead?
 * With @own NULL: any next hop on the netdevice.
 */
static bool cma_align_is_member(struct net *net,
				const struct cma_align_key *key,
				const struct in6_addr *src,
				const struct cma_align_hop *hop, u32 ifindex,
				const struct in6_addr *own)
{
	struct cma_align_members m = {
		.hop = hop,
		.own = own,
		.ifindex = ifindex,
	};

	if (hop->local)
		return false;
	if (key->family == AF_INET)
		cma_align_members4(net, key, src, &m);
	else
		cma_align_members6(net, key, src, &m);
	return m.has_hop && m.has_own;
}

/* Neighbours of these say nothing: their keys or addresses are made up. */
static bool cma_align_no_neighbours(const struct net_device *ndev)
{
	return ndev->flags & (IFF_NOARP | IFF_LOOPBACK | IFF_POINTOPOINT) ||
	       (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_INFINIBAND);
}

/*
 * The link-layer address of a next hop, if the neighbour table knows it.
 * Nothing is created unless @ask: then the stack is asked to find it out, and a
 * neighbour update will tell.
 */
static bool cma_align_neigh(struct net *net, u32 ifindex,
			    const struct in6_addr *nexthop, bool ask, u8 *ll)
{
	bool v4 = cma_align_is_v4(nexthop);
	struct neigh_table *tbl = &arp_tbl;
	const void *key = &nexthop->s6_addr32[3];
	char ha[MAX_ADDR_LEN];
	struct net_device *ndev;
	struct neighbour *neigh;
	bool known = false;

	if (!v4) {
		if (!ipv6_mod_enabled())
			return false;
		tbl = &nd_tbl;
		key = nexthop;
	}
	ndev = dev_get_by_index(net, ifindex);
	if (!ndev)
		return false;
	if (cma_align_no_neighbours(ndev))
		goto out;

	neigh = neigh_lookup(tbl, key, ndev);
	if (!neigh && ask) {
		neigh = neigh_create(tbl, key, ndev);
		if (IS_ERR(neigh))
			neigh = NULL;
	}
	if (!neigh)
		goto out;
	if (READ_ONCE(neigh->nud_state) & NUD_VALID) {
		neigh_ha_snapshot(ha, neigh, ndev);
		memset(ll, 0, CMA_ALIGN_LL_LEN);
		memcpy(ll, ha, min_t(int, ndev->addr_len, CMA_ALIGN_LL_LEN));
		known = true;
	} else if (ask) {
		neigh_event_send(neigh, NULL);
	}
	neigh_release(neigh);
out:
	dev_put(ndev);
	return known;
}

bool cma_align_addr_on(struct net *net, u32 ifindex,
		       const struct in6_addr *addr)
{
	struct net_device *ndev;
	bool found = false;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(net, ifindex);
	if (!ndev)
		goto out;
	if (cma_align_is_v4(addr)) {
		struct in_device *in_dev = __in_dev_get_rcu(ndev);
		const struct in_ifaddr *ifa;

		if (!in_dev)
			goto out;
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			if (ifa->ifa_local == cma_align_v4(addr)) {
				found = true;
				break;
			}
		}
	} else if (ipv6_mod_enabled()) {
		found = ipv6_chk_addr(net, addr, ndev, 1);
	}
out:
	rcu_read_unlock();
	return found;
}

static void cma_align_look_netdev(struct net *net,
				  const struct cma_align_key *key,
				  struct cma_align_view *view)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = dev_get_by_index_rcu(net, key->ifindex);
	view->link = ndev && ndev->flags & IFF_UP && netif_carrier_ok(ndev);
	view->hwaddr = !ndev ||
		       !memcmp(key->src_ll, ndev->dev_addr,
			       min_t(int, ndev->addr_len, CMA_ALIGN_LL_LEN));
	rcu_read_unlock();
	view->addr = !key->addr_checked ||
		     cma_align_addr_on(net, key->ifindex, &key->src);
}

/*
 * The path's own GID table entry. Its index is compared with the value there:
 * the reference that the ids hold keeps the slot from being used again.
 */
static bool cma_align_gid_valid(const struct cma_align_key *key,
				struct ib_device *device)
{
	const struct ib_gid_attr *attr = key->gid_attr;
	union ib_gid gid;

	return !attr ||
	       (!rdma_query_gid(device, key->port, attr->index, &gid) &&
		!memcmp(&gid, &attr->gid, sizeof(gid)));
}

/* A listener's requests find it by the value of the GID, wherever it is. */
static bool cma_align_gid_present(const struct cma_align_key *key,
				  struct ib_device *device)
{
	const struct ib_gid_attr *attr = key->gid_attr, *found;

	if (!attr)
		return true;
	found = rdma_find_gid_by_port(device, &attr->gid, attr->gid_type,
				      key->port, NULL);
	if (IS_ERR(found))
		return false;
	rdma_put_gid_attr(found);
	return true;
}

/*
 * Takes what keeps the RDMA device and the GID table entry: the references of
 * an id that is linked. They are dropped before anything is waited for, so the
 * removal of the device is not held up.
 */
static bool cma_align_look_port(struct cma_align_net *anet,
				struct cma_align_path *path,
				struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	enum ib_port_state state;
	struct cma_device *cma_dev;
	struct ib_device *device;
	unsigned long flags;

	spin_lock_irqsave(&anet->lock, flags);
	if (!path->nr_ids) {
		spin_unlock_irqrestore(&anet->lock, flags);
		return false;
	}
	cma_dev = path->cma_dev;
	cma_dev_get(cma_dev);
	if (key->gid_attr)
		rdma_hold_gid_attr(key->gid_attr);
	spin_unlock_irqrestore(&anet->lock, flags);

	device = cma_get_ib_dev(cma_dev);
	view->port = !ib_get_cached_port_state(device, key->port, &state) &&
		     state == IB_PORT_ACTIVE &&
		     rdma_dev_access_netns(device, anet->net);
	if (key->kind == CMA_ALIGN_LISTENER)
		view->gid = cma_align_gid_present(key, device);
	else
		view->gid = cma_align_gid_valid(key, device);

	if (key->gid_attr)
		rdma_put_gid_attr(key->gid_attr);
	cma_dev_put(cma_dev);
	return true;
}

static void cma_align_to_sockaddr(const struct in6_addr *addr, u32 ifindex,
				  struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (cma_align_is_v4(addr)) {
		struct sockaddr_in *sin = (struct sockaddr_in *)ss;

		sin->sin_family = AF_INET;
		sin->sin_addr.s_addr = cma_align_v4(addr);
	} else {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)ss;

		sin6->sin6_family = AF_INET6;
		sin6->sin6_addr = *addr;
		if (ipv6_addr_type(addr) & IPV6_ADDR_LINKLOCAL)
			sin6->sin6_scope_id = ifindex;
	}
}

/* The RDMA device and port that serve a source address on a netdevice. */
static void cma_align_find_dest(struct net *net, u32 ifindex,
				const struct in6_addr *src,
				struct cma_align_dest *dest)
{
	struct rdma_dev_addr dev_addr = { .net = net };
	const struct ib_gid_attr *attr;
	struct sockaddr_storage ss;
	struct net_device *ndev;

	dest->ifindex = ifindex;
	dest->rdma_dev = RDMA_ALIGN_NO_RDMA_DEV;
	dest->port = 0;
	ndev = dev_get_by_index(net, ifindex);
	if (!ndev)
		return;
	rdma_copy_src_l2_addr(&dev_addr, ndev);
	dev_put(ndev);

	cma_align_to_sockaddr(src, ifindex, &ss);
	attr = cma_align_find_port(&dev_addr, (struct sockaddr *)&ss);
	if (IS_ERR(attr))
		return;
	dest->rdma_dev = attr->device->index;
	dest->port = attr->port_num;
	rdma_put_gid_attr(attr);
}

/* Listening again succeeds where another RDMA device serves the address. */
static void cma_align_look_listener(struct net *net,
				    const struct cma_align_key *key,
				    struct cma_align_view *view)
{
	u32 holder = cma_align_holder(net, &key->src, key->ifindex);

	view->link = true;
	view->port = true;
	if (view->gid)
		return;
	cma_align_find_dest(net, holder, &key->src, &view->dest);
	view->gid = !view->dest.port ||
		    (view->dest.rdma_dev == key->rdma_dev &&
		     view->dest.port == key->port);
	if (!view->gid)
		view->addr = cma_align_addr_on(net, key->ifindex, &key->src);
}

/*
 * The next hop in use on the path's netdevice is @hop. Is it at another
 * link-layer address than the ids use?
 */
static void cma_align_look_neigh(struct net *net, struct cma_align_path *path,
				 const struct cma_align_hop *hop,
				 struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	bool changed = path->nexthop_known &&
		       !ipv6_addr_equal(&path->nexthop, &hop->nexthop);
	u8 ll[CMA_ALIGN_LL_LEN];

	view->nexthop = hop->nexthop;
	view->has_nexthop = true;
	view->adopt_nexthop = !path->nexthop_known;
	if (hop->local || ipv6_addr_is_multicast(&key->dst) ||
	    (cma_align_is_v4(&key->dst) &&
	     ipv4_is_multicast(cma_align_v4(&key->dst))))
		return;

	if (!cma_align_neigh(net, key->route_ifindex, &hop->nexthop, changed,
			     ll)) {
		view->asking = changed;
		return;
	}
	if (!path->ll_known) {
		memcpy(view->ll, ll, sizeof(ll));
		view->adopt_ll = true;
		view->adopt_nexthop = true;
		return;
	}
	if (memcmp(ll, path->ll, sizeof(ll)))
		view->neigh_differs = true;
	else
		view->adopt_nexthop = true;
}

static int cma_align_look_pinned(struct cma_align_net *anet,
				 struct cma_align_path *path,
				 struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	struct net *net = anet->net;
	struct cma_align_hop hop;
	int ret;

	view->route = CMA_ALIGN_ROUTE_OWN;
	view->own_route = true;
	view->route_ifindex = key->ifindex;

	/* Is it the route that a packet from this source would take anyway? */
	if (key->gateway) {
		ret = cma_align_lookup(net, key, &key->src, 0, &hop);
		if (cma_align_no_answer(ret))
			return ret;
		view->hidden = ret || hop.ifindex != key->ifindex;
	}
	ret = cma_align_lookup(net, key, &key->src, key->ifindex, &hop);
	if (cma_align_no_answer(ret))
		return ret;
	if (key->gateway && (ret || !hop.local) &&
	    !cma_align_route_by(net, key, &key->src, key->ifindex)) {
		view->route = CMA_ALIGN_ROUTE_NONE;
		view->own_route = false;
		return 0;
	}
	if (!ret && hop.ifindex == key->ifindex)
		cma_align_look_neigh(net, path, &hop, view);
	return 0;
}

static int cma_align_look_unpinned(struct cma_align_net *anet,
				   struct cma_align_path *path,
				   struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	const struct in6_addr *src =
		key->kind == CMA_ALIGN_PASSIVE ? &key->src : NULL;
	u32 own = key->route_ifindex;
	struct net *net = anet->net;
	struct cma_align_hop hop;
	int ret;

	ret = cma_align_lookup(net, key, src, 0, &hop);
	if (cma_align_no_answer(ret))
		return ret;
	if (!ret) {
		view->route_ifindex = hop.ifindex;
		view->dest.ifindex = hop.ifindex;
	}
	/* The peer was never reachable by a route, or the route is a local one. */
	if (!own) {
		view->own_route = true;
		return 0;
	}
	if (ret) {
		view->route = CMA_ALIGN_ROUTE_NONE;
		return 0;
	}

	view->own_route = true;
	/* A passive id's own netdevice is right, whatever the baseline was. */
	if (own != key->ifindex && hop.ifindex == key->ifindex)
		return 0;
	if (hop.ifindex == own &&
	    (!path->nexthop_known ||
	     ipv6_addr_equal(&hop.nexthop, &path->nexthop))) {
		cma_align_look_neigh(net, path, &hop, view);
		return 0;
	}
	if (cma_align_is_member(net, key, src, &hop, own,
				path->nexthop_known ? &path->nexthop : NULL)) {
		if (path->nexthop_known) {
			hop.nexthop = path->nexthop;
			cma_align_look_neigh(net, path, &hop, view);
		}
		return 0;
	}
	if (hop.ifindex == own) {
		cma_align_look_neigh(net, path, &hop, view);
		return 0;
	}
	view->route = CMA_ALIGN_ROUTE_OTHER;
	view->hidden = true;
	view->own_route = cma_align_route_by(net, key, src, own);
	return 0;
}

static void cma_align_look_dest(struct cma_align_net *anet,
				struct cma_align_path *path,
				struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	struct in6_addr src = key->src;
	struct cma_align_hop hop;
	u32 ifindex = view->dest.ifindex;

	if (key->pinned)
		ifindex = cma_align_holder(anet->net, &key->src, key->ifindex);
	if (!ifindex)
		return;
	/* An id that is not pinned takes the source that goes with the route. */
	if (!key->pinned && key->kind == CMA_ALIGN_ACTIVE &&
	    !cma_align_lookup(anet->net, key, NULL, 0, &hop))
		src = hop.src;
	cma_align_find_dest(anet->net, ifindex, &src, &view->dest);
}

/**
 * cma_align_look - see what became of a path
 * @anet: The netns.
 * @path: The path; the caller holds a reference.
 * @view: Filled in.
 *
 * Context: Process context, no locks held. Takes cma_align_net.lock and cma.c's
 * lock.
 *
 * Return: 0; -EAGAIN: a passing state, look again soon; -ENOMEM, -ENOBUFS: the
 * stack could not answer, look again; -ENOENT: no id is linked any more.
 */
int cma_align_look(struct cma_align_net *anet, struct cma_align_path *path,
		   struct cma_align_view *view)
{
	const struct cma_align_key *key = &path->key;
	struct net *net = anet->net;
	int ret;

	memset(view, 0, sizeof(*view));
	view->link = true;
	view->addr = true;
	view->hwaddr = true;
	view->own_route = true;
	view->dest.rdma_dev = RDMA_ALIGN_NO_RDMA_DEV;
	if (!cma_align_look_port(anet, path, view))
		return -ENOENT;

	switch (key->kind) {
	case CMA_ALIGN_PORT:
		return 0;
	case CMA_ALIGN_LISTENER:
		cma_align_look_listener(net, key, view);
		return 0;
	}

	cma_align_look_netdev(net, key, view);
	if (key->pinned)
		ret = cma_align_look_pinned(anet, path, view);
	else
		ret = cma_align_look_unpinned(anet, path, view);
	if (ret)
		return ret;
	if (cma_align_judge(view).state == CMA_ALIGN_ALIGNED)
		return 0;
	cma_align_look_dest(anet, path, view);

	/*
	 * A failover deletes the GIDs of the netdevice and adds them again, from
	 * another work: in between nobody has them. Do not tell that as news.
	 */
	if (!view->gid && view->addr && view->link && !view->dest.port &&
	    path->settling < CMA_ALIGN_SETTLE_LOOKS)
		return -EAGAIN;
	return 0;
}

/**
 * cma_align_judge - what does it mean?
 * @view: What was seen.
 *
 * The whole policy of section "aligned, superseded, down". A pure function.
 *
 * Context: Any.
 *
 * Return: the verdict.
 */
struct cma_align_verdict cma_align_judge(const struct cma_align_view *view)
{
	bool link = view->link && view->port;
	bool moved = view->route == CMA_ALIGN_ROUTE_OTHER;
	bool no_route = view->route == CMA_ALIGN_ROUTE_NONE;
	struct cma_align_verdict verdict = { .state = CMA_ALIGN_SUPERSEDED };

	if (!link)
		verdict.reason = RDMA_ALIGN_REASON_LINK;
	else if (!view->addr)
		verdict.reason = RDMA_ALIGN_REASON_ADDRESS;
	else if (!view->gid || !view->hwaddr)
		verdict.reason = RDMA_ALIGN_REASON_FAILOVER;
	else if (moved)
		verdict.reason = RDMA_ALIGN_REASON_ROUTE;
	else if (no_route)
		verdict.reason = RDMA_ALIGN_REASON_UNREACHABLE;
	else if (view->neigh_differs)
		verdict.reason = RDMA_ALIGN_REASON_NEIGHBOUR;
	else
		verdict.state = CMA_ALIGN_ALIGNED;

	if (!link || !view->addr || !view->gid || no_route ||
	    (moved && !view->own_route))
		verdict.state = CMA_ALIGN_DOWN;
	return verdict;
}

/**
 * cma_align_baseline - what held when a request arrived
 * @net: The netns.
 * @key: The passive id's: its route_ifindex, gw, gateway, ll and ll_known are
 *	set. On entry ll is where the request came from, if ll_known.
 *
 * Where the answer leaves by another way than the request came, the request's
 * link-layer address says nothing about it: then the first one that the
 * neighbour table knows is the baseline.
 *
 * Context: Process context.
 */
void cma_align_baseline(struct net *net, struct cma_align_key *key)
{
	struct cma_align_hop hop;
	u8 ll[CMA_ALIGN_LL_LEN];

	if (cma_align_lookup(net, key, &key->src, 0, &hop)) {
		key->ll_known = false;
		goto out;
	}
	key->route_ifindex = hop.ifindex;
	key->gw = hop.nexthop;
	key->gateway = hop.gateway;
	if (hop.local) {
		key->ll_known = false;
	} else if (cma_align_neigh(net, hop.ifindex, &hop.nexthop, false, ll)) {
		memcpy(key->ll, ll, sizeof(ll));
		key->ll_known = true;
	} else if (hop.gateway || hop.ifindex != key->ifindex) {
		key->ll_known = false;
	}
out:
	if (!key->ll_known)
		memset(key->ll, 0, sizeof(key->ll));
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_verdict_kunit.c"
#endif
