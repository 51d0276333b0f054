/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/handle.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

/* Types of handles; the kernel's enum fid_type. */
#define INO32_GEN 0x01 /* number, generation; tmpfs has them otherwise */
#define BTRFS     0x4d /* number, tree, generation */
#define BTRFS_FIRST                                                         \
	256            /* number of an inode; its BTRFS_FIRST_FREE_OBJECTID \
			*/
#define XFS_INO64 0x81 /* number, generation */

static_assert(offsetof(struct handle, data) ==
		      offsetof(struct file_handle, f_handle),
	      "struct handle is laid out as struct file_handle");

int handle_get_on(int dirfd, const char *name, struct handle *ret,
		  int *ret_mount)
{
	struct handle handle = {.length = HANDLE_MAX};
	int mount_id;

	if (name_to_handle_at(dirfd, name, (struct file_handle *)&handle,
			      &mount_id, *name ? 0 : AT_EMPTY_PATH) < 0)
		return -errno;
	if (handle.type < 0 || handle.type > HANDLE_TYPE_MAX)
		return -EOVERFLOW;
	*ret = handle;
	*ret_mount = mount_id;
	return 0;
}

int handle_get(int dirfd, const char *name, struct handle *ret)
{
	int mount_id;

	return handle_get_on(dirfd, name, ret, &mount_id);
}

int handle_open(int mount_fd, const struct handle *handle, int flags)
{
	struct handle copy; /* the call takes it as not const */
	int fd;

	/* Copy no more than its length: a handle may be stored cut. */
	memcpy(&copy, handle, offsetof(struct handle, data) + handle->length);
	fd = open_by_handle_at(mount_fd, (struct file_handle *)&copy,
			       flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

bool handle_equal(const struct handle *a, const struct handle *b)
{
	return a->length == b->length && a->type == b->type &&
	       memcmp(a->data, b->data, a->length) == 0;
}

bool handle_is_at(int dirfd, const char *name, const struct handle *handle)
{
	struct handle found = {0};

	return handle_get(dirfd, name, &found) == 0 &&
	       handle_equal(&found, handle);
}

static uint32_t word_at(const struct handle *handle, unsigned i)
{
	uint32_t word; /* in the byte order of the machine */

	memcpy(&word, handle->data + i * sizeof(word), sizeof(word));
	return word;
}

static uint64_t long_at(const struct handle *handle, unsigned i)
{
	uint64_t number;

	memcpy(&number, handle->data + i * sizeof(number), sizeof(number));
	return number;
}

bool handle_is_of_btrfs(const struct handle *handle)
{
	return handle->type == BTRFS && handle->length == 20;
}

bool handle_same_tree(const struct handle *a, const struct handle *b)
{
	if (!handle_is_of_btrfs(a) || !handle_is_of_btrfs(b))
		return true;
	return long_at(a, 1) == long_at(b, 1) && long_at(a, 0) >= BTRFS_FIRST &&
	       long_at(b, 0) >= BTRFS_FIRST;
}

bool handle_ino(const struct handle *handle, uint64_t *ret)
{
	if (handle->type == INO32_GEN && handle->length == 8)
		*ret = word_at(handle, 0);
	else if (handle->type == INO32_GEN && handle->length == 12) /* tmpfs */
		*ret = word_at(handle, 1) | (uint64_t)word_at(handle, 2) << 32;
	else if ((handle->type == XFS_INO64 && handle->length == 12) ||
		 handle_is_of_btrfs(handle))
		*ret = long_at(handle, 0);
	else
		return false;
	return true;
}
