/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time that a raw pool takes to open, after a crash.
 *
 *	engine_open FILE GIB EXTENTS BATCHES [CHANGES]
 *
 * Makes a sparse FILE of GIB, and a pool on it of EXTENTS that have all of it
 * between them, each cluster; then CHANGES (1) and a commit, BATCHES times; and
 * leaves it as a crash would. Only metadata is written. Prints a line of JSON:
 * the milliseconds that opening took, the bytes read for it, and the bytes of
 * memory that the open pool has.
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/raw/store/raw_store.h"

#define TEXT 500 /* bytes; of an extent's record */

/* A file that counts what is read. */
struct counted {
	struct raw_file_medium file;
	const struct raw_medium_ops *ops;
	uint64_t bytes;
};

static struct counted medium;

static int counted_read(struct raw_medium *m, void *data, size_t length,
			uint64_t offset)
{
	medium.bytes += length;
	return medium.ops->read(m, data, length, offset);
}

static int counted_write(struct raw_medium *m, const void *data, size_t length,
			 uint64_t offset)
{
	return medium.ops->write(m, data, length, offset);
}

/* Do nothing: the time to make the pool is not measured. */
static int counted_flush(struct raw_medium *m)
{
	(void)m;
	return 0;
}

static void must(int r, const struct error *err)
{
	if (r >= 0)
		return;
	(void)fprintf(stderr, "engine_open: %s\n", error_text(err));
	exit(EXIT_FAILURE);
}

static void change(struct raw_store *store, const struct raw_record *record,
		   bool commit)
{
	struct error err;
	uint64_t ticket;

	must(raw_store_change(store, record, 1, &ticket, &err), &err);
	if (commit)
		must(raw_store_commit(store, ticket, &err), &err);
}

static void make_extent(struct raw_store *store, uint32_t id, uint32_t clusters)
{
	static char text[TEXT];
	struct raw_record record = {
		.type = RAW_OBJECT,
		.object = id,
		.clusters = clusters,
		.text = text,
		.text_length = sizeof(text),
	};

	memset(text, 'x', sizeof(text));
	change(store, &record, false);
	record = (struct raw_record){.type = RAW_MAP, .object = id};
	while (record.logical < clusters) {
		record.count = raw_store_take(
			store, clusters - (uint32_t)record.logical, RAW_HOLE,
			&record.physical);
		if (!record.count)
			break;
		change(store, &record, false);
		record.logical += record.count;
	}
}

/*
 * Change the map as first writes to an unwritten cluster do: it is mapped
 * again.
 */
static void make_log(struct raw_store *store, uint32_t extents,
		     uint32_t clusters, unsigned batches, unsigned changes)
{
	for (unsigned i = 0; i < batches * changes; i++) {
		struct raw_record record = {
			.type = RAW_MAP,
			.object = 1 + i % extents,
			.logical = i / extents % clusters,
			.count = 1,
		};
		const struct raw_state *state = raw_store_lock(store);

		record.physical = raw_map_get(
			&raw_state_object(state, record.object)->map,
			record.logical);
		raw_store_unlock(store);
		if (record.physical != RAW_HOLE)
			change(store, &record, i % changes == changes - 1);
	}
}

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void make(uint64_t size, uint32_t extents, unsigned batches,
		 unsigned changes)
{
	const struct raw_format_options options = {.text = "pool",
						   .text_length = 4};
	struct raw_medium *m = &medium.file.medium;
	struct raw_store *store;
	struct raw_report report;
	struct error err;
	uint32_t clusters;

	must(raw_store_format(m, &options, &err), &err);
	must(raw_store_open(m, &store, &report, &err), &err);
	clusters = (uint32_t)(size >> RAW_CLUSTER_SHIFT) / extents;
	for (uint32_t id = 1; id <= extents; id++)
		make_extent(store, id, clusters);
	must(raw_store_checkpoint(store, &err), &err);
	make_log(store, extents, clusters, batches, changes);
	raw_store_close(store);
}

static void measure(void)
{
	struct raw_store *store;
	struct raw_report report;
	struct error err;
	size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
	double start = now_ms();

	medium.bytes = 0;
	must(raw_store_open(&medium.file.medium, &store, &report, &err), &err);
	(void)printf("{\"ms\": %.1f, \"batches\": %llu, \"read\": %llu, "
		     "\"checkpoint_parts\": %u, \"memory\": %zu}\n",
		     now_ms() - start, (unsigned long long)report.batches,
		     (unsigned long long)medium.bytes,
		     raw_store_super(store)->checkpoint_parts,
		     mallinfo2().uordblks + mallinfo2().hblkhd - before);
	raw_store_close(store);
}

int main(int argc, char **argv)
{
	static const struct raw_medium_ops ops = {
		.read = counted_read,
		.write = counted_write,
		.flush = counted_flush,
	};
	auto_close int fd = -1;
	uint64_t size;

	if (argc < 5) {
		(void)fprintf(stderr, "usage: engine_open FILE GIB EXTENTS "
				      "BATCHES [CHANGES]\n");
		return 2;
	}
	size = strtoull(argv[2], NULL, 10) << 30;
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0) {
		perror(argv[1]);
		return EXIT_FAILURE;
	}
	raw_file_medium_init(&medium.file, fd, size);
	medium.ops = medium.file.medium.ops;
	medium.file.medium.ops = &ops;
	make(size, (uint32_t)strtoul(argv[3], NULL, 10),
	     (unsigned)strtoul(argv[4], NULL, 10),
	     argc > 5 ? (unsigned)strtoul(argv[5], NULL, 10) : 1);
	if (fsync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
		perror(argv[1]);
	measure();
	return EXIT_SUCCESS;
}
