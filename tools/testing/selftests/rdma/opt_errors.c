// SPDX-License-Identifier: GPL-2.0
/*
 * opt_errors - every way to set the options of RDMA_ALIGN_WITH_NETDEVICE wrong.
 *
 * An id is brought into each state that a program can hold it in, and in each
 * state gets every wrong length, every unknown mode and flag, and every delay
 * out of range (EINVAL), then good values (accepted). With -s, on a kernel
 * without the feature, every one of them must answer ENOSYS: that is how a
 * program finds out.
 *
 * Prints KTAP, a test per state. ADDR is a local address that a listener may
 * use and that resolves over a soft-RoCE device.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_cm_align.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BIG_LEN		65536
#define WAIT_MS		30000

static bool stock;		/* expect ENOSYS for everything */
static int failures;		/* in the state that is being tested */

/* Setting options. */

static void expect(struct rdma_cm_id *id, int optname, size_t len,
		   uint32_t value, int expected)
{
	/* Fixed, so that the wrong length is the only thing that is wrong. */
	static char buf[BIG_LEN];
	int ret, err;

	if (stock)
		expected = ENOSYS;
	memcpy(buf, &value, sizeof(value));
	ret = rdma_set_option(id, RDMA_OPTION_ID, optname, buf, len);
	err = ret ? errno : 0;
	if (err == expected)
		return;
	printf("# option %d length %zu value 0x%x: %s, expected %s\n",
	       optname, len, value, err ? strerrorname_np(err) : "accepted",
	       expected ? strerrorname_np(expected) : "accepted");
	failures++;
}

static void expect_u32(struct rdma_cm_id *id, int optname, uint32_t value,
		       int expected)
{
	expect(id, optname, sizeof(value), value, expected);
}

static void wrong_lengths(struct rdma_cm_id *id)
{
	static const size_t lengths[] = { 0, 1, 2, 3, 5, 8, BIG_LEN };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		expect(id, RDMA_OPTION_ID_HA_MODE, lengths[i],
		       RDMA_ALIGN_WITH_NETDEVICE, EINVAL);
		expect(id, RDMA_OPTION_ID_HA_DOWNDELAY, lengths[i], 50,
		       EINVAL);
		expect(id, RDMA_OPTION_ID_HA_UPDELAY, lengths[i], 50, EINVAL);
	}
}

static void wrong_modes(struct rdma_cm_id *id)
{
	static const uint32_t known = RDMA_HA_F_STICKY | RDMA_HA_F_RESTORED |
				      RDMA_HA_F_STANDBY;
	uint32_t mode;
	int bit;

	for (mode = RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN + 1;
	     mode <= RDMA_HA_MODE_MASK; mode++)
		expect_u32(id, RDMA_OPTION_ID_HA_MODE, mode, EINVAL);

	for (bit = 8; bit < 32; bit++) {
		if (known & (1U << bit))
			continue;
		for (mode = RDMA_HA_NONE;
		     mode <= RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN; mode++)
			expect_u32(id, RDMA_OPTION_ID_HA_MODE,
				   mode | 1U << bit, EINVAL);
	}
	expect_u32(id, RDMA_OPTION_ID_HA_MODE, ~0U, EINVAL);
}

static void wrong_delays(struct rdma_cm_id *id)
{
	static const uint32_t huge[] = { 0x7fffffff, 0x80000000, 0xffffffff };
	size_t i;

	expect_u32(id, RDMA_OPTION_ID_HA_DOWNDELAY,
		   RDMA_HA_DOWNDELAY_MAX_MS + 1, EINVAL);
	expect_u32(id, RDMA_OPTION_ID_HA_UPDELAY,
		   RDMA_HA_UPDELAY_MAX_MS + 1, EINVAL);
	for (i = 0; i < ARRAY_SIZE(huge); i++) {
		expect_u32(id, RDMA_OPTION_ID_HA_DOWNDELAY, huge[i], EINVAL);
		expect_u32(id, RDMA_OPTION_ID_HA_UPDELAY, huge[i], EINVAL);
	}
}

static void good_values(struct rdma_cm_id *id)
{
	static const uint32_t flags[] = {
		0, RDMA_HA_F_STICKY, RDMA_HA_F_RESTORED, RDMA_HA_F_STANDBY,
		RDMA_HA_F_STICKY | RDMA_HA_F_RESTORED | RDMA_HA_F_STANDBY,
	};
	uint32_t mode;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		for (mode = RDMA_HA_NONE;
		     mode <= RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN; mode++)
			expect_u32(id, RDMA_OPTION_ID_HA_MODE, mode | flags[i],
				   0);
	}
	expect_u32(id, RDMA_OPTION_ID_HA_DOWNDELAY, 0, 0);
	expect_u32(id, RDMA_OPTION_ID_HA_DOWNDELAY, RDMA_HA_DOWNDELAY_MAX_MS,
		   0);
	expect_u32(id, RDMA_OPTION_ID_HA_UPDELAY, 0, 0);
	expect_u32(id, RDMA_OPTION_ID_HA_UPDELAY, RDMA_HA_UPDELAY_MAX_MS, 0);
}

static void all_values(struct rdma_cm_id *id)
{
	good_values(id);
	wrong_lengths(id);
	wrong_modes(id);
	wrong_delays(id);
	good_values(id);
	/* Nothing of this may be heard by the ids of the next state. */
	expect_u32(id, RDMA_OPTION_ID_HA_MODE, RDMA_HA_NONE, 0);
}

/* Bringing ids into a state. */

struct pair {
	struct rdma_event_channel	*channel;
	struct rdma_cm_id		*listener;
	struct rdma_cm_id		*active;
	struct rdma_cm_id		*passive;
	struct ibv_pd			*pd[2];
	struct ibv_cq			*cq[2];
};

/* Waits for an event of this type, and takes those before it. */
static int wait_event(struct pair *p, enum rdma_cm_event_type type)
{
	struct pollfd pfd = { .fd = p->channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type got;

	for (;;) {
		if (poll(&pfd, 1, WAIT_MS) <= 0) {
			printf("# %s did not come\n", rdma_event_str(type));
			return -1;
		}
		if (rdma_get_cm_event(p->channel, &event))
			continue;
		got = event->event;
		if (got == RDMA_CM_EVENT_CONNECT_REQUEST)
			p->passive = event->id;
		rdma_ack_cm_event(event);
		if (got == type)
			return 0;
	}
}

static int create_qp(struct pair *p, int i, struct rdma_cm_id *id, bool ud)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = ud ? IBV_QPT_UD : IBV_QPT_RC,
	};

	p->pd[i] = ibv_alloc_pd(id->verbs);
	p->cq[i] = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	if (!p->pd[i] || !p->cq[i])
		return -1;
	attr.send_cq = p->cq[i];
	attr.recv_cq = p->cq[i];
	return rdma_create_qp(id, p->pd[i], &attr);
}

static int go_connect(struct pair *p, bool ud)
{
	struct rdma_conn_param param = { .retry_count = 6 };

	if (create_qp(p, 0, p->active, ud))
		return -1;
	param.qp_num = p->active->qp->qp_num;
	if (rdma_connect(p->active, &param) ||
	    wait_event(p, RDMA_CM_EVENT_CONNECT_REQUEST))
		return -1;
	return 0;
}

static int go_accept(struct pair *p, bool ud)
{
	struct rdma_conn_param param = { .retry_count = 6 };

	if (create_qp(p, 1, p->passive, ud))
		return -1;
	param.qp_num = p->passive->qp->qp_num;
	if (rdma_accept(p->passive, &param))
		return -1;
	return wait_event(p, RDMA_CM_EVENT_ESTABLISHED);
}

static void close_id(struct rdma_cm_id *id)
{
	if (!id)
		return;
	if (id->qp)
		rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void close_pair(struct pair *p)
{
	int i;

	close_id(p->active);
	close_id(p->passive);
	close_id(p->listener);
	for (i = 0; i < 2; i++) {
		if (p->cq[i])
			ibv_destroy_cq(p->cq[i]);
		if (p->pd[i])
			ibv_dealloc_pd(p->pd[i]);
	}
	if (p->channel)
		rdma_destroy_event_channel(p->channel);
}

enum state {
	STATE_IDLE,
	STATE_BOUND,
	STATE_LISTEN,
	STATE_RESOLVING,
	STATE_ADDR_RESOLVED,
	STATE_ROUTE_RESOLVED,
	STATE_CONNECTING,
	STATE_CONNECTED,
	STATE_DISCONNECTED,
	STATE_COUNT,
};

static const char * const state_names[] = {
	[STATE_IDLE]		= "new",
	[STATE_BOUND]		= "bound",
	[STATE_LISTEN]		= "listening",
	[STATE_RESOLVING]	= "resolving",
	[STATE_ADDR_RESOLVED]	= "address resolved",
	[STATE_ROUTE_RESOLVED]	= "route resolved",
	[STATE_CONNECTING]	= "connecting, and requested",
	[STATE_CONNECTED]	= "connected",
	[STATE_DISCONNECTED]	= "disconnected",
};

static int bind_active(struct pair *p, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage any = *addr;

	if (any.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&any)->sin6_port = 0;
	else
		((struct sockaddr_in *)&any)->sin_port = 0;
	return rdma_bind_addr(p->active, (struct sockaddr *)&any);
}

/* Goes on until the state is reached. */
static int enter_state(struct pair *p, enum state until, bool ud,
		       struct sockaddr_storage *addr)
{
	enum rdma_port_space ps = ud ? RDMA_PS_UDP : RDMA_PS_TCP;

	p->channel = rdma_create_event_channel();
	if (!p->channel || rdma_create_id(p->channel, &p->active, NULL, ps) ||
	    rdma_create_id(p->channel, &p->listener, NULL, ps))
		return -1;
	if (until == STATE_IDLE)
		return 0;
	if (until == STATE_BOUND)
		return bind_active(p, addr);

	if (rdma_bind_addr(p->listener, (struct sockaddr *)addr) ||
	    rdma_listen(p->listener, 1))
		return -1;
	if (until == STATE_LISTEN)
		return 0;

	if (rdma_resolve_addr(p->active, NULL, (struct sockaddr *)addr, 4000))
		return -1;
	if (until == STATE_RESOLVING)
		return 0;
	if (wait_event(p, RDMA_CM_EVENT_ADDR_RESOLVED))
		return -1;
	if (until == STATE_ADDR_RESOLVED)
		return 0;

	if (rdma_resolve_route(p->active, 4000) ||
	    wait_event(p, RDMA_CM_EVENT_ROUTE_RESOLVED))
		return -1;
	if (until == STATE_ROUTE_RESOLVED)
		return 0;

	if (go_connect(p, ud))
		return -1;
	if (until == STATE_CONNECTING)
		return 0;

	if (go_accept(p, ud))
		return -1;
	if (until == STATE_CONNECTED)
		return 0;

	if (ud)			/* SIDR has nothing to disconnect */
		return 0;
	if (rdma_disconnect(p->active))
		return -1;
	return wait_event(p, RDMA_CM_EVENT_DISCONNECTED);
}

static void test_state(int number, enum state last, bool ud,
		       struct sockaddr_storage *addr)
{
	struct pair p = {};

	failures = 0;
	if (enter_state(&p, last, ud, addr)) {
		printf("# state not reached: %s\n", strerror(errno));
		failures++;
	} else {
		all_values(p.active);
		if (last >= STATE_LISTEN)
			all_values(p.listener);
		if (p.passive)
			all_values(p.passive);
	}
	close_pair(&p);
	printf("%s %d %s id, %s\n", failures ? "not ok" : "ok", number,
	       ud ? "UD" : "RC", state_names[last]);
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct sockaddr_storage addr = {};
	int number = 0, failed = 0, opt, ud, state;
	struct addrinfo *res;

	while ((opt = getopt(argc, argv, "s")) == 's')
		stock = true;
	if (opt != -1 || argc - optind != 2 ||
	    getaddrinfo(argv[optind], argv[optind + 1], &hints, &res)) {
		fprintf(stderr, "usage: %s [-s] ADDR PORT\n", argv[0]);
		return 1;
	}
	memcpy(&addr, res->ai_addr, res->ai_addrlen);
	freeaddrinfo(res);
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(240);

	printf("TAP version 13\n1..%d\n", 2 * STATE_COUNT);
	for (ud = 0; ud < 2; ud++) {
		for (state = 0; state < STATE_COUNT; state++) {
			test_state(++number, state, ud, &addr);
			failed += !!failures;
		}
	}
	return failed ? 1 : 0;
}
