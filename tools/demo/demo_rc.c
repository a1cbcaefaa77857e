// SPDX-License-Identifier: GPL-2.0
/*
 * A reliable connection with traffic, on librdmacm as distributed.
 *
 *	demo_rc server PORT LOG
 *	demo_rc client ADDR PORT LOG METER [align]
 *
 * The client sends numbered requests, one at a time, each with 4 KiB of data
 * that depend on the number; the server checks them, applies each number once
 * to a running checksum and answers with it and with other data, which the
 * client checks. A request that was under way when a connection ended is sent
 * again on the next one.
 *
 * The reaction to trouble is the same whatever rdma_cm is loaded:
 *
 *	ADDR_CHANGE, UNREACHABLE	resolve and connect anew, move the
 *					traffic when the new connection is
 *					there, then end the old one
 *	DISCONNECTED, failed request	the same without an old one
 *
 * "align" is the whole difference: it sets RDMA_OPTION_ID_HA_MODE.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_cm_align.h>
#include <signal.h>
#include <stdbool.h>

#define MSG_BYTES	4096
#define SLOTS		4
#define RESOLVE_MS	1000
#define RETRY_US	200000
#define PACE_US		2000
#define DOWNDELAY_MS	100
#define UPDELAY_MS	200
#define MAX_CONNS	64

#include "demo.h"

struct msg {
	uint64_t number;
	uint64_t sum;		/* of the data */
	uint64_t total;		/* server: of all requests so far */
	uint64_t data[(MSG_BYTES - 24) / 8];
};

struct conn {
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct msg *msgs;	/* SLOTS to receive, SLOTS to send */
	bool established;
	bool failed;
};

static struct rdma_event_channel *channel;
static _Atomic int stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void die(const char *what)
{
	say("bad", "%s: %s", what, strerror(errno));
	fprintf(stderr, "demo_rc: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_nonblock(int fd)
{
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK))
		die("fcntl");
}

static const char *conn_dev(struct conn *c)
{
	return c->id->verbs ? ibv_get_device_name(c->id->verbs->device) : "none";
}

static void post_recv(struct conn *c, int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&c->msgs[slot],
		.length = sizeof(struct msg),
		.lkey = c->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	if (ibv_post_recv(c->id->qp, &wr, &bad))
		c->failed = true;
}

static void post_send(struct conn *c, int slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&c->msgs[SLOTS + slot],
		.length = sizeof(struct msg),
		.lkey = c->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = SLOTS + slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(c->id->qp, &wr, &bad))
		c->failed = true;
}

/* The verbs objects, once the id has its RDMA device. */
static int conn_set_up(struct conn *c)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 2 * SLOTS,
			.max_recv_wr = 2 * SLOTS,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	int i;

	c->msgs = calloc(2 * SLOTS, sizeof(struct msg));
	c->pd = ibv_alloc_pd(c->id->verbs);
	c->comp = ibv_create_comp_channel(c->id->verbs);
	if (!c->msgs || !c->pd || !c->comp)
		return -1;
	set_nonblock(c->comp->fd);
	c->cq = ibv_create_cq(c->id->verbs, 4 * SLOTS, NULL, c->comp, 0);
	c->mr = ibv_reg_mr(c->pd, c->msgs, 2 * SLOTS * sizeof(struct msg),
			   IBV_ACCESS_LOCAL_WRITE);
	if (!c->cq || !c->mr || ibv_req_notify_cq(c->cq, 0))
		return -1;
	attr.send_cq = c->cq;
	attr.recv_cq = c->cq;
	if (rdma_create_qp(c->id, c->pd, &attr))
		return -1;
	for (i = 0; i < SLOTS; i++)
		post_recv(c, i);
	return c->failed ? -1 : 0;
}

/* Destroying a connected id tells the peer, where it can still be reached. */
static void conn_destroy(struct conn *c)
{
	if (!c)
		return;
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	rdma_destroy_id(c->id);
	if (c->cq)
		ibv_destroy_cq(c->cq);
	if (c->comp)
		ibv_destroy_comp_channel(c->comp);
	if (c->mr)
		ibv_dereg_mr(c->mr);
	if (c->pd)
		ibv_dealloc_pd(c->pd);
	free(c->msgs);
	free(c);
}

/*
 * conn_poll - hand the completions of a connection to a function
 *
 * Return: true as long as the connection works.
 */
static bool conn_poll(struct conn *c, void (*received)(struct conn *c, int slot))
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	if (!ibv_get_cq_event(c->comp, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			die("ibv_req_notify_cq");
	}
	while (!c->failed && ibv_poll_cq(c->cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			say("heard", "failed: %s",
			    ibv_wc_status_str(wc.status));
			c->failed = true;
		} else if (wc.opcode == IBV_WC_RECV) {
			received(c, wc.wr_id);
		}
	}
	return !c->failed;
}

/* --- server ----------------------------------------------------------- */

static uint64_t server_number, server_total = CHECKSUM_INIT;

static void server_received(struct conn *c, int slot)
{
	struct msg *in = &c->msgs[slot], *out = &c->msgs[SLOTS + slot];

	if (checksum(CHECKSUM_INIT, in->data, sizeof(in->data)) != in->sum) {
		say("bad", "request %llu has another checksum",
		    (unsigned long long)in->number);
		stop = 1;
		return;
	}
	/* The last one again: its answer was lost with the connection. */
	if (in->number == server_number + 1) {
		server_number++;
		server_total = checksum(server_total, in->data, sizeof(in->data));
	} else if (in->number != server_number) {
		/* Older still: came over a connection that was given up. */
		post_recv(c, slot);
		return;
	}
	out->number = in->number;
	out->total = server_total;
	fill(out->data, sizeof(out->data), ~in->number);
	out->sum = checksum(CHECKSUM_INIT, out->data, sizeof(out->data));
	post_recv(c, slot);
	post_send(c, slot);
}

static int server(int port)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.rnr_retry_count = 7,
	};
	struct conn *conns[MAX_CONNS] = { NULL };
	struct pollfd fds[MAX_CONNS + 1];
	struct rdma_cm_event *event;
	struct rdma_cm_id *listener;
	int i;

	/* Not bound to a device: requests come in by whichever works. */
	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&addr) ||
	    rdma_listen(listener, 8))
		die("rdma_listen");

	while (!stop) {
		fds[0].fd = channel->fd;
		fds[0].events = POLLIN;
		for (i = 0; i < MAX_CONNS; i++) {
			fds[i + 1].fd = conns[i] ? conns[i]->comp->fd : -1;
			fds[i + 1].events = POLLIN;
		}
		if (poll(fds, MAX_CONNS + 1, 1000) < 0)
			continue;

		for (i = 0; i < MAX_CONNS; i++) {
			if (!conns[i] || conn_poll(conns[i], server_received))
				continue;
			conn_destroy(conns[i]);
			conns[i] = NULL;
		}

		if (rdma_get_cm_event(channel, &event))
			continue;
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			struct conn *c = calloc(1, sizeof(*c));

			for (i = 0; i < MAX_CONNS && conns[i]; i++)
				;
			if (!c || i == MAX_CONNS)
				die("too many connections");
			c->id = event->id;
			c->id->context = c;
			rdma_ack_cm_event(event);
			if (conn_set_up(c) || rdma_accept(c->id, &param))
				conn_destroy(c);
			else
				conns[i] = c;
			continue;
		}
		for (i = 0; i < MAX_CONNS; i++) {
			if (!conns[i] || event->id != conns[i]->id)
				continue;
			if (event->event == RDMA_CM_EVENT_DISCONNECTED ||
			    event->event == RDMA_CM_EVENT_CONNECT_ERROR)
				conns[i]->failed = true;
			break;
		}
		rdma_ack_cm_event(event);
		if (i < MAX_CONNS && conns[i] && conns[i]->failed) {
			conn_destroy(conns[i]);
			conns[i] = NULL;
		}
	}
	return 0;
}

/* --- client ----------------------------------------------------------- */

static struct sockaddr_in server_addr;
static bool align;
static struct meter meter;
static uint64_t number = 1, client_total = CHECKSUM_INIT;
static bool waiting;		/* for the answer to number */
static int64_t next_send_us;
static struct conn *cur;	/* carries the traffic */
static struct conn *next;	/* being connected */
static int64_t retry_us;	/* when to try again to connect; 0: no need */

static void client_send(struct conn *c)
{
	struct msg *out = &c->msgs[SLOTS];

	out->number = number;
	fill(out->data, sizeof(out->data), number);
	out->sum = checksum(CHECKSUM_INIT, out->data, sizeof(out->data));
	post_send(c, 0);
	waiting = true;
}

static void client_received(struct conn *c, int slot)
{
	struct msg *in = &c->msgs[slot];
	uint64_t want[sizeof(in->data) / 8];

	post_recv(c, slot);
	if (in->number != number)
		return;

	fill(want, sizeof(want), number);
	client_total = checksum(client_total, want, sizeof(want));
	fill(want, sizeof(want), ~number);
	if (memcmp(want, in->data, sizeof(want)) || in->total != client_total ||
	    in->sum != checksum(CHECKSUM_INIT, in->data, sizeof(in->data))) {
		say("bad", "the answer to request %llu differs",
		    (unsigned long long)number);
		stop = 2;
		return;
	}
	meter_tick(&meter);
	waiting = false;
	number++;
	next_send_us = now_us() + PACE_US;
}

/* The ten lines that a program needs. */
static void ask_for_alignment(struct rdma_cm_id *id)
{
	uint32_t mode = RDMA_ALIGN_WITH_NETDEVICE;
	uint32_t downdelay = DOWNDELAY_MS, updelay = UPDELAY_MS;

	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_HA_MODE,
			    &mode, sizeof(mode)) ||
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_HA_DOWNDELAY,
			    &downdelay, sizeof(downdelay)) ||
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_HA_UPDELAY,
			    &updelay, sizeof(updelay)))
		die("RDMA_OPTION_ID_HA_MODE");
}

static void connect_later(void)
{
	conn_destroy(next);
	next = NULL;
	retry_us = now_us() + RETRY_US;
}

static void connect_start(void)
{
	conn_destroy(next);
	retry_us = 0;
	next = calloc(1, sizeof(*next));
	if (!next || rdma_create_id(channel, &next->id, next, RDMA_PS_TCP))
		die("rdma_create_id");
	if (align)
		ask_for_alignment(next->id);
	if (rdma_resolve_addr(next->id, NULL, (struct sockaddr *)&server_addr,
			      RESOLVE_MS)) {
		say("did", "cannot resolve: %s", strerror(errno));
		connect_later();
	}
}

static void connect_finish(void)
{
	struct conn *old = cur;

	cur = next;
	next = NULL;
	cur->established = true;
	say("path", "%s", conn_dev(cur));
	if (waiting)
		client_send(cur);
	conn_destroy(old);
}

static const char *reason_str(uint32_t reason)
{
	static const char * const str[] = {
		[RDMA_ALIGN_REASON_LINK] = "LINK",
		[RDMA_ALIGN_REASON_FAILOVER] = "FAILOVER",
		[RDMA_ALIGN_REASON_ROUTE] = "ROUTE",
		[RDMA_ALIGN_REASON_UNREACHABLE] = "UNREACHABLE",
		[RDMA_ALIGN_REASON_ADDRESS] = "ADDRESS",
		[RDMA_ALIGN_REASON_NEIGHBOUR] = "NEIGHBOUR",
		[RDMA_ALIGN_REASON_STANDBY] = "STANDBY",
	};

	return reason < sizeof(str) / sizeof(*str) && str[reason] ? str[reason] : "?";
}

/* Log an event as the program hears it: "ADDR_CHANGE, reason ROUTE, to c1". */
static void tell_event(struct rdma_cm_event *event, const char *which)
{
	const char *name = rdma_event_str(event->event);
	const char *prefix = "RDMA_CM_EVENT_";
	struct rdma_align_event info;
	char ifname[IF_NAMESIZE];

	if (!strncmp(name, prefix, strlen(prefix)))
		name += strlen(prefix);
	if (event->event == RDMA_CM_EVENT_ADDR_CHANGE &&
	    event->param.conn.private_data_len >= sizeof(info)) {
		memcpy(&info, event->param.conn.private_data, sizeof(info));
		say("heard", "%s%s, reason %s, to %s", which, name,
		    reason_str(info.reason),
		    info.new_ifindex && if_indextoname(info.new_ifindex, ifname) ?
		    ifname : "none");
	} else if (event->status) {
		say("heard", "%s%s, status %d", which, name, event->status);
	} else {
		say("heard", "%s%s", which, name);
	}
}

/* An event of the connection that is being made. */
static void next_event(struct rdma_cm_event *event)
{
	enum rdma_cm_event_type type = event->event;
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		/* 7 means for ever in soft-RoCE. */
		.retry_count = 6,
		.rnr_retry_count = 7,
	};

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		rdma_ack_cm_event(event);
		if (rdma_resolve_route(next->id, RESOLVE_MS))
			connect_later();
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		rdma_ack_cm_event(event);
		if (conn_set_up(next) || rdma_connect(next->id, &param)) {
			say("did", "cannot connect: %s", strerror(errno));
			connect_later();
		}
		return;
	case RDMA_CM_EVENT_ESTABLISHED:
		rdma_ack_cm_event(event);
		connect_finish();
		return;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		/* What it was resolved to is obsolete already. */
		tell_event(event, "(connecting) ");
		rdma_ack_cm_event(event);
		connect_start();
		return;
	default:
		tell_event(event, "(connecting) ");
		rdma_ack_cm_event(event);
		connect_later();
	}
}

/* An event of the connection that carries the traffic. */
static void cur_event(struct rdma_cm_event *event)
{
	tell_event(event, "");
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_UNREACHABLE:
		if (!next && !retry_us)
			retry_us = now_us();
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		cur->failed = true;
		break;
	default:
		break;
	}
	rdma_ack_cm_event(event);
}

static int client_timeout_ms(void)
{
	int64_t until = now_us() + 1000000;

	if (retry_us && retry_us < until)
		until = retry_us;
	if (cur && !waiting && next_send_us < until)
		until = next_send_us;
	until -= now_us();
	return until < 0 ? 0 : (until + 999) / 1000;
}

static int client(void)
{
	struct rdma_cm_event *event;
	struct pollfd fds[2];

	retry_us = now_us();
	while (!stop) {
		if (retry_us && now_us() >= retry_us)
			connect_start();
		if (cur && !waiting && now_us() >= next_send_us)
			client_send(cur);

		fds[0].fd = channel->fd;
		fds[0].events = POLLIN;
		fds[1].fd = cur ? cur->comp->fd : -1;
		fds[1].events = POLLIN;
		if (poll(fds, 2, client_timeout_ms()) < 0)
			continue;

		if (cur && !cur->failed)
			conn_poll(cur, client_received);
		if (!rdma_get_cm_event(channel, &event)) {
			if (next && event->id == next->id)
				next_event(event);
			else if (cur && event->id == cur->id)
				cur_event(event);
			else
				rdma_ack_cm_event(event);
		}
		if (cur && cur->failed) {
			conn_destroy(cur);
			cur = NULL;
			if (!next && !retry_us)
				retry_us = now_us();
		}
	}
	say("sum", "%llu requests answered, each checked; longest pause %lld ms",
	    (unsigned long long)meter.count, (long long)meter.longest_us / 1000);
	conn_destroy(next);
	conn_destroy(cur);
	return stop == 1 ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	bool is_client = argc >= 6 && !strcmp(argv[1], "client");

	if (!is_client && (argc != 4 || strcmp(argv[1], "server"))) {
		fprintf(stderr, "usage: demo_rc server PORT LOG\n"
				"       demo_rc client ADDR PORT LOG METER [align]\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	log_open(argv[is_client ? 4 : 3], is_client ? "client" : "server");
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	set_nonblock(channel->fd);
	if (!is_client)
		return server(atoi(argv[2]));

	server_addr.sin_family = AF_INET;
	server_addr.sin_port = htons(atoi(argv[3]));
	if (inet_pton(AF_INET, argv[2], &server_addr.sin_addr) != 1)
		die("ADDR");
	meter_open(&meter, argv[5]);
	align = argc > 6 && !strcmp(argv[6], "align");
	return client();
}
