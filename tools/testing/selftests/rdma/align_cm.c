// SPDX-License-Identifier: GPL-2.0
/*
 * align_cm - an rdma_cm program that a shell test drives.
 *
 * One process holds any number of ids: listeners, passive, active and merely
 * resolved ones, RC and UD. It reads one command a line from its standard
 * input and prints one line for each thing that happens, stamped with the
 * milliseconds since it started. It decides nothing by itself, except that it
 * accepts requests, answers DISCONNECTED with rdma_disconnect() as any ULP
 * must, and destroys an id on DEVICE_REMOVAL. An end of file is "quit".
 *
 * Nothing here waits without an end: the event channel is non-blocking,
 * traffic has a deadline, and an alarm ends the program if all else fails.
 *
 * Commands; NAME is any word, and the line's "id=":
 *
 *	create NAME [OPTION]...
 *	bind NAME ADDR PORT [OPTION]...
 *	listen NAME ADDR PORT [OPTION]...	children are NAME.1, NAME.2, ...
 *	resolve NAME ADDR PORT [OPTION]...	up to ROUTE_RESOLVED
 *	connect NAME ADDR PORT [OPTION]...	up to ESTABLISHED
 *	go NAME					connect a resolved id
 *	accept NAME, reject NAME, disconnect NAME, destroy NAME
 *	join NAME ADDR				the multicast group
 *	set NAME mode|downdelay|updelay VALUE
 *	setraw NAME NUMBER LENGTH [VALUE]	any option, any length
 *	traffic NAME COUNT [DEADLINE]		RC ping-pong, milliseconds
 *	pause, resume				do not read the event channel
 *	echo WORD, list, quit
 *
 * Options: ud, src ADDR, sport PORT, bindfirst (bind to that source before
 * resolving), mode VALUE, downdelay MS, updelay MS (set before the address is
 * resolved or listened on), addronly (resolve only the address), noaccept (wait
 * for "accept"), nodisc (do not answer DISCONNECTED), count N (N ids, NAME-1 to
 * NAME-N). A mode is a number, or words joined by "+": none, align, teardown,
 * sticky, restored, standby.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_cm_align.h>

#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))

#define MAX_IDS			4096
#define MAX_NAME		32
#define MAX_WORDS		32
#define NUM_RECV		8
#define MSG_SIZE		64
#define RESOLVE_TIMEOUT_MS	4000
#define TRAFFIC_DEADLINE_MS	20000

enum role {
	ROLE_ACTIVE,
	ROLE_PASSIVE,
	ROLE_LISTENER,
};

static const char * const role_names[] = {
	[ROLE_ACTIVE]	= "active",
	[ROLE_PASSIVE]	= "passive",
	[ROLE_LISTENER]	= "listener",
};

/* What a command asks for; children take it from their listener. */
struct options {
	bool			ud;
	bool			addronly;
	bool			noaccept;
	bool			nodisc;
	bool			bindfirst;
	bool			connect;
	int			count;
	const char		*mode;
	const char		*downdelay;
	const char		*updelay;
	struct sockaddr_storage	src;
};

struct endpoint {
	char			name[MAX_NAME];
	enum role		role;
	struct options		opt;
	int			children;

	struct rdma_cm_id	*id;
	struct ibv_pd		*pd;
	struct ibv_comp_channel	*comp;
	struct ibv_cq		*cq;
	struct ibv_mr		*mr;
	char			*buf;

	bool			failed;		/* a completion had an error */
	int			todo;		/* ping-pongs left */
	int			done;
	int64_t			deadline_ms;
};

static struct endpoint *endpoints[MAX_IDS];
static int num_endpoints;
static struct rdma_event_channel *channel;
static bool paused;
static bool quitting;
static int64_t start_ms;

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000LL + ts.tv_nsec / 1000000 - start_ms;
}

static void __attribute__((format(printf, 2, 3)))
say(const struct endpoint *ep, const char *fmt, ...)
{
	va_list args;

	printf("t=%" PRId64 " ", now_ms());
	if (ep)
		printf("id=%s role=%s ", ep->name, role_names[ep->role]);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	putchar('\n');
}

static const char *errno_name(int err)
{
	return err ? strerrorname_np(err) ?: "unknown" : "0";
}

static void say_result(const struct endpoint *ep, const char *what, int ret)
{
	say(ep, "%s ret=%d errno=%s", what, ret, errno_name(ret ? errno : 0));
}

/* Addresses and numbers. */

static int parse_addr(const char *host, const char *port,
		      struct sockaddr_storage *addr)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *res;

	if (getaddrinfo(host, port, &hints, &res))
		return -1;
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, res->ai_addr, res->ai_addrlen);
	freeaddrinfo(res);
	return 0;
}

static const char *addr_str(const struct sockaddr *addr)
{
	static char host[INET6_ADDRSTRLEN];
	const void *raw = &((const struct sockaddr_in *)addr)->sin_addr;

	if (addr->sa_family == AF_INET6)
		raw = &((const struct sockaddr_in6 *)addr)->sin6_addr;
	return inet_ntop(addr->sa_family, raw, host, sizeof(host)) ?: "none";
}

static int parse_mode(const char *text, __u32 *mode)
{
	static const struct {
		const char	*name;
		__u32		value;
	} words[] = {
		{ "none",	RDMA_HA_NONE },
		{ "align",	RDMA_ALIGN_WITH_NETDEVICE },
		{ "teardown",	RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN },
		{ "sticky",	RDMA_HA_F_STICKY },
		{ "restored",	RDMA_HA_F_RESTORED },
		{ "standby",	RDMA_HA_F_STANDBY },
	};
	char copy[64], *word, *save = NULL, *end;
	size_t i;

	*mode = strtoul(text, &end, 0);
	if (*text && !*end)
		return 0;

	*mode = 0;
	snprintf(copy, sizeof(copy), "%s", text);
	for (word = strtok_r(copy, "+", &save); word;
	     word = strtok_r(NULL, "+", &save)) {
		for (i = 0; i < ARRAY_SIZE(words); i++) {
			if (!strcmp(word, words[i].name))
				break;
		}
		if (i == ARRAY_SIZE(words))
			return -1;
		*mode |= words[i].value;
	}
	return 0;
}

/* Endpoints. */

static struct endpoint *find_endpoint(const char *name)
{
	int i;

	for (i = 0; i < num_endpoints; i++) {
		if (!strcmp(endpoints[i]->name, name))
			return endpoints[i];
	}
	return NULL;
}

static struct endpoint *new_endpoint(const char *name, enum role role,
				     const struct options *opt)
{
	struct endpoint *ep;

	if (num_endpoints == MAX_IDS) {
		say(NULL, "error=too-many-ids");
		return NULL;
	}
	if (find_endpoint(name)) {
		say(NULL, "error=name-taken name=%s", name);
		return NULL;
	}
	ep = calloc(1, sizeof(*ep));
	if (!ep)
		return NULL;
	snprintf(ep->name, sizeof(ep->name), "%s", name);
	ep->role = role;
	ep->opt = *opt;
	endpoints[num_endpoints++] = ep;
	return ep;
}

static void free_endpoint(struct endpoint *ep)
{
	int i;

	for (i = 0; i < num_endpoints; i++) {
		if (endpoints[i] == ep) {
			endpoints[i] = endpoints[--num_endpoints];
			break;
		}
	}
	free(ep);
}

static void destroy_endpoint(struct endpoint *ep)
{
	int64_t begin = now_ms();

	if (ep->id) {
		if (ep->id->qp)
			rdma_destroy_qp(ep->id);
		rdma_destroy_id(ep->id);
	}
	if (ep->cq)
		ibv_destroy_cq(ep->cq);
	if (ep->comp)
		ibv_destroy_comp_channel(ep->comp);
	if (ep->mr)
		ibv_dereg_mr(ep->mr);
	if (ep->pd)
		ibv_dealloc_pd(ep->pd);
	free(ep->buf);
	say(ep, "destroyed ms=%" PRId64, now_ms() - begin);
	free_endpoint(ep);
}

/* Queue pairs and traffic. */

static int post_recv(struct endpoint *ep, int slot)
{
	/* Room for a GRH, which UD receives put first. */
	struct ibv_sge sge = {
		.addr = (uintptr_t)ep->buf + slot * 2 * MSG_SIZE,
		.length = 2 * MSG_SIZE,
		.lkey = ep->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
	}, *bad;

	return ibv_post_recv(ep->id->qp, &wr, &bad);
}

static int post_send(struct endpoint *ep)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)ep->buf + NUM_RECV * 2 * MSG_SIZE,
		.length = MSG_SIZE,
		.lkey = ep->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = NUM_RECV,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	return ibv_post_send(ep->id->qp, &wr, &bad);
}

static int create_qp(struct endpoint *ep)
{
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = NUM_RECV,
			.max_recv_wr = NUM_RECV,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = ep->opt.ud ? IBV_QPT_UD : IBV_QPT_RC,
	};
	size_t size = (NUM_RECV + 1) * 2 * MSG_SIZE;
	int slot;

	ep->buf = calloc(1, size);
	ep->pd = ibv_alloc_pd(ep->id->verbs);
	if (!ep->buf || !ep->pd)
		return -1;
	ep->mr = ibv_reg_mr(ep->pd, ep->buf, size, IBV_ACCESS_LOCAL_WRITE);
	ep->comp = ibv_create_comp_channel(ep->id->verbs);
	if (!ep->mr || !ep->comp)
		return -1;
	ep->cq = ibv_create_cq(ep->id->verbs, 4 * NUM_RECV, ep, ep->comp, 0);
	if (!ep->cq || ibv_req_notify_cq(ep->cq, 0))
		return -1;
	attr.send_cq = ep->cq;
	attr.recv_cq = ep->cq;
	if (rdma_create_qp(ep->id, ep->pd, &attr))
		return -1;
	for (slot = 0; slot < NUM_RECV; slot++) {
		if (post_recv(ep, slot))
			return -1;
	}
	return 0;
}

static void end_traffic(struct endpoint *ep, const char *result)
{
	ep->todo = 0;
	say(ep, "traffic=%s n=%d", result, ep->done);
}

static void handle_wc(struct endpoint *ep, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		/* The first tells the cause, the others are only flushed. */
		if (!ep->failed)
			say(ep, "wc=%d", wc->status);
		ep->failed = true;
		if (ep->todo)
			end_traffic(ep, "failed");
		return;
	}
	if (wc->wr_id == NUM_RECV)
		return;			/* a send that was acknowledged */

	if (post_recv(ep, wc->wr_id))
		return;
	if (ep->role == ROLE_PASSIVE) {
		post_send(ep);
	} else if (ep->todo) {
		ep->done++;
		if (--ep->todo == 0)
			end_traffic(ep, "ok");
		else if (post_send(ep))
			end_traffic(ep, "failed");
	}
}

static void handle_completions(struct endpoint *ep)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(ep->comp, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		handle_wc(ep, &wc);
}

static void check_deadlines(void)
{
	int i;

	for (i = 0; i < num_endpoints; i++) {
		if (endpoints[i]->todo &&
		    now_ms() > endpoints[i]->deadline_ms)
			end_traffic(endpoints[i], "timeout");
	}
}

/* rdma_cm. */

static int set_option(struct endpoint *ep, const char *name, const char *text)
{
	int optname, ret;
	__u32 value;

	if (!strcmp(name, "mode")) {
		optname = RDMA_OPTION_ID_HA_MODE;
		if (parse_mode(text, &value)) {
			say(ep, "error=bad-mode");
			return -1;
		}
	} else {
		optname = !strcmp(name, "downdelay") ?
			RDMA_OPTION_ID_HA_DOWNDELAY :
			RDMA_OPTION_ID_HA_UPDELAY;
		value = strtoul(text, NULL, 0);
	}
	ret = rdma_set_option(ep->id, RDMA_OPTION_ID, optname, &value,
			      sizeof(value));
	say(ep, "set=%s value=0x%x ret=%d errno=%s", name, value, ret,
	    errno_name(ret ? errno : 0));
	return ret;
}

static void set_options(struct endpoint *ep)
{
	if (ep->opt.downdelay)
		set_option(ep, "downdelay", ep->opt.downdelay);
	if (ep->opt.updelay)
		set_option(ep, "updelay", ep->opt.updelay);
	if (ep->opt.mode)
		set_option(ep, "mode", ep->opt.mode);
}

static void set_raw_option(struct endpoint *ep, int optname, size_t len,
			   __u32 value)
{
	char *buf = calloc(1, len > sizeof(value) ? len : sizeof(value));
	int ret;

	if (!buf)
		return;
	memcpy(buf, &value, sizeof(value));
	ret = rdma_set_option(ep->id, RDMA_OPTION_ID, optname, buf, len);
	say(ep, "setraw=%d len=%zu value=0x%x ret=%d errno=%s", optname, len,
	    value, ret, errno_name(ret ? errno : 0));
	free(buf);
}

static struct rdma_conn_param conn_param(const struct endpoint *ep)
{
	return (struct rdma_conn_param) {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,	/* 7 would mean for ever to soft-RoCE */
		.rnr_retry_count = 6,
		.qp_num = ep->id->qp ? ep->id->qp->qp_num : 0,
	};
}

static void do_connect(struct endpoint *ep)
{
	struct rdma_conn_param param;

	if (create_qp(ep)) {
		say_result(ep, "create_qp", -1);
		return;
	}
	param = conn_param(ep);
	if (rdma_connect(ep->id, &param))
		say_result(ep, "connect", -1);
}

static void do_accept(struct endpoint *ep)
{
	struct rdma_conn_param param;

	if (create_qp(ep)) {
		say_result(ep, "create_qp", -1);
		rdma_reject(ep->id, NULL, 0);
		return;
	}
	param = conn_param(ep);
	if (rdma_accept(ep->id, &param))
		say_result(ep, "accept", -1);
}

static struct endpoint *new_child(struct rdma_cm_event *event)
{
	struct endpoint *parent = event->listen_id->context;
	struct endpoint *ep;
	char name[MAX_NAME + 12];

	snprintf(name, sizeof(name), "%s.%d", parent->name,
		 ++parent->children);
	ep = new_endpoint(name, ROLE_PASSIVE, &parent->opt);
	if (!ep)
		return NULL;
	ep->id = event->id;
	ep->id->context = ep;
	return ep;
}

static const char *reason_name(__u32 reason)
{
	static const char * const names[] = {
		[RDMA_ALIGN_REASON_LINK]	= "LINK",
		[RDMA_ALIGN_REASON_FAILOVER]	= "FAILOVER",
		[RDMA_ALIGN_REASON_ROUTE]	= "ROUTE",
		[RDMA_ALIGN_REASON_UNREACHABLE]	= "UNREACHABLE",
		[RDMA_ALIGN_REASON_ADDRESS]	= "ADDRESS",
		[RDMA_ALIGN_REASON_NEIGHBOUR]	= "NEIGHBOUR",
		[RDMA_ALIGN_REASON_STANDBY]	= "STANDBY",
	};

	if (reason >= ARRAY_SIZE(names) || !names[reason])
		return "unknown";
	return names[reason];
}

static const char *flags_name(__u32 flags)
{
	static char hex[16];

	switch (flags) {
	case 0:
		return "none";
	case RDMA_ALIGN_EV_PATH_DOWN:
		return "down";
	case RDMA_ALIGN_EV_RESTORED:
		return "restored";
	default:
		snprintf(hex, sizeof(hex), "0x%x", flags);
		return hex;
	}
}

static void append_private_data(char *line, size_t size,
				const struct endpoint *ep,
				const struct rdma_cm_event *event)
{
	const void *data = event->param.conn.private_data;
	size_t len = event->param.conn.private_data_len;
	struct rdma_align_event align;

	if (ep->opt.ud) {
		data = event->param.ud.private_data;
		len = event->param.ud.private_data_len;
	}
	if (len != sizeof(align) || !data) {
		snprintf(line, size, " pdlen=%zu", len);
		return;
	}
	memcpy(&align, data, sizeof(align));
	snprintf(line, size,
		 " reason=%s flags=%s old_if=%u new_if=%u old_dev=%d new_dev=%d old_port=%u new_port=%u seq=%u incident=%u reserved=%u",
		 reason_name(align.reason), flags_name(align.flags),
		 align.old_ifindex, align.new_ifindex,
		 (int)align.old_rdma_dev, (int)align.new_rdma_dev,
		 align.old_port, align.new_port, align.seq, align.incident,
		 align.reserved | align.reserved2);
}

static void say_event(const struct endpoint *ep,
		      const struct rdma_cm_event *event)
{
	char more[320] = "";

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_CHANGE:
		append_private_data(more, sizeof(more), ep, event);
		break;
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		snprintf(more, sizeof(more), " dev=%s port=%u src=%s",
			 ibv_get_device_name(ep->id->verbs->device),
			 ep->id->port_num,
			 addr_str(rdma_get_local_addr(ep->id)));
		break;
	default:
		break;
	}
	/* The names without their common RDMA_CM_EVENT_. */
	say(ep, "event=%s status=%d%s",
	    rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"),
	    event->status, more);
}

static void handle_event(struct rdma_cm_event *event)
{
	enum rdma_cm_event_type type = event->event;
	struct endpoint *ep;

	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		ep = new_child(event);
	else
		ep = event->id->context;
	if (!ep) {
		rdma_ack_cm_event(event);
		return;
	}
	say_event(ep, event);
	rdma_ack_cm_event(event);

	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (!ep->opt.addronly &&
		    rdma_resolve_route(ep->id, RESOLVE_TIMEOUT_MS))
			say_result(ep, "resolve_route", -1);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (ep->opt.connect)
			do_connect(ep);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!ep->opt.noaccept)
			do_accept(ep);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!ep->opt.nodisc && rdma_disconnect(ep->id))
			say_result(ep, "disconnect", -1);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		destroy_endpoint(ep);
		break;
	default:
		break;
	}
}

static void read_events(void)
{
	struct rdma_cm_event *event;

	while (!rdma_get_cm_event(channel, &event))
		handle_event(event);
}

/* Commands. */

static int parse_options(char **words, int n, struct options *opt)
{
	const char *src = NULL, *sport = "0";
	int i;

	for (i = 0; i < n; i++) {
		const char *value = i + 1 < n ? words[i + 1] : NULL;

		if (!strcmp(words[i], "ud")) {
			opt->ud = true;
			continue;
		} else if (!strcmp(words[i], "addronly")) {
			opt->addronly = true;
			continue;
		} else if (!strcmp(words[i], "noaccept")) {
			opt->noaccept = true;
			continue;
		} else if (!strcmp(words[i], "nodisc")) {
			opt->nodisc = true;
			continue;
		} else if (!strcmp(words[i], "bindfirst")) {
			opt->bindfirst = true;
			continue;
		}
		if (!value)
			return -1;
		if (!strcmp(words[i], "src"))
			src = value;
		else if (!strcmp(words[i], "sport"))
			sport = value;
		else if (!strcmp(words[i], "mode"))
			opt->mode = strdup(value);
		else if (!strcmp(words[i], "downdelay"))
			opt->downdelay = strdup(value);
		else if (!strcmp(words[i], "updelay"))
			opt->updelay = strdup(value);
		else if (!strcmp(words[i], "count"))
			opt->count = atoi(value);
		else
			return -1;
		i++;
	}
	return src ? parse_addr(src, sport, &opt->src) : 0;
}

static void start_one(const char *command, const char *name,
		      struct sockaddr *addr, const struct options *opt)
{
	bool listens = !strcmp(command, "listen");
	struct sockaddr *src = NULL;
	struct endpoint *ep;
	int ret = 0;

	ep = new_endpoint(name, listens ? ROLE_LISTENER : ROLE_ACTIVE, opt);
	if (!ep)
		return;
	if (rdma_create_id(channel, &ep->id, ep,
			   opt->ud ? RDMA_PS_UDP : RDMA_PS_TCP)) {
		say_result(ep, "create_id", -1);
		free_endpoint(ep);
		return;
	}
	set_options(ep);
	if (opt->src.ss_family)
		src = (struct sockaddr *)&ep->opt.src;

	if (listens) {
		ret = rdma_bind_addr(ep->id, addr);
		if (!ret)
			ret = rdma_listen(ep->id, 128);
	} else if (!strcmp(command, "bind")) {
		ret = rdma_bind_addr(ep->id, addr);
	} else if (strcmp(command, "create")) {
		if (opt->bindfirst) {
			ret = rdma_bind_addr(ep->id, src);
			src = NULL;
		}
		ret = ret ?: rdma_resolve_addr(ep->id, src, addr, RESOLVE_TIMEOUT_MS);
	}
	say_result(ep, command, ret);
}

static int start_command(char **words, int n)
{
	bool creates = !strcmp(words[0], "create");
	struct sockaddr_storage addr = {};
	struct options opt = {};
	char name[MAX_NAME + 12];
	int first = creates ? 2 : 4;
	int i;

	if (n < first ||
	    (!creates && parse_addr(words[2], words[3], &addr)) ||
	    parse_options(words + first, n - first, &opt))
		return -1;
	opt.connect = !strcmp(words[0], "connect");

	if (!opt.count) {
		start_one(words[0], words[1], (struct sockaddr *)&addr, &opt);
		return 0;
	}
	for (i = 1; i <= opt.count; i++) {
		snprintf(name, sizeof(name), "%s-%d", words[1], i);
		start_one(words[0], name, (struct sockaddr *)&addr, &opt);
	}
	return 0;
}

static void start_traffic(struct endpoint *ep, int count, int deadline_ms)
{
	ep->todo = count;
	ep->done = 0;
	ep->deadline_ms = now_ms() + deadline_ms;
	if (!ep->id->qp || post_send(ep))
		end_traffic(ep, "failed");
}

static void do_join(struct endpoint *ep, const char *text)
{
	struct sockaddr_storage group = {};
	int ret;

	ret = parse_addr(text, "0", &group);
	if (!ret)
		ret = rdma_join_multicast(ep->id, (struct sockaddr *)&group,
					  ep);
	say_result(ep, "join", ret);
}

static int id_command(struct endpoint *ep, char **words, int n)
{
	if (!strcmp(words[0], "join") && n == 3) {
		do_join(ep, words[2]);
	} else if (!strcmp(words[0], "go")) {
		do_connect(ep);
	} else if (!strcmp(words[0], "accept")) {
		do_accept(ep);
	} else if (!strcmp(words[0], "reject")) {
		say_result(ep, "reject", rdma_reject(ep->id, NULL, 0));
	} else if (!strcmp(words[0], "disconnect")) {
		say_result(ep, "disconnect", rdma_disconnect(ep->id));
	} else if (!strcmp(words[0], "destroy")) {
		destroy_endpoint(ep);
	} else if (!strcmp(words[0], "set") && n == 4) {
		set_option(ep, words[2], words[3]);
	} else if (!strcmp(words[0], "setraw") && n >= 4) {
		set_raw_option(ep, atoi(words[2]), strtoul(words[3], NULL, 0),
			       n > 4 ? strtoul(words[4], NULL, 0) : 0);
	} else if (!strcmp(words[0], "traffic") && n >= 3) {
		start_traffic(ep, atoi(words[2]),
			      n > 3 ? atoi(words[3]) : TRAFFIC_DEADLINE_MS);
	} else {
		return -1;
	}
	return 0;
}

static int global_command(char **words, int n)
{
	int i;

	if (!strcmp(words[0], "echo") && n == 2) {
		say(NULL, "echo=%s", words[1]);
	} else if (!strcmp(words[0], "pause")) {
		paused = true;
		say(NULL, "paused");
	} else if (!strcmp(words[0], "resume")) {
		paused = false;
		say(NULL, "resumed");
	} else if (!strcmp(words[0], "list")) {
		for (i = 0; i < num_endpoints; i++)
			say(endpoints[i], "listed");
	} else if (!strcmp(words[0], "quit")) {
		quitting = true;
	} else {
		return -1;
	}
	return 0;
}

static void run_command(char *line)
{
	static const char * const starters[] = {
		"create", "bind", "listen", "resolve", "connect",
	};
	char *words[MAX_WORDS], *save = NULL;
	struct endpoint *ep;
	int n = 0, ret;
	size_t i;

	for (words[n] = strtok_r(line, " \t\n", &save);
	     words[n] && n < MAX_WORDS - 1;
	     words[n] = strtok_r(NULL, " \t\n", &save))
		n++;
	if (!n)
		return;

	for (i = 0; i < ARRAY_SIZE(starters); i++) {
		if (!strcmp(words[0], starters[i])) {
			ret = start_command(words, n);
			goto out;
		}
	}
	ret = global_command(words, n);
	if (ret && n > 1) {
		ep = find_endpoint(words[1]);
		ret = ep ? id_command(ep, words, n) : -1;
	}
out:
	if (ret)
		say(NULL, "error=bad-command command=%s name=%s", words[0],
		    n > 1 ? words[1] : "");
}

static void read_commands(void)
{
	static char buf[4096];
	static size_t used;
	char *line, *end;
	ssize_t len;

	len = read(STDIN_FILENO, buf + used, sizeof(buf) - 1 - used);
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (len <= 0) {
		quitting = true;
		return;
	}
	used += len;
	buf[used] = '\0';
	for (line = buf; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		run_command(line);
		if (quitting)
			return;
	}
	used -= line - buf;
	memmove(buf, line, used);
}

static void poll_once(void)
{
	static struct pollfd fds[MAX_IDS + 2];
	static struct endpoint *owners[MAX_IDS + 2];
	int n = 2, i;

	fds[0] = (struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN };
	fds[1] = (struct pollfd){
		.fd = paused ? -1 : channel->fd, .events = POLLIN,
	};
	for (i = 0; i < num_endpoints; i++) {
		if (!endpoints[i]->comp)
			continue;
		fds[n] = (struct pollfd){
			.fd = endpoints[i]->comp->fd, .events = POLLIN,
		};
		owners[n++] = endpoints[i];
	}
	if (poll(fds, n, 100) <= 0)
		return;

	/* Completions first: an event or a command may free their owners. */
	for (i = 2; i < n; i++) {
		if (fds[i].revents)
			handle_completions(owners[i]);
	}
	if (fds[1].revents)
		read_events();
	if (fds[0].revents)
		read_commands();
}

static void timed_out(int sig)
{
	static const char text[] = "error=program-timed-out\n";

	(void)sig;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(3);
	_exit(2);
}

int main(int argc, char **argv)
{
	int lifetime_s = 300, opt;

	while ((opt = getopt(argc, argv, "T:")) != -1) {
		if (opt != 'T') {
			fprintf(stderr, "usage: %s [-T SECONDS] <COMMANDS\n",
				argv[0]);
			return 1;
		}
		lifetime_s = atoi(optarg);
	}
	start_ms = now_ms();
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGALRM, timed_out);
	alarm(lifetime_s);

	channel = rdma_create_event_channel();
	if (!channel) {
		say_result(NULL, "create_event_channel", -1);
		return 1;
	}
	fcntl(channel->fd, F_SETFL,
	      fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
	say(NULL, "started pid=%d", getpid());

	while (!quitting) {
		poll_once();
		check_deadlines();
	}
	while (num_endpoints)
		destroy_endpoint(endpoints[num_endpoints - 1]);
	rdma_destroy_event_channel(channel);
	say(NULL, "ended");
	return 0;
}
