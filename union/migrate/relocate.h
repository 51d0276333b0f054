/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that has been copied from one branch to another gets its names there,
 * and loses the old ones. A crash at any point leaves it whole on the one or
 * the other. The steps, in order:
 *
 *	the copy is ready, durable, at a temporary name in BRANCH_WORK_DIR
 *	relocate_begin()  the move is written down there (intent.h). From here
 *	                  on a crash ends in the file having moved, so nobody
 *	                  may change it until it has
 *	relocate_link()   the names on the new branch are made
 *	relocate_cut()    those on the old one are removed. The last stays as
 *	                  a stub, if it keeps a number (ino_preserve.h)
 *	relocate_end()    all that is made durable, the stub emptied, the record
 *	                  struck out; files may be changed meanwhile
 *
 * relocate_undo() takes back the first two.
 */
#ifndef UNION_RELOCATE_H
#define UNION_RELOCATE_H

#include "union/branch/branch.h"
#include "union/branch/intent.h"
#include "union/sys/handle.h"

#define RELOCATE_NAMES_MAX     1024 /* hard links of one file */
#define RELOCATE_TEMPORARY_MAX 32

struct relocate_name {
	const char *name;
	int from_fd, to_fd; /* its directories; may be O_PATH */
	uint64_t record;    /* 0: none is written */
	bool linked;
};

struct relocation {
	const struct branch *from, *to;
	struct handle old, copy;
	uint64_t number; /* st_ino */
	bool keeps;      /* the old inode stays as a stub */
	char temporary[RELOCATE_TEMPORARY_MAX];
	struct relocate_name *names;
	unsigned count; /* 1 to RELOCATE_NAMES_MAX */
};

/* Make the temporary name of a new copy. */
void relocate_temporary(char ret[RELOCATE_TEMPORARY_MAX]);

/* 0 or -errno, then nothing is changed. */
int relocate_begin(struct relocation *r);
/* 0, or -errno: call relocate_undo(). */
int relocate_link(struct relocation *r);
/*
 * -errno: a name could not be removed. The removed ones were made again, and
 * the file can stay (relocate_undo()). If even that failed, the file has moved,
 * and its other names are another file from here on.
 */
int relocate_cut(struct relocation *r);
/* 0, or -errno: the record stays, and the next mount goes on. */
int relocate_end(struct relocation *r);
/* 0, or -errno: a crash may end in the file having moved. */
int relocate_undo(struct relocation *r);

/*
 * Finish a move after a crash, by a record of the kinds INTENT_RELOCATE on
 * @branch that is known to count: the steps above, but for striking out.
 *
 * 0; 1: the old file was written to since, so it stays, and the copy goes; or
 * -errno: it was reported for the branch that it is of.
 */
int relocate_finish(const struct branch_table *table, struct branch *branch,
		    const struct intent *intent);

/* Drop half-made copies, before a mount, when all that is finished. */
void relocate_sweep(const struct branch *branch);

#endif
