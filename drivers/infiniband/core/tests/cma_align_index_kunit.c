// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of cma_align_index.c: the index against a naive model, that is an
 * array which is searched from one end to the other.
 */

#include <linux/prandom.h>

#include "cma_align_kunit.h"

#define INDEX_SLOTS	48
#define INDEX_STEPS	1500

/**
 * struct index_model - what should be in the index
 * @anet: The index.
 * @rnd: Seeded by the row, so that a failure can be repeated.
 * @paths: The paths that are in it; NULL: a free slot.
 * @tags: Their tags.
 * @must: The walk must meet the path of this slot.
 * @met: It did.
 */
struct index_model {
	struct cma_align_net	*anet;
	struct rnd_state	rnd;
	struct cma_align_path	*paths[INDEX_SLOTS];
	u64			tags[INDEX_SLOTS][CMA_ALIGN_TAG_MAX];
	bool			must[INDEX_SLOTS];
	bool			met[INDEX_SLOTS];
};

/* The index with the lock that it wants. */

static struct cma_align_path *index_find(struct index_model *m,
					 const struct cma_align_key *key)
{
	struct cma_align_path *path;

	spin_lock_irq(&m->anet->lock);
	path = cma_align_index_find(m->anet, key);
	spin_unlock_irq(&m->anet->lock);
	return path;
}

static struct cma_align_path *index_first(struct index_model *m,
					  const struct in6_addr *first)
{
	struct cma_align_path *path;

	spin_lock_irq(&m->anet->lock);
	path = cma_align_index_first(m->anet, first);
	spin_unlock_irq(&m->anet->lock);
	return path;
}

static struct cma_align_path *index_after(struct index_model *m,
					  const struct cma_align_key *key)
{
	struct cma_align_path *path;

	spin_lock_irq(&m->anet->lock);
	path = cma_align_index_after(m->anet, key);
	spin_unlock_irq(&m->anet->lock);
	return path;
}

static struct cma_align_path *index_tagged(struct index_model *m, u64 tag,
					   const struct cma_align_path *after)
{
	struct cma_align_path *path;

	spin_lock_irq(&m->anet->lock);
	path = cma_align_index_tagged(m->anet, tag, after);
	spin_unlock_irq(&m->anet->lock);
	return path;
}

/* Random things, from so few that they often meet. */

static u32 index_below(struct index_model *m, u32 limit)
{
	return prandom_u32_state(&m->rnd) % limit;
}

static void index_random_addr(struct index_model *m, struct in6_addr *addr)
{
	u32 few = prandom_u32_state(&m->rnd) & 0x01030103;

	memset(addr, 0, sizeof(*addr));
	switch (index_below(m, 8)) {
	case 0:
	case 1:
	case 2:
		ipv6_addr_set_v4mapped(htonl(0x0a000000 | few), addr);
		break;
	case 3:
	case 4:
		addr->s6_addr32[0] = htonl(0x20010db8);
		addr->s6_addr32[1] = htonl(few);
		addr->s6_addr32[3] = htonl(index_below(m, 4));
		break;
	case 5:
		/* Just below and above the mapped addresses. */
		addr->s6_addr32[2] = htonl(0xfffe + 2 * index_below(m, 2));
		addr->s6_addr32[3] = htonl(few);
		break;
	case 6:
		memset(addr, 0xff, sizeof(*addr));
		addr->s6_addr[15] -= index_below(m, 2);
		break;
	default:
		addr->s6_addr[15] = index_below(m, 2);
	}
}

static unsigned int index_random_len(struct index_model *m)
{
	static const u8 lens[] = { 0, 1, 8, 32, 64, 95, 96, 97, 104, 112, 120,
				   127, 128 };
	u32 i = index_below(m, 2 * ARRAY_SIZE(lens));

	return i < ARRAY_SIZE(lens) ? lens[i] : index_below(m, 129);
}

static u64 index_random_tag(struct index_model *m, enum cma_align_tag_kind kind)
{
	u32 value = index_below(m, 4);
	struct in6_addr nexthop;

	switch (kind) {
	case CMA_ALIGN_TAG_PORT:
		return value ? cma_align_port_tag(value & 1, value >> 1) :
			       CMA_ALIGN_TAG_LISTENERS;
	case CMA_ALIGN_TAG_NEXTHOP:
		ipv6_addr_set_v4mapped(htonl(0x0a000001), &nexthop);
		return value ? cma_align_nexthop_tag(value, &nexthop) : 0;
	default:
		return value ? cma_align_tag(kind, value) : 0;
	}
}

static void index_random_key(struct index_model *m, struct cma_align_key *key)
{
	memset(key, 0, sizeof(*key));
	index_random_addr(m, &key->dst);
	key->family = cma_align_is_v4(&key->dst) ? AF_INET : AF_INET6;
	key->ifindex = 1 + index_below(m, 2);
	key->pinned = index_below(m, 2);
}

/* The model. */

static int index_slot(struct index_model *m, const struct cma_align_path *path)
{
	int i;

	for (i = 0; i < INDEX_SLOTS; i++)
		if (m->paths[i] == path)
			return i;
	return -1;
}

static struct cma_align_path *index_naive_find(struct index_model *m,
					       const struct cma_align_key *key)
{
	int i;

	for (i = 0; i < INDEX_SLOTS; i++)
		if (m->paths[i] && !memcmp(&m->paths[i]->key, key, sizeof(*key)))
			return m->paths[i];
	return NULL;
}

static void index_retag(struct index_model *m, int slot,
			enum cma_align_tag_kind kind, u64 tag)
{
	spin_lock_irq(&m->anet->lock);
	cma_align_index_retag(m->anet, m->paths[slot], kind, tag);
	spin_unlock_irq(&m->anet->lock);
	m->tags[slot][kind] = tag;
}

static void index_add(struct kunit *test, struct index_model *m)
{
	enum cma_align_tag_kind kind;
	struct cma_align_path *path;
	int slot = index_slot(m, NULL);
	struct cma_align_key key;

	index_random_key(m, &key);
	path = index_naive_find(m, &key);
	KUNIT_ASSERT_PTR_EQ(test, index_find(m, &key), path);
	if (path || slot < 0)
		return;

	path = kzalloc(sizeof(*path), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, path);
	path->key = key;
	spin_lock_irq(&m->anet->lock);
	cma_align_index_add(m->anet, path);
	spin_unlock_irq(&m->anet->lock);
	m->paths[slot] = path;
	m->must[slot] = false;
	m->met[slot] = false;
	for (kind = 0; kind < CMA_ALIGN_TAG_MAX; kind++) {
		m->tags[slot][kind] = 0;
		index_retag(m, slot, kind, index_random_tag(m, kind));
	}
}

static void index_del(struct index_model *m, int slot)
{
	struct cma_align_path *path = m->paths[slot];

	if (!path)
		return;
	spin_lock_irq(&m->anet->lock);
	cma_align_index_del(m->anet, path);
	spin_unlock_irq(&m->anet->lock);
	m->paths[slot] = NULL;
	m->must[slot] = false;
	/* Whoever still follows its links goes astray. */
	memset(path, 0x5a, sizeof(*path));
	kfree(path);
}

static void index_change(struct kunit *test, struct index_model *m)
{
	int slot = index_below(m, INDEX_SLOTS);
	enum cma_align_tag_kind kind;

	switch (index_below(m, 8)) {
	case 0:
	case 1:
	case 2:
		index_del(m, slot);
		break;
	case 3:
	case 4:
		if (!m->paths[slot])
			break;
		kind = index_below(m, CMA_ALIGN_TAG_MAX);
		/* One that leaves and comes back may be met or missed. */
		m->must[slot] = false;
		index_retag(m, slot, kind, index_random_tag(m, kind));
		break;
	default:
		index_add(test, m);
	}
}

/* Another user of the lock, while the walk has dropped it. */
static void index_disturb(struct kunit *test, struct index_model *m, int slot)
{
	int i;

	if (index_below(m, 2))
		index_del(m, slot);
	for (i = index_below(m, 4); i; i--)
		index_change(test, m);
}

static void index_note(struct kunit *test, struct index_model *m,
		       const struct cma_align_path *path, int *slot)
{
	*slot = index_slot(m, path);
	KUNIT_ASSERT_GE_MSG(test, *slot, 0, "a path that is not in the index");
	KUNIT_ASSERT_FALSE_MSG(test, m->met[*slot], "a path was met twice");
	m->met[*slot] = true;
}

static void index_all_met(struct kunit *test, struct index_model *m)
{
	int i;

	for (i = 0; i < INDEX_SLOTS; i++)
		KUNIT_ASSERT_TRUE_MSG(test, m->met[i] || !m->must[i],
				      "a path was missed");
}

/* The walk of the worker over the destinations of a prefix. */
static void index_walk_range(struct kunit *test, struct index_model *m,
			     bool disturb)
{
	unsigned int prefix_len = index_random_len(m);
	struct cma_align_key key, last_key = {};
	struct cma_align_range range;
	struct cma_align_path *path;
	struct in6_addr addr;
	int i;

	index_random_addr(m, &addr);
	cma_align_prefix(&addr, prefix_len, &range);
	memset(m->met, 0, sizeof(m->met));
	for (i = 0; i < INDEX_SLOTS; i++)
		m->must[i] = m->paths[i] &&
			     ipv6_prefix_equal(&m->paths[i]->key.dst, &addr,
					       prefix_len);

	path = index_first(m, &range.first);
	while (path && memcmp(&path->key.dst, &range.last,
			      sizeof(range.last)) <= 0) {
		index_note(test, m, path, &i);
		key = path->key;
		KUNIT_ASSERT_TRUE_MSG(test, ipv6_prefix_equal(&key.dst, &addr,
							      prefix_len),
				      "not below the prefix");
		KUNIT_ASSERT_TRUE_MSG(test, memcmp(&last_key, &key, sizeof(key)) < 0,
				      "not in ascending order");
		last_key = key;
		if (!disturb) {
			path = cma_align_index_next(path);
			continue;
		}
		index_disturb(test, m, i);
		path = index_after(m, &key);
	}
	index_all_met(test, m);
}

/* The walk of the worker over the paths that have a tag. */
static void index_walk_tag(struct kunit *test, struct index_model *m,
			   bool disturb)
{
	enum cma_align_tag_kind kind = index_below(m, CMA_ALIGN_TAG_MAX);
	const struct cma_align_path *path = NULL;
	u64 tag = index_random_tag(m, kind);
	int i;

	if (!tag)
		return;
	memset(m->met, 0, sizeof(m->met));
	for (i = 0; i < INDEX_SLOTS; i++)
		m->must[i] = m->paths[i] && m->tags[i][kind] == tag;

	while ((path = index_tagged(m, tag, path))) {
		i = index_slot(m, path);
		KUNIT_ASSERT_GE_MSG(test, i, 0, "a path that is not in the index");
		KUNIT_ASSERT_EQ_MSG(test, m->tags[i][kind], tag, "another tag");
		index_note(test, m, path, &i);
		if (disturb)
			index_disturb(test, m, i);
	}
	index_all_met(test, m);
}

static void index_test_model(struct kunit *test)
{
	struct index_model *m = test->priv;
	int step;

	prandom_seed_state(&m->rnd, *(const u32 *)test->param_value);
	for (step = 0; step < INDEX_STEPS; step++) {
		index_change(test, m);
		index_walk_range(test, m, false);
		index_walk_tag(test, m, false);
	}
}

static void index_test_resume(struct kunit *test)
{
	struct index_model *m = test->priv;
	int step;

	prandom_seed_state(&m->rnd, *(const u32 *)test->param_value);
	for (step = 0; step < INDEX_STEPS; step++) {
		index_add(test, m);
		index_walk_range(test, m, true);
		index_walk_tag(test, m, true);
	}
}

static const u32 index_seeds[] = { 1, 2, 3, 4 };

static void index_seed_desc(const u32 *seed, char *desc)
{
	snprintf(desc, KUNIT_PARAM_DESC_SIZE, "seed %u", *seed);
}

KUNIT_ARRAY_PARAM(index_seed, index_seeds, index_seed_desc);

static bool index_bit(const struct in6_addr *addr, int bit)
{
	return addr->s6_addr[bit / 8] & 0x80 >> bit % 8;
}

static void index_test_prefix(struct kunit *test)
{
	struct index_model *m = test->priv;
	struct cma_align_range range;
	struct in6_addr addr;
	int prefix_len, bit;

	prandom_seed_state(&m->rnd, 1);
	for (prefix_len = 0; prefix_len <= 128; prefix_len++) {
		prandom_bytes_state(&m->rnd, &addr, sizeof(addr));
		memset(&range, 0xa5, sizeof(range));
		cma_align_prefix(&addr, prefix_len, &range);
		for (bit = 0; bit < 128; bit++) {
			KUNIT_ASSERT_EQ(test, index_bit(&range.first, bit),
					bit < prefix_len && index_bit(&addr, bit));
			KUNIT_ASSERT_EQ(test, index_bit(&range.last, bit),
					bit >= prefix_len || index_bit(&addr, bit));
		}
	}
}

static void index_test_tags_differ(struct kunit *test)
{
	struct in6_addr a, b;
	u64 tag;

	ipv6_addr_set_v4mapped(htonl(0x0a000001), &a);
	ipv6_addr_set_v4mapped(htonl(0x0a000002), &b);
	tag = cma_align_nexthop_tag(1, &a);
	KUNIT_EXPECT_EQ(test, tag, cma_align_nexthop_tag(1, &a));
	KUNIT_EXPECT_NE(test, tag, cma_align_nexthop_tag(1, &b));
	KUNIT_EXPECT_NE(test, tag, cma_align_nexthop_tag(2, &a));
	KUNIT_EXPECT_EQ(test, tag >> 56, CMA_ALIGN_TAG_NEXTHOP);

	KUNIT_EXPECT_NE(test, cma_align_port_tag(0, 0), CMA_ALIGN_TAG_LISTENERS);
	KUNIT_EXPECT_NE(test, cma_align_port_tag(0, 1), cma_align_port_tag(1, 0));
	KUNIT_EXPECT_NE(test, cma_align_port_tag(1, 1), cma_align_port_tag(1, 2));
	KUNIT_EXPECT_NE(test, cma_align_tag(CMA_ALIGN_TAG_DEV, 1),
			cma_align_tag(CMA_ALIGN_TAG_ROUTE, 1));
	/* 0 means that a path has no tag. */
	KUNIT_EXPECT_NE(test, cma_align_tag(CMA_ALIGN_TAG_DEV, 1), 0);
}

static void index_test_empty(struct kunit *test)
{
	struct index_model *m = test->priv;
	struct cma_align_key key = {};

	KUNIT_EXPECT_NULL(test, index_find(m, &key));
	KUNIT_EXPECT_NULL(test, index_first(m, &key.dst));
	KUNIT_EXPECT_NULL(test, index_after(m, &key));
	KUNIT_EXPECT_NULL(test, index_tagged(m, CMA_ALIGN_TAG_LISTENERS, NULL));
}

static int index_init(struct kunit *test)
{
	struct index_model *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	m->anet = kunit_kzalloc(test, sizeof(*m->anet), GFP_KERNEL);
	if (!m->anet)
		return -ENOMEM;
	spin_lock_init(&m->anet->lock);
	m->anet->paths = RB_ROOT;
	m->anet->tags = RB_ROOT;
	test->priv = m;
	return 0;
}

static void index_exit(struct kunit *test)
{
	struct index_model *m = test->priv;
	int i;

	for (i = 0; m && i < INDEX_SLOTS; i++)
		kfree(m->paths[i]);
}

static struct kunit_case index_cases[] = {
	KUNIT_CASE(index_test_empty),
	KUNIT_CASE(index_test_prefix),
	KUNIT_CASE(index_test_tags_differ),
	KUNIT_CASE_PARAM(index_test_model, index_seed_gen_params),
	KUNIT_CASE_PARAM(index_test_resume, index_seed_gen_params),
	{}
};

static struct kunit_suite index_suite = {
	.name = "rdma_cm_align_index",
	.init = index_init,
	.exit = index_exit,
	.test_cases = index_cases,
};

kunit_test_suite(index_suite);
