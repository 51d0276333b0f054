/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/devices.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "blockd/raw/pool_raw.h"

#define BLANK_LENGTH (1u << 20) /* bytes, at either end */

static void pool_name(const char *path, char ret[static POOL_NAME_SIZE])
{
	const char *from = strrchr(path, '/') + 1;
	size_t n = 0;

	for (; *from && n < POOL_NAME_SIZE - 1; from++) {
		char c = (char)tolower((unsigned char)*from);

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			ret[n++] = c;
		else if (n && ret[n - 1] != '-') /* no "..", nor first */
			ret[n++] = '-';
	}
	while (n && ret[n - 1] == '-')
		n--;
	ret[n] = '\0';
}

static bool is_whole_device(const char *path)
{
	char partition[64];
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISBLK(st.st_mode))
		return false;
	(void)snprintf(partition, sizeof(partition),
		       "/sys/dev/block/%u:%u/partition", major(st.st_rdev),
		       minor(st.st_rdev));
	return access(partition, F_OK) < 0;
}

static int check_zeroes(int fd, const char *path, uint64_t from,
			struct error *err)
{
	static const uint8_t zeroes[4096];
	uint8_t data[sizeof(zeroes)];

	for (uint64_t at = from; at < from + BLANK_LENGTH; at += sizeof(data)) {
		ssize_t n = pread(fd, data, sizeof(data), (off_t)at);

		if (n != (ssize_t)sizeof(data))
			return error_set(err, n < 0 ? errno : EIO,
					 "read '%s': %s", path,
					 strerror(n < 0 ? errno : EIO));
		if (memcmp(data, zeroes, sizeof(data)) != 0)
			return error_set(err, ENOTEMPTY,
					 "'%s' is not blank: there are data at "
					 "byte %llu",
					 path, (unsigned long long)at);
	}
	return 0;
}

static int check_blank(const char *path, struct error *err)
{
	enum pool_content content = POOL_CONTENT_OTHER;
	struct pool_record record;
	uint64_t size = 0;
	int r = pool_raw_inspect(path, &content, &record, err);

	if (r == 0 && content == POOL_CONTENT_POOL)
		return error_set(err, ENOTEMPTY, "'%s' holds pool '%s'", path,
				 record.name);
	if (r < 0 || content != POOL_CONTENT_EMPTY)
		return r < 0 ? r : -ENOTEMPTY; /* the text says what */
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	if (size < 2 * BLANK_LENGTH)
		return error_set(err, ENOSPC, "'%s' is too small", path);
	r = check_zeroes(fd, path, 0, err);
	return r < 0 ? r : check_zeroes(fd, path, size - BLANK_LENGTH, err);
}

static int make_pool(struct node *node, const char *path, struct error *err)
{
	char name[POOL_NAME_SIZE];
	const struct node_pool_request request = {
		.name = name,
		.path = path,
		.may_format = true,
		.raw = true,
	};
	int r;

	pool_name(path, name);
	r = name_check("pool", name, err);
	if (r == 0 && node_knows_pool(node, name))
		return 0;
	if (r == 0)
		r = check_blank(path, err);
	if (r == 0)
		r = node_add_pool(node, &request, NULL, err);
	if (r == 0)
		log_info("device '%s' is pool '%s' now", path, name);
	return r;
}

void devices_make_pools(struct node *node, const struct option_list *rules)
{
	for (size_t i = 0; i < rules->count; i++) {
		glob_t found = {.gl_pathc = 0};

		if (glob(rules->items[i], 0, NULL, &found) != 0)
			continue; /* nothing is there */
		for (size_t j = 0; j < found.gl_pathc; j++) {
			const char *path = found.gl_pathv[j];
			struct error err = {0};

			if (is_whole_device(path) &&
			    make_pool(node, path, &err) < 0)
				log_warning("device '%s' is left alone: %s",
					    path, error_text(&err));
		}
		globfree(&found);
	}
}
