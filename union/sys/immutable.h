/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was made immutable or append-only on its branch (chattr(1), +i and +a):
 * not even root changes it.
 */
#ifndef UNION_IMMUTABLE_H
#define UNION_IMMUTABLE_H

#include <stdbool.h>

/* Is the directory @fd (may be O_PATH) immutable: nothing is made in it? */
bool immutable_is(int fd);

/*
 * 0; -EPERM: what @fd is (may be O_PATH) keeps its owner, mode, ACLs, extended
 * attributes, and the times that somebody chooses.
 *
 * @now  it is the present time that is set: one that is append-only takes it
 */
int immutable_check(int fd, bool now);

/*
 * 0; -EPERM: @name cannot be removed from the directory @dirfd. So it is where
 * either of the two is immutable or append-only.
 */
int immutable_check_name(int dirfd, const char *name);

#endif
