/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that has been copied from one branch to another gets its names
 * there, and loses those it had, so that a crash at any point leaves it whole
 * on the one or the other. The steps, in order:
 *
 *	the copy is ready, durable, at a temporary name in BRANCH_WORK_DIR
 *	relocate_begin()  what is to happen is written down there (intent.h);
 *	                  from here on a crash ends in the file having moved,
 *	                  so nobody may change it until it has
 *	relocate_link()   the names on the new branch
 *	relocate_cut()    those on the old one; of the last there stays, where
 *	                  it keeps a number (ino_preserve.h), a stub
 *	relocate_end()    all that made durable, the stub emptied, the record
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

/* The temporary name of a new copy. */
void relocate_temporary(char ret[RELOCATE_TEMPORARY_MAX]);

/* 0 or -errno, then nothing is changed. */
int relocate_begin(struct relocation *r);
/* 0, or -errno: call relocate_undo(). */
int relocate_link(struct relocation *r);
/*
 * -errno: one could not be cut. Those that had been are there again, and the
 * file can stay (relocate_undo()); where even that failed, it has moved, and
 * its other names are another file from here on.
 */
int relocate_cut(struct relocation *r);
/* 0, or -errno: the record stays, and the next mount goes on. */
int relocate_end(struct relocation *r);
/* 0, or -errno: a crash may end in the file having moved. */
int relocate_undo(struct relocation *r);

/*
 * After a crash, with a record of the kinds INTENT_RELOCATE on @branch that
 * is known to count: what remains of the above, but for striking out. 0; 1:
 * the old file was written to since, so it stays what it was, and the copy
 * goes; or -errno; the branch it is of was reported to.
 */
int relocate_finish(const struct branch_table *table, struct branch *branch,
		    const struct intent *intent);

/* Before a mount, when all that is finished: drop copies left half-made. */
void relocate_sweep(const struct branch *branch);

#endif
