/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File handles of a branch's file system (open_by_handle_at(2)). A handle is
 * the name of an inode that needs no path and no open descriptor. A reused
 * inode does not share it: the handle carries the generation. Opening needs
 * CAP_DAC_READ_SEARCH.
 */
#ifndef UNION_HANDLE_H
#define UNION_HANDLE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes. ext4 needs 8, XFS and tmpfs 12, Btrfs 20. */
#define HANDLE_MAX 40

/* End of the kernel's enum fid_type. */
#define HANDLE_TYPE_MAX 255

/* Laid out as the kernel's struct file_handle. */
struct handle {
	uint32_t length; /* bytes of data[] in use */
	int32_t type;
	uint8_t data[HANDLE_MAX];
};

/*
 * Get the handle of @name in @dirfd, or of @dirfd itself when @name is "". A
 * symbolic link is not followed. -EOPNOTSUPP: the file system has no handles;
 * -EOVERFLOW: they are longer than HANDLE_MAX, or their type is none of 0 to
 * HANDLE_TYPE_MAX.
 */
int handle_get(int dirfd, const char *name, struct handle *ret);

/* Do the same, and get the id of the mount that @name was found on. */
int handle_get_on(int dirfd, const char *name, struct handle *ret,
		  int *ret_mount);

/*
 * Open the inode of @handle on the mount of @mount_fd. O_CLOEXEC is added.
 * Returns a descriptor, or -ESTALE when the inode is no more.
 */
int handle_open(int mount_fd, const struct handle *handle, int flags);

/*
 * Get the inode number in @handle; false: the handles of its file system are
 * not known here.
 */
bool handle_ino(const struct handle *handle, uint64_t *ret);

/*
 * Are the inode numbers of both of one numbering? Each subvolume of a Btrfs has
 * its own. An empty directory in a snapshot, at the place of a subvolume, is of
 * none.
 */
bool handle_same_tree(const struct handle *a, const struct handle *b);

/*
 * Is the handle of a Btrfs? That may have subvolumes, and gives no number
 * twice.
 */
bool handle_is_of_btrfs(const struct handle *handle);

bool handle_equal(const struct handle *a, const struct handle *b);

/* Is the inode of @handle the one at @name in @dirfd? */
bool handle_is_at(int dirfd, const char *name, const struct handle *handle);

#endif
