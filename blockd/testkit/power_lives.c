/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/power_lives.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECTOR 512u

void life_remember(struct history *history, struct version version)
{
	if (history->n == history->room) {
		history->room = history->room ? 2 * history->room : 4;
		history->versions = reallocarray(history->versions,
						 history->room,
						 sizeof(*history->versions));
		assert_non_null(history->versions);
	}
	history->versions[history->n++] = version;
}

uint32_t life_newest(const struct history *history)
{
	return history->versions[history->n - 1].value;
}

/* After the events before @at. */
static bool may_be(const struct history *history, uint32_t value, size_t at)
{
	for (size_t i = history->n; i-- > 0;) {
		const struct version *v = &history->versions[i];

		if (v->issued > at)
			continue;
		if (v->value == value)
			return true;
		if (v->durable <= at)
			return false;
	}
	return false;
}

struct life *life_new(struct lives *lives, uint32_t id, const struct life *from)
{
	struct life *life = calloc(1, sizeof(*life));

	assert_non_null(life);
	*life = (struct life){.id = id,
			      .made = power_events(lives->power),
			      .made_durable = NEVER,
			      .deleting = NEVER,
			      .deleting_durable = NEVER};
	for (size_t b = 0; b < BLOCKS; b++)
		life_remember(
			&life->blocks[b],
			(struct version){
				.value = from ? life_newest(&from->blocks[b])
					      : 0});
	lives->all = reallocarray(lives->all, lives->n + 1,
				  sizeof(*lives->all));
	assert_non_null(lives->all);
	lives->all[lives->n++] = life;
	lives->now[id] = life;
	return life;
}

void lives_flushed(struct lives *lives, unsigned began, size_t ended_at)
{
	for (size_t i = 0; i < LIVES * BLOCKS; i++) {
		struct life *life = lives->now[1 + i / BLOCKS];
		struct history *h = life ? &life->blocks[i % BLOCKS] : NULL;
		size_t n = h ? h->n : 0;

		while (n > 0 && h->versions[n - 1].ended > began)
			n--;
		if (n > 0 && h->versions[n - 1].durable > ended_at)
			h->versions[n - 1].durable = ended_at;
	}
}

/* ---- after a failure ---- */

/* Where a block is on the medium; 0: it reads as zeroes. */
static uint64_t place_of(struct raw_store *store, const struct raw_state *state,
			 const struct raw_object *object, size_t block)
{
	const uint64_t inside = block * BLOCK % CLUSTER;
	const uint32_t entry = raw_map_get(&object->map,
					   block * BLOCK / CLUSTER);
	const struct raw_bitmap *part;
	bool written = true;

	if (entry == RAW_HOLE || entry & RAW_UNWRITTEN)
		return 0;
	part = entry & RAW_PARTIAL ? raw_bitmaps_find(&state->alloc.bitmaps,
						      RAW_PHYSICAL(entry))
				   : NULL;
	if (part)
		(void)raw_bitmap_run(part, (uint32_t)(inside / BLOCK), 1,
				     &written);
	return written ? raw_store_super(store)->data_start +
				 RAW_PHYSICAL(entry) * CLUSTER + inside
		       : 0;
}

static bool block_holds(struct lives *lives, const struct life *life,
			size_t block, const uint8_t *bytes, size_t at)
{
	uint32_t value = 0;

	for (uint64_t s = 0; s < BLOCK; s += SECTOR) {
		if (bytes)
			memcpy(&value, bytes + s, sizeof(value));
		if (!may_be(&life->blocks[block], value, at)) {
			(void)snprintf(lives->why, sizeof(lives->why),
				       "%s %u has %u in block %zu",
				       life->snapshot ? "snapshot" : "extent",
				       life->id, value, block);
			return false;
		}
	}
	return true;
}

static bool object_holds(struct lives *lives, struct power *after,
			 struct raw_store *store, const struct raw_state *state,
			 const struct raw_object *object, size_t at)
{
	const size_t n = strtoul(object->text, NULL, 10);
	const struct life *life = n < lives->n ? lives->all[n] : NULL;

	if (!life || life->id != object->id || life->made > at ||
	    life->deleting_durable <= at) {
		(void)snprintf(lives->why, sizeof(lives->why),
			       "there is an object %u, '%s'", object->id,
			       object->text);
		return false;
	}
	for (size_t b = 0; b < BLOCKS; b++) {
		uint64_t place = place_of(store, state, object, b);

		if (!block_holds(lives, life, b,
				 place ? after->bytes + place : NULL, at))
			return false;
	}
	return true;
}

/* All that must be there is. */
static bool none_missing(struct lives *lives, const struct raw_state *state,
			 size_t at)
{
	for (size_t i = 0; i < lives->n; i++) {
		const struct life *life = lives->all[i];
		const struct raw_object *object;

		if (life->made_durable > at || life->deleting <= at)
			continue;
		object = raw_state_object(state, life->id);
		if (object && strcmp(object->text, DELETING) != 0 &&
		    strtoul(object->text, NULL, 10) == i)
			continue;
		(void)snprintf(lives->why, sizeof(lives->why),
			       "object %u is gone", life->id);
		return false;
	}
	return true;
}

bool lives_hold(struct lives *lives, struct power *after,
		struct raw_store *store, size_t at)
{
	struct raw_state *state = raw_store_lock(store);
	struct error err;
	bool good = none_missing(lives, state, at);

	for (uint32_t id = 1; good && id <= LIVES; id++) {
		const struct raw_object *object = raw_state_object(state, id);

		if (object && strcmp(object->text, DELETING) != 0)
			good = object_holds(lives, after, store, state, object,
					    at);
	}
	if (good && raw_state_verify(state, &err) < 0) {
		(void)snprintf(lives->why, sizeof(lives->why), "%s",
			       error_text(&err));
		good = false;
	}
	raw_store_unlock(store);
	return good;
}

void lives_done(struct lives *lives)
{
	for (size_t i = 0; i < lives->n; i++) {
		for (size_t b = 0; b < BLOCKS; b++)
			free(lives->all[i]->blocks[b].versions);
		free(lives->all[i]);
	}
	free(lives->all);
}
