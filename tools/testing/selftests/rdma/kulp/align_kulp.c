// SPDX-License-Identifier: GPL-2.0
/*
 * align_kulp - a kernel ULP that a shell test drives.
 *
 * The counterpart of align_cm in the kernel, with the same commands and lines:
 * whoever opens /dev/align_kulp owns the ids that it makes there, in its own
 * network namespace, and reads of them what their handlers were told. A close
 * destroys them all. It knows RDMA_ALIGN_WITH_NETDEVICE by symbol_get(), as a ULP
 * must that loads on kernels without it.
 *
 * Commands, a line each; NAME is any word, and the line's "id=":
 *
 *	resolve NAME ADDR PORT [OPTION]...	up to ROUTE_RESOLVED
 *	connect NAME ADDR PORT [OPTION]...	up to ESTABLISHED
 *	listen NAME ADDR PORT [OPTION]...	children are NAME.1, NAME.2, ...
 *	set NAME mode|downdelay|updelay VALUE
 *	disconnect NAME, destroy NAME
 *	stats					of the ids that are quiet; from zero then
 *	echo WORD
 *
 * Options: src ADDR, mode VALUE, downdelay MS, updelay MS (set before the address is
 * resolved or listened on), count N (N ids, NAME-1 to NAME-N), stride N (count: each
 * to another address, which go round after N), quiet (events are only counted),
 * react REACTION, as NAME (the name of another ULP, for what goes by that).
 *
 * What a handler does on ADDR_CHANGE or UNREACHABLE, or a listener's on
 * CONNECT_REQUEST: "none",
 * "refuse" (return an error, which destroys the id), "unset" (set mode 0),
 * "disconnect", "sleep" (100 ms).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/inet.h>
#include <linux/kfifo.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/poll.h>
#include <linux/refcount.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/rdma_cm_align.h>

#define MAX_NAME		32
#define MAX_LINE		512
#define MAX_WORDS		32
#define SAID_BYTES		SZ_1M
#define RESOLVE_TIMEOUT_MS	4000
#define SLEEP_MS		100

enum reaction {
	REACT_NONE,
	REACT_REFUSE,
	REACT_UNSET,
	REACT_DISCONNECT,
	REACT_SLEEP,
};

static const char * const reactions[] = {
	[REACT_NONE]		= "none",
	[REACT_REFUSE]		= "refuse",
	[REACT_UNSET]		= "unset",
	[REACT_DISCONNECT]	= "disconnect",
	[REACT_SLEEP]		= "sleep",
};

struct options {
	struct sockaddr_storage	src;
	char			as[MAX_NAME];
	u32			mode;
	u32			downdelay;
	u32			updelay;
	unsigned int		count;
	unsigned int		stride;
	bool			has_mode;
	bool			has_delay;
	bool			quiet;
	bool			connect;
	enum reaction		react;
};

/* An open file. */
struct kulp {
	spinlock_t		lock;		/* ids, said, lost, the statistics */
	struct list_head	ids;
	struct mutex		command_lock;	/* one command at a time */
	struct mutex		read_lock;
	struct kfifo		said;
	wait_queue_head_t	wait;
	ktime_t			start;
	bool			lost;		/* lines, for want of a reader */

	unsigned int		nr_resolved;
	unsigned int		nr_failed;
	unsigned int		nr_told;
	ktime_t			first_told;
	ktime_t			last_told;
};

struct kid {
	struct list_head	list;
	struct kulp		*kulp;
	refcount_t		refs;		/* the list's, and the id's */
	char			name[MAX_NAME];
	const char		*role;
	struct options		opt;
	unsigned int		nr_children;
	/* Who takes this out destroys the id, or lets its handler. */
	struct rdma_cm_id	*id;
	struct ib_pd		*pd;
	struct ib_cq		*cq;
};

static typeof(rdma_set_ha_mode) *set_ha_mode;
static typeof(rdma_set_ha_delays) *set_ha_delays;

static void kid_put(struct kid *kid)
{
	if (refcount_dec_and_test(&kid->refs))
		kfree(kid);
}

/* --- what is said -------------------------------------------------------- */

static __printf(3, 4) void say(struct kulp *kulp, const struct kid *kid, const char *fmt, ...)
{
	char line[MAX_LINE];
	va_list args;
	int n;

	n = scnprintf(line, sizeof(line), "t=%lld ",
		      ktime_ms_delta(ktime_get(), kulp->start));
	if (kid)
		n += scnprintf(line + n, sizeof(line) - n, "id=%s role=%s ", kid->name, kid->role);
	va_start(args, fmt);
	n += vscnprintf(line + n, sizeof(line) - n, fmt, args);
	va_end(args);
	if (n < sizeof(line) - 1)
		line[n++] = '\n';

	spin_lock_bh(&kulp->lock);
	if (kfifo_avail(&kulp->said) >= n)
		kfifo_in(&kulp->said, line, n);
	else
		kulp->lost = true;
	spin_unlock_bh(&kulp->lock);
	wake_up_interruptible(&kulp->wait);
}

static void say_result(struct kid *kid, const char *what, int ret)
{
	if (ret || !kid->opt.quiet)
		say(kid->kulp, kid, "cmd=%s ret=%d", what, ret);
}

static const char *reason_name(u32 reason)
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

	return reason < ARRAY_SIZE(names) && names[reason] ? names[reason] : "unknown";
}

static const char *flags_name(u32 flags)
{
	switch (flags) {
	case 0:
		return "none";
	case RDMA_ALIGN_EV_PATH_DOWN:
		return "down";
	case RDMA_ALIGN_EV_RESTORED:
		return "restored";
	default:
		return "unknown";
	}
}

static void say_report(struct kid *kid, const struct rdma_cm_event *event)
{
	const struct rdma_align_event *align = event->param.conn.private_data;

	if (!align || event->param.conn.private_data_len != sizeof(*align)) {
		say(kid->kulp, kid, "event=ADDR_CHANGE status=%d pdlen=%u", event->status,
		    event->param.conn.private_data_len);
		return;
	}
	say(kid->kulp, kid,
	    "event=ADDR_CHANGE status=%d reason=%s flags=%s old_if=%u new_if=%u old_dev=%d new_dev=%d old_port=%u new_port=%u seq=%u incident=%u reserved=%u",
	    event->status, reason_name(align->reason), flags_name(align->flags),
	    align->old_ifindex, align->new_ifindex,
	    (int)align->old_rdma_dev, (int)align->new_rdma_dev,
	    align->old_port, align->new_port, align->seq, align->incident,
	    align->reserved | align->reserved2);
}

/* The names without their common RDMA_CM_EVENT_, as align_cm says them. */
static const char * const event_names[] = {
	[RDMA_CM_EVENT_ADDR_RESOLVED]		= "ADDR_RESOLVED",
	[RDMA_CM_EVENT_ADDR_ERROR]		= "ADDR_ERROR",
	[RDMA_CM_EVENT_ROUTE_RESOLVED]		= "ROUTE_RESOLVED",
	[RDMA_CM_EVENT_ROUTE_ERROR]		= "ROUTE_ERROR",
	[RDMA_CM_EVENT_CONNECT_REQUEST]		= "CONNECT_REQUEST",
	[RDMA_CM_EVENT_CONNECT_RESPONSE]	= "CONNECT_RESPONSE",
	[RDMA_CM_EVENT_CONNECT_ERROR]		= "CONNECT_ERROR",
	[RDMA_CM_EVENT_UNREACHABLE]		= "UNREACHABLE",
	[RDMA_CM_EVENT_REJECTED]		= "REJECTED",
	[RDMA_CM_EVENT_ESTABLISHED]		= "ESTABLISHED",
	[RDMA_CM_EVENT_DISCONNECTED]		= "DISCONNECTED",
	[RDMA_CM_EVENT_DEVICE_REMOVAL]		= "DEVICE_REMOVAL",
	[RDMA_CM_EVENT_MULTICAST_JOIN]		= "MULTICAST_JOIN",
	[RDMA_CM_EVENT_MULTICAST_ERROR]		= "MULTICAST_ERROR",
	[RDMA_CM_EVENT_ADDR_CHANGE]		= "ADDR_CHANGE",
	[RDMA_CM_EVENT_TIMEWAIT_EXIT]		= "TIMEWAIT_EXIT",
};

/* Of ids that are quiet. */
static void count_event(struct kulp *kulp, const struct rdma_cm_event *event)
{
	ktime_t now = ktime_get();

	spin_lock_bh(&kulp->lock);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		kulp->nr_resolved++;
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		if (!kulp->nr_told++)
			kulp->first_told = now;
		kulp->last_told = now;
		break;
	default:
		kulp->nr_failed++;
		break;
	}
	spin_unlock_bh(&kulp->lock);
}

static void say_event(struct kid *kid, const struct rdma_cm_event *event)
{
	if (kid->opt.quiet)
		count_event(kid->kulp, event);
	else if (event->event == RDMA_CM_EVENT_ADDR_CHANGE)
		say_report(kid, event);
	else
		say(kid->kulp, kid, "event=%s status=%d", event_names[event->event],
		    event->status);
}

/* --- ids ----------------------------------------------------------------- */

static int set_options(struct rdma_cm_id *id, const struct options *opt)
{
	int ret = 0;

	if (!opt->has_mode && !opt->has_delay)
		return 0;
	if (!set_ha_mode || !set_ha_delays)
		return -ENOSYS;
	if (opt->has_delay)
		ret = set_ha_delays(id, opt->downdelay, opt->updelay);
	if (!ret && opt->has_mode)
		ret = set_ha_mode(id, opt->mode);
	return ret;
}

static int make_qp(struct kid *kid, struct rdma_cm_id *id)
{
	struct ib_qp_init_attr attr = {
		.qp_type	= IB_QPT_RC,
		.sq_sig_type	= IB_SIGNAL_ALL_WR,
		.cap		= {
			.max_send_wr = 2, .max_recv_wr = 2,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
	};

	kid->pd = ib_alloc_pd(id->device, 0);
	if (IS_ERR(kid->pd))
		return PTR_ERR(no_free_ptr(kid->pd));
	kid->cq = ib_alloc_cq(id->device, kid, 8, 0, IB_POLL_WORKQUEUE);
	if (IS_ERR(kid->cq))
		return PTR_ERR(no_free_ptr(kid->cq));
	attr.send_cq = kid->cq;
	attr.recv_cq = kid->cq;
	return rdma_create_qp(id, kid->pd, &attr);
}

static void free_qp(struct kid *kid, struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	if (kid->cq)
		ib_free_cq(kid->cq);
	if (kid->pd)
		ib_dealloc_pd(kid->pd);
	kid->cq = NULL;
	kid->pd = NULL;
}

static void destroy(struct kid *kid)
{
	struct rdma_cm_id *id = xchg(&kid->id, NULL);

	if (!id)
		return;
	/* No handler does anything from here on. */
	rdma_lock_handler(id);
	if (id->qp)
		rdma_disconnect(id);
	free_qp(kid, id);
	rdma_unlock_handler(id);
	rdma_destroy_id(id);
	kid_put(kid);
}

/* In its handler. Returns what makes rdma_cm destroy the id. */
static int refuse(struct kid *kid)
{
	struct rdma_cm_id *id = xchg(&kid->id, NULL);

	if (!id)
		return 0;	/* destroy() waits for this handler */
	free_qp(kid, id);
	kid_put(kid);
	return -ECANCELED;
}

static int react(struct kid *kid, struct rdma_cm_id *id)
{
	switch (kid->opt.react) {
	case REACT_REFUSE:
		return refuse(kid);
	case REACT_UNSET:
		if (set_ha_mode)
			say_result(kid, "unset", set_ha_mode(id, RDMA_HA_NONE));
		return 0;
	case REACT_DISCONNECT:
		rdma_disconnect(id);
		return 0;
	case REACT_SLEEP:
		msleep(SLEEP_MS);
		return 0;
	default:
		return 0;
	}
}

static struct kid *new_kid(struct kulp *kulp, const char *name, const char *role,
			   const struct options *opt)
{
	struct kid *kid = kzalloc(sizeof(*kid), GFP_KERNEL);

	if (!kid)
		return NULL;
	kid->kulp = kulp;
	kid->role = role;
	kid->opt = *opt;
	strscpy(kid->name, name);
	refcount_set(&kid->refs, 2);
	spin_lock_bh(&kulp->lock);
	list_add_tail(&kid->list, &kulp->ids);
	spin_unlock_bh(&kulp->lock);
	return kid;
}

/* An id that never was. */
static void forget(struct kid *kid)
{
	spin_lock_bh(&kid->kulp->lock);
	list_del(&kid->list);
	spin_unlock_bh(&kid->kulp->lock);
	kid_put(kid);
	kid_put(kid);
}

static int connect(struct kid *kid, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	return make_qp(kid, id) ?: rdma_connect_locked(id, &param);
}

static int accept(struct kid *listener, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	char name[MAX_NAME];
	struct kid *kid;
	int ret;

	if (listener->opt.react == REACT_REFUSE)
		return -ECANCELED;
	snprintf(name, sizeof(name), "%.20s.%u", listener->name, ++listener->nr_children);
	kid = new_kid(listener->kulp, name, "passive", &listener->opt);
	if (!kid)
		return -ENOMEM;
	id->context = kid;
	kid->id = id;
	ret = make_qp(kid, id) ?: rdma_accept(id, &param);
	say_result(kid, "accept", ret);
	return ret ? refuse(kid) : 0;
}

/* Context: may sleep, under the id's handler_mutex. */
static int handler(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kid *kid = id->context;
	int ret = 0;

	if (!READ_ONCE(kid->id))
		return 0;
	say_event(kid, event);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		ret = rdma_resolve_route(id, RESOLVE_TIMEOUT_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (kid->opt.connect)
			ret = connect(kid, id);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return accept(kid, id);
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(id);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return refuse(kid);
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_UNREACHABLE:
		return react(kid, id);
	default:
		break;
	}
	if (ret)
		say_result(kid, "step", ret);
	return 0;
}

/* --- commands ------------------------------------------------------------ */

static int parse_addr(const char *text, u16 port, struct sockaddr_storage *addr)
{
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	return inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, text, service, addr);
}

static int parse_mode(char *text, u32 *mode)
{
	static const struct {
		const char *name;
		u32 value;
	} words[] = {
		{ "none", RDMA_HA_NONE },
		{ "align", RDMA_ALIGN_WITH_NETDEVICE },
		{ "teardown", RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN },
		{ "sticky", RDMA_HA_F_STICKY },
		{ "restored", RDMA_HA_F_RESTORED },
		{ "standby", RDMA_HA_F_STANDBY },
	};
	const char *word;
	int i;

	if (!kstrtou32(text, 0, mode))
		return 0;
	*mode = 0;
	while ((word = strsep(&text, "+"))) {
		for (i = 0; i < ARRAY_SIZE(words); i++)
			if (!strcmp(word, words[i].name))
				break;
		if (i == ARRAY_SIZE(words))
			return -EINVAL;
		*mode |= words[i].value;
	}
	return 0;
}

static int parse_option(const char *name, char *value, struct options *opt)
{
	int ret;

	if (!strcmp(name, "src"))
		return parse_addr(value, 0, &opt->src);
	if (!strcmp(name, "as"))
		return strscpy(opt->as, value) < 0 ? -EINVAL : 0;
	if (!strcmp(name, "count"))
		return kstrtouint(value, 0, &opt->count);
	if (!strcmp(name, "stride"))
		return kstrtouint(value, 0, &opt->stride);
	if (!strcmp(name, "mode")) {
		opt->has_mode = true;
		return parse_mode(value, &opt->mode);
	}
	if (!strcmp(name, "downdelay")) {
		opt->has_delay = true;
		return kstrtou32(value, 0, &opt->downdelay);
	}
	if (!strcmp(name, "updelay")) {
		opt->has_delay = true;
		return kstrtou32(value, 0, &opt->updelay);
	}
	if (!strcmp(name, "react")) {
		ret = match_string(reactions, ARRAY_SIZE(reactions), value);
		opt->react = ret < 0 ? 0 : ret;
		return ret < 0 ? ret : 0;
	}
	return -EINVAL;
}

static int parse_options(char **words, int n, struct options *opt)
{
	int i, ret;

	for (i = 0; i < n; i++) {
		if (!strcmp(words[i], "quiet")) {
			opt->quiet = true;
			continue;
		}
		if (i + 1 == n)
			return -EINVAL;
		ret = parse_option(words[i], words[i + 1], opt);
		if (ret)
			return ret;
		i++;
	}
	return 0;
}

/* The address that is so many after this one. */
static void add_to_addr(struct sockaddr_storage *addr, u32 offset)
{
	__be32 *last = &((struct sockaddr_in *)addr)->sin_addr.s_addr;

	if (addr->ss_family == AF_INET6)
		last = &((struct sockaddr_in6 *)addr)->sin6_addr.s6_addr32[3];
	*last = cpu_to_be32(be32_to_cpu(*last) + offset);
}

static int start_one(struct kulp *kulp, const char *command, const char *name,
		     struct sockaddr_storage *addr, const struct options *opt)
{
	bool listens = !strcmp(command, "listen");
	struct kid *kid = new_kid(kulp, name, listens ? "listener" : "active", opt);
	struct sockaddr *src = opt->src.ss_family ? (struct sockaddr *)&kid->opt.src : NULL;
	struct rdma_cm_id *id;
	int ret;

	if (!kid)
		return -ENOMEM;
	id = __rdma_create_kernel_id(current->nsproxy->net_ns, handler, kid, RDMA_PS_TCP,
				     IB_QPT_RC, kid->opt.as);
	if (IS_ERR(id)) {
		forget(kid);
		return PTR_ERR(id);
	}
	kid->id = id;
	ret = set_options(id, opt);
	if (!ret && listens)
		ret = rdma_bind_addr(id, (struct sockaddr *)addr) ?: rdma_listen(id, 128);
	else if (!ret)
		ret = rdma_resolve_addr(id, src, (struct sockaddr *)addr, RESOLVE_TIMEOUT_MS);
	say_result(kid, command, ret);
	if (ret)
		destroy(kid);
	return ret;
}

static int start_command(struct kulp *kulp, char **words, int n)
{
	struct sockaddr_storage addr = {}, to;
	struct options opt = {
		.as		= KBUILD_MODNAME,
		.downdelay	= RDMA_HA_DOWNDELAY_DEFAULT_MS,
		.updelay	= RDMA_HA_UPDELAY_DEFAULT_MS,
	};
	char name[MAX_NAME];
	unsigned int i;
	u16 port;
	int ret;

	if (n < 4 || kstrtou16(words[3], 10, &port))
		return -EINVAL;
	ret = parse_addr(words[2], port, &addr) ?: parse_options(words + 4, n - 4, &opt);
	if (ret)
		return ret;
	opt.connect = !strcmp(words[0], "connect");
	if (!opt.count)
		return start_one(kulp, words[0], words[1], &addr, &opt);
	for (i = 0; i < opt.count && !ret; i++) {
		snprintf(name, sizeof(name), "%.20s-%u", words[1], i + 1);
		to = addr;
		if (opt.stride)
			add_to_addr(&to, i % opt.stride);
		ret = start_one(kulp, words[0], name, &to, &opt);
		cond_resched();
	}
	return ret;
}

/* With a reference for the caller. */
static struct kid *find_kid(struct kulp *kulp, const char *name)
{
	struct kid *kid, *found = NULL;

	spin_lock_bh(&kulp->lock);
	list_for_each_entry(kid, &kulp->ids, list) {
		if (!strcmp(kid->name, name)) {
			refcount_inc(&kid->refs);
			found = kid;
			break;
		}
	}
	spin_unlock_bh(&kulp->lock);
	return found;
}

static int set_command(struct kid *kid, const char *name, char *value)
{
	struct options opt = kid->opt;
	int ret;

	opt.has_mode = false;
	opt.has_delay = false;
	ret = parse_option(name, value, &opt) ?: set_options(kid->id, &opt);
	if (!ret)
		kid->opt = opt;
	return ret;
}

static int id_command(struct kulp *kulp, char **words, int n)
{
	struct kid *kid = n > 1 ? find_kid(kulp, words[1]) : NULL;
	s64 ms;
	int ret = -EINVAL;

	if (!kid)
		return -ENOENT;
	if (!strcmp(words[0], "destroy")) {
		ktime_t start = ktime_get();

		destroy(kid);
		ms = ktime_ms_delta(ktime_get(), start);
		say(kulp, kid, "destroyed ms=%lld", ms);
		ret = 0;
	} else if (!READ_ONCE(kid->id)) {
		ret = -ENOENT;
	} else if (!strcmp(words[0], "disconnect")) {
		ret = rdma_disconnect(kid->id);
		say_result(kid, words[0], ret);
	} else if (!strcmp(words[0], "set") && n == 4) {
		ret = set_command(kid, words[2], words[3]);
		say_result(kid, words[0], ret);
	}
	kid_put(kid);
	return ret;
}

static int stats_command(struct kulp *kulp)
{
	unsigned int resolved, failed, told;
	s64 first, last;

	spin_lock_bh(&kulp->lock);
	resolved = kulp->nr_resolved;
	failed = kulp->nr_failed;
	told = kulp->nr_told;
	first = told ? ktime_to_ns(kulp->first_told) : 0;
	last = told ? ktime_to_ns(kulp->last_told) : 0;
	kulp->nr_told = 0;
	spin_unlock_bh(&kulp->lock);
	/* On the clock of CLOCK_MONOTONIC, for who knows when the change was. */
	say(kulp, NULL, "stats resolved=%u failed=%u told=%u first_ns=%lld last_ns=%lld",
	    resolved, failed, told, first, last);
	return 0;
}

static int command(struct kulp *kulp, char *line)
{
	char *words[MAX_WORDS], *word;
	int n = 0;

	while (n < MAX_WORDS && (word = strsep(&line, " \t\n")))
		if (*word)
			words[n++] = word;
	if (!n)
		return 0;
	if (!strcmp(words[0], "echo") && n == 2) {
		say(kulp, NULL, "echo=%s", words[1]);
		return 0;
	}
	if (!strcmp(words[0], "stats"))
		return stats_command(kulp);
	if (!strcmp(words[0], "resolve") || !strcmp(words[0], "connect") ||
	    !strcmp(words[0], "listen"))
		return start_command(kulp, words, n);
	return id_command(kulp, words, n);
}

/* --- the device ---------------------------------------------------------- */

static int kulp_open(struct inode *inode, struct file *file)
{
	struct kulp *kulp = kzalloc(sizeof(*kulp), GFP_KERNEL);
	int ret;

	if (!kulp)
		return -ENOMEM;
	ret = kfifo_alloc(&kulp->said, SAID_BYTES, GFP_KERNEL);
	if (ret) {
		kfree(kulp);
		return ret;
	}
	spin_lock_init(&kulp->lock);
	mutex_init(&kulp->command_lock);
	mutex_init(&kulp->read_lock);
	INIT_LIST_HEAD(&kulp->ids);
	init_waitqueue_head(&kulp->wait);
	kulp->start = ktime_get();
	file->private_data = kulp;
	return nonseekable_open(inode, file);
}

static int kulp_release(struct inode *inode, struct file *file)
{
	struct kulp *kulp = file->private_data;
	struct kid *kid, *next;

	/* Listeners may add to the end until they are destroyed. */
	list_for_each_entry(kid, &kulp->ids, list)
		if (!strcmp(kid->role, "listener"))
			destroy(kid);
	list_for_each_entry_safe(kid, next, &kulp->ids, list) {
		destroy(kid);
		kid_put(kid);
		cond_resched();
	}
	kfifo_free(&kulp->said);
	kfree(kulp);
	return 0;
}

/* Waits for a line at least. */
static ssize_t kulp_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct kulp *kulp = file->private_data;
	unsigned int copied;
	int ret;

	if (kfifo_is_empty(&kulp->said) && file->f_flags & O_NONBLOCK)
		return -EAGAIN;
	ret = wait_event_interruptible(kulp->wait, !kfifo_is_empty(&kulp->said));
	if (ret)
		return ret;
	mutex_lock(&kulp->read_lock);
	ret = kfifo_to_user(&kulp->said, buf, len, &copied);
	mutex_unlock(&kulp->read_lock);
	if (kulp->lost)
		return -EOVERFLOW;
	return ret ?: copied;
}

static ssize_t kulp_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	struct kulp *kulp = file->private_data;
	char *text, *rest, *line, word[24];
	int ret;

	if (len > PAGE_SIZE)
		return -EINVAL;
	text = memdup_user_nul(buf, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&kulp->command_lock);
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		strscpy(word, line);
		ret = command(kulp, line);
		/* The next command of the test may depend on it, the line does not. */
		if (ret)
			say(kulp, NULL, "error=%d: %s...", ret, word);
	}
	mutex_unlock(&kulp->command_lock);
	kfree(text);
	return len;
}

static const struct file_operations kulp_fops = {
	.owner		= THIS_MODULE,
	.open		= kulp_open,
	.release	= kulp_release,
	.read		= kulp_read,
	.write		= kulp_write,
};

static struct miscdevice kulp_dev = {
	.minor		= MISC_DYNAMIC_MINOR,
	.name		= "align_kulp",
	.fops		= &kulp_fops,
	.mode		= 0600,
};

static void forget_symbols(void)
{
	if (set_ha_mode)
		symbol_put(rdma_set_ha_mode);
	if (set_ha_delays)
		symbol_put(rdma_set_ha_delays);
}

static int __init kulp_init(void)
{
	int ret;

	set_ha_mode = symbol_get(rdma_set_ha_mode);
	set_ha_delays = symbol_get(rdma_set_ha_delays);
	ret = misc_register(&kulp_dev);
	if (ret)
		forget_symbols();
	return ret;
}

static void __exit kulp_exit(void)
{
	misc_deregister(&kulp_dev);
	forget_symbols();
}

module_init(kulp_init);
module_exit(kulp_exit);

MODULE_DESCRIPTION("A kernel ULP for the tests of rdma_cm");
MODULE_LICENSE("GPL");
