/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of the demonstration share: the log that becomes the
 * timeline, the meter that notices when data stops and flows again, and the
 * checksum.
 *
 * A line of the log is "<microseconds> <who> <kind> <text>". The kinds that
 * report.py knows:
 *
 *	heard	an event reached the program
 *	did	what the program did about it
 *	path	the RDMA device that carries the data from now on
 *	gap	"<start> <end>": no data between these times
 *	rate	"<start> <n>": n answers in the SAMPLE_US from start on
 *	sum	the result at the end
 *	bad	data differs
 */
#ifndef _DEMO_H
#define _DEMO_H

#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_US	100000
#define GAP_US		150000

static const char *log_who;
static int log_fd = -1;

/* The wall clock, because the shell that changes the network has no other. */
static inline int64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * 1000000LL + ts.tv_nsec / 1000;
}

static inline void log_open(const char *path, const char *who)
{
	log_who = who;
	log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (log_fd < 0) {
		perror(path);
		exit(1);
	}
}

static inline void log_at(int64_t us, const char *kind, const char *fmt, ...)
{
	char line[512];
	va_list args;
	int len;

	len = snprintf(line, sizeof(line), "%lld %s %s ", (long long)us,
		       log_who, kind);
	va_start(args, fmt);
	len += vsnprintf(line + len, sizeof(line) - len, fmt, args);
	va_end(args);
	if (len > (int)sizeof(line) - 2)
		len = sizeof(line) - 2;
	line[len++] = '\n';
	/* One write: others append to the same file. */
	if (write(log_fd, line, len) != len)
		perror("log");
}

#define say(kind, ...)	log_at(now_us(), kind, __VA_ARGS__)

/* Counts answers; a file tells the script when the last one came. */
struct meter {
	int fd;
	int64_t last_us;
	int64_t sample_us;
	unsigned int in_sample;
	int64_t longest_us;
	uint64_t count;
};

static inline void meter_open(struct meter *m, const char *path)
{
	memset(m, 0, sizeof(*m));
	m->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	if (m->fd < 0) {
		perror(path);
		exit(1);
	}
}

static inline void meter_tick(struct meter *m)
{
	int64_t now = now_us();
	char line[64];
	int len;

	if (m->last_us) {
		int64_t gap = now - m->last_us;

		if (gap > m->longest_us)
			m->longest_us = gap;
		if (gap >= GAP_US)
			log_at(now, "gap", "%lld %lld", (long long)m->last_us,
			       (long long)now);
	}
	if (now - m->sample_us >= SAMPLE_US) {
		if (m->sample_us)
			log_at(now, "rate", "%lld %u", (long long)m->sample_us,
			       m->in_sample);
		m->sample_us = now - now % SAMPLE_US;
		m->in_sample = 0;
	}
	m->in_sample++;
	m->count++;
	m->last_us = now;

	/* Fixed width, so that a reader never sees half of two lines. */
	len = snprintf(line, sizeof(line), "%020lld %020llu\n", (long long)now,
		       (unsigned long long)m->count);
	if (pwrite(m->fd, line, len, 0) != len)
		perror("meter");
}

/* FNV-1a over 64-bit words: not strong, but any flipped or stale block shows. */
static inline uint64_t checksum(uint64_t sum, const void *data, size_t len)
{
	const uint64_t *word = data;
	size_t i;

	for (i = 0; i < len / sizeof(*word); i++)
		sum = (sum ^ word[i]) * 0x100000001b3ULL;
	return sum;
}

#define CHECKSUM_INIT	0xcbf29ce484222325ULL

/* Data that can be told from the data of any other number. */
static inline void fill(void *data, size_t len, uint64_t number)
{
	uint64_t *word = data, x = number * 0x9e3779b97f4a7c15ULL + 1;
	size_t i;

	for (i = 0; i < len / sizeof(*word); i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		word[i] = x;
	}
}

#endif /* _DEMO_H */
