/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of numbers that stand for a name on a branch: a hash of the name, and
 * the branch's id. A number counts as often as it was put there. All sets share
 * NAMES_BYTES_MAX. A set that is all zero is empty.
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

/* Make the number of @name on @branch; never 0. */
uint64_t name_hash_slot(const char *name, unsigned branch);

/* Make room for @more. False: no memory, or more than NAMES_BYTES_MAX. */
bool name_hash_set_reserve(struct name_hash_set *set, size_t more);

/* Add @slot, for which there is room. */
void name_hash_set_put(struct name_hash_set *set, uint64_t slot);

bool name_hash_set_has(const struct name_hash_set *set, uint64_t slot);

/* Count @slot once less, if the set has it. */
void name_hash_set_take(struct name_hash_set *set, uint64_t slot);
void name_hash_set_take_branch(struct name_hash_set *set, unsigned branch);

/* Add the branches that have a name with the hash of @name to @ret. */
void name_hash_set_branches(const struct name_hash_set *set, const char *name,
			    uint64_t ret[BRANCH_MAX / 64]);

/* Free the memory of the set: it is empty again. */
void name_hash_set_done(struct name_hash_set *set);

/*
 * Allocate and free, as calloc(3) and free(3), memory that counts for
 * NAMES_BYTES_MAX, too.
 */
void *names_alloc(size_t count, size_t size);
void names_free(void *memory, size_t count, size_t size);

#endif
