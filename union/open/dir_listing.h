/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reply to one READDIR or READDIRPLUS, entry by entry, from a branch's own
 * list or a merged one.
 */
#ifndef UNION_DIR_LISTING_H
#define UNION_DIR_LISTING_H

#include "union/view/unionfs.h"

/* The directory on one of its branches, opened to be read. */
struct dir_part {
	struct copy *copy;
	int fd; /* readable */
};

/* An entry about to be given out. */
struct dir_item {
	const char *name;
	unsigned char type; /* DT_ */
	uint64_t ino;       /* of the branch */
	int64_t next;       /* offset after it */
	const struct dir_part *part;
};

/* A reply being filled. */
struct dir_listing {
	struct request *request;
	struct node *node; /* the directory */
	bool plus;         /* with attributes, each name looked up */
	char *data;        /* of @size bytes, @used of them filled */
	size_t used, size;
};

/*
 * Add @item, unless it is not to be seen or was removed since it was read. An
 * entry that cannot be looked up is added as a name only. 0; 1: no room, the
 * reply is full.
 */
int dir_listing_add(struct dir_listing *list, const struct dir_item *item);

#endif
