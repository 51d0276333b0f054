/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Table of open files and directories, by the number that the kernel was given
 * (fuse_file_info.fh). A number is never 0 and never given twice. Its low bits
 * are a place in the table, which is used again; the rest is a serial number.
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

struct open_entry;

struct open_table {
	pthread_mutex_t lock; /* guards the members below */
	struct open_entry *_Atomic chunks[OPEN_CHUNK_MAX]; /* read without it */
	uint64_t used; /* places below were */
	_Atomic uint64_t serial, *next_serial;
	uint64_t *free_places; /* a stack */
	uint64_t free_count, free_size;
};

/*
 * @next_serial  where the next serial number is kept, 0 at first, borrowed; or
 *               NULL: in the table
 */
void open_table_init(struct open_table *table, _Atomic uint64_t *next_serial);
/* Free the table, but not its items. A zeroed table is fine. */
void open_table_done(struct open_table *table);

/* Give @item, which is not NULL, a number; 0: ENOMEM, or too many. */
uint64_t open_table_add(struct open_table *table, void *item);

/*
 * Put @item at @number, which an earlier process gave. Call this in ascending
 * order of the places, before open_table_add(). The places between are free. 0
 * or -ENOMEM.
 */
int open_table_add_at(struct open_table *table, uint64_t number, void *item);

/* Find an item; NULL: no such number. Takes no lock. */
void *open_table_get(const struct open_table *table, uint64_t number);

/* Take @number out; the item is the caller's. */
void open_table_remove(struct open_table *table, uint64_t number);

#endif
