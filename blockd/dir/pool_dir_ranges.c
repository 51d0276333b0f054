/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "blockd/dir/file_map.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/dir/pool_dir_load.h"

static int pool_dir_open_data(struct pool *pool, const char *name, int *ret_fd,
			      uint64_t *ret_size, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_close int fd = openat(pool_dir_of(pool)->extents_fd,
				   pool_dir_file(file, name, POOL_DIR_DATA),
				   O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return pool_dir_fail(pool, "open", file, err);
	*ret_fd = take_fd(&fd);
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int pool_dir_ranges(struct pool *pool, const char *name, const char *base,
		    uint64_t start, pool_range visit, void *context,
		    struct error *err)
{
	auto_close int fd = -1, base_fd = -1;
	uint64_t size = 0, base_size = 0;
	int r = pool_dir_open_data(pool, name, &fd, &size, err);

	if (r == 0 && base)
		r = pool_dir_open_data(pool, base, &base_fd, &base_size, err);
	if (r < 0)
		return r;
	r = base ? file_map_differ(fd, base_fd, start, size, visit, context,
				   err)
		 : file_map_data(fd, start, size, visit, context, err);
	if (r < 0 && err && err->code == -r)
		(void)error_prefix(err, r, "extent '%s': ", name);
	return r;
}

void pool_dir_usage_shared(struct pool *pool, const char *name,
			   struct extent_usage *usage)
{
	auto_close int fd = -1;
	uint64_t size;

	usage->reclaimable = usage->allocated;
	if (pool_dir_of(pool)->method != POOL_COPY_REFLINK ||
	    pool_dir_open_data(pool, name, &fd, &size, NULL) < 0)
		return;
	usage->shared = file_map_shared(fd);
	if (usage->shared > usage->allocated)
		usage->shared = usage->allocated;
	usage->reclaimable = usage->allocated - usage->shared;
}
