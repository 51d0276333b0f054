/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes that change without FUSE in the kernel or the server being told.
 * That is so for a file that is passed through and mapped to write. A store
 * into a mapping, and msync(2), are between that process and the branch. They
 * change the times of the file and its blocks, never its size.
 *
 * The kernel knows of all other changes. It forgets attributes that a write,
 * passed through or not, has changed. (Since Linux 6.12 it does so also when an
 * answer is just under way.) It forgets the time of access when a process reads
 * or maps the file.
 *
 * So the kernel keeps the attributes of any file, with one exception. A file
 * that is open for reading and writing, or may be mapped by a process that has
 * closed it, may change unseen. An answer for that is kept for a moment, if it
 * tells nothing new. A database that asks before each query is then answered
 * some ten times a second.
 */
#ifndef UNION_UNSEEN_H
#define UNION_UNSEEN_H

#include "union/view/unionfs.h"

/* The first kernel whose passed-through writes outdate answers under way. */
#define UNSEEN_PROTO_MINOR 41 /* FUSE 7.41: Linux 6.12 */

/*
 * May the file @node change unseen, from now on? Call this before the
 * attributes are read. If not, the kernel may keep them, and the process that
 * asked is noted.
 */
bool unseen_may_change(struct unionfs *fs, const struct request *request,
		       struct node *node);

/*
 * Note that @node, locked, has one more open file, which is passed through and
 * counted.
 *
 * True: tell the kernel to forget the attributes it has. An answer to keep may
 * be under way to another process, and would arrive after the file was mapped.
 * (An answer to the process that opens the file has arrived. The kernel forgets
 * an older access time once the file is mapped.)
 */
bool unseen_begins(const struct unionfs *fs, const struct request *request,
		   struct node *node, bool read_write);

#define UNSEEN_KEEP_MS  50
#define UNSEEN_ALIKE    7 /* answers that are as the one before */
#define UNSEEN_WATCH_MS 1000

/*
 * Get the seconds for which the kernel may keep @st, the answer to a stat(2) of
 * @node, a file that may change unseen. That is UNSEEN_KEEP_MS after
 * UNSEEN_ALIKE equal answers, each no later than that after the one before it;
 * else 0. If the kernel asks though it was told to keep the last answer, a
 * process has read the file, or mapped it: 0, too. So stores into a new mapping
 * are seen at once by all processes that do not ask in a loop.
 */
double unseen_keep(struct unionfs *fs, struct node *node,
		   const struct stat *st);

/*
 * Do the same for an answer to lseek(2), which needs the size alone. Such an
 * answer is kept at once. But for UNSEEN_WATCH_MS after a stat(2), as another
 * may come, it is kept only after UNSEEN_ALIKE equal answers.
 */
double unseen_keep_size(struct unionfs *fs, struct node *node,
			const struct stat *st);

/* Get the seconds for a file that was just made: nobody has mapped it. */
double unseen_keep_new(const struct unionfs *fs);

#endif
