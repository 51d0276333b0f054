/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery of a dir pool's extents; the rules are those of
 * blockd/dir/pool_dir.h, which alone uses this.
 */
#ifndef BLOCKD_POOL_DIR_LOAD_H
#define BLOCKD_POOL_DIR_LOAD_H

#include "blockd/pool/pool.h"

#define POOL_DIR_RECORD   ".extent"
#define POOL_DIR_DATA     ".data"
#define POOL_DIR_DOOMED   ".deleting"
#define POOL_DIR_COPYING  ".copying"
#define POOL_DIR_LIST     ".copies"
#define POOL_DIR_REVERT   ".revert"
#define POOL_DIR_REVERTED ".reverted"
/* bytes: a name, the longest suffix, NUL */
#define POOL_DIR_FILE_SIZE (EXTENT_NAME_SIZE + sizeof(POOL_DIR_DOOMED))

/* NAME and SUFFIX into @buf (POOL_DIR_FILE_SIZE bytes); returns @buf. */
const char *pool_dir_file(char *buf, const char *name, const char *suffix);

/*
 * Unlink the data, then the record, which is NAME and @suffix now; each
 * durable, either may be gone.
 */
int pool_dir_erase(int extents_fd, const char *name, const char *suffix,
		   struct error *err);

/* NAME.revert is there: the new content, if it is not in place yet, then it. */
int pool_dir_finish_revert(int extents_fd, const char *name, struct error *err);

/* As pool_ops.load. */
int pool_dir_load(int extents_fd, const char *pool_id,
		  const struct pool_visitor *visitor, struct error *err);

#endif
