// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of cma_align_events.c: what a notifier marks. It may mark too
 * much, never too little; and what no path depends on costs nothing.
 */

#include "cma_align_kunit.h"

struct marks_fixture {
	struct cma_align_net	*anet;
	struct cma_align_path	*v4;
	struct cma_align_path	*v6;
};

#define MARKS_DEV	3

/* The netns' worker; what it would do is not part of these tests. */
static void marks_work(struct work_struct *work)
{
}

static void marks_addr(u32 v4, struct in6_addr *addr)
{
	ipv6_addr_set_v4mapped(htonl(v4), addr);
}

/* Forget the marks; was the worker called for them? */
static bool marks_take(struct marks_fixture *f, struct cma_align_marks *marks)
{
	bool any;

	flush_work(&f->anet->work);
	spin_lock_irq(&f->anet->lock);
	*marks = f->anet->marks;
	memset(&f->anet->marks, 0, sizeof(f->anet->marks));
	spin_unlock_irq(&f->anet->lock);
	any = marks->all || marks->nr_tags || marks->nr_ranges;
	return any;
}

/* Would the worker look at this path? */
static bool marks_cover(const struct cma_align_marks *marks,
			const struct cma_align_path *path)
{
	int i, kind;

	if (marks->all)
		return true;
	for (i = 0; i < marks->nr_ranges; i++)
		if (memcmp(&marks->ranges[i].first, &path->key.dst, 16) <= 0 &&
		    memcmp(&marks->ranges[i].last, &path->key.dst, 16) >= 0)
			return true;
	for (i = 0; i < marks->nr_tags; i++)
		for (kind = 0; kind < CMA_ALIGN_TAG_MAX; kind++)
			if (!RB_EMPTY_NODE(&path->tags[kind].node) &&
			    path->tags[kind].value == marks->tags[i])
				return true;
	return false;
}

static void marks_expect(struct kunit *test, bool v4, bool v6)
{
	struct marks_fixture *f = test->priv;
	struct cma_align_marks marks;

	KUNIT_EXPECT_EQ(test, marks_take(f, &marks), v4 || v6);
	KUNIT_EXPECT_EQ(test, marks_cover(&marks, f->v4), v4);
	KUNIT_EXPECT_EQ(test, marks_cover(&marks, f->v6), v6);
}

static void marks_fib4(struct marks_fixture *f, unsigned long event, u32 dst,
		       int dst_len, int family)
{
	struct fib_entry_notifier_info entry = {
		.info.family = family,
		.dst = dst,
		.dst_len = dst_len,
	};

	cma_align_fib_event(&f->anet->fib_nb, event, &entry.info);
}

struct marks_fib4_row {
	const char	*name;
	unsigned long	event;
	u32		dst;
	int		dst_len;
	bool		marked;
};

static const struct marks_fib4_row marks_fib4_rows[] = {
	{ "a host route", FIB_EVENT_ENTRY_REPLACE, 0x0a000001, 32, true },
	{ "another host route", FIB_EVENT_ENTRY_REPLACE, 0x0a000002, 32, false },
	{ "the lower neighbour", FIB_EVENT_ENTRY_REPLACE, 0x0a000000, 32, false },
	{ "a prefix", FIB_EVENT_ENTRY_REPLACE, 0x0a000000, 24, true },
	{ "another prefix", FIB_EVENT_ENTRY_REPLACE, 0x0a000100, 24, false },
	{ "a deleted prefix", FIB_EVENT_ENTRY_DEL, 0x0a000000, 8, true },
	{ "an added prefix", FIB_EVENT_ENTRY_ADD, 0x0a000000, 8, true },
	{ "an appended prefix", FIB_EVENT_ENTRY_APPEND, 0x0a000000, 8, true },
	{ "the default route", FIB_EVENT_ENTRY_REPLACE, 0, 0, true },
	{ "half of all", FIB_EVENT_ENTRY_REPLACE, 0, 1, true },
	{ "the other half", FIB_EVENT_ENTRY_REPLACE, 0x80000000, 1, false },
};

static void marks_fib4_desc(const struct marks_fib4_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(marks_fib4, marks_fib4_rows, marks_fib4_desc);

static void marks_test_fib4(struct kunit *test)
{
	const struct marks_fib4_row *row = test->param_value;
	struct marks_fixture *f = test->priv;
	struct cma_align_marks marks;

	marks_fib4(f, row->event, row->dst, row->dst_len, AF_INET);
	KUNIT_EXPECT_EQ(test, f->anet->marks.wait_rtnl, row->marked);
	KUNIT_EXPECT_EQ(test, marks_take(f, &marks), row->marked);
	KUNIT_EXPECT_EQ(test, marks_cover(&marks, f->v4), row->marked);
	KUNIT_EXPECT_FALSE(test, marks_cover(&marks, f->v6));
}

static void marks_test_fib6(struct kunit *test)
{
	static const u8 lens[] = { 0, 16, 32, 64, 127, 128 };
	struct marks_fixture *f = test->priv;
	struct fib6_entry_notifier_info entry = { .info.family = AF_INET6 };
	struct fib6_info *rt;
	int i;

	rt = kunit_kzalloc(test, sizeof(*rt) + sizeof(*rt->fib6_nh), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, rt);
	entry.rt = rt;
	rt->fib6_type = RTN_UNICAST;
	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		ipv6_addr_prefix(&rt->fib6_dst.addr, &f->v6->key.dst, lens[i]);
		rt->fib6_dst.plen = lens[i];
		cma_align_fib_event(&f->anet->fib_nb, FIB_EVENT_ENTRY_DEL,
				    &entry.info);
		KUNIT_EXPECT_TRUE(test, f->anet->marks.wait_rcu);
		/* Of ::/0 the worker leaves out the mapped ones by itself. */
		marks_expect(test, !lens[i], true);
	}
	rt->fib6_dst.addr.s6_addr[15] ^= 1;
	cma_align_fib_event(&f->anet->fib_nb, FIB_EVENT_ENTRY_DEL, &entry.info);
	marks_expect(test, false, false);
}

static void marks_test_fib_filter(struct kunit *test)
{
	struct marks_fixture *f = test->priv;

	/* Multicast routing has other structures behind the same events. */
	marks_fib4(f, FIB_EVENT_ENTRY_REPLACE, 0, 0, RTNL_FAMILY_IPMR);
	marks_fib4(f, FIB_EVENT_RULE_ADD, 0, 0, RTNL_FAMILY_IP6MR);
	marks_expect(test, false, false);
	f->anet->registering = true;
	marks_fib4(f, FIB_EVENT_ENTRY_REPLACE, 0, 0, AF_INET);
	marks_fib4(f, FIB_EVENT_RULE_ADD, 0, 0, AF_INET);
	marks_expect(test, false, false);
	f->anet->registering = false;

	marks_fib4(f, FIB_EVENT_RULE_ADD, 0, 0, AF_INET);
	marks_expect(test, true, true);
	marks_fib4(f, FIB_EVENT_RULE_DEL, 0, 0, AF_INET6);
	marks_expect(test, true, true);
	marks_fib4(f, FIB_EVENT_NH_ADD, 0, 0, AF_INET);
	marks_expect(test, true, true);
}

/* No veto, whatever comes. */
static void marks_test_no_veto(struct kunit *test)
{
	struct marks_fixture *f = test->priv;
	struct fib_entry_notifier_info entry = { .info.family = AF_INET };
	static const unsigned long events[] = {
		FIB_EVENT_ENTRY_REPLACE, FIB_EVENT_ENTRY_APPEND,
		FIB_EVENT_ENTRY_ADD, FIB_EVENT_ENTRY_DEL, FIB_EVENT_RULE_ADD,
		FIB_EVENT_RULE_DEL, FIB_EVENT_NH_ADD,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(events); i++)
		KUNIT_EXPECT_EQ(test, cma_align_fib_event(&f->anet->fib_nb,
							  events[i], &entry.info),
				NOTIFY_DONE);
	for (i = 0; i <= NEXTHOP_EVENT_HW_STATS_REPORT_DELTA; i++)
		KUNIT_EXPECT_EQ(test, cma_align_nexthop_event(&f->anet->nexthop_nb,
							      i, NULL),
				NOTIFY_DONE);
}

static void marks_test_nexthop(struct kunit *test)
{
	static const unsigned long heard[] = {
		NEXTHOP_EVENT_REPLACE, NEXTHOP_EVENT_DEL,
		NEXTHOP_EVENT_RES_TABLE_PRE_REPLACE,
	};
	struct marks_fixture *f = test->priv;
	int i;

	for (i = 0; i < ARRAY_SIZE(heard); i++) {
		cma_align_nexthop_event(&f->anet->nexthop_nb, heard[i], NULL);
		KUNIT_EXPECT_TRUE(test, f->anet->marks.wait_rtnl);
		marks_expect(test, true, true);
	}
	/* Buckets move between members, and any member will do. */
	cma_align_nexthop_event(&f->anet->nexthop_nb, NEXTHOP_EVENT_BUCKET_REPLACE,
				NULL);
	marks_expect(test, false, false);
}

static void marks_test_tags(struct kunit *test)
{
	u64 tag = cma_align_tag(CMA_ALIGN_TAG_DEV, MARKS_DEV);
	struct marks_fixture *f = test->priv;
	struct cma_align_marks marks;
	int i;

	/* What is not indexed is not marked. */
	for (i = 100; i < 200; i++)
		cma_align_mark_tag(f->anet, cma_align_tag(CMA_ALIGN_TAG_DEV, i),
				   CMA_ALIGN_VISIBLE_RTNL);
	KUNIT_EXPECT_FALSE(test, marks_take(f, &marks));
	KUNIT_EXPECT_FALSE(test, marks.wait_rtnl);

	/* The same again needs no more room. */
	for (i = 0; i < 10 * CMA_ALIGN_MARKS_TAG; i++)
		cma_align_mark_tag(f->anet, tag, CMA_ALIGN_VISIBLE_NOW);
	KUNIT_EXPECT_TRUE(test, marks_take(f, &marks));
	KUNIT_EXPECT_EQ(test, marks.nr_tags, 1);
	KUNIT_EXPECT_FALSE(test, marks.all);
	KUNIT_EXPECT_FALSE(test, marks.wait_rtnl);
	KUNIT_EXPECT_FALSE(test, marks.wait_rcu);
	KUNIT_EXPECT_TRUE(test, marks_cover(&marks, f->v4));

	/* A netdevice concerns those on it and those whose route leaves there. */
	cma_align_mark_dev(f->anet, MARKS_DEV, CMA_ALIGN_VISIBLE_RTNL);
	marks_expect(test, true, false);
	cma_align_mark_dev(f->anet, MARKS_DEV + 1, CMA_ALIGN_VISIBLE_RTNL);
	marks_expect(test, false, true);
}

/* More than there is room for: everything is looked at, nothing is lost. */
static void marks_test_tags_overflow(struct kunit *test)
{
	struct marks_fixture *f = test->priv;
	struct cma_align_marks marks;
	u64 tag;
	int i;

	for (i = 0; i <= CMA_ALIGN_MARKS_TAG; i++) {
		KUNIT_EXPECT_FALSE(test, f->anet->marks.all);
		tag = cma_align_tag(CMA_ALIGN_TAG_NEXTHOP, 1000 + i);
		spin_lock_irq(&f->anet->lock);
		cma_align_index_retag(f->anet, f->v4, CMA_ALIGN_TAG_NEXTHOP, tag);
		spin_unlock_irq(&f->anet->lock);
		cma_align_mark_tag(f->anet, tag, CMA_ALIGN_VISIBLE_NOW);
	}
	KUNIT_EXPECT_TRUE(test, marks_take(f, &marks));
	KUNIT_EXPECT_EQ(test, marks.nr_tags, CMA_ALIGN_MARKS_TAG);
	KUNIT_EXPECT_TRUE(test, marks.all);
}

static void marks_set_dst(struct marks_fixture *f, u32 dst)
{
	spin_lock_irq(&f->anet->lock);
	cma_align_index_del(f->anet, f->v4);
	marks_addr(dst, &f->v4->key.dst);
	cma_align_index_add(f->anet, f->v4);
	spin_unlock_irq(&f->anet->lock);
}

static void marks_test_ranges_overflow(struct kunit *test)
{
	struct marks_fixture *f = test->priv;
	struct cma_align_marks marks;
	static const u32 order[] = { 50, 10, 70, 30, 20, 60, 40, 80, 5, 90, 45 };
	int i;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		marks_set_dst(f, 0x0a000000 + order[i]);
		marks_fib4(f, FIB_EVENT_ENTRY_DEL, 0x0a000000 + order[i], 32,
			   AF_INET);
		/* One that is in it already is not added. */
		marks_fib4(f, FIB_EVENT_ENTRY_DEL, 0x0a000000 + order[i], 32,
			   AF_INET);
	}
	KUNIT_EXPECT_TRUE(test, marks_take(f, &marks));
	KUNIT_EXPECT_EQ(test, marks.nr_ranges, CMA_ALIGN_MARKS_RANGE);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		marks_addr(0x0a000000 + order[i], &f->v4->key.dst);
		KUNIT_EXPECT_TRUE_MSG(test, marks_cover(&marks, f->v4),
				      "10.0.0.%u was lost", order[i]);
	}
}

static void marks_test_nobody_asked(struct kunit *test)
{
	struct marks_fixture *f = test->priv;

	atomic_set(&f->anet->users, 0);
	marks_fib4(f, FIB_EVENT_RULE_ADD, 0, 0, AF_INET);
	marks_fib4(f, FIB_EVENT_ENTRY_DEL, 0, 0, AF_INET);
	cma_align_mark_dev(f->anet, MARKS_DEV, CMA_ALIGN_VISIBLE_NOW);
	marks_expect(test, false, false);
	atomic_set(&f->anet->users, 1);
}

static u32 marks_incident(struct marks_fixture *f, u64 delta)
{
	WRITE_ONCE(cma_align_test_clock, cma_align_test_clock + delta);
	cma_align_mark_all(f->anet, CMA_ALIGN_VISIBLE_NOW);
	return f->anet->incident;
}

static void marks_test_incident(struct kunit *test)
{
	struct marks_fixture *f = test->priv;
	u32 incident, gap = CMA_ALIGN_INCIDENT_GAP;
	int i;

	incident = marks_incident(f, CMA_ALIGN_INCIDENT_MAX + 1);
	KUNIT_EXPECT_EQ(test, marks_incident(f, 0), incident);
	KUNIT_EXPECT_EQ(test, marks_incident(f, gap), incident);
	KUNIT_EXPECT_EQ(test, marks_incident(f, gap + 1), incident + 1);

	/* What never ends is cut at some time. */
	incident = marks_incident(f, gap + 1);
	for (i = 1; i <= CMA_ALIGN_INCIDENT_MAX / gap; i++)
		KUNIT_EXPECT_EQ(test, marks_incident(f, gap), incident);
	KUNIT_EXPECT_EQ(test, marks_incident(f, gap), incident + 1);
}

static struct cma_align_path *marks_path(struct kunit *test,
					 const struct in6_addr *dst, u32 ifindex,
					 u32 route_ifindex)
{
	struct marks_fixture *f = test->priv;
	struct cma_align_path *path =
		kunit_kzalloc(test, sizeof(*path), GFP_KERNEL);

	if (!path)
		return NULL;
	path->key.dst = *dst;
	spin_lock_irq(&f->anet->lock);
	cma_align_index_add(f->anet, path);
	cma_align_index_retag(f->anet, path, CMA_ALIGN_TAG_DEV,
			      cma_align_tag(CMA_ALIGN_TAG_DEV, ifindex));
	cma_align_index_retag(f->anet, path, CMA_ALIGN_TAG_ROUTE,
			      cma_align_tag(CMA_ALIGN_TAG_ROUTE,
					    route_ifindex));
	spin_unlock_irq(&f->anet->lock);
	return path;
}

static int marks_init(struct kunit *test)
{
	struct marks_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);
	struct in6_addr dst = {};

	if (!f)
		return -ENOMEM;
	f->anet = kunit_kzalloc(test, sizeof(*f->anet), GFP_KERNEL);
	if (!f->anet)
		return -ENOMEM;
	WRITE_ONCE(cma_align_test_clock, CMA_ALIGN_TEST_START);
	spin_lock_init(&f->anet->lock);
	f->anet->paths = RB_ROOT;
	f->anet->tags = RB_ROOT;
	INIT_WORK(&f->anet->work, marks_work);
	atomic_set(&f->anet->users, 1);
	test->priv = f;

	marks_addr(0x0a000001, &dst);
	f->v4 = marks_path(test, &dst, MARKS_DEV, MARKS_DEV);
	memset(&dst, 0, sizeof(dst));
	dst.s6_addr32[0] = htonl(0x20010db8);
	dst.s6_addr[15] = 1;
	f->v6 = marks_path(test, &dst, MARKS_DEV + 2, MARKS_DEV + 1);
	return f->v4 && f->v6 ? 0 : -ENOMEM;
}

static void marks_exit(struct kunit *test)
{
	struct marks_fixture *f = test->priv;

	if (f && f->anet)
		cancel_work_sync(&f->anet->work);
	cma_align_test_real_time(test);
}

static struct kunit_case marks_cases[] = {
	KUNIT_CASE_PARAM(marks_test_fib4, marks_fib4_gen_params),
	KUNIT_CASE(marks_test_fib6),
	KUNIT_CASE(marks_test_fib_filter),
	KUNIT_CASE(marks_test_no_veto),
	KUNIT_CASE(marks_test_nexthop),
	KUNIT_CASE(marks_test_tags),
	KUNIT_CASE(marks_test_tags_overflow),
	KUNIT_CASE(marks_test_ranges_overflow),
	KUNIT_CASE(marks_test_nobody_asked),
	KUNIT_CASE(marks_test_incident),
	{}
};

static struct kunit_suite marks_suite = {
	.name = "rdma_cm_align_marks",
	.init = marks_init,
	.exit = marks_exit,
	.test_cases = marks_cases,
};

kunit_test_suite(marks_suite);
