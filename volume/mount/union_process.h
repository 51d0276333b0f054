/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The union of a mounted volume: a trib-union process of its own, which
 * outlives the program that started it. It is found again by its arguments.
 */
#ifndef VOLUME_UNION_PROCESS_H
#define VOLUME_UNION_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* As the mount table has it; its source is the volume's name. */
#define UNION_FS_TYPE "fuse.trib-union"

struct union_branch {
	char path[4096]; /* PATH_MAX; absolute, none of ":=\\*?[" */
	bool local;      /* its extent is on this machine */
	bool absent;     /* its split is lost: the place is kept */
};

struct union_request {
	const char *bin_dir;  /* ""; beside /proc/self/exe, then PATH */
	const char *launcher; /* starts it; "": this process does */
	const char *name;     /* of the volume; shown as the mount's source */
	const char *policy;
	const struct union_branch *branches;
	size_t n_branches;
	const char *mount_point;
	const char *log_path; /* its standard error */
	const char *options;  /* more of -o; "" or NULL: none */
	/* A socket where it takes union_add(); "": it will not. */
	const char *control;
	bool read_only;
};

/*
 * Start it and wait until the union answers. On failure nothing is mounted
 * and no process is left; the text has the last line it wrote.
 */
int union_start(const struct union_request *request, struct error *err);

/* A union's account of its branches. */
#define UNION_BRANCHES_MAX 256 /* docs/union.md */

struct union_state {
	size_t branches;  /* those at the start, and later ones */
	size_t failed;    /* of them: they give errors or hang */
	size_t read_only; /* turned so by themselves */
	/* By number: the file system said that something on it is damaged. */
	bool damaged[UNION_BRANCHES_MAX];
	/* By number: there is only a place for it. */
	bool absent[UNION_BRANCHES_MAX];
	/* By number: it has left. Its number is not given again. */
	bool gone[UNION_BRANCHES_MAX];
	bool any_gone;
};

/* -errno: none is mounted there, or it does not answer. */
int union_state_get(const char *mount_point, struct union_state *ret);

/*
 * Find the number of the branch at @path, as the path of a union_branch. As
 * long as no branch has left a union, that is @index, its place in the list at
 * a mount. -1: it has none.
 */
int union_branch_number(const char *mount_point,
			const struct union_state *state, const char *path,
			unsigned index);

/* ---- union_command.c ---- */

/*
 * Add a branch to a live union, at the place of that path if it is absent, else
 * after all it has. Added before: the same number again.
 *
 * @control     as in its union_request
 * @ret_number  the branch's place in the list, from 0
 *
 * -EOPNOTSUPP: that union takes no commands. -EIO: it refused, the text says
 * why.
 */
int union_add(const char *bin_dir, const char *control,
	      const struct union_branch *branch, unsigned *ret_number,
	      struct error *err);

/* How a branch is, by the union's own account. */
enum union_branch_mode {
	UNION_BRANCH_NONE, /* no branch has or had that path */
	UNION_BRANCH_USED,
	UNION_BRANCH_DRAINING,
	UNION_BRANCH_GONE, /* it was empty, and has left */
};

struct union_drained {
	enum union_branch_mode mode;
	/* While it is being drained; docs/union.md. */
	uint64_t files_moved, bytes_moved, files_left, busy, failed;
	char error[128]; /* of one that failed */
};

/* Errors of these are those of union_add(). */
int union_drained(const char *bin_dir, const char *control, const char *path,
		  struct union_drained *ret, struct error *err);
/* Begin to empty a branch, which then leaves. Again: goes on. */
int union_drain(const char *bin_dir, const char *control, const char *path,
		uint64_t rate, struct error *err);
/* Let a branch that is being drained have files again. */
int union_drain_stop(const char *bin_dir, const char *control, const char *path,
		     struct error *err);

/*
 * The end of a branch's path that tells it from others of its volume:
 * "/branch-3/data". A union resolves what is before that.
 */
const char *union_path_end(const char *path);

/*
 * In @bin_dir; "": beside our own program, or by PATH.
 * @buf  PATH_MAX bytes
 */
const char *union_program(const char *bin_dir, char *buf);

/*
 * Find the process that was started for @mount_point, the supervisor. Without a
 * supervisor: the process that serves. 0: there is none.
 */
pid_t union_find(const char *mount_point);

/* A union is mounted there and answers. */
bool union_answers(const char *mount_point);

/*
 * Wait for @pid, as union_find() had it, of @mount_point, unmounted before, to
 * end. After @timeout_ms all processes of that mount point are killed, if
 * @kill_it, else -ETIMEDOUT.
 */
int union_wait_end(pid_t pid, const char *mount_point, int timeout_ms,
		   bool kill_it, struct error *err);

#endif
