/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file system of a union that is lost, with all branches on it, while the
 * union is used, and comes back. What a union may say meanwhile:
 *
 *   - EIO for names that only the lost branches hold: a file there, names below
 *     a directory that no other branch has. EIO also for changes to, and lists
 *     of, a directory that they have, too. Then nothing has changed. EIO for
 * few other names, where the union may not know that the lost branches lack
 * them.
 *   - All else as ever: no name that is there is absent, none is made twice.
 */
#ifndef TESTS_UNION_HURTING_H
#define TESTS_UNION_HURTING_H

#include <stdbool.h>
#include <stddef.h>

#include "tests/union/op.h"

#define HURTING_SAY_MAX 400

struct hurting {
	const char *dir;       /* of fs0, mounted by a loop from fs0.img... */
	const char *program;   /* trib-union */
	const char *mnt;       /* the union */
	char *const *branches; /* branch N is on file system N % file_systems */
	unsigned count, file_systems;
	unsigned lost; /* which file system */
	bool now;      /* it is lost */
	char **held;   /* paths that it has, of all branches on it */
	size_t fd_store_server_count, fd_store_server_room;
	unsigned long done, refused; /* calls meanwhile */
};

/*
 * Before the union is mounted: a file "probe-N" for each branch, there and in
 * the directory @plain. By these a lost branch is met at once.
 */
void hurting_prepare(const struct hurting *h, const char *plain);

/*
 * All of it is on disk, then it is gone as with its device, and the union has
 * met that for each branch. 0, or -1: @said tells what is not as it must be.
 */
int hurting_begin(struct hurting *h, char said[HURTING_SAY_MAX]);

/* Mount it anew, and wait until the union has all its branches. As above. */
int hurting_end(struct hurting *h, char said[HURTING_SAY_MAX]);

/* Can what came of this be compared at all? Some list, or do several calls. */
bool hurting_leaves_out(const struct op *op);

/* What EIO is as an answer to a call, now. */
enum hurting_eio {
	HURTING_RIGHT,    /* the lost branches hold it, or more than others */
	HURTING_NEEDLESS, /* they do not, which may not be known: of few names
			   */
	HURTING_WRONG,    /* of what is open on others */
};
enum hurting_eio hurting_judge(const struct hurting *h, const struct op *op);

/* More needless ones than this, of so many calls, are too many. */
#define HURTING_NEEDLESS_MAX(calls) (8 + (calls) / 8)
/* When servers are killed meanwhile: the next one never saw which names the
 * lost branches lack, but of directories that it makes. */
#define HURTING_NEEDLESS_KILLED(calls) (32 + (calls) / 2)

/*
 * Take from @text (of a call) what a directory shows of its copies together:
 * links and times.
 */
void hurting_overlook(char *text);

#endif
