// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of the delays: from a view of a path to the event that its ids
 * get. The clock and what is seen are the test's; the update, the release, the
 * damping, the work of the id and the delivery are the real ones.
 */

#include "cma_align_kunit.h"

#define DELAY_IDS	3
#define DELAY_EVENTS	16
#define DOWNDELAY_MS	1000
#define UPDELAY_MS	8000
#define DOWNDELAY	msecs_to_jiffies(DOWNDELAY_MS)
#define UPDELAY		msecs_to_jiffies(UPDELAY_MS)

struct delay_id {
	struct rdma_id_private	id_priv;
	struct rdma_align_event	events[DELAY_EVENTS];
	int			nr_events;
	int			nr_taken;
	/* What the handler of the ULP does, besides. */
	bool			lose;
};

struct delay_fixture {
	struct cma_align_net	*anet;
	struct cma_align_path	*path;
	struct delay_id		ids[DELAY_IDS + 1];
};

static int delay_handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct delay_id *d = container_of(id, struct delay_id, id_priv.id);

	if (d->lose) {
		rdma_ha_event_done(id, false);
		return 0;
	}
	if (event->event != RDMA_CM_EVENT_ADDR_CHANGE || event->status ||
	    d->nr_events == DELAY_EVENTS)
		return 0;
	if (event->param.conn.private_data_len == sizeof(d->events[0]))
		memcpy(&d->events[d->nr_events], event->param.conn.private_data,
		       sizeof(d->events[0]));
	d->nr_events++;
	return 0;
}

/* All ids run their work, if it was queued. */
static void delay_settle(struct delay_fixture *f)
{
	int i;

	for (i = 0; i < DELAY_IDS; i++)
		if (f->ids[i].id_priv.align.initialised)
			flush_work(&f->ids[i].id_priv.align.work);
}

/* As cma_align_look_at(), but for what is seen. */
static void delay_look(struct delay_fixture *f,
		       const struct cma_align_view *view)
{
	unsigned long flags;

	spin_lock_irqsave(&f->anet->lock, flags);
	cma_align_clear_due(f->anet, f->path);
	cma_align_update(f->anet, f->path, view);
	cma_align_release(f->anet, f->path, &flags);
	spin_unlock_irqrestore(&f->anet->lock, flags);
	delay_settle(f);
}

static void delay_view(struct cma_align_view *view)
{
	memset(view, 0, sizeof(*view));
	view->link = true;
	view->port = true;
	view->addr = true;
	view->gid = true;
	view->hwaddr = true;
	view->own_route = true;
	view->dest.rdma_dev = RDMA_ALIGN_NO_RDMA_DEV;
}

static void delay_see_aligned(struct delay_fixture *f)
{
	struct cma_align_view view;

	delay_view(&view);
	delay_look(f, &view);
}

static void delay_see_down(struct delay_fixture *f)
{
	struct cma_align_view view;

	delay_view(&view);
	view.link = false;
	delay_look(f, &view);
}

static void delay_see_superseded(struct delay_fixture *f)
{
	struct cma_align_view view;

	delay_view(&view);
	view.route = CMA_ALIGN_ROUTE_OTHER;
	view.dest.ifindex = 7;
	view.dest.rdma_dev = 8;
	view.dest.port = 9;
	delay_look(f, &view);
}

static void delay_pass(u64 delta)
{
	WRITE_ONCE(cma_align_test_clock, cma_align_test_clock + delta);
}

/* When the worker would come again, from now on; 0: not at all. */
static u64 delay_due(struct delay_fixture *f)
{
	if (RB_EMPTY_NODE(&f->path->due.node))
		return 0;
	return f->path->due.expires - cma_align_test_clock;
}

/* The one event that the id got since it was asked last, or NULL. */
static struct rdma_align_event *delay_event(struct kunit *test,
					    struct delay_id *d)
{
	if (d->nr_events == d->nr_taken)
		return NULL;
	KUNIT_EXPECT_EQ_MSG(test, d->nr_events, d->nr_taken + 1,
			    "told more than once");
	d->nr_taken = d->nr_events;
	return &d->events[d->nr_events - 1];
}

static void expect_silence(struct kunit *test, struct delay_id *d)
{
	KUNIT_EXPECT_NULL_MSG(test, delay_event(test, d),
			      "told too early, or again");
}

static void expect_told(struct kunit *test, struct delay_id *d,
			enum rdma_align_reason reason, u32 flags)
{
	struct rdma_align_event *ev = delay_event(test, d);

	KUNIT_EXPECT_NOT_NULL_MSG(test, ev, "not told");
	if (!ev)
		return;
	KUNIT_EXPECT_EQ(test, ev->reason, reason);
	KUNIT_EXPECT_EQ(test, ev->flags, flags);
}

#define expect_down(test, d) \
	expect_told(test, d, RDMA_ALIGN_REASON_LINK, RDMA_ALIGN_EV_PATH_DOWN)
#define expect_superseded(test, d) \
	expect_told(test, d, RDMA_ALIGN_REASON_ROUTE, 0)

static void delay_new_incident(struct delay_fixture *f)
{
	spin_lock_irq(&f->anet->lock);
	f->anet->incident++;
	spin_unlock_irq(&f->anet->lock);
}

static struct delay_id *delay_add_id(struct kunit *test, int i, u16 mode)
{
	struct delay_fixture *f = test->priv;
	struct rdma_id_private *id_priv = &f->ids[i].id_priv;
	struct cma_align_id *align = &id_priv->align;

	mutex_init(&id_priv->handler_mutex);
	spin_lock_init(&id_priv->lock);
	refcount_set(&id_priv->refcount, 1);
	init_completion(&id_priv->comp);
	id_priv->state = RDMA_CM_CONNECT;
	id_priv->id.event_handler = delay_handler;
	id_priv->id.qp_type = IB_QPT_RC;
	id_priv->id.route.addr.dev_addr.net = &init_net;
	INIT_LIST_HEAD(&align->item);
	INIT_WORK(&align->work, cma_align_id_work);
	align->initialised = true;
	align->mode = mode;
	align->explicit = true;
	align->established = true;

	spin_lock_irq(&f->anet->lock);
	align->path = f->path;
	align->seq = -f->path->changes;
	align->joined = cma_align_now();
	f->path->nr_ids++;
	list_add_tail(&align->item, &f->path->pending);
	spin_unlock_irq(&f->anet->lock);
	return &f->ids[i];
}

static struct delay_id *delay_one(struct kunit *test, u16 flags)
{
	struct delay_id *d = delay_add_id(test, 0,
					  RDMA_ALIGN_WITH_NETDEVICE | flags);

	delay_see_aligned(test->priv);
	expect_silence(test, d);
	return d;
}

static void delay_test_down(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
	delay_see_down(f);
	expect_silence(test, d);
	KUNIT_EXPECT_EQ(test, delay_due(f), DOWNDELAY);
	delay_pass(DOWNDELAY - 1);
	delay_see_down(f);
	expect_silence(test, d);
	KUNIT_EXPECT_EQ(test, delay_due(f), 1);
	delay_pass(1);
	delay_see_down(f);
	expect_down(test, d);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);

	/* It is told once. */
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_silence(test, d);
}

static void delay_test_superseded(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);
	struct rdma_align_event *ev;

	delay_see_superseded(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY);
	delay_pass(UPDELAY - 1);
	delay_see_superseded(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_superseded(f);
	ev = delay_event(test, d);
	KUNIT_ASSERT_NOT_NULL(test, ev);
	KUNIT_EXPECT_EQ(test, ev->reason, RDMA_ALIGN_REASON_ROUTE);
	KUNIT_EXPECT_EQ(test, ev->flags, 0);
	KUNIT_EXPECT_EQ(test, ev->old_ifindex, 1);
	KUNIT_EXPECT_EQ(test, ev->old_rdma_dev, 2);
	KUNIT_EXPECT_EQ(test, ev->old_port, 3);
	KUNIT_EXPECT_EQ(test, ev->new_ifindex, 7);
	KUNIT_EXPECT_EQ(test, ev->new_rdma_dev, 8);
	KUNIT_EXPECT_EQ(test, ev->new_port, 9);
}

static void delay_test_gone_before_delay(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_RESTORED);

	delay_see_down(f);
	delay_pass(DOWNDELAY / 2);
	delay_see_aligned(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
}

/* Down for less than the delay, again and again: nothing adds up. */
static void delay_test_blinks(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);
	int i;

	for (i = 0; i < 10; i++) {
		delay_see_down(f);
		delay_pass(DOWNDELAY - 1);
		delay_see_aligned(f);
		delay_pass(1);
	}
	expect_silence(test, d);
	/* And what was not told damps nothing. */
	delay_see_down(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), DOWNDELAY);
}

/* The delay of the new verdict counts from the moment of the change. */
static void delay_test_change_while_waiting(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_superseded(f);
	delay_pass(UPDELAY - 1);
	delay_see_down(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), DOWNDELAY);
	delay_pass(DOWNDELAY - 1);
	delay_see_superseded(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY);
	delay_pass(UPDELAY - 1);
	delay_see_superseded(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_superseded(f);
	expect_superseded(test, d);
}

/* Another reason for the same verdict is no change of verdict. */
static void delay_test_reason_of_the_moment(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);
	struct cma_align_view view;

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_view(&view);
	view.addr = false;
	delay_look(f, &view);
	expect_told(test, d, RDMA_ALIGN_REASON_ADDRESS,
		    RDMA_ALIGN_EV_PATH_DOWN);
	delay_see_down(f);
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_silence(test, d);
}

static void delay_test_down_then_superseded(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_superseded(f);
	delay_pass(UPDELAY - 1);
	delay_see_superseded(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_superseded(f);
	expect_superseded(test, d);
}

static void delay_test_restored(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_RESTORED);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_aligned(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY);
	delay_pass(UPDELAY - 1);
	delay_see_aligned(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_aligned(f);
	expect_told(test, d, RDMA_ALIGN_REASON_LINK, RDMA_ALIGN_EV_RESTORED);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
}

/* Without the flag it is not told, but the next misalignment is. */
static void delay_test_not_restored(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_aligned(f);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
}

/* Back for less than the updelay, and down again: that was told already. */
static void delay_test_edges_only(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_RESTORED);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_aligned(f);
	delay_pass(UPDELAY / 2);
	delay_see_down(f);
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_silence(test, d);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
}

static void delay_test_zero(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d;
	int i;

	f->path->key.downdelay_ms = 0;
	f->path->key.updelay_ms = 0;
	d = delay_one(test, RDMA_HA_F_RESTORED);
	for (i = 0; i < 5; i++) {
		delay_new_incident(f);
		delay_see_down(f);
		expect_down(test, d);
		delay_see_superseded(f);
		expect_superseded(test, d);
		delay_see_aligned(f);
		expect_told(test, d, RDMA_ALIGN_REASON_ROUTE,
			    RDMA_ALIGN_EV_RESTORED);
	}
}

static void delay_test_sticky(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_STICKY |
					     RDMA_HA_F_RESTORED);

	delay_see_superseded(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
	delay_pass(100 * UPDELAY);
	delay_see_superseded(f);
	expect_silence(test, d);
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	/* An inferior path that works again will do. */
	delay_see_superseded(f);
	delay_pass(UPDELAY);
	delay_see_superseded(f);
	expect_told(test, d, RDMA_ALIGN_REASON_LINK, RDMA_ALIGN_EV_RESTORED);
	delay_see_aligned(f);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
}

static void delay_test_sticky_verdict(struct kunit *test)
{
	struct cma_align_id align = { .mode = RDMA_ALIGN_WITH_NETDEVICE };
	u8 state;

	for (state = CMA_ALIGN_ALIGNED; state <= CMA_ALIGN_DOWN; state++)
		KUNIT_EXPECT_EQ(test, cma_align_id_verdict(&align, state), state);
	align.mode |= RDMA_HA_F_STICKY;
	KUNIT_EXPECT_EQ(test, cma_align_id_verdict(&align, CMA_ALIGN_ALIGNED),
			CMA_ALIGN_ALIGNED);
	KUNIT_EXPECT_EQ(test, cma_align_id_verdict(&align, CMA_ALIGN_SUPERSEDED),
			CMA_ALIGN_ALIGNED);
	KUNIT_EXPECT_EQ(test, cma_align_id_verdict(&align, CMA_ALIGN_DOWN),
			CMA_ALIGN_DOWN);
}

/* Ids of one path differ in what they asked for. */
static void delay_test_shared_path(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *sticky, *plain, *late;

	sticky = delay_add_id(test, 0, RDMA_ALIGN_WITH_NETDEVICE |
				       RDMA_HA_F_STICKY);
	plain = delay_add_id(test, 1, RDMA_ALIGN_WITH_NETDEVICE);
	delay_see_aligned(f);
	delay_see_superseded(f);
	delay_pass(UPDELAY / 2);
	/* One that comes to a path that is misaligned counts from then. */
	late = delay_add_id(test, 2, RDMA_ALIGN_WITH_NETDEVICE);
	delay_see_superseded(f);
	delay_pass(UPDELAY / 2);
	delay_see_superseded(f);
	expect_superseded(test, plain);
	expect_silence(test, late);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY / 2);
	delay_pass(UPDELAY / 2);
	delay_see_superseded(f);
	expect_superseded(test, late);
	expect_silence(test, plain);
	expect_silence(test, sticky);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, sticky);
	expect_down(test, plain);
	expect_down(test, late);
	KUNIT_EXPECT_EQ(test, sticky->events[0].incident,
			plain->events[1].incident);
}

/* Every change of verdict counts, told or not. */
static void delay_test_seq(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0), *late;

	delay_see_down(f);
	delay_see_aligned(f);
	delay_see_superseded(f);
	delay_see_aligned(f);
	late = delay_add_id(test, 1, RDMA_ALIGN_WITH_NETDEVICE);
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	KUNIT_EXPECT_EQ(test, d->events[0].seq, 5);
	expect_down(test, late);
	KUNIT_EXPECT_EQ(test, late->events[0].seq, 1);

	/* What it has when it leaves the path, it brings to the next. */
	cma_align_unlink(&d->id_priv);
	KUNIT_EXPECT_EQ(test, d->id_priv.align.seq, 5);
	cma_align_unlink(&late->id_priv);
	KUNIT_EXPECT_EQ(test, late->id_priv.align.seq, 1);
}

/* A program has one unread report at most; later changes follow it. */
static void delay_test_unread(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_RESTORED);

	d->id_priv.res.user = true;
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_aligned(f);
	delay_pass(UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
	rdma_ha_event_done(&d->id_priv.id, true);
	delay_settle(f);
	expect_told(test, d, RDMA_ALIGN_REASON_LINK, RDMA_ALIGN_EV_RESTORED);

	/* Folded: what was undone before it was read is not told. */
	delay_new_incident(f);
	delay_see_superseded(f);
	delay_pass(100 * UPDELAY);
	delay_see_superseded(f);
	delay_see_aligned(f);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	expect_silence(test, d);
	rdma_ha_event_done(&d->id_priv.id, true);
	delay_settle(f);
	expect_silence(test, d);

	/* Once all is read, the next change comes by itself. */
	delay_new_incident(f);
	delay_see_down(f);
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_down(test, d);
}

/* There and back while nobody read: what is now is told, though it was before. */
static void delay_test_unread_there_and_back(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	d->id_priv.res.user = true;
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_aligned(f);
	delay_pass(100 * UPDELAY);
	delay_see_aligned(f);
	delay_see_down(f);
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_silence(test, d);
	rdma_ha_event_done(&d->id_priv.id, true);
	delay_settle(f);
	expect_down(test, d);
	rdma_ha_event_done(&d->id_priv.id, true);
	delay_settle(f);
	expect_silence(test, d);
}

/* The channel had no memory: told again, not lost, and not told twice. */
static void delay_test_lost(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	d->id_priv.res.user = true;
	d->lose = true;
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_silence(test, d);
	KUNIT_EXPECT_GT(test, delay_due(f), 0);
	KUNIT_EXPECT_LE(test, delay_due(f), HZ);
	d->lose = false;
	delay_pass(HZ + DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_pass(100 * UPDELAY);
	delay_see_down(f);
	expect_silence(test, d);
}

/* A request that the ULP did not yet take: it hears of it when it did. */
static void delay_test_accepting(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	d->id_priv.align.accepting = true;
	d->id_priv.align.established = false;
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_silence(test, d);
	mutex_lock(&d->id_priv.handler_mutex);
	__cma_align_request_taken(&d->id_priv);
	mutex_unlock(&d->id_priv.handler_mutex);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
}

/* An id whose mode is a default hears before ESTABLISHED of DOWN only. */
static void delay_test_default_mode(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	d->id_priv.align.explicit = false;
	d->id_priv.align.established = false;
	delay_see_superseded(f);
	delay_pass(UPDELAY);
	delay_see_superseded(f);
	expect_silence(test, d);
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	/* And in the stock shape, without private data. */
	expect_told(test, d, 0, 0);

	delay_see_superseded(f);
	delay_pass(100 * UPDELAY);
	delay_see_superseded(f);
	expect_silence(test, d);
	d->id_priv.align.established = true;
	spin_lock_irq(&f->anet->lock);
	cma_align_rejudge_locked(f->anet, &d->id_priv.align);
	spin_unlock_irq(&f->anet->lock);
	delay_pass(UPDELAY);
	delay_see_superseded(f);
	expect_told(test, d, 0, 0);
}

static void delay_test_ended(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	d->id_priv.align.ended = true;
	delay_see_down(f);
	expect_silence(test, d);
}

/* Something else calls the id's work: a program that read, or a new option. */
static void delay_test_called_early(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_down(f);
	delay_pass(DOWNDELAY - 1);
	cma_align_queue_id(&d->id_priv);
	delay_settle(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_down(f);
	expect_down(test, d);
	cma_align_queue_id(&d->id_priv);
	delay_settle(f);
	expect_silence(test, d);
}

static void delay_test_verdict_changed_before_work(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_see_down(f);
	delay_pass(DOWNDELAY);
	/* The ULP is busy in its handler, so the report must wait. */
	mutex_lock(&d->id_priv.handler_mutex);
	spin_lock_irq(&f->anet->lock);
	cma_align_queue_id(&d->id_priv);
	d->id_priv.align.released = f->path->changes + 1;
	f->path->state = CMA_ALIGN_ALIGNED;
	f->path->changes++;
	spin_unlock_irq(&f->anet->lock);
	mutex_unlock(&d->id_priv.handler_mutex);
	delay_settle(f);
	expect_silence(test, d);
}

/* Down and back, both for as long as it takes. */
static void delay_round(struct kunit *test, struct delay_id *d, u32 factor)
{
	struct delay_fixture *f = test->priv;

	delay_new_incident(f);
	delay_see_down(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), factor * DOWNDELAY);
	delay_pass(factor * DOWNDELAY - 1);
	delay_see_down(f);
	expect_silence(test, d);
	delay_pass(1);
	delay_see_down(f);
	expect_down(test, d);
	/* The way back is damped too, by the report that was just made. */
	delay_see_aligned(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY << f->path->damp->level);
	delay_pass(delay_due(f));
	delay_see_aligned(f);
	expect_silence(test, d);
}

static void delay_test_damping(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, 0);

	delay_round(test, d, 1);
	delay_round(test, d, 1);
	delay_round(test, d, 2);
	delay_pass((u64)60 * HZ);
	delay_round(test, d, 1);
	KUNIT_EXPECT_EQ(test, f->path->damp->level, 0);
}

/* What was told for an incident counts once, whatever it was. */
static void delay_test_damping_incident(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct delay_id *d = delay_one(test, RDMA_HA_F_RESTORED);

	delay_new_incident(f);
	delay_see_down(f);
	delay_pass(DOWNDELAY);
	delay_see_down(f);
	expect_down(test, d);
	delay_see_superseded(f);
	delay_pass(UPDELAY);
	delay_see_superseded(f);
	expect_superseded(test, d);
	delay_see_aligned(f);
	KUNIT_EXPECT_EQ(test, delay_due(f), UPDELAY);
	delay_pass(UPDELAY);
	delay_see_aligned(f);
	expect_told(test, d, RDMA_ALIGN_REASON_ROUTE, RDMA_ALIGN_EV_RESTORED);
	/* The way back is another incident, whatever its marks say. */
	KUNIT_EXPECT_EQ(test, f->path->damp->level, 1);
}

static void delay_test_set_due(struct kunit *test)
{
	struct delay_fixture *f = test->priv;

	spin_lock_irq(&f->anet->lock);
	cma_align_set_due(f->anet, f->path, cma_align_now() + 5);
	cma_align_set_due(f->anet, f->path, cma_align_now() + 9);
	spin_unlock_irq(&f->anet->lock);
	KUNIT_EXPECT_EQ(test, delay_due(f), 5);
	spin_lock_irq(&f->anet->lock);
	cma_align_set_due(f->anet, f->path, cma_align_now() + 3);
	spin_unlock_irq(&f->anet->lock);
	KUNIT_EXPECT_EQ(test, delay_due(f), 3);
	spin_lock_irq(&f->anet->lock);
	cma_align_clear_due(f->anet, f->path);
	cma_align_clear_due(f->anet, f->path);
	spin_unlock_irq(&f->anet->lock);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
}

/* More ids than a batch, and a look that finds them due at different times. */
static void delay_test_collect_due(struct kunit *test)
{
	struct delay_fixture *f = test->priv;

	spin_lock_irq(&f->anet->lock);
	cma_align_set_due(f->anet, f->path, cma_align_now() + 1);
	spin_unlock_irq(&f->anet->lock);
	cma_align_collect_due(f->anet);
	KUNIT_EXPECT_FALSE(test, f->path->dirty);
	delay_pass(1);
	cma_align_collect_due(f->anet);
	KUNIT_EXPECT_TRUE(test, f->path->dirty);
	KUNIT_EXPECT_EQ(test, delay_due(f), 0);
	f->path->dirty = false;
	list_del_init(&f->path->dirty_item);
}

/* An IPv6 prefix that spans the mapped IPv4 addresses does not mean them. */
static void delay_test_collect_range(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct cma_align_range range;
	struct in6_addr addr = {};
	bool v6, v4;

	cma_align_prefix(&addr, 0, &range);
	cma_align_collect_range(f->anet, &range);
	v6 = f->path->dirty;
	cma_align_prefix(&f->path->key.dst, 96, &range);
	cma_align_collect_range(f->anet, &range);
	v4 = f->path->dirty;
	f->path->dirty = false;
	list_del_init(&f->path->dirty_item);
	KUNIT_EXPECT_FALSE(test, v6);
	KUNIT_EXPECT_TRUE(test, v4);
}

static struct cma_align_path *delay_make_path(struct cma_align_net *anet)
{
	struct cma_align_damp *damp = kzalloc(sizeof(*damp), GFP_KERNEL);
	struct cma_align_path *path = kzalloc(sizeof(*path), GFP_KERNEL);

	if (!path || !damp) {
		kfree(path);
		kfree(damp);
		return NULL;
	}
	ipv6_addr_set_v4mapped(htonl(0xc0000201), &path->key.dst);
	path->key.family = AF_INET;
	path->key.ifindex = 1;
	path->key.rdma_dev = 2;
	path->key.port = 3;
	path->key.downdelay_ms = DOWNDELAY_MS;
	path->key.updelay_ms = UPDELAY_MS;
	cma_align_init_path(anet, path, NULL);
	/* As if an id of the fixture's own were linked. */
	path->nr_ids = 1;
	spin_lock_irq(&anet->lock);
	path->damp = cma_align_damp_get(anet, &path->key.dst, &damp);
	cma_align_index_add(anet, path);
	spin_unlock_irq(&anet->lock);
	kfree(damp);
	return path;
}

static int delay_init(struct kunit *test)
{
	struct cma_align_net *anet = cma_align_net(&init_net);
	struct delay_fixture *f;

	/* Its worker would look at what exists in this test only. */
	if (atomic_read(&anet->users)) {
		kunit_mark_skipped(test, "ids in this system have a mode");
		return 0;
	}
	f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	if (!f)
		return -ENOMEM;
	WRITE_ONCE(cma_align_test_clock, CMA_ALIGN_TEST_START);
	f->anet = anet;
	f->path = delay_make_path(anet);
	if (!f->path)
		return -ENOMEM;
	test->priv = f;
	return 0;
}

/* The last id that is unlinked takes the path along. */
static void delay_exit(struct kunit *test)
{
	struct delay_fixture *f = test->priv;
	struct cma_align_net *anet = cma_align_net(&init_net);
	struct rdma_id_private *id_priv;
	int i;

	if (f) {
		delay_settle(f);
		delay_add_id(test, DELAY_IDS, RDMA_ALIGN_WITH_NETDEVICE);
		f->path->nr_ids--;
		/* Nor shall the destination remember anything. */
		f->path->damp->last = 0;
		for (i = 0; i <= DELAY_IDS; i++) {
			id_priv = &f->ids[i].id_priv;
			if (!id_priv->align.initialised)
				continue;
			cma_align_unlink(id_priv);
			KUNIT_EXPECT_EQ(test, refcount_read(&id_priv->refcount), 1);
		}
		KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&anet->paths));
		KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&anet->tags));
		KUNIT_EXPECT_TRUE(test, list_empty(&anet->dirty));
		KUNIT_EXPECT_NULL(test, timerqueue_getnext(&anet->due));
	}
	cma_align_test_real_time(test);
}

static struct kunit_case delay_cases[] = {
	KUNIT_CASE(delay_test_down),
	KUNIT_CASE(delay_test_superseded),
	KUNIT_CASE(delay_test_gone_before_delay),
	KUNIT_CASE(delay_test_blinks),
	KUNIT_CASE(delay_test_change_while_waiting),
	KUNIT_CASE(delay_test_reason_of_the_moment),
	KUNIT_CASE(delay_test_down_then_superseded),
	KUNIT_CASE(delay_test_restored),
	KUNIT_CASE(delay_test_not_restored),
	KUNIT_CASE(delay_test_edges_only),
	KUNIT_CASE(delay_test_zero),
	KUNIT_CASE(delay_test_sticky),
	KUNIT_CASE(delay_test_sticky_verdict),
	KUNIT_CASE(delay_test_shared_path),
	KUNIT_CASE(delay_test_seq),
	KUNIT_CASE(delay_test_unread),
	KUNIT_CASE(delay_test_unread_there_and_back),
	KUNIT_CASE(delay_test_lost),
	KUNIT_CASE(delay_test_accepting),
	KUNIT_CASE(delay_test_default_mode),
	KUNIT_CASE(delay_test_ended),
	KUNIT_CASE(delay_test_called_early),
	KUNIT_CASE(delay_test_verdict_changed_before_work),
	KUNIT_CASE(delay_test_damping),
	KUNIT_CASE(delay_test_damping_incident),
	KUNIT_CASE(delay_test_set_due),
	KUNIT_CASE(delay_test_collect_due),
	KUNIT_CASE(delay_test_collect_range),
	{}
};

static struct kunit_suite delay_suite = {
	.name = "rdma_cm_align_delay",
	.init = delay_init,
	.exit = delay_exit,
	.test_cases = delay_cases,
};

kunit_test_suite(delay_suite);
