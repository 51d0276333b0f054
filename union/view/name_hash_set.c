/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/name_hash_set.h"

#include <stdatomic.h>
#include <stdlib.h>

#define FIRST_SLOTS 16
#define GONE        UINT64_MAX /* a slot that was used */

static _Atomic size_t bytes_used;

void *names_alloc(size_t count, size_t size)
{
	void *memory;

	if (atomic_load(&bytes_used) + count * size > NAMES_BYTES_MAX)
		return NULL;
	memory = calloc(count, size);
	if (memory)
		atomic_fetch_add(&bytes_used, count * size);
	return memory;
}

void names_free(void *memory, size_t count, size_t size)
{
	if (memory)
		atomic_fetch_sub(&bytes_used, count * size);
	free(memory);
}

uint64_t name_hash_slot(const char *name, unsigned branch)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return (h ^ h >> 32) << 16 | (branch + 1);
}

/* Get the place to look first, one for a name on all branches. */
static size_t place_of(const struct name_hash_set *set, uint64_t slot)
{
	return (size_t)((slot >> 16) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
	       (set->size - 1);
}

void name_hash_set_put(struct name_hash_set *set, uint64_t slot)
{
	size_t mask = set->size - 1, i = place_of(set, slot);

	while (set->slots[i])
		i = (i + 1) & mask;
	set->slots[i] = slot;
	set->used++;
	set->live++;
}

/* Find the place of @slot, or NULL. */
static uint64_t *seek(const struct name_hash_set *set, uint64_t slot)
{
	size_t mask = set->size - 1, i;

	if (!set->size)
		return NULL;
	i = place_of(set, slot);
	while (set->slots[i] && set->slots[i] != slot)
		i = (i + 1) & mask;
	return set->slots[i] ? &set->slots[i] : NULL;
}

bool name_hash_set_has(const struct name_hash_set *set, uint64_t slot)
{
	return seek(set, slot) != NULL;
}

void name_hash_set_take(struct name_hash_set *set, uint64_t slot)
{
	uint64_t *at = seek(set, slot);

	if (!at)
		return;
	*at = GONE;
	set->live--;
}

void name_hash_set_take_branch(struct name_hash_set *set, unsigned branch)
{
	size_t i;

	for (i = 0; i < set->size; i++)
		if (set->slots[i] && set->slots[i] != GONE &&
		    (set->slots[i] & 0xffff) == branch + 1) {
			set->slots[i] = GONE;
			set->live--;
		}
}

bool name_hash_set_reserve(struct name_hash_set *set, size_t more)
{
	struct name_hash_set old = *set;
	size_t i, size = old.size ? old.size : FIRST_SLOTS;
	uint64_t *slots;

	if ((old.used + more) * 4 <= old.size * 3)
		return true;
	while ((old.live + more) * 2 > size)
		size *= 2;
	slots = names_alloc(size, sizeof(*slots));
	if (!slots)
		return false;
	*set = (struct name_hash_set){.slots = slots, .size = size};
	for (i = 0; i < old.size; i++)
		if (old.slots[i] && old.slots[i] != GONE)
			name_hash_set_put(set, old.slots[i]);
	name_hash_set_done(&old);
	return true;
}

void name_hash_set_branches(const struct name_hash_set *set, const char *name,
			    uint64_t ret[BRANCH_MAX / 64])
{
	uint64_t hash = name_hash_slot(name, 0) >> 16;
	size_t mask = set->size - 1, i;
	unsigned branch;

	if (!set->size)
		return;
	for (i = place_of(set, hash << 16); set->slots[i]; i = (i + 1) & mask) {
		if (set->slots[i] >> 16 != hash || set->slots[i] == GONE)
			continue;
		branch = (unsigned)(set->slots[i] & 0xffff) - 1;
		ret[branch / 64] |= UINT64_C(1) << branch % 64;
	}
}

void name_hash_set_done(struct name_hash_set *set)
{
	names_free(set->slots, set->size, sizeof(*set->slots));
	*set = (struct name_hash_set){0};
}
