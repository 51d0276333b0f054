/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/pool_at.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "blockd/dir/pool_dir.h"
#include "blockd/raw/pool_raw.h"

int pool_at_kind(const char *path, const char **ret, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	if (S_ISDIR(st.st_mode))
		*ret = POOL_DIR_KIND;
	else if (S_ISBLK(st.st_mode) || S_ISREG(st.st_mode))
		*ret = POOL_RAW_KIND;
	else
		return error_set(err, ENOTSUP,
				 "'%s' is no directory, block device or file",
				 path);
	return 0;
}

/* @ret: whether it is raw. */
static int is_raw(const char *path, bool *ret, struct error *err)
{
	const char *kind;
	int r = pool_at_kind(path, &kind, err);

	if (r == 0)
		*ret = strcmp(kind, POOL_RAW_KIND) == 0;
	return r;
}

int pool_at_inspect(const char *path, enum pool_content *ret_content,
		    struct pool_record *ret_record, struct error *err)
{
	bool raw = false;
	int r = is_raw(path, &raw, err);

	if (r < 0)
		return r;
	return raw ? pool_raw_inspect(path, ret_content, ret_record, err)
		   : pool_dir_inspect(path, ret_content, ret_record, err);
}

int pool_at_format(const char *path, bool force, uint64_t cluster_size,
		   struct pool_record *record, struct error *err)
{
	const char *kind;
	int r = pool_at_kind(path, &kind, err);

	if (r < 0)
		return r;
	(void)snprintf(record->kind, sizeof(record->kind), "%s", kind);
	if (strcmp(kind, POOL_RAW_KIND) == 0)
		return pool_raw_format(path, force, cluster_size, record, err);
	if (cluster_size)
		return error_set(err, EINVAL,
				 "'%s' is a directory: only a pool on a device "
				 "or file has clusters",
				 path);
	return pool_dir_format(path, record, err);
}

int pool_at_open(const char *path, const char *name, const char *id,
		 struct pool **ret, struct error *err)
{
	bool raw = false;
	int r = is_raw(path, &raw, err);

	if (r < 0)
		return r;
	return raw ? pool_raw_open(path, name, id, ret, err)
		   : pool_dir_open(path, name, id, ret, err);
}
