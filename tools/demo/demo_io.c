// SPDX-License-Identifier: GPL-2.0
/*
 * Checked reads and writes on a block device, for ever.
 *
 *	demo_io DEVICE STATE LOG METER
 *
 * Each round writes a block whose contents depend on its place and on how often
 * it was written, and reads another one back and compares. SIGTERM ends it:
 * then every block is read once more. All I/O is direct. STATE is the sysfs
 * attribute of the controller; its changes are what the kernel's own user of
 * rdma_cm lets the world know about what it heard.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "demo.h"

#define BLOCK_BYTES	16384
#define BLOCKS		512
#define PACE_US		2000

static _Atomic int stop;
static uint32_t version[BLOCKS];
static uint64_t *buf, *want;
static int dev;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void *watch_state(void *path)
{
	char last[32] = "", state[32];
	ssize_t len;
	int fd;

	for (;;) {
		fd = open(path, O_RDONLY);
		len = fd < 0 ? -1 : read(fd, state, sizeof(state) - 1);
		if (fd >= 0)
			close(fd);
		if (len > 0) {
			state[len] = 0;
			state[strcspn(state, "\n")] = 0;
			if (strcmp(state, last) && *last)
				say("heard", "controller: %s -> %s", last, state);
			snprintf(last, sizeof(last), "%s", state);
		}
		usleep(10000);
	}
	return NULL;
}

/* Return: 0, or -1 after it was told what is wrong. */
static int do_block(bool write, unsigned int block)
{
	uint64_t number = (uint64_t)version[block] << 32 | block;
	off_t offset = (off_t)block * BLOCK_BYTES;
	ssize_t len;

	if (write) {
		number += 1ULL << 32;
		fill(buf, BLOCK_BYTES, number);
		len = pwrite(dev, buf, BLOCK_BYTES, offset);
	} else {
		len = pread(dev, buf, BLOCK_BYTES, offset);
	}
	if (len != BLOCK_BYTES) {
		say("bad", "%s of block %u failed: %s", write ? "write" : "read",
		    block, len < 0 ? strerror(errno) : "short");
		return -1;
	}
	if (write) {
		version[block]++;
		return 0;
	}
	fill(want, BLOCK_BYTES, number);
	if (checksum(CHECKSUM_INIT, buf, BLOCK_BYTES) !=
	    checksum(CHECKSUM_INIT, want, BLOCK_BYTES)) {
		say("bad", "block %u differs", block);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned int round = 0, block;
	struct meter meter;
	pthread_t thread;

	if (argc != 5) {
		fprintf(stderr, "usage: demo_io DEVICE STATE LOG METER\n");
		return 2;
	}
	sigaction(SIGTERM, &action, NULL);
	log_open(argv[3], "io");
	meter_open(&meter, argv[4]);
	dev = open(argv[1], O_RDWR | O_DIRECT);
	if (dev < 0 || posix_memalign((void **)&buf, 4096, BLOCK_BYTES) ||
	    posix_memalign((void **)&want, 4096, BLOCK_BYTES)) {
		perror(argv[1]);
		return 1;
	}
	if (pthread_create(&thread, NULL, watch_state, argv[2])) {
		perror("pthread_create");
		return 1;
	}

	while (!stop) {
		block = round % BLOCKS;
		if (do_block(true, block))
			return 1;
		/* Any that was written; multiplying scatters them. */
		block = round * 7919U % (round < BLOCKS ? round + 1 : BLOCKS);
		if (do_block(false, block))
			return 1;
		meter_tick(&meter);
		round++;
		usleep(PACE_US);
	}
	for (block = 0; block < BLOCKS && version[block]; block++)
		if (do_block(false, block))
			return 1;
	say("sum", "%u blocks written and %u read back, all as expected; longest pause %lld ms",
	    round, round + block, (long long)meter.longest_us / 1000);
	return 0;
}
