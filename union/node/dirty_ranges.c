/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/dirty_ranges.h"

#include <string.h>

#define PART_MIN (UINT64_C(64) << 10)

void dirty_list_init(struct dirty_list *list)
{
	memset(list, 0, sizeof(*list));
	pthread_mutex_init(&list->lock, NULL);
}

void dirty_list_done(struct dirty_list *list)
{
	pthread_mutex_destroy(&list->lock);
}

void dirty_ranges_begin(struct dirty_list *list, struct dirty_ranges *m,
			unsigned branch, const struct handle *file,
			uint64_t size)
{
	memset(m, 0, sizeof(*m));
	m->branch = branch;
	m->file = *file;
	m->part = PART_MIN;
	while (size / m->part >= DIRTY_RANGES_PARTS)
		m->part *= 2;
	pthread_mutex_lock(&list->lock);
	m->next = list->first;
	list->first = m;
	atomic_fetch_add(&list->count, 1);
	pthread_mutex_unlock(&list->lock);
}

void dirty_ranges_end(struct dirty_list *list, struct dirty_ranges *m)
{
	struct dirty_ranges **at = &list->first;

	pthread_mutex_lock(&list->lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	atomic_fetch_sub(&list->count, 1);
	pthread_mutex_unlock(&list->lock);
}

bool dirty_ranges_has(struct dirty_list *list, unsigned branch,
		      const struct handle *file)
{
	const struct dirty_ranges *m = NULL;

	pthread_mutex_lock(&list->lock);
	for (m = list->first; m; m = m->next)
		if (m->branch == branch && handle_equal(&m->file, file))
			break;
	pthread_mutex_unlock(&list->lock);
	return m != NULL;
}

static uint64_t dirty_ranges_part_of(const struct dirty_ranges *m,
				     uint64_t offset)
{
	uint64_t i = offset / m->part;

	return i < DIRTY_RANGES_PARTS ? i : DIRTY_RANGES_PARTS - 1;
}

void dirty_ranges_note(struct dirty_list *list, unsigned branch,
		       const struct handle *file, uint64_t from,
		       uint64_t length)
{
	uint64_t end, i;
	struct dirty_ranges *m;

	if (!length || __builtin_add_overflow(from, length - 1, &end))
		end = UINT64_MAX;
	pthread_mutex_lock(&list->lock);
	for (m = list->first; m; m = m->next) {
		if (m->branch != branch || !handle_equal(&m->file, file))
			continue;
		for (i = dirty_ranges_part_of(m, from);
		     i <= dirty_ranges_part_of(m, end); i++)
			m->dirty[i / 64] |= UINT64_C(1) << i % 64;
	}
	pthread_mutex_unlock(&list->lock);
}

bool dirty_ranges_take(struct dirty_list *list, struct dirty_ranges *m,
		       uint64_t at, uint64_t *ret_from, uint64_t *ret_end)
{
	uint64_t i = dirty_ranges_part_of(m, at);
	bool found = false;

	pthread_mutex_lock(&list->lock);
	for (; i < DIRTY_RANGES_PARTS && !found; i++) {
		if (!(m->dirty[i / 64] >> i % 64 & 1))
			continue;
		m->dirty[i / 64] &= ~(UINT64_C(1) << i % 64);
		*ret_from = i * m->part;
		*ret_end = i == DIRTY_RANGES_PARTS - 1 ? UINT64_MAX
						       : (i + 1) * m->part;
		found = true;
	}
	pthread_mutex_unlock(&list->lock);
	return found;
}

unsigned dirty_ranges_count(struct dirty_list *list,
			    const struct dirty_ranges *m)
{
	unsigned i, n = 0;

	pthread_mutex_lock(&list->lock);
	for (i = 0; i < DIRTY_RANGES_PARTS / 64; i++)
		n += (unsigned)__builtin_popcountll(m->dirty[i]);
	pthread_mutex_unlock(&list->lock);
	return n;
}
