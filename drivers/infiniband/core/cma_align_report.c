// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: tell an id, or tear its connection down.
 *
 * Each id has a work of its own, so that one slow ULP holds up nobody else. All
 * here runs in it, under the id's handler_mutex; what is told is decided from the
 * path's state at that moment.
 */

#include <rdma/ib_cm.h>
#include <rdma/iw_cm.h>

#include "cma_align_priv.h"
#include "cma_align_trace.h"

/* A report that could not be queued is repeated after this. */
#define CMA_ALIGN_REPEAT	(HZ / 10 ?: 1)

/* A sticky id minds only a path that is down. */
u8 cma_align_id_verdict(const struct cma_align_id *align, u8 state)
{
	if (state == CMA_ALIGN_SUPERSEDED && align->mode & RDMA_HA_F_STICKY)
		return CMA_ALIGN_ALIGNED;
	return state;
}

bool cma_align_is_ud(const struct rdma_id_private *id_priv)
{
	return id_priv->id.qp_type == IB_QPT_UD;
}

/* What is misaligned is not reported, but ended. */
static bool cma_align_tears_down(const struct rdma_id_private *id_priv)
{
	const struct cma_align_id *align = &id_priv->align;

	return (align->mode & RDMA_HA_MODE_MASK) ==
	       RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN &&
	       align->established && !cma_align_is_ud(id_priv);
}

/* ESTABLISHED or the ULP's answer will bring it up again. */
static bool cma_align_must_wait(const struct rdma_id_private *id_priv, u8 state)
{
	const struct cma_align_id *align = &id_priv->align;

	if (align->accepting)
		return true;
	if (READ_ONCE(align->unread) && !cma_align_tears_down(id_priv))
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
	/* What came and went while a report was unread is told by the present. */
	if (verdict == align->verdict &&
	    (!align->missed || verdict == CMA_ALIGN_ALIGNED))
		goto unlock;
	if (cma_align_must_wait(id_priv, path->state)) {
		align->missed |= align->unread;
		goto unlock;
	}
	align->missed = false;

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
		cma_align_damp_report(path, cma_align_now());
	} else if (reason) {
		trace_cm_align_suppress(id_priv, path->state, reason);
	}
unlock:
	spin_unlock_irqrestore(&anet->lock, flags);
	return tell;
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
		align->joined = cma_align_now() + CMA_ALIGN_REPEAT;
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
	if (align->verdict != CMA_ALIGN_ALIGNED &&
	    cma_align_tears_down(id_priv))
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

void cma_align_id_work(struct work_struct *work)
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
