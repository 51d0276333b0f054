/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/open_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/state/state.h"

#define FIRST_PLACE 1
#define PLACES      ((uint64_t)OPEN_CHUNK * OPEN_CHUNK_MAX)

struct open_entry {
	_Atomic uint64_t number; /* 0: the place is free */
	struct open_item *item;
};

static_assert(OPEN_CHUNK * OPEN_CHUNK_MAX == 1 << OPEN_PLACE_BITS,
	      "a place fits its bits");

void open_item_put(struct open_item *item)
{
	if (atomic_fetch_sub(&item->references, 1) == 1)
		item->free(item);
}

void open_item_use(struct request *request, struct open_item *item)
{
	unsigned i = 0;

	/* A request that is not watched is not answered early. */
	if (!request || !request->watched)
		return;
	while (i < REQUEST_ITEMS && request->items[i] &&
	       request->items[i] != item)
		i++;
	if (i == REQUEST_ITEMS || request->items[i])
		return;
	atomic_fetch_add(&item->references, 1);
	request->items[i] = item;
}

void open_items_end(struct request *request)
{
	unsigned i;

	for (i = 0; i < REQUEST_ITEMS && request->items[i]; i++) {
		open_item_put(request->items[i]);
		request->items[i] = NULL;
	}
}

void open_table_init(struct open_table *table, struct state *state)
{
	memset(table, 0, sizeof(*table));
	pthread_mutex_init(&table->lock, NULL);
	table->state = state;
	table->used = FIRST_PLACE;
	table->next_serial = state ? &state->header->next_serial
				   : &table->serial;
}

void open_table_done(struct open_table *table)
{
	unsigned i;

	if (!table->used)
		return;
	for (i = 0; i < OPEN_CHUNK_MAX; i++)
		free(atomic_load(&table->chunks[i]));
	free(table->free_places);
	pthread_mutex_destroy(&table->lock);
	memset(table, 0, sizeof(*table));
}

static struct open_entry *entry_at(const struct open_table *table,
				   uint64_t place)
{
	struct open_entry *chunk;

	chunk = atomic_load(&table->chunks[place / OPEN_CHUNK]);
	return chunk ? &chunk[place % OPEN_CHUNK] : NULL;
}

void *open_table_get(const struct open_table *table, uint64_t number)
{
	const struct open_entry *entry = entry_at(table, open_place(number));

	return number && entry && atomic_load(&entry->number) == number
		       ? entry->item
		       : NULL;
}

/* Make an entry, with the lock. NULL: ENOMEM. */
static struct open_entry *make_entry(struct open_table *table, uint64_t place)
{
	struct open_entry *entry, *chunk;

	if (place >= PLACES)
		return NULL;
	entry = entry_at(table, place);
	if (entry)
		return entry;
	chunk = calloc(OPEN_CHUNK, sizeof(*chunk));
	if (!chunk)
		return NULL;
	atomic_store(&table->chunks[place / OPEN_CHUNK], chunk);
	return &chunk[place % OPEN_CHUNK];
}

/* Note a free place, with the lock. Without memory the place is lost. */
static void note_free(struct open_table *table, uint64_t place)
{
	uint64_t size = table->free_size ? table->free_size * 2 : 64;
	uint64_t *bigger;

	if (table->free_count == table->free_size) {
		bigger = reallocarray(table->free_places, size,
				      sizeof(*bigger));
		if (!bigger)
			return;
		table->free_places = bigger;
		table->free_size = size;
	}
	table->free_places[table->free_count++] = place;
}

static void put_item(struct open_entry *entry, uint64_t number,
		     struct open_item *item)
{
	entry->item = item;
	atomic_store(&entry->number, number);
}

/* Write the record of @number, with the lock. */
static void note_open(struct state *state, uint64_t number,
		      const struct open_item *item, const struct node *node)
{
	struct state_open *record = &state->opens[open_place(number)];

	if (atomic_load(&state->header->opens_used) <= open_place(number))
		atomic_store(&state->header->opens_used,
			     open_place(number) + 1);
	record->node = node->id;
	record->generation = node->generation;
	record->flags = item->flags;
	atomic_store(&record->number, number);
}

/* Take a free place, with the lock. NULL: ENOMEM, or too many. */
static struct open_entry *take_place(struct open_table *table, uint64_t *ret)
{
	struct open_entry *entry;

	if (table->free_count) {
		*ret = table->free_places[--table->free_count];
		return entry_at(table, *ret);
	}
	*ret = table->used;
	entry = make_entry(table, *ret);
	table->used += entry != NULL;
	return entry;
}

uint64_t open_table_add(struct open_table *table, struct request *request,
			struct open_item *item, const struct node *node)
{
	uint64_t place, number = 0;
	struct open_entry *entry;

	pthread_mutex_lock(&table->lock);
	entry = take_place(table, &place);
	if (entry) {
		number = place | atomic_fetch_add(table->next_serial, 1)
					 << OPEN_PLACE_BITS;
		put_item(entry, number, item);
		/* First the slot: a record that no slot has would stay. */
		reply_cache_gains_file(request, number);
		if (table->state)
			note_open(table->state, number, item, node);
	}
	pthread_mutex_unlock(&table->lock);
	return number;
}

int open_table_add_at(struct open_table *table, uint64_t number,
		      struct open_item *item)
{
	uint64_t place = open_place(number);
	struct open_entry *entry = NULL;

	pthread_mutex_lock(&table->lock);
	if (place >= table->used)
		entry = make_entry(table, place);
	if (entry) {
		for (; table->used < place; table->used++)
			if (make_entry(table, table->used))
				note_free(table, table->used);
		table->used = place + 1;
		put_item(entry, number, item);
	}
	pthread_mutex_unlock(&table->lock);
	return entry ? 0 : -ENOMEM;
}

void open_table_remove(struct open_table *table, uint64_t number)
{
	struct open_item *item = NULL;
	struct open_entry *entry;

	pthread_mutex_lock(&table->lock);
	entry = entry_at(table, open_place(number));
	if (number && entry && atomic_load(&entry->number) == number) {
		item = entry->item;
		atomic_store(&entry->number, 0);
		if (table->state)
			atomic_store(
				&table->state->opens[open_place(number)].number,
				0);
		note_free(table, open_place(number));
	}
	pthread_mutex_unlock(&table->lock);
	if (item)
		open_item_put(item);
}
