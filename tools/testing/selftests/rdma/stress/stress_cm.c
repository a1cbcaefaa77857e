// SPDX-License-Identifier: GPL-2.0
/*
 * stress_cm - use and misuse rdma_cm from many threads at once.
 *
 * Each client thread owns a few ids on two event channels, and does at random:
 * create, set modes and delays, resolve, connect, accept, reject, disconnect,
 * migrate to its other channel, leave events unread, destroy in any state. One
 * thread listens, and does the same to what it accepts. Another sets options of
 * everybody's ids. The network changes meanwhile, and the program may be killed
 * at any moment: see stress.sh.
 *
 * It checks what must hold whatever happens: a report says a reason that exists,
 * names the id's own path, and comes with status 0; the count of verdicts never
 * goes back; and all calls return: a watchdog looks after each thread.
 *
 * Status: 0, or 1 with the reason printed.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_cm_align.h>

#define MAX_THREADS	32
#define IDS		12	/* of a client thread */
#define CHILDREN	64	/* of the listener */
#define STUCK_S		90

struct slot {
	/* Setters read, the owner writes: an id must not go while it is used. */
	pthread_rwlock_t	lock;
	struct rdma_cm_id	*id;
	bool			passive;
	bool			connected;
	bool			explicit_mode;
	uint32_t		seq;
};

struct worker {
	pthread_t		thread;
	unsigned int		seed;
	struct rdma_event_channel *channels[2];
	struct slot		*slots;
	int			nr_slots;
	struct rdma_cm_id	*listener;
	/* For the watchdog, which is another thread. */
	time_t			alive;
	const char		*doing;
};

static struct worker workers[MAX_THREADS + 1];
static int nr_workers;
static bool stop;
static struct sockaddr_in service;
static unsigned long nr_created, nr_established, nr_reports, nr_ended;

static void __attribute__((noreturn, format(printf, 1, 2)))
broken(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("stress_cm: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

static unsigned int below(struct worker *w, unsigned int limit)
{
	return rand_r(&w->seed) % limit;
}

static void count(unsigned long *counter)
{
	__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED);
}

static void doing(struct worker *w, const char *what)
{
	__atomic_store_n(&w->doing, what, __ATOMIC_RELAXED);
	__atomic_store_n(&w->alive, time(NULL), __ATOMIC_RELAXED);
}

static bool stopping(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static uint32_t random_mode(unsigned int *seed)
{
	static const uint32_t modes[] = {
		RDMA_HA_NONE,
		RDMA_ALIGN_WITH_NETDEVICE,
		RDMA_ALIGN_WITH_NETDEVICE,
		RDMA_ALIGN_WITH_NETDEVICE_TEARDOWN,
	};
	uint32_t mode = modes[rand_r(seed) % 4];

	return mode | (rand_r(seed) % 8 * RDMA_HA_F_STICKY);
}

static int set_u32(struct rdma_cm_id *id, int option, uint32_t val)
{
	int ret = rdma_set_option(id, RDMA_OPTION_ID, option, &val, sizeof(val));

	if (ret && (errno == ENOSYS || errno == EINVAL))
		broken("option %d, value %#x: %s", option, val, strerror(errno));
	return ret;
}

static void random_option(unsigned int *seed, struct rdma_cm_id *id)
{
	static const uint32_t delays[] = { 0, 0, 1, 10, 50, 200, 60000 };

	switch (rand_r(seed) % 4) {
	case 0:
		set_u32(id, RDMA_OPTION_ID_HA_DOWNDELAY, delays[rand_r(seed) % 7]);
		break;
	case 1:
		set_u32(id, RDMA_OPTION_ID_HA_UPDELAY, delays[rand_r(seed) % 7]);
		break;
	default:
		set_u32(id, RDMA_OPTION_ID_HA_MODE, random_mode(seed));
	}
}

static struct slot *free_slot(struct worker *w)
{
	int i;

	for (i = 0; i < w->nr_slots; i++)
		if (!w->slots[i].id)
			return &w->slots[i];
	return NULL;
}

/* The id may have been replaced by another since the event was queued. */
static struct slot *slot_of(struct worker *w, struct rdma_cm_id *id)
{
	int i;

	for (i = 0; i < w->nr_slots; i++)
		if (w->slots[i].id == id)
			return &w->slots[i];
	return NULL;
}

static void put_id(struct slot *s, struct rdma_cm_id *id, bool passive)
{
	pthread_rwlock_wrlock(&s->lock);
	s->id = id;
	s->passive = passive;
	s->connected = false;
	s->seq = 0;
	pthread_rwlock_unlock(&s->lock);
}

static void destroy(struct worker *w, struct slot *s)
{
	struct rdma_cm_id *id;

	pthread_rwlock_wrlock(&s->lock);
	id = s->id;
	s->id = NULL;
	pthread_rwlock_unlock(&s->lock);
	if (!id)
		return;
	doing(w, "rdma_destroy_qp");
	if (id->qp)
		rdma_destroy_qp(id);
	doing(w, "rdma_destroy_id");
	if (rdma_destroy_id(id))
		broken("rdma_destroy_id: %s", strerror(errno));
	doing(w, "idle");
	count(&nr_ended);
}

static bool make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap.max_send_wr = 1,
		.cap.max_recv_wr = 1,
		.cap.max_send_sge = 1,
		.cap.max_recv_sge = 1,
		.qp_type = IBV_QPT_RC,
	};

	return id->qp || !rdma_create_qp(id, NULL, &attr);
}

static void start(struct worker *w)
{
	struct slot *s = free_slot(w);
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct sockaddr_in dst = service;
	struct rdma_cm_id *id;
	int i;

	if (!s)
		return;
	doing(w, "rdma_create_id");
	if (rdma_create_id(w->channels[below(w, 2)], &id, w, RDMA_PS_TCP)) {
		/* While rdma_ucm is being replaced. */
		if (errno == ENODEV || errno == ENOENT || errno == ENOMEM)
			return;
		broken("rdma_create_id: %s", strerror(errno));
	}
	count(&nr_created);
	put_id(s, id, false);
	for (i = below(w, 4); i; i--)
		random_option(&w->seed, id);
	if (!below(w, 8))
		rdma_bind_addr(id, (struct sockaddr *)&any);
	doing(w, "rdma_resolve_addr");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1 + below(w, 1000)))
		destroy(w, s);
}

static void check_report(struct slot *s, const struct rdma_cm_event *event,
			 const struct rdma_align_event *ev)
{
	count(&nr_reports);
	if (event->status)
		broken("ADDR_CHANGE with status %d", event->status);
	/* A mode from the module's parameter: the stock shape. */
	if (!event->param.conn.private_data_len)
		return;
	if (event->param.conn.private_data_len < sizeof(*ev))
		broken("%u bytes of private data", event->param.conn.private_data_len);
	if (ev->reason < RDMA_ALIGN_REASON_LINK ||
	    ev->reason > RDMA_ALIGN_REASON_STANDBY)
		broken("reason %u", ev->reason);
	if (ev->flags & ~(RDMA_ALIGN_EV_PATH_DOWN | RDMA_ALIGN_EV_RESTORED) ||
	    ev->reserved || ev->reserved2)
		broken("flags %#x, reserved %u %u", ev->flags, ev->reserved,
		       ev->reserved2);
	if (!ev->old_port)
		broken("no port in the old path");
	if ((int32_t)(ev->seq - s->seq) < 0)
		broken("seq %u after %u", ev->seq, s->seq);
	s->seq = ev->seq;
}

static void request(struct worker *w, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = { .retry_count = 2 };
	struct slot *s = free_slot(w);

	if (!s) {
		rdma_destroy_id(id);
		return;
	}
	put_id(s, id, true);
	if (!below(w, 8)) {
		destroy(w, s);
		return;
	}
	if (below(w, 2))
		random_option(&w->seed, id);
	if (!below(w, 8)) {
		rdma_reject(id, NULL, 0);
		destroy(w, s);
		return;
	}
	doing(w, "rdma_accept");
	if (!make_qp(id) || rdma_accept(id, &param))
		destroy(w, s);
}

static void handle(struct worker *w, struct rdma_cm_event *event)
{
	struct rdma_conn_param param = { .retry_count = 2, .rnr_retry_count = 2 };
	struct rdma_align_event ev = {};
	struct rdma_cm_event copy = *event;
	struct slot *s = slot_of(w, event->id);

	if (event->event == RDMA_CM_EVENT_ADDR_CHANGE &&
	    event->param.conn.private_data_len >= sizeof(ev))
		memcpy(&ev, event->param.conn.private_data, sizeof(ev));
	rdma_ack_cm_event(event);
	if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		request(w, copy.id);
		return;
	}
	if (!s)
		return;

	switch (copy.event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (below(w, 8) && !rdma_resolve_route(copy.id, 500))
			break;
		if (!below(w, 4))
			destroy(w, s);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		/* Some stay as they are: resolved ids are reported too. */
		if (!below(w, 4))
			break;
		doing(w, "rdma_connect");
		if (!make_qp(copy.id) || rdma_connect(copy.id, &param))
			destroy(w, s);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		s->connected = true;
		count(&nr_established);
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		check_report(s, &copy, &ev);
		if (!below(w, 4))
			destroy(w, s);
		else if (!below(w, 4))
			rdma_disconnect(copy.id);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		rdma_disconnect(copy.id);
		if (below(w, 2))
			destroy(w, s);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		destroy(w, s);
		break;
	default:
		break;
	}
}

static void drain(struct worker *w, int wait_ms)
{
	struct pollfd fds[2] = {
		{ .fd = w->channels[0]->fd, .events = POLLIN },
		{ .fd = w->channels[1]->fd, .events = POLLIN },
	};
	struct rdma_cm_event *event;
	int i, n;

	poll(fds, 2, wait_ms);
	for (i = 0; i < 2; i++)
		for (n = below(w, 8); n && !rdma_get_cm_event(w->channels[i], &event); n--)
			handle(w, event);
}

static void misuse(struct worker *w)
{
	struct slot *s = &w->slots[below(w, w->nr_slots)];

	if (!s->id)
		return;
	switch (below(w, 6)) {
	case 0:
		destroy(w, s);
		break;
	case 1:
		doing(w, "rdma_disconnect");
		rdma_disconnect(s->id);
		break;
	case 2:
		/* Events of the id must be acknowledged, and all are. */
		doing(w, "rdma_migrate_id");
		pthread_rwlock_wrlock(&s->lock);
		if (rdma_migrate_id(s->id, w->channels[below(w, 2)]) &&
		    errno != ENODEV && errno != EINVAL && errno != ENXIO)
			broken("rdma_migrate_id: %s", strerror(errno));
		pthread_rwlock_unlock(&s->lock);
		break;
	default:
		doing(w, "rdma_set_option");
		random_option(&w->seed, s->id);
	}
	doing(w, "idle");
}

static void relisten(struct worker *w)
{
	struct sockaddr_in any = service;

	if (w->listener && below(w, 200))
		return;
	if (w->listener) {
		doing(w, "rdma_destroy_id of the listener");
		rdma_destroy_id(w->listener);
		w->listener = NULL;
	}
	any.sin_addr.s_addr = htonl(INADDR_ANY);
	if (rdma_create_id(w->channels[below(w, 2)], &w->listener, w, RDMA_PS_TCP)) {
		w->listener = NULL;
		return;
	}
	random_option(&w->seed, w->listener);
	random_option(&w->seed, w->listener);
	if (rdma_bind_addr(w->listener, (struct sockaddr *)&any) ||
	    rdma_listen(w->listener, 64)) {
		rdma_destroy_id(w->listener);
		w->listener = NULL;
		return;
	}
	random_option(&w->seed, w->listener);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	bool listens = w == &workers[0];
	int i;

	while (!stopping()) {
		doing(w, "idle");
		if (listens)
			relisten(w);
		else if (below(w, 2))
			start(w);
		if (!below(w, 3))
			misuse(w);
		/* Sometimes events wait unread for a while. */
		if (!below(w, 20))
			usleep(1000 * below(w, 300));
		drain(w, below(w, 20));
	}
	for (i = 0; i < w->nr_slots; i++)
		destroy(w, &w->slots[i]);
	if (w->listener)
		rdma_destroy_id(w->listener);
	__atomic_store_n(&w->alive, 0, __ATOMIC_RELEASE);
	return NULL;
}

static void *set_options(void *arg)
{
	unsigned int seed = *(unsigned int *)arg;
	struct worker *w;
	struct slot *s;

	while (!stopping()) {
		w = &workers[rand_r(&seed) % nr_workers];
		s = &w->slots[rand_r(&seed) % w->nr_slots];
		if (!pthread_rwlock_tryrdlock(&s->lock)) {
			if (s->id)
				random_option(&seed, s->id);
			pthread_rwlock_unlock(&s->lock);
		}
		usleep(rand_r(&seed) % 3000);
	}
	return NULL;
}

static void make_worker(struct worker *w, unsigned int seed, int nr_slots)
{
	int i;

	w->seed = seed;
	w->nr_slots = nr_slots;
	w->slots = calloc(nr_slots, sizeof(*w->slots));
	w->alive = time(NULL);
	w->doing = "starts";
	for (i = 0; i < nr_slots; i++)
		pthread_rwlock_init(&w->slots[i].lock, NULL);
	for (i = 0; i < 2; i++) {
		w->channels[i] = rdma_create_event_channel();
		if (!w->channels[i])
			broken("no event channel: %s", strerror(errno));
		fcntl(w->channels[i]->fd, F_SETFL,
		      fcntl(w->channels[i]->fd, F_GETFL) | O_NONBLOCK);
	}
}

/* A call that never returns is what we are here to find. Is any left? */
static bool watch(void)
{
	bool any = false;
	time_t alive;
	int i;

	for (i = 0; i < nr_workers; i++) {
		alive = __atomic_load_n(&workers[i].alive, __ATOMIC_ACQUIRE);
		if (!alive)
			continue;
		any = true;
		if (time(NULL) - alive > STUCK_S)
			broken("thread %d is stuck in %s", i,
			       __atomic_load_n(&workers[i].doing, __ATOMIC_RELAXED));
	}
	return any;
}

int main(int argc, char **argv)
{
	unsigned int seed = time(NULL) ^ getpid(), setter_seed;
	int seconds = 10, threads = 4, opt, i;
	pthread_t setter;
	time_t end;

	while ((opt = getopt(argc, argv, "s:t:n:")) != -1) {
		switch (opt) {
		case 's':
			seed = strtoul(optarg, NULL, 0);
			break;
		case 't':
			seconds = atoi(optarg);
			break;
		case 'n':
			threads = atoi(optarg);
			break;
		default:
			goto usage;
		}
	}
	if (argc - optind != 2 || threads < 1 || threads > MAX_THREADS)
		goto usage;
	service.sin_family = AF_INET;
	service.sin_port = htons(atoi(argv[optind + 1]));
	if (inet_pton(AF_INET, argv[optind], &service.sin_addr) != 1)
		goto usage;

	nr_workers = threads + 1;
	for (i = 0; i < nr_workers; i++)
		make_worker(&workers[i], seed + i, i ? IDS : CHILDREN);
	setter_seed = seed + i;
	for (i = 0; i < nr_workers; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			broken("no thread");
	if (pthread_create(&setter, NULL, set_options, &setter_seed))
		broken("no thread");

	end = time(NULL) + seconds;
	while (time(NULL) < end) {
		sleep(1);
		watch();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	while (watch())
		usleep(100000);
	for (i = 0; i < nr_workers; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_join(setter, NULL);
	printf("seed %u: %lu ids, %lu established, %lu reports, %lu destroyed\n",
	       seed, nr_created, nr_established, nr_reports, nr_ended);
	return 0;
usage:
	fprintf(stderr, "usage: %s [-s seed] [-t seconds] [-n threads] ADDR PORT\n",
		argv[0]);
	return 2;
}
