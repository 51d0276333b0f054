/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories that the log has named, so that each is named once, as far as
 * there is room to remember them. All zero: none.
 */
#ifndef UNION_NAMED_H
#define UNION_NAMED_H

#include <pthread.h>
#include <stdbool.h>

#include "union/sys/handle.h"

#define NAMED_MAX 64u

struct named {
	pthread_mutex_t lock; /* PTHREAD_MUTEX_INITIALIZER; guards the rest */
	struct handle handles[NAMED_MAX];
	unsigned count;
};

/* Was it named before? From now on it was. */
bool named_before(struct named *named, const struct handle *handle);

/* Get the path of @fd: PATH_MAX bytes of @ret, "" where that is not known. */
const char *named_path(int fd, char *ret);

#endif
