// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: which paths does a change concern?
 *
 * Two rbtrees for each netns. One is ordered by destination, so that the paths
 * which a prefix covers are neighbours. The other is ordered by tag, and holds
 * a path once for each thing that it depends on. Finding the first path is
 * O(log N), each further one O(1); adding and removing allocate nothing.
 *
 * All functions are called with cma_align_net.lock held.
 */

#include <linux/jhash.h>
#include <net/ipv6.h>

#include "cma_align_priv.h"

#define rb_path(n)	rb_entry(n, struct cma_align_path, node)
#define rb_tag(n)	rb_entry(n, struct cma_align_tag, node)

/**
 * cma_align_nexthop_tag - the tag of a next hop
 * @ifindex: Netdevice.
 * @nexthop: Address of the gateway, or of the destination if there is none.
 *
 * A hash: two next hops may share a tag, which costs a needless look.
 *
 * Return: the tag.
 */
u64 cma_align_nexthop_tag(u32 ifindex, const struct in6_addr *nexthop)
{
	u32 low = jhash2(nexthop->s6_addr32, 4, ifindex);
	u32 high = jhash2(nexthop->s6_addr32, 4, ~ifindex);

	return cma_align_tag(CMA_ALIGN_TAG_NEXTHOP, (u64)high << 32 | low);
}

/**
 * cma_align_prefix - the destinations that a prefix covers
 * @addr: Any address in it.
 * @prefix_len: Its length in bits, 0..128.
 * @range: Filled in.
 */
void cma_align_prefix(const struct in6_addr *addr, unsigned int prefix_len,
		      struct cma_align_range *range)
{
	int i;

	ipv6_addr_prefix(&range->first, addr, prefix_len);
	for (i = 0; i < 16; i++) {
		int bits = clamp_t(int, (int)prefix_len - i * 8, 0, 8);

		range->last.s6_addr[i] = range->first.s6_addr[i] | 0xff >> bits;
	}
}

int cma_align_key_cmp(const struct cma_align_key *a,
		      const struct cma_align_key *b)
{
	return memcmp(a, b, sizeof(*a));
}

struct cma_align_path *cma_align_index_find(struct cma_align_net *anet,
					    const struct cma_align_key *key)
{
	struct rb_node *n = anet->paths.rb_node;

	lockdep_assert_held(&anet->lock);
	while (n) {
		int cmp = cma_align_key_cmp(key, &rb_path(n)->key);

		if (!cmp)
			return rb_path(n);
		n = cmp < 0 ? n->rb_left : n->rb_right;
	}
	return NULL;
}

static bool cma_align_path_less(struct rb_node *a, const struct rb_node *b)
{
	return cma_align_key_cmp(&rb_path(a)->key, &rb_path(b)->key) < 0;
}

void cma_align_index_add(struct cma_align_net *anet,
			 struct cma_align_path *path)
{
	int i;

	lockdep_assert_held(&anet->lock);
	rb_add(&path->node, &anet->paths, cma_align_path_less);
	for (i = 0; i < CMA_ALIGN_TAG_MAX; i++)
		RB_CLEAR_NODE(&path->tags[i].node);
}

void cma_align_index_del(struct cma_align_net *anet,
			 struct cma_align_path *path)
{
	int i;

	lockdep_assert_held(&anet->lock);
	rb_erase(&path->node, &anet->paths);
	for (i = 0; i < CMA_ALIGN_TAG_MAX; i++)
		if (!RB_EMPTY_NODE(&path->tags[i].node))
			rb_erase(&path->tags[i].node, &anet->tags);
}

/* Paths of one tag are ordered by the tag's place, to resume a walk there. */
static bool cma_align_tag_less(struct rb_node *a, const struct rb_node *b)
{
	if (rb_tag(a)->value != rb_tag(b)->value)
		return rb_tag(a)->value < rb_tag(b)->value;
	return a < b;
}

/* Replaces the path's tag of this kind. @tag 0: it has none. */
void cma_align_index_retag(struct cma_align_net *anet,
			   struct cma_align_path *path,
			   enum cma_align_tag_kind kind, u64 tag)
{
	struct cma_align_tag *t = &path->tags[kind];

	lockdep_assert_held(&anet->lock);
	if (!RB_EMPTY_NODE(&t->node)) {
		if (t->value == tag)
			return;
		rb_erase(&t->node, &anet->tags);
		RB_CLEAR_NODE(&t->node);
	}
	if (!tag)
		return;
	t->value = tag;
	rb_add(&t->node, &anet->tags, cma_align_tag_less);
}

/* The first path with a destination that is not below @first, or NULL. */
struct cma_align_path *
cma_align_index_first(struct cma_align_net *anet, const struct in6_addr *first)
{
	struct rb_node *n = anet->paths.rb_node;
	struct cma_align_path *found = NULL;

	lockdep_assert_held(&anet->lock);
	while (n) {
		if (memcmp(first, &rb_path(n)->key.dst, sizeof(*first)) <= 0) {
			found = rb_path(n);
			n = n->rb_left;
		} else {
			n = n->rb_right;
		}
	}
	return found;
}

struct cma_align_path *cma_align_index_next(struct cma_align_path *path)
{
	struct rb_node *n = rb_next(&path->node);

	return n ? rb_path(n) : NULL;
}

/* The first path with a key above @key, to resume a walk after a break. */
struct cma_align_path *cma_align_index_after(struct cma_align_net *anet,
					     const struct cma_align_key *key)
{
	struct rb_node *n = anet->paths.rb_node;
	struct cma_align_path *found = NULL;

	lockdep_assert_held(&anet->lock);
	while (n) {
		if (cma_align_key_cmp(key, &rb_path(n)->key) < 0) {
			found = rb_path(n);
			n = n->rb_left;
		} else {
			n = n->rb_right;
		}
	}
	return found;
}

static struct cma_align_path *cma_align_tag_path(struct cma_align_tag *t)
{
	unsigned int kind = t->value >> 56;

	return container_of(t, struct cma_align_path, tags[kind]);
}

/*
 * The first path with this tag, or the next one after the path @after, which
 * need not be in the tree any more: only its address is used. NULL: none.
 */
struct cma_align_path *
cma_align_index_tagged(struct cma_align_net *anet, u64 tag,
		       const struct cma_align_path *after)
{
	const struct rb_node *above = NULL;
	struct rb_node *n = anet->tags.rb_node;
	struct cma_align_tag *found = NULL;

	lockdep_assert_held(&anet->lock);
	if (after)
		above = &after->tags[tag >> 56].node;
	while (n) {
		struct cma_align_tag *t = rb_tag(n);

		if (t->value > tag || (t->value == tag && n > above)) {
			if (t->value == tag)
				found = t;
			n = n->rb_left;
		} else {
			n = n->rb_right;
		}
	}
	return found ? cma_align_tag_path(found) : NULL;
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_index_kunit.c"
#endif
