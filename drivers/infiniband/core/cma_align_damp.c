// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * RDMA_ALIGN_WITH_NETDEVICE: delays and damping.
 *
 * A destination that is reported again within CMA_ALIGN_QUIET of its last report
 * has its delays doubled. That is remembered for the destination and not for the
 * id, because a ULP that reconnects uses a new one.
 *
 * All functions are called with cma_align_net.lock held.
 */

#include <linux/slab.h>

#include "cma_align_priv.h"

/* After so long without a report the delays are back to normal. */
#define CMA_ALIGN_QUIET		(60 * HZ)
#define CMA_ALIGN_LEVEL_MAX	16
#define CMA_ALIGN_DAMPED_MAX_MS	60000
/* Destinations without a path that are remembered. */
#define CMA_ALIGN_DAMPS_UNUSED	1024

static struct cma_align_damp *cma_align_damp_find(struct cma_align_net *anet,
						  const struct in6_addr *dst)
{
	struct rb_node *n = anet->damps.rb_node;

	while (n) {
		struct cma_align_damp *damp =
			rb_entry(n, struct cma_align_damp, node);
		int cmp = memcmp(dst, &damp->dst, sizeof(*dst));

		if (!cmp)
			return damp;
		n = cmp < 0 ? n->rb_left : n->rb_right;
	}
	return NULL;
}

static bool cma_align_damp_less(struct rb_node *a, const struct rb_node *b)
{
	return memcmp(&rb_entry(a, struct cma_align_damp, node)->dst,
		      &rb_entry(b, struct cma_align_damp, node)->dst,
		      sizeof(struct in6_addr)) < 0;
}

static void cma_align_damp_free(struct cma_align_net *anet,
				struct cma_align_damp *damp)
{
	list_del(&damp->unused);
	anet->nr_unused_damps--;
	rb_erase(&damp->node, &anet->damps);
	kfree(damp);
}

/* No timer forgets what is not used: the next use does, and a limit. */
static void cma_align_damp_purge(struct cma_align_net *anet, u64 now)
{
	struct cma_align_damp *damp;

	while ((damp = list_first_entry_or_null(&anet->unused_damps,
						struct cma_align_damp,
						unused))) {
		if (now - damp->last < CMA_ALIGN_QUIET &&
		    anet->nr_unused_damps <= CMA_ALIGN_DAMPS_UNUSED)
			break;
		cma_align_damp_free(anet, damp);
	}
}

/* Takes over @spare if there is none yet. */
struct cma_align_damp *cma_align_damp_get(struct cma_align_net *anet,
					  const struct in6_addr *dst,
					  struct cma_align_damp **spare)
{
	struct cma_align_damp *damp = cma_align_damp_find(anet, dst);

	lockdep_assert_held(&anet->lock);
	if (!damp) {
		damp = *spare;
		*spare = NULL;
		damp->dst = *dst;
		INIT_LIST_HEAD(&damp->unused);
		rb_add(&damp->node, &anet->damps, cma_align_damp_less);
	} else if (!damp->users) {
		list_del_init(&damp->unused);
		anet->nr_unused_damps--;
	}
	damp->users++;
	return damp;
}

void cma_align_damp_put(struct cma_align_net *anet,
			struct cma_align_damp *damp)
{
	lockdep_assert_held(&anet->lock);
	if (--damp->users)
		return;
	list_add_tail(&damp->unused, &anet->unused_damps);
	anet->nr_unused_damps++;
	if (!damp->last)
		cma_align_damp_free(anet, damp);
	cma_align_damp_purge(anet, cma_align_now());
}

/* A destination was reported. One incident counts once. */
void cma_align_damp_report(struct cma_align_path *path, u64 now)
{
	struct cma_align_damp *damp = path->damp;

	if (damp->last && damp->incident == path->incident)
		return;
	if (!damp->last || now - damp->last >= CMA_ALIGN_QUIET)
		damp->level = 0;
	else if (damp->level < CMA_ALIGN_LEVEL_MAX)
		damp->level++;
	damp->last = now;
	damp->incident = path->incident;
}

u8 cma_align_damp_level(const struct cma_align_damp *damp, u64 now)
{
	return damp->last && now - damp->last < CMA_ALIGN_QUIET ? damp->level :
								  0;
}

/*
 * How long the present verdict must last. A report of the same incident over
 * another path must not lengthen it: the level is the one that held when the
 * verdict was reached, until it is back to normal.
 */
u64 cma_align_delay(const struct cma_align_path *path, u64 now)
{
	u32 delay = path->state == CMA_ALIGN_DOWN ? path->key.downdelay_ms :
						    path->key.updelay_ms;
	u8 level = min(path->level, cma_align_damp_level(path->damp, now));
	u64 damped = min_t(u64, (u64)delay << level, CMA_ALIGN_DAMPED_MAX_MS);

	return msecs_to_jiffies(max_t(u32, delay, damped));
}

#if IS_ENABLED(CONFIG_INFINIBAND_RDMACM_ALIGN_KUNIT_TEST)
#include "tests/cma_align_damp_kunit.c"
#endif
