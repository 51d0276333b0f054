/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/disk_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "blockd/direct/direct_mapper.h"
#include "blockd/raw/raw_medium_users.h"

#define LOCK_NAME  "trib-disk-%u-%u"
#define LOCK_BYTES 4096 /* any part of a disk locks all of it */
#define SYSFS_MAX  4096 /* bytes that fstat(2) says of any attribute */
#define BUSY_MS    3000 /* for those who look at each new device (udev) */

static void lock_name(dev_t device, char ret[static MAPPER_NAME_MAX])
{
	(void)snprintf(ret, MAPPER_NAME_MAX, LOCK_NAME, major(device),
		       minor(device));
}

static void lock_uuid(dev_t device, char ret[static MAPPER_NAME_MAX])
{
	(void)snprintf(ret, MAPPER_NAME_MAX, DIRECT_LOCK_PREFIX "%u-%u",
		       major(device), minor(device));
}

/* What lies on a disk. */
struct holders {
	unsigned locks, ours, others;
};

static void count_holder(DIR *dir, const char *name, struct holders *ret)
{
	char path[320];
	auto_free char *uuid = NULL;
	size_t length;

	(void)snprintf(path, sizeof(path), "%.255s/dm/uuid", name);
	if (file_read(dirfd(dir), path, SYSFS_MAX, &uuid, &length, NULL) < 0 ||
	    strncmp(uuid, MAPPER_UUID_PREFIX, strlen(MAPPER_UUID_PREFIX)) != 0)
		ret->others++;
	else if (strncmp(uuid, DIRECT_LOCK_PREFIX,
			 strlen(DIRECT_LOCK_PREFIX)) == 0)
		ret->locks++;
	else
		ret->ours++;
}

static struct holders holders_of(dev_t device)
{
	struct holders holders = {0};
	const struct dirent *entry;
	char path[64];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/holders",
		       major(device), minor(device));
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			count_holder(dir, entry->d_name, &holders);
	if (dir)
		(void)closedir(dir); /* was only read */
	return holders;
}

bool disk_lock_is_shared(dev_t device)
{
	return holders_of(device).ours > 0;
}

static int refuse(const char *path, struct error *err)
{
	char who[RAW_MEDIUM_USERS_MAX];

	return error_set(err, EBUSY, "'%s' is in use: %s", path,
			 raw_medium_users_find(path, who)
				 ? who
				 : "mounted, or held by another device or "
				   "program");
}

/* Nobody but device mapper has it, or the kernel would have said EBUSY. */
static int make_lock(dev_t device, const char *path, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	char name[MAPPER_NAME_MAX], uuid[MAPPER_NAME_MAX];
	struct mapper_device found;
	struct error why = {0};
	int r = mapper_table_add_linear(&table, LOCK_BYTES, device, 0);

	if (r < 0)
		return error_set(err, -r, "lock '%s': %s", path, strerror(-r));
	lock_name(device, name);
	lock_uuid(device, uuid);
	r = mapper_create(&mapper_kernel, name, uuid, &table, MAPPER_READ_ONLY,
			  MAPPER_LIMIT_MS, &why);
	if (r == -EEXIST && mapper_get(&mapper_kernel, uuid, &found, NULL) == 0)
		return 0; /* of a blockd that was killed, or of one that runs */
	if (r == -EBUSY)
		return refuse(path, err);
	return r < 0 ? error_set(err, -r, "lock '%s': %s", path,
				 error_text(&why))
		     : 0;
}

int disk_lock_take(dev_t device, const char *path, struct disk_lock *ret,
		   struct error *err)
{
	char node[sizeof(MAPPER_FOLDER) + MAPPER_NAME_MAX] = MAPPER_FOLDER;
	struct disk_lock lock = {.fd = -1, .device = device};
	int r = make_lock(device, path, err);

	if (r < 0)
		return r;
	lock_name(device, node + strlen(MAPPER_FOLDER));
	lock.fd = open(node, O_RDONLY | O_EXCL | O_CLOEXEC);
	if (lock.fd < 0 && errno == EBUSY)
		return error_set(err, EBUSY, "'%s' is in use by another blockd",
				 path);
	if (lock.fd < 0)
		return error_set(err, errno, "open '%s': %s", node,
				 strerror(errno));
	if (holders_of(device).others) {
		disk_lock_end(&lock);
		return refuse(path, err);
	}
	*ret = lock;
	return 0;
}

void disk_lock_end(struct disk_lock *lock)
{
	char uuid[MAPPER_NAME_MAX];
	struct error err;

	if (lock->fd < 0)
		return;
	fd_close(lock->fd);
	lock->fd = -1;
	lock_uuid(lock->device, uuid);
	if (mapper_remove(&mapper_kernel, uuid, 0, BUSY_MS, &err) < 0)
		log_warning("the lock of a disk stays: %s", error_text(&err));
}

bool disk_lock_clear(dev_t device)
{
	const struct holders holders = holders_of(device);
	char uuid[MAPPER_NAME_MAX];

	lock_uuid(device, uuid);
	return holders.locks && !holders.ours && !holders.others &&
	       mapper_remove(&mapper_kernel, uuid, 0, BUSY_MS, NULL) == 0;
}
