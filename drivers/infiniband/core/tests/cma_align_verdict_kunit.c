// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * KUnit tests of cma_align_judge(): what a view means. A row for each clause of
 * "aligned, misaligned, down", then every combination against a naive rule.
 */

#include "cma_align_kunit.h"

/* What may be wrong in a view; nothing: all is well. */
enum verdict_fault {
	NO_LINK		= BIT(0),
	NO_PORT		= BIT(1),
	NO_ADDR		= BIT(2),
	NO_GID		= BIT(3),
	NEW_HWADDR	= BIT(4),
	ROUTE_OTHER	= BIT(5),
	ROUTE_NONE	= BIT(6),
	NO_OWN_ROUTE	= BIT(7),
	NEW_NEIGH	= BIT(8),
	VERDICT_FAULTS	= BIT(9),
};

struct verdict_row {
	const char		*name;
	unsigned int		faults;
	enum cma_align_state	state;
	enum rdma_align_reason	reason;
};

static const struct verdict_row verdict_rows[] = {
	{ "as it was: aligned", 0, CMA_ALIGN_ALIGNED, 0 },
	{ "the netdevice is gone, not up or without carrier: down, LINK",
	  NO_LINK, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_LINK },
	{ "the RDMA port is not active: down, LINK",
	  NO_PORT, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_LINK },
	{ "the source address left the netdevice: down, ADDRESS",
	  NO_ADDR, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_ADDRESS },
	{ "the GID entry was deleted: down, FAILOVER",
	  NO_GID, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_FAILOVER },
	{ "the netdevice has another hardware address: superseded, FAILOVER",
	  NEW_HWADDR, CMA_ALIGN_SUPERSEDED, RDMA_ALIGN_REASON_FAILOVER },
	{ "another hardware address and no GID entry: down, FAILOVER",
	  NEW_HWADDR | NO_GID, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_FAILOVER },
	{ "the route leaves by another netdevice: superseded, ROUTE",
	  ROUTE_OTHER, CMA_ALIGN_SUPERSEDED, RDMA_ALIGN_REASON_ROUTE },
	{ "the route left, none by the own netdevice is left: down, ROUTE",
	  ROUTE_OTHER | NO_OWN_ROUTE, CMA_ALIGN_DOWN,
	  RDMA_ALIGN_REASON_ROUTE },
	{ "no route at all: down, UNREACHABLE",
	  ROUTE_NONE | NO_OWN_ROUTE, CMA_ALIGN_DOWN,
	  RDMA_ALIGN_REASON_UNREACHABLE },
	{ "no route is down whatever else is known of the own netdevice",
	  ROUTE_NONE, CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_UNREACHABLE },
	{ "the next hop is at another address: superseded, NEIGHBOUR",
	  NEW_NEIGH, CMA_ALIGN_SUPERSEDED, RDMA_ALIGN_REASON_NEIGHBOUR },
	{ "a neighbour proves nothing where the route left",
	  ROUTE_OTHER | NEW_NEIGH, CMA_ALIGN_SUPERSEDED,
	  RDMA_ALIGN_REASON_ROUTE },
	{ "a link that is down takes its address along: LINK is told",
	  NO_LINK | NO_ADDR | NO_GID | ROUTE_OTHER | NO_OWN_ROUTE,
	  CMA_ALIGN_DOWN, RDMA_ALIGN_REASON_LINK },
	{ "a deleted address takes its GID and route along: ADDRESS is told",
	  NO_ADDR | NO_GID | ROUTE_NONE | NO_OWN_ROUTE, CMA_ALIGN_DOWN,
	  RDMA_ALIGN_REASON_ADDRESS },
	{ "a route that left after a failover: FAILOVER is told, superseded",
	  NEW_HWADDR | ROUTE_OTHER, CMA_ALIGN_SUPERSEDED,
	  RDMA_ALIGN_REASON_FAILOVER },
	{ "a failover and no route any more: FAILOVER is told, down",
	  NEW_HWADDR | ROUTE_NONE | NO_OWN_ROUTE, CMA_ALIGN_DOWN,
	  RDMA_ALIGN_REASON_FAILOVER },
};

static void verdict_desc(const struct verdict_row *row, char *desc)
{
	strscpy(desc, row->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(verdict, verdict_rows, verdict_desc);

static void verdict_view(unsigned int faults, struct cma_align_view *view)
{
	memset(view, 0, sizeof(*view));
	view->link = !(faults & NO_LINK);
	view->port = !(faults & NO_PORT);
	view->addr = !(faults & NO_ADDR);
	view->gid = !(faults & NO_GID);
	view->hwaddr = !(faults & NEW_HWADDR);
	view->own_route = !(faults & NO_OWN_ROUTE);
	view->neigh_differs = faults & NEW_NEIGH;
	view->route = CMA_ALIGN_ROUTE_OWN;
	if (faults & ROUTE_OTHER)
		view->route = CMA_ALIGN_ROUTE_OTHER;
	if (faults & ROUTE_NONE)
		view->route = CMA_ALIGN_ROUTE_NONE;
}

static void verdict_test_clause(struct kunit *test)
{
	const struct verdict_row *row = test->param_value;
	struct cma_align_verdict verdict;
	struct cma_align_view view;

	verdict_view(row->faults, &view);
	verdict = cma_align_judge(&view);
	KUNIT_EXPECT_EQ(test, verdict.state, row->state);
	KUNIT_EXPECT_EQ(test, verdict.reason, row->reason);
}

/* Each reason, in the order in which they are told, and what it comes from. */
static const struct {
	enum rdma_align_reason	reason;
	unsigned int		faults;
} verdict_order[] = {
	{ RDMA_ALIGN_REASON_LINK,	 NO_LINK | NO_PORT },
	{ RDMA_ALIGN_REASON_ADDRESS,	 NO_ADDR },
	{ RDMA_ALIGN_REASON_FAILOVER,	 NO_GID | NEW_HWADDR },
	{ RDMA_ALIGN_REASON_ROUTE,	 ROUTE_OTHER },
	{ RDMA_ALIGN_REASON_UNREACHABLE, ROUTE_NONE },
	{ RDMA_ALIGN_REASON_NEIGHBOUR,	 NEW_NEIGH },
};

static void verdict_test_every_combination(struct kunit *test)
{
	struct cma_align_verdict verdict;
	struct cma_align_view view;
	enum rdma_align_reason reason;
	unsigned int faults, i;
	bool down;

	for (faults = 0; faults < VERDICT_FAULTS; faults++) {
		/* The route leaves by one way only. */
		if (faults & ROUTE_OTHER && faults & ROUTE_NONE)
			continue;
		reason = 0;
		for (i = 0; i < ARRAY_SIZE(verdict_order) && !reason; i++)
			if (faults & verdict_order[i].faults)
				reason = verdict_order[i].reason;
		down = faults & (NO_LINK | NO_PORT | NO_ADDR | NO_GID |
				 ROUTE_NONE) ||
		       (faults & ROUTE_OTHER && faults & NO_OWN_ROUTE);

		verdict_view(faults, &view);
		verdict = cma_align_judge(&view);
		KUNIT_EXPECT_EQ_MSG(test, verdict.reason, reason,
				    "faults 0x%x", faults);
		KUNIT_EXPECT_EQ_MSG(test, verdict.state,
				    down ? CMA_ALIGN_DOWN :
				    reason ? CMA_ALIGN_SUPERSEDED :
					     CMA_ALIGN_ALIGNED,
				    "faults 0x%x", faults);
	}
}

/* What is only remembered of a view, and a new destination, decide nothing. */
static void verdict_test_the_rest_is_silent(struct kunit *test)
{
	struct cma_align_verdict verdict;
	struct cma_align_view view;

	verdict_view(0, &view);
	view.dest.ifindex = 7;
	view.dest.rdma_dev = 8;
	view.dest.port = 9;
	view.route_ifindex = 10;
	view.nexthop.s6_addr[0] = 1;
	view.has_nexthop = true;
	view.adopt_nexthop = true;
	view.adopt_ll = true;
	memset(view.ll, 0x11, sizeof(view.ll));
	verdict = cma_align_judge(&view);
	KUNIT_EXPECT_EQ(test, verdict.state, CMA_ALIGN_ALIGNED);
	KUNIT_EXPECT_EQ(test, verdict.reason, 0);
}

static struct kunit_case verdict_cases[] = {
	KUNIT_CASE_PARAM(verdict_test_clause, verdict_gen_params),
	KUNIT_CASE(verdict_test_every_combination),
	KUNIT_CASE(verdict_test_the_rest_is_silent),
	{}
};

static struct kunit_suite verdict_suite = {
	.name = "rdma_cm_align_verdict",
	.test_cases = verdict_cases,
};

kunit_test_suite(verdict_suite);
