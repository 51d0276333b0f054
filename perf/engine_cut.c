/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean and the longest time of a snapshot, while a pool is changed and its
 * checkpoints are written; and the memory that a map takes.
 *
 *	engine_cut FILE GIB SNAPSHOTS CHANGES [pieces|check]
 *
 * Makes a sparse FILE, and a pool on it with one extent of GIB, all of it
 * mapped, and a tenth of the pool free; "pieces": no two of its clusters follow
 * each other. Then SNAPSHOTS times: CHANGES to its map, each committed, and a
 * snapshot, committed; the one of a hundred before is deleted. Only metadata is
 * written.
 *
 * Prints a line of JSON: the milliseconds of the mean and the longest snapshot,
 * how many checkpoints there were, the bytes of memory that the pool has at the
 * end, and by how many the process's resident memory was larger with the mapped
 * extent than without a pool.
 *
 * "check": SNAPSHOTS times the pool is checked, as it is while it is served,
 * and another thread changes the map meanwhile, each change committed: the
 * milliseconds of the mean check, and of the longest change with and without
 * one beside it.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "blockd/raw/dev/raw_dev.h"

#define EXTENT 1u
#define KEPT   100u /* snapshots */

struct cut {
	struct raw_file_medium medium;
	struct raw_store *store;
	struct raw_users *users;
	uint32_t clusters;
	struct error err;
};

static void must(const struct cut *cut, int r)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "engine_cut: %s\n", error_text(&cut->err));
	exit(EXIT_FAILURE);
}

static void change(struct cut *cut, const struct raw_record *records, size_t n,
		   bool commit)
{
	uint64_t ticket;

	must(cut, raw_store_change(cut->store, records, n, &ticket, &cut->err));
	if (commit)
		must(cut, raw_store_commit(cut->store, ticket, &cut->err));
}

static void map(struct cut *cut, uint64_t logical, uint32_t near, bool commit)
{
	struct raw_record record = {
		.type = RAW_MAP, .object = EXTENT, .logical = logical};

	record.count = raw_store_take(cut->store, 1, near, &record.physical);
	if (!record.count) {
		(void)fprintf(stderr, "engine_cut: the pool is full\n");
		exit(EXIT_FAILURE);
	}
	change(cut, &record, 1, commit);
}

/*
 * Make the extent. In pieces: every other cluster from the front, then the
 * rest, so no two follow each other.
 */
static void make_extent(struct cut *cut, bool pieces)
{
	const struct raw_record record = {.type = RAW_OBJECT,
					  .object = EXTENT,
					  .clusters = cut->clusters,
					  .text = ""};
	const unsigned step = pieces ? 2 : 1;

	change(cut, &record, 1, false);
	for (unsigned from = 0; from < step; from++)
		for (uint64_t i = from; i < cut->clusters; i += step)
			map(cut, i, RAW_HOLE, false);
	must(cut, raw_store_checkpoint(cut->store, &cut->err));
}

static void open_pool(struct cut *cut, const char *path)
{
	const struct raw_format_options options = {.text = "pool",
						   .text_length = 4};
	struct raw_users_options users = {.path = path};
	struct raw_report report;

	must(cut, raw_store_format(&cut->medium.medium, &options, &cut->err));
	must(cut, raw_store_open(&cut->medium.medium, &cut->store, &report,
				 &cut->err));
	users.store = cut->store;
	must(cut, raw_users_new(&users, &cut->users, &cut->err));
}

/*
 * Tell the process's resident memory, in bytes, with what malloc holds back
 * given back.
 */
static size_t resident(void)
{
	unsigned long all = 0, pages = 0;
	FILE *f;

	(void)malloc_trim(0);
	f = fopen("/proc/self/statm", "re");
	if (!f || fscanf(f, "%lu %lu", &all, &pages) != 2) {
		perror("/proc/self/statm");
		exit(EXIT_FAILURE);
	}
	(void)fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int64_t snapshot(struct cut *cut, uint32_t id)
{
	const struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = cut->clusters,
		 .text = ""},
		{.type = RAW_SHARE, .object = id, .from = EXTENT},
	};
	int64_t start = clock_ns();

	change(cut, records, 2, true);
	return clock_ns() - start;
}

static void measure(struct cut *cut, unsigned snapshots, unsigned changes,
		    size_t mapped)
{
	const uint64_t before = raw_store_super(cut->store)->generation;
	int64_t all = 0, longest = 0;
	uint32_t random = 1;

	for (unsigned i = 0; i < snapshots; i++) {
		const struct raw_record drop = {
			.type = RAW_DROP, .object = EXTENT + 1 + i - KEPT};
		int64_t took;

		for (unsigned j = 0; j < changes; j++) {
			random = random * 1103515245 + 12345;
			map(cut, (random >> 4) % cut->clusters, RAW_HOLE, true);
		}
		if (i >= KEPT) {
			change(cut, &drop, 1, true);
			raw_users_clean(cut->users);
		}
		took = snapshot(cut, EXTENT + 1 + i);
		all += took;
		longest = took > longest ? took : longest;
	}
	(void)printf(
		"{\"mean_ms\": %.3f, \"longest_ms\": %.3f, "
		"\"checkpoints\": %llu, \"memory\": %zu, \"mapped\": %zu}\n",
		(double)all / snapshots / 1e6, (double)longest / 1e6,
		(unsigned long long)(raw_store_super(cut->store)->generation -
				     before),
		mallinfo2().uordblks + mallinfo2().hblkhd, mapped);
}

/* ---- checks ---- */

struct writer {
	struct cut *cut;
	pthread_t thread;
	atomic_bool stop;
	_Atomic int64_t longest; /* ns */
};

static void *writer_run(void *context)
{
	struct writer *writer = context;
	uint32_t random = 1;

	while (!atomic_load(&writer->stop)) {
		int64_t start = clock_ns(), took;

		random = random * 1103515245 + 12345;
		map(writer->cut, (random >> 4) % writer->cut->clusters,
		    RAW_HOLE, true);
		raw_users_clean(writer->cut->users);
		took = clock_ns() - start;
		if (took > atomic_load(&writer->longest))
			atomic_store(&writer->longest, took);
	}
	return NULL;
}

static void told(void *context, const char *text, bool repaired)
{
	(void)context;
	(void)repaired;
	(void)fprintf(stderr, "engine_cut: %s\n", text);
	exit(EXIT_FAILURE);
}

static void check(struct cut *cut, unsigned checks)
{
	struct raw_findings findings = {.tell = told};
	struct writer writer = {.cut = cut};
	int64_t start, all, alone;

	if (pthread_create(&writer.thread, NULL, writer_run, &writer)) {
		perror("thread");
		exit(EXIT_FAILURE);
	}
	(void)usleep(500000);
	alone = atomic_exchange(&writer.longest, 0);
	start = clock_ns();
	for (unsigned i = 0; i < checks; i++) {
		must(cut,
		     raw_store_check(cut->store, false, &findings, &cut->err));
		must(cut, raw_store_suspect(cut->store, &cut->err));
		must(cut, raw_users_settle_now(cut->users, &cut->err));
		must(cut,
		     raw_store_leaked(cut->store, false, &findings, &cut->err));
	}
	all = clock_ns() - start;
	atomic_store(&writer.stop, true);
	(void)pthread_join(writer.thread, NULL);
	(void)printf("{\"check_ms\": %.3f, \"write_ms\": %.3f, "
		     "\"without_ms\": %.3f}\n",
		     (double)all / checks / 1e6,
		     (double)atomic_load(&writer.longest) / 1e6,
		     (double)alone / 1e6);
}

int main(int argc, char **argv)
{
	struct cut cut = {0};
	auto_close int fd = -1;
	const size_t before = resident();
	unsigned snapshots;
	uint64_t size;

	snapshots = argc < 5 ? 0 : (unsigned)strtoul(argv[3], NULL, 10);
	if (snapshots == 0) {
		(void)fprintf(stderr, "usage: engine_cut FILE GIB SNAPSHOTS "
				      "CHANGES [pieces|check]\n");
		return 2;
	}
	cut.clusters = (uint32_t)(strtoull(argv[2], NULL, 10)
				  << (30 - RAW_CLUSTER_SHIFT));
	/* A tenth for what is written after a snapshot. */
	size = (uint64_t)(cut.clusters / 9 * 10 + 10) << RAW_CLUSTER_SHIFT;
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	raw_file_medium_init(&cut.medium, fd, size);
	open_pool(&cut, argv[1]);
	make_extent(&cut, argc > 5 && strcmp(argv[5], "pieces") == 0);
	if (argc > 5 && strcmp(argv[5], "check") == 0)
		check(&cut, snapshots);
	else
		measure(&cut, snapshots, (unsigned)strtoul(argv[4], NULL, 10),
			resident() - before);
	raw_users_free(cut.users);
	raw_store_close(cut.store);
	return EXIT_SUCCESS;
}
