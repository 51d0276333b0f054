/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that do calls for us, as some user, in some tree. */
#ifndef TESTS_UNION_ACTOR_H
#define TESTS_UNION_ACTOR_H

#include "tests/union/op.h"

struct actor {
	pid_t pid;
	int socket;
};

/* A mistake made on purpose: the comparison must find it. */
enum fault {
	FAULT_NONE,
	FAULT_ERRNO,  /* an error with another name */
	FAULT_DATA,   /* one byte that is written is wrong */
	FAULT_MODE,   /* chmod sets another mode */
	FAULT_LOST,   /* unlink says that it did and did not */
	FAULT_TIME,   /* utimens does nothing */
	FAULT_XATTR,  /* setxattr does nothing */
	FAULT_OWNER,  /* chown does nothing */
	FAULT_RENAME, /* what was replaced stays: a link, not a rename */
	FAULT_ABSENT, /* ENOENT of what is lost or damaged, not EIO */
	FAULT_BROKEN, /* meanwhile: EIO of what is not there */
	FAULT_KEPT,   /* EPERM is not told */
	FAULT_QUOTA,  /* root goes above quotas */
	FAULTS,
};
const char *fault_name(enum fault fault);

/*
 * Actor @number (its user goes by it) in the tree @root; none may go above
 * quotas. Aborts on failure.
 */
void actor_start(struct actor *actor, unsigned number, const char *root,
		 enum fault fault);

/* A sync() of a busy machine takes a minute. */
#define ACTOR_PATIENCE_MS 300000

/*
 * Have it do @op; @text gets what came of it (OP_TEXT_MAX bytes).
 * -ETIMEDOUT: it hangs; -EPIPE: it died.
 */
int actor_do(const struct actor *actor, const struct op *op, char *text);

void actor_stop(struct actor *actor);

#endif
