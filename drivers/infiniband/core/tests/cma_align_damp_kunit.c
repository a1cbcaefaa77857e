// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of cma_align_damp.c: how long a delay is, and what a destination
 * remembers.
 */

#include "cma_align_kunit.h"

u64 cma_align_test_clock;

u64 cma_align_now(void)
{
	u64 clock = READ_ONCE(cma_align_test_clock);

	return clock ? clock : get_jiffies_64();
}

/* Contract: back to normal after so many quiet seconds. */
#define DAMP_QUIET	((u64)60 * HZ)

struct damp_fixture {
	struct cma_align_net	*anet;
	struct cma_align_path	*path;
};

static struct cma_align_damp *damp_get(struct kunit *test, u32 dst)
{
	struct damp_fixture *f = test->priv;
	struct cma_align_damp *damp, *spare;
	struct in6_addr addr;

	ipv6_addr_set_v4mapped(htonl(dst), &addr);
	spare = kzalloc(sizeof(*spare), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, spare);
	spin_lock_irq(&f->anet->lock);
	damp = cma_align_damp_get(f->anet, &addr, &spare);
	spin_unlock_irq(&f->anet->lock);
	KUNIT_EXPECT_TRUE(test, ipv6_addr_equal(&damp->dst, &addr));
	kfree(spare);
	return damp;
}

static void damp_put(struct kunit *test, struct cma_align_damp *damp)
{
	struct damp_fixture *f = test->priv;

	spin_lock_irq(&f->anet->lock);
	cma_align_damp_put(f->anet, damp);
	spin_unlock_irq(&f->anet->lock);
}

static int damp_count(struct kunit *test)
{
	struct damp_fixture *f = test->priv;
	struct rb_node *n;
	int count = 0;

	for (n = rb_first(&f->anet->damps); n; n = rb_next(n))
		count++;
	return count;
}

/* A report of an incident of its own, at @now. */
static void damp_report(struct kunit *test, struct cma_align_damp *damp,
			u64 now)
{
	struct damp_fixture *f = test->priv;

	f->path->damp = damp;
	f->path->incident++;
	spin_lock_irq(&f->anet->lock);
	cma_align_damp_report(f->path, now);
	spin_unlock_irq(&f->anet->lock);
}

/* The delay of a verdict that is reached at @now, in milliseconds. */
static u32 damp_delay(struct kunit *test, struct cma_align_damp *damp,
		      u8 state, u32 delay_ms, u64 now)
{
	struct damp_fixture *f = test->priv;
	struct cma_align_path *path = f->path;

	path->damp = damp;
	path->state = state;
	path->key.downdelay_ms = state == CMA_ALIGN_DOWN ? delay_ms : 1;
	path->key.updelay_ms = state == CMA_ALIGN_DOWN ? 1 : delay_ms;
	path->level = cma_align_damp_level(damp, now);
	return jiffies_to_msecs(cma_align_delay(path, now));
}

struct damp_row {
	const char	*name;
	u8		state;
	u32		delay_ms;
	u32		reports;	/* within the last 60 seconds */
	u32		expected_ms;
};

static const struct damp_row damp_rows[] = {
	{ "down: the downdelay", CMA_ALIGN_DOWN, 100, 0, 100 },
	{ "superseded: the updelay", CMA_ALIGN_SUPERSEDED, 5000, 0, 5000 },
	{ "restored: the updelay", CMA_ALIGN_ALIGNED, 5000, 0, 5000 },
	{ "the first report doubles nothing", CMA_ALIGN_DOWN, 100, 1, 100 },
	{ "the second doubles", CMA_ALIGN_DOWN, 100, 2, 200 },
	{ "the third doubles again", CMA_ALIGN_DOWN, 100, 3, 400 },
	{ "the updelay is doubled too", CMA_ALIGN_SUPERSEDED, 5000, 2, 10000 },
	{ "up to 60 seconds", CMA_ALIGN_DOWN, 100, 11, 60000 },
	{ "and not beyond", CMA_ALIGN_DOWN, 100, 1000, 60000 },
	{ "65 reports do not overflow", CMA_ALIGN_DOWN, 100, 65, 60000 },
	{ "257 reports do not overflow", CMA_ALIGN_DOWN, 100, 257, 60000 },
	{ "10 ms reach 60 seconds too", CMA_ALIGN_DOWN, 10, 1000, 60000 },
	{ "60 seconds stay what they are", CMA_ALIGN_DOWN, 60000, 9, 60000 },
	{ "a longer updelay is not shortened",
	  CMA_ALIGN_SUPERSEDED, 600000, 9, 600000 },
	{ "0 is never damped", CMA_ALIGN_DOWN, 0, 1000, 0 },
};

static void damp_row_desc(const struct damp_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(damp, damp_rows, damp_row_desc);

static void damp_test_delay(struct kunit *test)
{
	const struct damp_row *row = test->param_value;
	struct cma_align_damp *damp = damp_get(test, 1);
	u64 now = CMA_ALIGN_TEST_START;
	u32 i;

	for (i = 0; i < row->reports; i++)
		damp_report(test, damp, now += HZ);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, row->state, row->delay_ms,
					 now),
			row->expected_ms);
	damp_put(test, damp);
}

static void damp_test_quiet(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	u64 now = CMA_ALIGN_TEST_START;

	damp_report(test, damp, now);
	damp_report(test, damp, now);
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100,
					 now + DAMP_QUIET - 1), 400);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100,
					 now + DAMP_QUIET), 100);

	/* A report just within the time counts, one after it starts afresh. */
	now += DAMP_QUIET - 1;
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			800);
	now += DAMP_QUIET;
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			100);
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			200);
	damp_put(test, damp);
}

/* Ids on several paths to one destination are one incident. */
static void damp_test_incident_once(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	struct damp_fixture *f = test->priv;
	u64 now = CMA_ALIGN_TEST_START;

	damp_report(test, damp, now);
	f->path->incident--;
	damp_report(test, damp, now);
	f->path->incident--;
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			100);
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			200);
	damp_put(test, damp);
}

/* What is reported after a verdict was reached does not lengthen its delay. */
static void damp_test_level_of_verdict(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	struct damp_fixture *f = test->priv;
	u64 now = CMA_ALIGN_TEST_START;

	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			100);
	damp_report(test, damp, now);
	damp_report(test, damp, now);
	KUNIT_EXPECT_EQ(test, cma_align_delay(f->path, now),
			msecs_to_jiffies(100));

	/* But quiet seconds shorten it. */
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			400);
	KUNIT_EXPECT_EQ(test, cma_align_delay(f->path, now + DAMP_QUIET),
			msecs_to_jiffies(100));
	damp_put(test, damp);
}

static void damp_test_by_destination(struct kunit *test)
{
	struct cma_align_damp *a = damp_get(test, 1), *b = damp_get(test, 2);
	u64 now = CMA_ALIGN_TEST_START;

	KUNIT_EXPECT_PTR_NE(test, a, b);
	KUNIT_EXPECT_PTR_EQ(test, damp_get(test, 1), a);
	KUNIT_EXPECT_EQ(test, a->users, 2);
	damp_report(test, a, now);
	damp_report(test, a, now);
	KUNIT_EXPECT_EQ(test, damp_delay(test, a, CMA_ALIGN_DOWN, 100, now),
			200);
	KUNIT_EXPECT_EQ(test, damp_delay(test, b, CMA_ALIGN_DOWN, 100, now),
			100);
	damp_put(test, a);
	damp_put(test, a);
	damp_put(test, b);
}

/* A ULP that reconnects: no path leads there for a moment. */
static void damp_test_remembers(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	struct damp_fixture *f = test->priv;
	u64 now = CMA_ALIGN_TEST_START;

	WRITE_ONCE(cma_align_test_clock, now);
	damp_report(test, damp, now);
	damp_report(test, damp, now);
	damp_put(test, damp);
	KUNIT_EXPECT_EQ(test, f->anet->nr_unused_damps, 1);
	KUNIT_EXPECT_PTR_EQ(test, damp_get(test, 1), damp);
	KUNIT_EXPECT_EQ(test, f->anet->nr_unused_damps, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&f->anet->unused_damps));
	KUNIT_EXPECT_EQ(test, damp_delay(test, damp, CMA_ALIGN_DOWN, 100, now),
			200);
	damp_put(test, damp);
}

static void damp_test_forgets_unreported(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	struct damp_fixture *f = test->priv;

	damp_get(test, 1);
	damp_put(test, damp);
	KUNIT_EXPECT_EQ(test, damp_count(test), 1);
	KUNIT_EXPECT_EQ(test, f->anet->nr_unused_damps, 0);
	damp_put(test, damp);
	KUNIT_EXPECT_EQ(test, damp_count(test), 0);
	KUNIT_EXPECT_EQ(test, f->anet->nr_unused_damps, 0);
	KUNIT_EXPECT_TRUE(test, list_empty(&f->anet->unused_damps));
}

static void damp_test_forgets_after_quiet(struct kunit *test)
{
	struct cma_align_damp *damp = damp_get(test, 1);
	u64 now = CMA_ALIGN_TEST_START;

	damp_report(test, damp, now);
	WRITE_ONCE(cma_align_test_clock, now + DAMP_QUIET - 1);
	damp_put(test, damp);
	damp_put(test, damp_get(test, 2));
	KUNIT_EXPECT_EQ(test, damp_count(test), 1);
	WRITE_ONCE(cma_align_test_clock, now + DAMP_QUIET);
	damp_put(test, damp_get(test, 2));
	KUNIT_EXPECT_EQ(test, damp_count(test), 0);
}

/* Used ones are kept, however old; of the others so many and no more. */
static void damp_test_limit(struct kunit *test)
{
	struct cma_align_damp *used = damp_get(test, 1), *damp;
	struct damp_fixture *f = test->priv;
	u64 now = CMA_ALIGN_TEST_START;
	u32 i;

	WRITE_ONCE(cma_align_test_clock, now);
	damp_report(test, used, now - 10 * DAMP_QUIET);
	for (i = 0; i < 2 * CMA_ALIGN_DAMPS_UNUSED; i++) {
		damp = damp_get(test, 100 + i);
		damp_report(test, damp, now);
		damp_put(test, damp);
	}
	KUNIT_EXPECT_EQ(test, f->anet->nr_unused_damps, CMA_ALIGN_DAMPS_UNUSED);
	KUNIT_EXPECT_EQ(test, damp_count(test), CMA_ALIGN_DAMPS_UNUSED + 1);
	KUNIT_EXPECT_PTR_EQ(test, damp_get(test, 1), used);
	/* The oldest went. */
	damp = damp_get(test, 100);
	KUNIT_EXPECT_EQ(test, damp->last, 0);
	damp_put(test, damp);
	damp = damp_get(test, 100 + 2 * CMA_ALIGN_DAMPS_UNUSED - 1);
	KUNIT_EXPECT_EQ(test, damp->last, now);
	damp_put(test, damp);
	damp_put(test, used);
	damp_put(test, used);
}

static int damp_init(struct kunit *test)
{
	struct damp_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	if (!f)
		return -ENOMEM;
	f->anet = kunit_kzalloc(test, sizeof(*f->anet), GFP_KERNEL);
	f->path = kunit_kzalloc(test, sizeof(*f->path), GFP_KERNEL);
	if (!f->anet || !f->path)
		return -ENOMEM;
	spin_lock_init(&f->anet->lock);
	f->anet->damps = RB_ROOT;
	INIT_LIST_HEAD(&f->anet->unused_damps);
	test->priv = f;
	return 0;
}

static void damp_exit(struct kunit *test)
{
	struct damp_fixture *f = test->priv;
	struct cma_align_damp *damp, *next;

	cma_align_test_real_time(test);
	if (!f)
		return;
	rbtree_postorder_for_each_entry_safe(damp, next, &f->anet->damps, node)
		kfree(damp);
}

static struct kunit_case damp_cases[] = {
	KUNIT_CASE_PARAM(damp_test_delay, damp_gen_params),
	KUNIT_CASE(damp_test_quiet),
	KUNIT_CASE(damp_test_incident_once),
	KUNIT_CASE(damp_test_level_of_verdict),
	KUNIT_CASE(damp_test_by_destination),
	KUNIT_CASE(damp_test_remembers),
	KUNIT_CASE(damp_test_forgets_unreported),
	KUNIT_CASE(damp_test_forgets_after_quiet),
	KUNIT_CASE(damp_test_limit),
	{}
};

static struct kunit_suite damp_suite = {
	.name = "rdma_cm_align_damp",
	.init = damp_init,
	.exit = damp_exit,
	.test_cases = damp_cases,
};

kunit_test_suite(damp_suite);
