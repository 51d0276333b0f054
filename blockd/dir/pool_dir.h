/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of kind "dir": sparse files in a directory of a mounted file system.
 *
 *	POOL/pool.tributary        identity (blockd/pool/pool_record.h)
 *	POOL/lock                  held by the blockd that serves the pool
 *	POOL/spare                 space for records when the medium is full
 *	POOL/extents/NAME.extent   record (blockd/pool/extent_record.h)
 *	POOL/extents/NAME.data     data: sparse, as long as the record says
 *	POOL/extents/NAME.deleting the record of one that is going
 *	POOL/extents/NAME.copying  the record of a snapshot or clone being made
 *	POOL/extents/NAME.copies   names of a group of those that is there now
 *	POOL/extents/NAME.reverted the data NAME is about to have
 *	POOL/extents/NAME.revert   its record then; it has both from here on
 *	POOL/extents/.tmp-*        a record being written; a leftover is removed
 *
 * How a change survives a kill at any point; "save" is an atomic replacement
 * (temporary file, fsync, rename, fsync of the directory):
 *
 *	create  save state=creating; make the data file, set its length, fsync;
 *	        save state=ok
 *	grow    lengthen the data file, fsync; save the new size
 *	copy    each NAME.copying, fsync; each data file, with the content of
 *its source (FICLONE, or byte by byte) and its length, fsync; of several: save
 *the list NAME.copies, which is the step from none to all; rename each
 *NAME.copying to NAME.extent, fsync of the directory; unlink the list revert
 *make NAME.reverted, fsync; save NAME.revert, which is the step from old to
 *new; rename NAME.reverted to NAME.data, fsync of the directory; rename
 *NAME.revert to NAME.extent, the same delete  rename the record to
 *NAME.deleting (which takes no space, so a full file system is no obstacle),
 *fsync of the directory; unlink the data; unlink NAME.deleting
 *
 * On load: creating is undone, a delete is finished, so are the copies of a
 * list and a revert, without a list or NAME.revert they are undone; data longer
 * than its record is cut back (nobody was ever told of those bytes). Anything
 *else that does not fit (no data, data too short, no record, a record that does
 * not decode or names something else) is damage: told of, never touched.
 *
 * The directory is mode 0700; nothing else belongs into it.
 */
#ifndef BLOCKD_POOL_DIR_H
#define BLOCKD_POOL_DIR_H

#include "blockd/pool/pool.h"

#define POOL_DIR_KIND     "dir"
#define POOL_DIR_IDENTITY "pool.tributary"

/*
 * Look, touch nothing. -ENOENT: no such path; -ENOTDIR.
 *
 * @ret_record  set for POOL_CONTENT_POOL
 * @err         says what is wrong for POOL_CONTENT_DAMAGED too
 */
int pool_dir_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err);

/*
 * The path of the nearest directory above @path (absolute, resolved) that is
 * a pool. Returned owned; NULL: there is none, or out of memory.
 */
char *pool_dir_above(const char *path);

/*
 * Make an empty directory a pool. -ENOTEMPTY: it holds other files; -EBUSY:
 * another blockd is at it.
 */
int pool_dir_format(const char *path, const struct pool_record *record,
		    struct error *err);

/*
 * Lock and open the pool at @path, which must be the one meant.
 *
 * @name  of the pool
 * @id    NULL: any
 *
 * -ENOENT: no directory or no pool in it; -ESTALE: another pool (foreign);
 * -EBUSY: another blockd has it; -EBADMSG: its identity is damaged.
 */
int pool_dir_open(const char *path, const char *name, const char *id,
		  struct pool **ret, struct error *err);

#endif
