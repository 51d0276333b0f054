/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are written to while they are copied to another branch: the parts
 * to copy once more.
 */
#ifndef UNION_MOVING_H
#define UNION_MOVING_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "union/sys/handle.h"

#define MOVING_PARTS 65536 /* of one file; the last is all the rest */

struct moving {
	struct moving *next;
	unsigned branch;
	struct handle file;
	uint64_t part; /* bytes */
	uint64_t dirty[MOVING_PARTS / 64];
};

struct moving_list {
	pthread_mutex_t lock;
	atomic_uint count;
	struct moving *first;
};

void moving_list_init(struct moving_list *list);
void moving_list_done(struct moving_list *list);

/* Note changes in @file on @branch from now on. @size: of it now. */
void moving_begin(struct moving_list *list, struct moving *m, unsigned branch,
		  const struct handle *file, uint64_t size);
void moving_end(struct moving_list *list, struct moving *m);

/* Is the file being moved? */
bool moving_has(struct moving_list *list, unsigned branch,
		const struct handle *file);

/*
 * Note that bytes [@from, @from + @length) of the file have just changed;
 * length 0: all from there on. Costs nothing while no file is being moved.
 */
void moving_note(struct moving_list *list, unsigned branch,
		 const struct handle *file, uint64_t from, uint64_t length);

/*
 * Take the next part that changed, at or after @at; it is clean then. False: no
 * part is left. @ret_end may lie past the end of the file: UINT64_MAX.
 */
bool moving_take(struct moving_list *list, struct moving *m, uint64_t at,
		 uint64_t *ret_from, uint64_t *ret_end);

/* Count the parts that changed. */
unsigned moving_count(struct moving_list *list, const struct moving *m);

#endif
