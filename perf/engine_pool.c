/* SPDX-License-Identifier: Apache-2.0 */
#include "perf/engine_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include <linux/fs.h>

#include "base/cleanup.h"

int engine_medium_open(struct raw_file_medium *medium, const char *path,
		       int *ret_fd, struct error *err)
{
	auto_close int fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	struct stat st;
	uint64_t size;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	size = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &size) < 0)
		return error_set(err, errno, "size of '%s': %s", path,
				 strerror(errno));
	raw_file_medium_init(medium, fd, size);
	*ret_fd = take_fd(&fd);
	return 0;
}

static uint64_t clusters_of(struct raw_store *store, uint64_t size)
{
	const unsigned shift = raw_store_super(store)->cluster_shift;

	return (size + (UINT64_C(1) << shift) - 1) >> shift;
}

static int make_extent(struct raw_store *store, uint64_t size,
		       struct error *err)
{
	const struct raw_record extent = {.type = RAW_OBJECT,
					  .object = ENGINE_EXTENT,
					  .clusters = clusters_of(store, size),
					  .text = ""};
	uint64_t ticket;
	int r = raw_store_change(store, &extent, 1, &ticket, err);

	return r < 0 ? r : raw_store_commit(store, ticket, err);
}

int engine_pool_format(struct raw_medium *medium, uint64_t size,
		       struct error *err)
{
	const struct raw_format_options options = {.text = ""};
	struct raw_store *store = NULL;
	struct raw_report report;
	int r = raw_store_format(medium, &options, err);

	if (r == 0)
		r = raw_store_open(medium, &store, &report, err);
	if (r == 0)
		r = make_extent(store, size, err);
	raw_store_close(store);
	return r;
}

int engine_snapshot(struct raw_store *store, uint32_t id, uint64_t size,
		    struct error *err)
{
	const struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = clusters_of(store, size),
		 .text = ""},
		{.type = RAW_SHARE, .object = id, .from = ENGINE_EXTENT},
	};
	uint64_t ticket = 0;
	int r = raw_store_change(store, records, 2, &ticket, err);

	return r < 0 ? r : raw_store_commit(store, ticket, err);
}

uint64_t engine_shared(struct raw_store *store)
{
	const struct raw_state *state = raw_store_lock(store);
	const struct raw_map *map =
		&raw_state_object(state, ENGINE_EXTENT)->map;
	uint64_t n = 0;

	for (uint64_t i = 0; i < raw_map_clusters(map); i++) {
		uint32_t entry = raw_map_get(map, i);

		n += entry != RAW_HOLE &&
		     raw_alloc_shared(&state->alloc, map, i, entry);
	}
	raw_store_unlock(store);
	return n;
}
