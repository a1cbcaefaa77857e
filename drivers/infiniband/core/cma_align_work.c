// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: the worker of a netns.
 *
 * Takes the marks, waits until what they tell of can be seen, finds the paths
 * concerned, looks at each, and releases the ids whose delay has passed. It holds
 * nothing while it waits, and cma_align_net.lock for CMA_ALIGN_BATCH steps at most.
 */

#include <linux/rtnetlink.h>

#include "cma_align_priv.h"
#include "cma_align_trace.h"

/* Paths or ids handled before the lock is dropped for a moment. */
#define CMA_ALIGN_BATCH		64
/* A passing state, or a stack that could not answer: look again after. */
#define CMA_ALIGN_RETRY		(HZ / 50 ?: 1)
/* Notifiers could not be registered: again after. */
#define CMA_ALIGN_RETRY_LATE	(HZ / 10 ?: 1)
/* Routes that are preferred hide others: look after. */
#define CMA_ALIGN_POLL		HZ
/* So often the stack is asked for a next hop, after 1, 2, 4, ... s. */
#define CMA_ALIGN_ASKS		8

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

/* @both: of either family; an IPv6 prefix may span the mapped IPv4 addresses. */
static void cma_align_collect_between(struct cma_align_net *anet,
				      const struct cma_align_range *range,
				      bool both)
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
		if (both || v4 == cma_align_is_v4(&path->key.dst))
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

static void cma_align_collect_range(struct cma_align_net *anet,
				    const struct cma_align_range *range)
{
	cma_align_collect_between(anet, range, false);
}

static void cma_align_collect_all(struct cma_align_net *anet)
{
	static const struct cma_align_range all = {
		.last.s6_addr = { [0 ... 15] = 0xff },
	};

	cma_align_collect_between(anet, &all, true);
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
	       time_after_eq64(cma_align_now(), (u64)due->expires)) {
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
	cma_align_set_hidden(anet, path, view->hidden);
	if (!view->asking)
		path->asks = 0;
	else if (path->asks < CMA_ALIGN_ASKS)
		cma_align_set_due(anet, path,
				  cma_align_now() + (HZ << path->asks++));
	if (verdict.state == old_state)
		return;

	/* One change of the network does not lead there and back. */
	if (path->changes && path->incident == anet->incident &&
	    (old_state == CMA_ALIGN_ALIGNED ||
	     verdict.state == CMA_ALIGN_ALIGNED)) {
		anet->incident++;
		anet->first_mark = cma_align_now();
	}
	path->state = verdict.state;
	path->since = cma_align_now();
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
	bool known;

	lockdep_assert_held(&anet->lock);
	while ((align = list_first_entry_or_null(&path->pending,
						 struct cma_align_id, item))) {
		now = cma_align_now();
		due = cma_align_due(path, align, now);
		if (cma_align_id_verdict(align, path->state) !=
		    align->verdict && due > now) {
			cma_align_set_due(anet, path, due);
			break;
		}
		list_move_tail(&align->item, &path->calm);
		/* An id that is new to the path knows of no change yet. */
		known = align->released;
		align->released = path->changes + 1;
		id_priv = container_of(align, struct rdma_id_private, align);
		if (cma_align_id_verdict(align, path->state) != align->verdict)
			cma_align_queue_id(id_priv);
		else if (known)
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
				  cma_align_now() + CMA_ALIGN_RETRY);
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

static void cma_align_collect_hidden(struct cma_align_net *anet, bool changed4)
{
	struct cma_align_path *path;
	unsigned long flags;
	unsigned int n = 0;
	u32 left;

	spin_lock_irqsave(&anet->lock, flags);
	for (left = anet->nr_hidden; left; left--) {
		path = list_first_entry_or_null(&anet->hidden,
						struct cma_align_path,
						hidden_item);
		if (!path)
			break;
		list_move_tail(&path->hidden_item, &anet->hidden);
		if (changed4 || path->key.family == AF_INET6)
			cma_align_set_dirty(anet, path);
		cma_align_breathe(anet, &n, &flags);
	}
	spin_unlock_irqrestore(&anet->lock, flags);
}

/*
 * What cannot be heard is looked for: changes of routes while their notifier is
 * not registered, and of those that the kernel does not announce because another
 * one is preferred. IPv4 counts the changes of all its routes, so that nothing is
 * looked at without one.
 *
 * Return: when to come again, in jiffies.
 */
static u64 cma_align_poll(struct cma_align_net *anet, bool registered)
{
	u64 every = registered ? CMA_ALIGN_POLL : CMA_ALIGN_RETRY_LATE;
	bool tos = READ_ONCE(anet->tos_routes);
	int genid = rt_genid_ipv4(anet->net);
	bool changed4 = genid != anet->genid;

	if (registered && !tos && !READ_ONCE(anet->nr_hidden))
		return U64_MAX;
	if (cma_align_now() < anet->last_poll + every)
		return anet->last_poll + every;
	anet->last_poll = cma_align_now();
	anet->genid = genid;
	if (!registered || (tos && changed4))
		cma_align_collect_all(anet);
	else
		cma_align_collect_hidden(anet, changed4);
	return anet->last_poll + every;
}

static void cma_align_arm_timer(struct cma_align_net *anet, u64 when)
{
	u64 now = cma_align_now();
	struct timerqueue_node *due;
	unsigned long flags;

	spin_lock_irqsave(&anet->lock, flags);
	due = timerqueue_getnext(&anet->due);
	if (due)
		when = min_t(u64, when, due->expires);
	if (when != U64_MAX && !anet->exiting)
		mod_timer(&anet->timer,
			  jiffies + (when > now ? when - now : 0));
	spin_unlock_irqrestore(&anet->lock, flags);
}

void cma_align_timer(struct timer_list *t)
{
	struct cma_align_net *anet = from_timer(anet, t, timer);

	cma_align_queue_net(anet);
}

void cma_align_net_work(struct work_struct *work)
{
	struct cma_align_net *anet =
		container_of(work, struct cma_align_net, work);
	bool registered;

	if (!atomic_read(&anet->users)) {
		cma_align_ignore(anet);
		cma_align_deactivate(anet);
		return;
	}
	registered = !cma_align_listen_to(anet);
	cma_align_collect(anet);
	cma_align_collect_due(anet);
	cma_align_poll(anet, registered);
	cma_align_look_at_dirty(anet);
	/* A look may have found more to poll for. */
	cma_align_arm_timer(anet, cma_align_poll(anet, registered));
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_work_kunit.c"
#endif
