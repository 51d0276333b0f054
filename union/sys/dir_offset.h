/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets in a directory, as readdir and telldir give them.
 *
 * A caller may bring an offset to the directory opened anew, as an NFS server
 * does for each request. The directory may have got a copy on another branch
 * since. So an offset says which list it is of: that of one branch, or of all
 * merged (merge.h).
 *
 * File systems use up to 63 bits for their offsets. A file system that uses
 * many (ext4) has hashes of names there, of which the last bits can be left
 * out. A caller that goes on from a slightly lower offset gets an entry twice
 * if two hashes are that near. With a million entries that happens once in
 * 20,000 such directories.
 */
#ifndef UNION_DIR_OFFSET_H
#define UNION_DIR_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/* Set in all offsets of a merged list, and in no other. */
#define DIR_OFFSET_MERGED (INT64_C(1) << 62)

/*
 * Encode the offset @own of the directory on @branch. The same arguments always
 * give the same result; it is more than 0 if @own is.
 */
int64_t dir_offset_on(unsigned branch, int64_t own);

/* Is @offset of a merged list? Not for 0, which is the start of either list. */
bool dir_offset_is_merged(int64_t offset);

/*
 * Decode an offset that is not merged: its branch, and that branch's offset or
 * a slightly lower one.
 */
unsigned dir_offset_branch(int64_t offset);
int64_t dir_offset_own(int64_t offset);

#endif
