/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File handles of a branch's file system: the name of an inode that needs
 * no path and no open descriptor, and that a reused inode does not share
 * (the handle carries the generation). See open_by_handle_at(2); opening
 * needs CAP_DAC_READ_SEARCH.
 */
#ifndef UNION_HANDLE_H
#define UNION_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes. ext4 needs 8, XFS and tmpfs 12, Btrfs 20. */
#define HANDLE_MAX 40

/* The kernel's enum fid_type ends there. */
#define HANDLE_TYPE_MAX 255

/* Laid out as the kernel's struct file_handle. */
struct handle {
	uint32_t length; /* bytes of data[] in use */
	int32_t type;
	uint8_t data[HANDLE_MAX];
};

/*
 * The handle of @name in @dirfd, or of @dirfd itself when @name is "".
 * A symbolic link is not followed. -EOPNOTSUPP: the file system has no
 * handles; -EOVERFLOW: they are longer than HANDLE_MAX, or their type is none
 * of 0 to HANDLE_TYPE_MAX.
 */
int handle_get(int dirfd, const char *name, struct handle *ret);

/* The same, and the id of the mount that it was found on. */
int handle_get_on(int dirfd, const char *name, struct handle *ret,
		  int *ret_mount);

/*
 * Open what @handle names on the mount of @mount_fd. O_CLOEXEC is added.
 * Returns a descriptor, or -ESTALE when the inode is no more.
 */
int handle_open(int mount_fd, const struct handle *handle, int flags);

/*
 * The inode number in @handle; false when it is of a file system whose handles
 * are not known here.
 */
bool handle_ino(const struct handle *handle, uint64_t *ret);

/*
 * Are both inodes of one numbering? The subvolumes of a Btrfs have each its
 * own; and an empty directory that a snapshot has where there was one is none.
 */
bool handle_same_tree(const struct handle *a, const struct handle *b);

/* Of a Btrfs: it may have subvolumes, and gives no number twice. */
bool handle_is_of_btrfs(const struct handle *handle);

bool handle_equal(const struct handle *a, const struct handle *b);

#endif
