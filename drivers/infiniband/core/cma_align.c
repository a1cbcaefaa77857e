// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: keep ids aligned with the IP stack.
 *
 * An RDMA connection stays with the netdevice, RDMA device, addresses and next
 * hop that it was resolved to, while the IP stack moves on. For an id that asks,
 * rdma_cm compares the two, and tells the ULP or ends the connection when they
 * differ.
 *
 * This file has the modes and the life of ids and namespaces. See
 * cma_align_priv.h for the objects, the way of an event and the locks.
 *
 * Left out on purpose: a dead peer, or a failure beyond the first hop that
 * changes no route. Keepalives see these.
 */

#include <linux/module.h>
#include <net/netns/generic.h>
#include <rdma/ib_cm.h>

#include "cma_align_priv.h"

DEFINE_STATIC_KEY_FALSE(cma_align_key);
struct workqueue_struct *cma_align_wq;
static DEFINE_MUTEX(cma_align_key_mutex);
static unsigned int cma_align_net_id;

struct cma_align_net *cma_align_net(struct net *net)
{
	return net_generic(net, cma_align_net_id);
}

struct cma_align_net *cma_align_id_net(const struct rdma_id_private *id)
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
void cma_align_queue_id(struct rdma_id_private *id_priv)
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

void cma_align_deactivate(struct cma_align_net *anet)
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
u16 cma_align_mode(const struct rdma_id_private *id_priv)
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
	INIT_LIST_HEAD(&anet->hidden);
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
