/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of numbers that stand for a name on a branch: a hash of the one, and
 * the other. A number is in it as often as it was put there. All sets share
 * NAMES_BYTES_MAX, and one that is all zero is empty.
 */
#ifndef UNION_NAME_HASH_SET_H
#define UNION_NAME_HASH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/branch/branch.h"

#define NAMES_BYTES_MAX (64 << 20) /* of all directories; then no more */

struct name_hash_set {
	uint64_t *slots; /* 0: free. Open addressing */
	size_t size, used, live;
};

/* The number of @name on @branch; never 0. */
uint64_t name_hash_slot(const char *name, unsigned branch);

/* Room for @more. False: no memory, or more than NAMES_BYTES_MAX. */
bool name_hash_set_reserve(struct name_hash_set *set, size_t more);

/* For which there is room. */
void name_hash_set_put(struct name_hash_set *set, uint64_t slot);

bool name_hash_set_has(const struct name_hash_set *set, uint64_t slot);

/* Once less, if it is in it. */
void name_hash_set_take(struct name_hash_set *set, uint64_t slot);
void name_hash_set_take_branch(struct name_hash_set *set, unsigned branch);

/* Add the branches that have a name with the hash of @name to @ret. */
void name_hash_set_branches(const struct name_hash_set *set, const char *name,
			    uint64_t ret[BRANCH_MAX / 64]);

/* Frees what it holds: empty again. */
void name_hash_set_done(struct name_hash_set *set);

/* calloc(3) and free(3) of what counts for NAMES_BYTES_MAX, too. */
void *names_alloc(size_t count, size_t size);
void names_free(void *memory, size_t count, size_t size);

#endif
