/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a union's branches that answer with errors: a damaged inode, an
 * immutable or append-only file, a read-only subvolume. All others are as ever.
 * Where one copy is all there is of a name, the plain directory gets the same,
 * so its answers are those of the union, too:
 *
 *   - EIO, EUCLEAN and EBADMSG are one error, of a damaged inode.
 *   - Where a call fails for two reasons, and EPERM is one, it is either.
 *
 * A directory may also have one copy that may not be changed. Then the plain
 * one is as ever. EPERM is right of what changes that copy, and nothing has
 * changed; of a new name only when no branch can take it.
 */
#ifndef TESTS_UNION_ERRING_H
#define TESTS_UNION_ERRING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "tests/union/op.h"
#include "tests/union/tree.h"

#define ERRING_DAMAGED_MAX 16
#define ERRING_INODE       256 /* bytes, on disk */

struct erring_damage {
	char name[16]; /* of its file system */
	uint64_t ino;
	bool whole; /* all of it is zero; else what says where its data is */
	int64_t at; /* bytes, in the image; < 0: it is not damaged (yet) */
	uint8_t was[ERRING_INODE];
};

struct erring {
	const char *dir;       /* of file systems, each mounted from an image */
	const char *plain;     /* the directory */
	char *const *branches; /* branch N is on file system N % file_systems */
	const bool *closed;    /* branches that take no new names */
	unsigned count, file_systems;
	struct dice dice;
	bool single; /* a directory has one copy that may not be changed */
	unsigned flagged, damaged;
	struct erring_damage damages[ERRING_DAMAGED_MAX];
};

/*
 * Both trees are filled, with ext4 below, and nobody uses them: choose, and do
 * it. 0, or -errno with @err.
 */
int erring_begin(struct erring *e, uint64_t seed, struct error *err);

/* Nobody uses them any more: what was damaged is whole again. */
int erring_end(struct erring *e, struct error *err);

/* Can what comes of @op not be compared? */
bool erring_leaves_out(const struct erring *e, const struct op *op);

/* Is EPERM an answer to @op that the plain directory does not give? */
bool erring_explains(const struct erring *e, const struct op *op);

/* All errors of damaged inodes become one, in @text. */
void erring_overlook(char *text);

/* Are these, overlooked, the same but for what is right? */
bool erring_alike(const struct op *op, const char *plain, const char *mine);

#endif
