/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offsets in a directory as those who list it get them. Who has one may come
 * with it to the directory opened anew, as a server of NFS does for each
 * request, when it has got a copy on another branch since. So an offset says
 * which list it is of: that of one branch, or of all merged (merge.h).
 *
 * File systems use up to 63 bits for theirs. Those that use many (ext4) have
 * hashes of names there, of which we can do without the last bits: who goes on
 * from an offset that is a little lower is given an entry twice if the hashes
 * of two are as near as that, with a million entries once in 20,000 such
 * directories.
 */
#ifndef UNION_DIR_OFFSET_H
#define UNION_DIR_OFFSET_H

#include <stdbool.h>
#include <stdint.h>

/* Set in all offsets of a merged list, and in no other. */
#define DIR_OFFSET_MERGED (INT64_C(1) << 62)

/*
 * The offset @own, of the directory on @branch, to be given out. Always the
 * same of the same; more than 0 if that is.
 */
int64_t dir_offset_on(unsigned branch, int64_t own);

/* Of what was given out, but 0, which is the start of either list. */
bool dir_offset_is_merged(int64_t offset);

/* Of one that is not merged: its branch, and that branch's offset or one
 * that is a little lower. */
unsigned dir_offset_branch(int64_t offset);
int64_t dir_offset_own(int64_t offset);

#endif
