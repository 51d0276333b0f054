/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes that change while neither the kernel's FUSE nor we are told: of a
 * file that is passed through, by who has mapped it to write. A store into a
 * mapping, and msync(2), are between that process and the branch. They change
 * the times of the file and its blocks, never its size.
 *
 * All else the kernel knows of: it forgets what a write, passed through or
 * not, has changed (since Linux 6.12 also when an answer is just under way);
 * and the time of access when somebody reads or maps the file.
 *
 * So what is said of a file is kept as that of any other, but for one that is
 * open for reading and writing, or may be mapped by who has closed it. Of that
 * an answer is kept for a moment, if it tells nothing new. A database that
 * asks before each query is then answered some ten times a second.
 */
#ifndef UNION_UNSEEN_H
#define UNION_UNSEEN_H

#include "union/view/unionfs.h"

/* The first kernel whose passed-through writes outdate answers under way. */
#define UNSEEN_PROTO_MINOR 41 /* FUSE 7.41: Linux 6.12 */

/*
 * May the file @node change unseen, from now on? Ask it before the attributes
 * that are answered: if not, the kernel may keep them, and who asked is noted.
 */
bool unseen_may_change(struct unionfs *fs, struct node *node);

/*
 * @node, locked, has one more open file, which is passed through and counted.
 * True: an answer that the kernel is to keep may be under way to somebody
 * else, and would be taken after the file was mapped; so it is to be told to
 * forget what it has. (Who opens it has what was said to him. What it has had
 * before, of the time of access it has no more once the file is mapped.)
 */
bool unseen_begins(const struct unionfs *fs, struct node *node,
		   bool read_write);

#define UNSEEN_KEEP_MS  50
#define UNSEEN_ALIKE    7 /* answers that are as the one before */
#define UNSEEN_WATCH_MS 1000

/*
 * How long the kernel may keep @st, which is the answer to a stat(2) of @node,
 * a file that may change unseen; seconds. That is UNSEEN_KEEP_MS after so many
 * that were alike, each no later than that after the one before it; else 0.
 * And 0 when the kernel asks though it was told to keep the last one: somebody
 * has read the file, or mapped it. So stores into a new mapping are seen at
 * once by all who do not ask in a loop.
 */
double unseen_keep(struct unionfs *fs, struct node *node,
		   const struct stat *st);

/*
 * The same of an answer to who wants the size alone, by lseek(2). It is kept
 * at once, but after UNSEEN_ALIKE of them for UNSEEN_WATCH_MS after a
 * stat(2), whose like may come again.
 */
double unseen_keep_size(struct unionfs *fs, struct node *node,
			const struct stat *st);

/* Of a file that was just made: nobody has mapped it. */
double unseen_keep_new(const struct unionfs *fs);

#endif
