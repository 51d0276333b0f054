/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories that are immutable or append-only on their branch
 * (chattr(1), +i and +a): not even root changes them.
 */
#ifndef UNION_IMMUTABLE_H
#define UNION_IMMUTABLE_H

#include <stdbool.h>

/* Is the directory @fd (may be O_PATH) immutable: nothing is made in it? */
bool immutable_is(int fd);

/*
 * Check that @fd (may be O_PATH) can change. -EPERM: it keeps its owner, mode,
 * ACLs, extended attributes, and the times that a caller chooses.
 *
 * @now  the present time is set: an append-only file takes that
 */
int immutable_check(int fd, bool now);

/*
 * Check that @name can be removed from the directory @dirfd. -EPERM: either of
 * the two is immutable or append-only.
 */
int immutable_check_name(int dirfd, const char *name);

#endif
