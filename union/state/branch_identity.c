/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/branch_identity.h"

#include <assert.h>
#include <errno.h>
#include <linux/btrfs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

/* linux/fs.h has these from 6.9 on. */
struct fs_uuid {
	uint8_t length;
	uint8_t uuid[16];
};
#define GET_FS_UUID _IOR(0x15, 0, struct fs_uuid) /* FS_IOC_GETFSUUID */

int branch_identity_get(int fd, struct branch_identity *ret)
{
	struct branch_identity identity = {0};
	struct btrfs_ioctl_fs_info_args info = {0};
	struct fs_uuid uuid = {0};
	struct statfs fs;
	int r = handle_get(fd, "", &identity.root);

	if (r < 0)
		return r;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	identity.type = (long)fs.f_type;
	static_assert(sizeof(fs.f_fsid) == sizeof(identity.fsid),
		      "an fsid is two integers");
	memcpy(&identity.fsid, &fs.f_fsid, sizeof(identity.fsid));
	if (ioctl(fd, GET_FS_UUID, &uuid) == 0 &&
	    uuid.length <= sizeof(identity.uuid)) {
		identity.uuid_length = uuid.length;
		memcpy(identity.uuid, uuid.uuid, uuid.length);
	}
	/* The fsid of a Btrfs is of the subvolume. */
	if (identity.type == BTRFS_SUPER_MAGIC &&
	    ioctl(fd, BTRFS_IOC_FS_INFO, &info) == 0) {
		static_assert(sizeof(info.fsid) == sizeof(identity.uuid),
			      "a UUID has 16 bytes");
		identity.uuid_length = sizeof(info.fsid);
		memcpy(identity.uuid, info.fsid, sizeof(info.fsid));
	}
	*ret = identity;
	return 0;
}

bool branch_identity_shares_space(const struct branch_identity *a,
				  const struct branch_identity *b)
{
	return a->type == BTRFS_SUPER_MAGIC && b->type == a->type &&
	       a->uuid_length && a->uuid_length == b->uuid_length &&
	       memcmp(a->uuid, b->uuid, a->uuid_length) == 0;
}

bool branch_identity_equal(const struct branch_identity *a,
			   const struct branch_identity *b)
{
	if (a->type != b->type || !handle_equal(&a->root, &b->root) ||
	    a->uuid_length != b->uuid_length)
		return false;
	return a->uuid_length ? memcmp(a->uuid, b->uuid, a->uuid_length) == 0
			      : a->fsid == b->fsid;
}
