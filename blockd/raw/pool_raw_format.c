/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at a medium, and making a pool of it. */
#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "blockd/raw/pool_raw.h"
#include "blockd/raw/raw_medium_open.h"
#include "blockd/raw/raw_medium_users.h"
#include "blockd/raw/store/raw_store.h"

/* ---- what is there ---- */

/* "an ext4 file system", "a partition table": what libblkid knows. */
static int find_other(int fd, const char *path, enum pool_content *ret,
		      struct error *err)
{
	blkid_probe probe = blkid_new_probe();
	const char *type = NULL;
	bool known = false;
	int found = -1;

	if (probe && blkid_probe_set_device(probe, fd, 0, 0) == 0) {
		(void)blkid_probe_enable_superblocks(probe, 1);
		(void)blkid_probe_set_superblocks_flags(probe,
							BLKID_SUBLKS_TYPE);
		(void)blkid_probe_enable_partitions(probe, 1);
		found = blkid_do_safeprobe(probe);
		/* Of a partition it also tells what partition it is. */
		known = blkid_probe_lookup_value(probe, "TYPE", &type, NULL) ==
				0 ||
			blkid_probe_has_value(probe, "PTTYPE");
	}
	/* 1: nothing; 0: something; -2: several; -1: it could not be read. */
	known = known || found < 0;
	*ret = known ? POOL_CONTENT_OTHER : POOL_CONTENT_EMPTY;
	if (known)
		(void)error_set(err, ENOTEMPTY, "'%s' holds %s", path,
				found == -1 ? "content that can't be read"
				: type      ? type
					    : "a partition table");
	blkid_free_probe(probe);
	return found == -1 ? -EIO : 0;
}

/* The log is not replayed: the pool's record is in the checkpoint. */
static int inspect(int fd, const char *path, enum pool_content *ret_content,
		   struct pool_record *ret_record, struct error *err)
{
	struct raw_file_medium file;
	char *text = NULL;
	size_t length;
	uint64_t size = 0;
	int r = raw_medium_size(fd, path, &size, err);

	if (r < 0)
		return r;
	raw_file_medium_init(&file, fd, size);
	r = raw_store_peek(&file.medium, &text, &length, err);
	if (r == -ENODATA)
		return find_other(fd, path, ret_content, err);
	if (r == 0)
		r = pool_record_decode(text, length, ret_record, err);
	free(text);
	if (r < 0 && r != -EBADMSG && r != -EPROTONOSUPPORT)
		return r;
	*ret_content = r == 0 ? POOL_CONTENT_POOL : POOL_CONTENT_DAMAGED;
	return 0;
}

int pool_raw_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	return inspect(fd, path, ret_content, ret_record, err);
}

/* ---- format ---- */

/* By a descriptor of its own: libblkid does not read directly. */
static int check_empty(const char *path, bool force, struct error *err)
{
	enum pool_content content;
	struct pool_record other;
	int r;

	if (force)
		return 0;
	r = pool_raw_inspect(path, &content, &other, err);
	if (r < 0)
		return r;
	if (content == POOL_CONTENT_POOL)
		(void)error_set(err, ENOTEMPTY, "'%s' holds pool '%s'", path,
				other.name);
	return content == POOL_CONTENT_EMPTY ? 0 : -ENOTEMPTY;
}

int pool_raw_check_cluster(uint64_t bytes, struct error *err)
{
	char asked[SIZE_TEXT_MAX], least[SIZE_TEXT_MAX], most[SIZE_TEXT_MAX];
	const uint64_t min = UINT64_C(1) << RAW_CLUSTER_SHIFT_MIN;
	const uint64_t max = UINT64_C(1) << RAW_CLUSTER_SHIFT_MAX;

	if (bytes == 0 ||
	    (bytes >= min && bytes <= max && (bytes & (bytes - 1)) == 0))
		return 0;
	return error_set(err, EINVAL,
			 "clusters of %s are not possible: a power of two from "
			 "%s to %s",
			 size_format(asked, bytes), size_format(least, min),
			 size_format(most, max));
}

int pool_raw_format(const char *path, bool force, uint64_t cluster_size,
		    const struct pool_record *record, struct error *err)
{
	struct raw_format_options options = {
		.pool_id = record->id,
		.cluster_shift = cluster_size ? (uint8_t)__builtin_ctzll(
							cluster_size)
					      : 0,
	};
	struct raw_file_medium file;
	auto_close int fd = -1;
	auto_free char *text = NULL;
	uint64_t size = 0;
	bool direct;
	int r = pool_raw_check_cluster(cluster_size, err);

	if (r == 0)
		r = raw_medium_open(path, &fd, &direct, err);
	if (r == 0)
		r = raw_medium_check_writable(fd, path, err);
	if (r == 0)
		r = check_empty(path, force, err);
	if (r == 0)
		r = raw_medium_users_check(fd, path, err);
	if (r == 0)
		r = raw_medium_size(fd, path, &size, err);
	if (r == 0)
		r = raw_medium_reserve(fd, path, 0, size, err);
	if (r == 0)
		r = pool_record_encode(record, &text, &options.text_length,
				       err);
	if (r < 0)
		return r;
	options.text = text;
	raw_file_medium_init(&file, fd, size);
	r = raw_store_format(&file.medium, &options, err);
	if (r < 0)
		(void)error_prefix(err, r, "'%s': ", path);
	return r;
}
