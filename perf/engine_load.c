/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O on an extent of a raw pool through struct blockdev, without a server: a
 * loop, and a fixed number of requests in flight. Ends with one line of JSON.
 *
 *	--do format     make the pool on a file or device (what it holds is
 *	                lost) and one extent in it
 *	--do fill       write the whole extent, in order
 *	--do snapshots  make --count of them, with --between random writes
 *	                after each
 *	--do read|write --count requests, at random places or --step apart
 *	--do again      the same writes after a discard of all: first writes
 *
 * The time and the processor's are those of the requests and the flush that
 * ends them, not of opening the pool. "shared": of the extent's clusters, how
 * many snapshots have, too, at the end.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/options.h"
#include "perf/engine_pool.h"

#define DEPTH_MAX   256u
#define SIZE_MAX_IO (4u << 20) /* bytes */
#define FILL_SIZE   (1u << 20) /* bytes */
#define ALIGN       4096u      /* bytes; O_DIRECT */

struct config {
	bool help;
	char *action;
	char *path;
	uint64_t depth;
	uint64_t size;
	uint64_t count;
	uint64_t step;
	uint64_t seed;
	uint64_t extent_size;
	uint64_t between;
};

static const struct option_row rows[] = {
	{"help", 'h', OPTION_FLAG, offsetof(struct config, help), NULL,
	 "say this", NULL, 0, 0},
	{"do", 0, OPTION_STRING, offsetof(struct config, action), "WHAT",
	 "format, fill, snapshots, read, write or again", "read", 0, 0},
	{"path", 'p', OPTION_STRING, offsetof(struct config, path), "PATH",
	 "the pool's file or device", "", 0, 0},
	{"depth", 'd', OPTION_NUMBER, offsetof(struct config, depth), "N",
	 "requests in flight", "1", 1, DEPTH_MAX},
	{"size", 's', OPTION_SIZE, offsetof(struct config, size), "BYTES",
	 "of one request", "4096", ALIGN, SIZE_MAX_IO},
	{"count", 'n', OPTION_NUMBER, offsetof(struct config, count), "N",
	 "requests to make", "10000", 1, 0},
	{"step", 0, OPTION_SIZE, offsetof(struct config, step), "BYTES",
	 "from one request to the next; 0: random", "0", 0, 0},
	{"seed", 'r', OPTION_NUMBER, offsetof(struct config, seed), "N",
	 "of the random offsets", "1", 1, 0},
	{"extent", 'e', OPTION_SIZE, offsetof(struct config, extent_size),
	 "BYTES", "size of the extent", "1GiB", ALIGN, 0},
	{"between", 'b', OPTION_NUMBER, offsetof(struct config, between), "N",
	 "writes after each snapshot", "0", 0, 0},
};

struct slot {
	struct op op;
	struct load *load;
	struct iobuf *buf; /* owned */
};

struct load {
	const struct config *config;
	struct raw_file_medium medium;
	struct raw_store *store;
	struct raw_users *users;
	struct loop *loop;
	struct blockdev *dev;
	bool writes;
	uint64_t step;  /* bytes; 0: random */
	uint32_t size;  /* bytes, of a request */
	uint64_t count; /* requests */
	uint64_t started, done;
	uint64_t next; /* bytes */
	uint64_t random;
	int res; /* the first error */
	struct slot slots[DEPTH_MAX];
	struct op flush;
	struct loop_message begin;
};

/* xorshift64*, Vigna 2016 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}

/* ---- the load, on the loop ---- */

static uint64_t next_offset(struct load *load)
{
	uint64_t at = load->next;

	if (!load->step)
		return random_next(&load->random) %
		       (load->dev->size / load->size) * load->size;
	load->next += load->step;
	if (load->next + load->size > load->dev->size)
		load->next -= load->dev->size / load->step * load->step;
	return at + load->size > load->dev->size ? 0 : at;
}

static void slot_start(struct slot *slot)
{
	struct load *load = slot->load;
	uint64_t offset = next_offset(load);

	load->started++;
	if (load->writes)
		blockdev_write(load->dev, &slot->op, slot->buf->data,
			       load->size, offset, 0);
	else
		blockdev_read(load->dev, &slot->op, slot->buf->data, load->size,
			      offset);
}

static void flushed(struct op *op, int res)
{
	struct load *load = container_of(op, struct load, flush);

	if (res < 0 && load->res == 0)
		load->res = res;
	loop_stop(load->loop);
}

static void slot_done(struct op *op, int res)
{
	struct slot *slot = container_of(op, struct slot, op);
	struct load *load = slot->load;

	if (res < 0 && load->res == 0)
		load->res = res;
	load->done++;
	if (load->started < load->count && load->res == 0)
		slot_start(slot);
	else if (load->done == load->started)
		blockdev_flush(load->dev, &load->flush);
}

static void begin(struct loop_message *message)
{
	struct load *load = container_of(message, struct load, begin);

	for (uint64_t i = 0; i < load->config->depth && i < load->count; i++)
		slot_start(&load->slots[i]);
}

/* ---- the pool ---- */

/* Open the extent on a loop that has buffers for all requests. */
static int extent_open(struct load *load, struct error *err)
{
	const struct loop_options loop = {
		.name = "load",
		.buffer_limit = (size_t)2 * SIZE_MAX_IO * DEPTH_MAX,
	};
	int r = loop_new(&loop, &load->loop, err);

	return r < 0 ? r
		     : raw_dev_open(load->users, ENGINE_EXTENT,
				    load->config->extent_size, 0, load->loop,
				    &load->dev, err);
}

static int pool_open(struct load *load, struct error *err)
{
	struct raw_users_options users = {.path = load->config->path,
					  .flags = BLOCKDEV_FILE_DIRECT};
	struct raw_report report;
	int r = raw_store_open(&load->medium.medium, &load->store, &report,
			       err);

	if (r < 0)
		return r;
	users.store = load->store;
	r = raw_users_new(&users, &load->users, err);
	if (r == 0)
		r = extent_open(load, err);
	return r;
}

static void pool_close(struct load *load)
{
	blockdev_close(load->dev);
	loop_free(load->loop);
	raw_users_free(load->users);
	raw_store_close(load->store);
}

/* ---- what there is to do ---- */

static int slots_make(struct load *load, struct error *err)
{
	for (unsigned i = 0; i < load->config->depth; i++) {
		struct slot *slot = &load->slots[i];

		slot->buf = loop_iobuf_get(load->loop, load->size);
		if (!slot->buf)
			return error_set(err, ENOMEM, "no memory for buffers");
		memset(slot->buf->data, (int)(load->config->seed + i) | 1,
		       load->size);
		slot->load = load;
		slot->op.done = slot_done;
	}
	return 0;
}

static void slots_free(struct load *load)
{
	for (unsigned i = 0; i < DEPTH_MAX; i++) {
		if (load->slots[i].buf)
			loop_iobuf_put(load->loop, load->slots[i].buf);
		load->slots[i].buf = NULL;
	}
}

/* Carry out all requests, and the flush that ends them. */
static int carry_out(struct load *load, struct error *err)
{
	int r = slots_make(load, err);

	if (r < 0) {
		slots_free(load);
		return r;
	}
	load->flush.done = flushed;
	load->begin.run = begin;
	loop_post(load->loop, &load->begin);
	r = loop_run(load->loop);
	if (r == 0)
		r = load->res;
	slots_free(load);
	return r < 0 ? error_set(err, -r, "I/O: %s", strerror(-r)) : 0;
}

static double cpu_s(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage); /* can't fail */
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int measured(struct load *load, struct error *err)
{
	double cpu = cpu_s(), seconds;
	int64_t start = clock_ns();
	int r = carry_out(load, err);

	seconds = (double)(clock_ns() - start) / 1e9;
	cpu = cpu_s() - cpu;
	if (r < 0)
		return r;
	printf("{\"ios\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"seconds\": %.6f, \"iops\": %.1f, \"cpu_us\": %.3f, "
	       "\"shared\": %" PRIu64 "}\n",
	       load->done, load->done * load->size, seconds,
	       (double)load->done / seconds, cpu * 1e6 / (double)load->done,
	       engine_shared(load->store));
	return 0;
}

static int fill(struct load *load, struct error *err)
{
	load->writes = true;
	load->size = FILL_SIZE;
	load->step = FILL_SIZE;
	load->count = load->dev->size / FILL_SIZE;
	return measured(load, err);
}

static void erase_all(struct loop_message *message)
{
	struct load *load = container_of(message, struct load, begin);

	blockdev_discard(load->dev, &load->flush, 0, load->dev->size, 0);
}

/* Reopen with another loop, as a loop that was stopped stays so. */
static int reopen(struct load *load, struct error *err)
{
	blockdev_close(load->dev);
	load->dev = NULL;
	loop_free(load->loop);
	load->loop = NULL;
	return extent_open(load, err);
}

/* Write between snapshots, so that the next one differs. */
static int write_between(struct load *load, struct error *err)
{
	int r;

	load->writes = true;
	load->step = 0;
	load->count = load->config->between;
	load->started = load->done = 0;
	r = carry_out(load, err);
	return r < 0 ? r : reopen(load, err);
}

static int snapshots(struct load *load, struct error *err)
{
	int64_t longest = 0;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < load->config->count; i++) {
		int64_t start = clock_ns();

		r = engine_snapshot(load->store, ENGINE_EXTENT + 1 + i,
				    load->config->extent_size, err);
		start = clock_ns() - start;
		longest = start > longest ? start : longest;
		if (r == 0 && load->config->between)
			r = write_between(load, err);
	}
	if (r < 0)
		return r;
	printf("{\"snapshots\": %" PRIu64 ", \"longest_ms\": %.3f, "
	       "\"shared\": %" PRIu64 "}\n",
	       load->config->count, (double)longest / 1e6,
	       engine_shared(load->store));
	return 0;
}

static int discard_all(struct load *load, struct error *err)
{
	int r;

	load->flush.done = flushed;
	load->begin.run = erase_all;
	loop_post(load->loop, &load->begin);
	r = loop_run(load->loop);
	if (r == 0)
		r = load->res;
	if (r < 0)
		return error_set(err, -r, "discard: %s", strerror(-r));
	r = raw_users_clean_now(load->users, err);
	return r < 0 ? r : reopen(load, err);
}

static int work(struct load *load, struct error *err)
{
	const char *action = load->config->action;
	int r = pool_open(load, err);

	if (r < 0)
		return r;
	if (strcmp(action, "fill") == 0)
		return fill(load, err);
	if (strcmp(action, "snapshots") == 0)
		return snapshots(load, err);
	load->writes = strcmp(action, "read") != 0;
	if (strcmp(action, "again") == 0)
		r = discard_all(load, err);
	return r < 0 ? r : measured(load, err);
}

static bool known_action(const char *action)
{
	static const char *const known[] = {"format", "fill",  "snapshots",
					    "read",   "write", "again"};

	for (size_t i = 0; i < array_size(known); i++)
		if (strcmp(action, known[i]) == 0)
			return true;
	return false;
}

static int run(const struct config *config, struct error *err)
{
	static struct load load;
	auto_close int fd = -1;
	int r;

	if (!known_action(config->action))
		return error_set(err, EINVAL, "--do %s: what is that?",
				 config->action);
	if (config->size % ALIGN || config->step % ALIGN)
		return error_set(err, EINVAL, "--size, --step: multiples of %u",
				 ALIGN);
	load.config = config;
	load.size = (uint32_t)config->size;
	load.count = config->count;
	load.step = config->step;
	load.random = config->seed;
	r = engine_medium_open(&load.medium, config->path, &fd, err);
	if (r == 0 && strcmp(config->action, "format") == 0)
		r = engine_pool_format(&load.medium.medium, config->extent_size,
				       err);
	else if (r == 0)
		r = work(&load, err);
	pool_close(&load);
	load.config = NULL;
	return r;
}

int main(int argc, char **argv)
{
	struct config config = {0};
	struct error err = {0};
	int index = 0, r;

	options_defaults(rows, array_size(rows), &config);
	r = options_parse(rows, array_size(rows), &config, argc, argv, &index,
			  &err);
	if (r == 0 && config.help) {
		puts("engine_load: I/O on an extent of a raw pool");
		options_help(rows, array_size(rows), stdout);
	} else if (r == 0 && index < argc) {
		r = error_set(&err, EINVAL, "unexpected '%s'", argv[index]);
	} else if (r == 0) {
		r = run(&config, &err);
	}
	if (r < 0)
		fprintf(stderr, "engine_load: %s\n", error_text(&err));
	options_done(rows, array_size(rows), &config);
	return r < 0;
}
