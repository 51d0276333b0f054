/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are written to while they are copied to another branch: the parts
 * to copy once more.
 */
#ifndef UNION_DIRTY_RANGES_H
#define UNION_DIRTY_RANGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "union/sys/handle.h"

#define DIRTY_RANGES_PARTS 65536 /* of one file; the last is all the rest */

struct dirty_ranges {
	struct dirty_ranges *next;
	unsigned branch;
	struct handle file;
	uint64_t part; /* bytes */
	uint64_t dirty[DIRTY_RANGES_PARTS / 64];
};

struct dirty_list {
	pthread_mutex_t lock;
	atomic_uint count;
	struct dirty_ranges *first;
};

void dirty_list_init(struct dirty_list *list);
void dirty_list_done(struct dirty_list *list);

/* Note changes in @file on @branch from now on. @size: of it now. */
void dirty_ranges_begin(struct dirty_list *list, struct dirty_ranges *m,
			unsigned branch, const struct handle *file,
			uint64_t size);
void dirty_ranges_end(struct dirty_list *list, struct dirty_ranges *m);

/*
 * Is any file being moved? Asked before the two functions that follow, so that
 * they cost nothing while none is.
 */
static inline bool dirty_ranges_any(const struct dirty_list *list)
{
	return atomic_load(&list->count);
}

/* Is the file being moved? */
bool dirty_ranges_has(struct dirty_list *list, unsigned branch,
		      const struct handle *file);

/*
 * Note that bytes [@from, @from + @length) of the file have just changed;
 * length 0: all from there on.
 */
void dirty_ranges_note(struct dirty_list *list, unsigned branch,
		       const struct handle *file, uint64_t from,
		       uint64_t length);

/*
 * Take the next part that changed, at or after @at; it is clean then. False: no
 * part is left. @ret_end may lie past the end of the file: UINT64_MAX.
 */
bool dirty_ranges_take(struct dirty_list *list, struct dirty_ranges *m,
		       uint64_t at, uint64_t *ret_from, uint64_t *ret_end);

/* Count the parts that changed. */
unsigned dirty_ranges_count(struct dirty_list *list,
			    const struct dirty_ranges *m);

#endif
