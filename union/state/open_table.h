/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files and directories, by the number that the kernel was given
 * (fuse_file_info.fh). A number is never 0 and never given twice. Its low bits
 * are a place in the table, which is used again; the rest is a serial number.
 *
 * The state memory has a record of each at that place, so that the next server
 * goes on with it. The slot of the request that opens it has the number, too
 * (reply_cache.h). Both are written here and nowhere else.
 */
#ifndef UNION_OPEN_TABLE_H
#define UNION_OPEN_TABLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define OPEN_CHUNK     1024 /* pointers in one chunk */
#define OPEN_CHUNK_MAX 16384

/* The place of @number, below OPEN_CHUNK * OPEN_CHUNK_MAX. */
#define OPEN_PLACE_BITS    24
#define open_place(number) ((number) & ((UINT64_C(1) << OPEN_PLACE_BITS) - 1))

struct node;
struct open_entry;
struct request;
struct state;

/*
 * The first member of an open file or directory. A new one has one reference,
 * its maker's, which the table takes over.
 *
 * The watchdog (watchdog.h) may answer a request's caller with an error. That
 * request goes on using the item, though the kernel closes it.
 */
struct open_item {
	atomic_uint references;
	uint32_t flags; /* STATE_OPEN_; constant once it has a number */
	void (*free)(struct open_item *item);
};

/* Give back a reference; the last one frees the item. */
void open_item_put(struct open_item *item);

/*
 * Keep @item for the request, if that is watched (request.h), until the second.
 */
void open_item_use(struct request *request, struct open_item *item);
void open_items_end(struct request *request);

struct open_table {
	pthread_mutex_t lock; /* guards the members below */
	struct open_entry *_Atomic chunks[OPEN_CHUNK_MAX]; /* read without it */
	struct state *state; /* NULL: nothing outlives the server */
	uint64_t used;       /* places below were */
	_Atomic uint64_t serial, *next_serial;
	uint64_t *free_places; /* a stack */
	uint64_t free_count, free_size;
};

/* @state: the memory for the records, borrowed; NULL: there are none. */
void open_table_init(struct open_table *table, struct state *state);
/* Free the table, but not its items. A zeroed table is fine. */
void open_table_done(struct open_table *table);

/*
 * Give @item of @node a number, which is noted for @request; 0: ENOMEM, or too
 * many, and the item is the caller's.
 */
uint64_t open_table_add(struct open_table *table, struct request *request,
			struct open_item *item, const struct node *node);

/*
 * Put @item at @number, of which an earlier process left the record. Call this
 * in ascending order of the places, before open_table_add(). The places between
 * are free. 0 or -ENOMEM.
 */
int open_table_add_at(struct open_table *table, uint64_t number,
		      struct open_item *item);

/* Find an item; NULL: no such number. Takes no lock. */
void *open_table_get(const struct open_table *table, uint64_t number);

/*
 * Take @number out, end its record, and give back the reference of its item.
 * Nothing happens if there is no such number.
 */
void open_table_remove(struct open_table *table, uint64_t number);

#endif
