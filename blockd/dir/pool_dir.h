/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of kind "dir": sparse files in a directory of a mounted file system.
 *
 *	POOL/pool.tributary          identity (blockd/pool/pool_record.h)
 *	POOL/lock                    held by the blockd that serves the pool
 *	POOL/spare                   space for records when the medium is full
 *	POOL/extents/NAME.extent     record (blockd/pool/extent_record.h)
 *	POOL/extents/NAME.data       data: sparse, as long as the record says
 *	POOL/extents/NAME.deleting   record of an extent that is going
 *	POOL/extents/NAME.copying    record of a snapshot or clone being made
 *	POOL/extents/NAME.copies     names of a group of those that is there now
 *	POOL/extents/NAME.reverted   data that NAME is about to have
 *	POOL/extents/NAME.revert     record of NAME then; with it NAME has both
 *	POOL/extents/.tmp-*          record being written; a leftover goes
 *
 * How a change survives a kill at any point; "save" is an atomic replacement
 * (temporary file, fsync, rename, fsync of the directory):
 *
 *	create   save state=creating; make the data file, set its length, fsync;
 *	         save state=ok
 *	grow     lengthen the data file, fsync; save the new size
 *	copy     make each NAME.copying, fsync. Make each data file, with the
 *	         content of its source (FICLONE, or byte by byte) and its
 *	         length, fsync. Of several: save the list NAME.copies, which is
 *	         the step from none to all. Rename each NAME.copying to
 *	         NAME.extent, fsync the directory; unlink the list
 *	revert   make NAME.reverted, fsync. Save NAME.revert, which is the step
 *	         from old to new. Rename NAME.reverted to NAME.data, fsync the
 *	         directory. Rename NAME.revert to NAME.extent, fsync the
 *	         directory
 *	delete   rename the record to NAME.deleting, fsync the directory. (This
 *	         takes no space, so a full file system is no obstacle.) Unlink
 *	         the data; unlink NAME.deleting
 *
 * On load a creation is undone and a delete is finished. Copies with a list are
 * finished, and so is a revert with NAME.revert; without these they are undone.
 * Data longer than its record is cut back: nobody was ever told of those bytes.
 * Anything else that does not fit is damage: told of, never touched. Damage is
 * no data, data too short, no record, and a record that does not decode or
 * names something else.
 *
 * The directory is mode 0700. Nothing else belongs into it.
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
