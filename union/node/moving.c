/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/moving.h"

#include <string.h>

#define PART_MIN (UINT64_C(64) << 10)

void moving_list_init(struct moving_list *list)
{
	memset(list, 0, sizeof(*list));
	pthread_mutex_init(&list->lock, NULL);
}

void moving_list_done(struct moving_list *list)
{
	pthread_mutex_destroy(&list->lock);
}

void moving_begin(struct moving_list *list, struct moving *m, unsigned branch,
		  const struct handle *file, uint64_t size)
{
	memset(m, 0, sizeof(*m));
	m->branch = branch;
	m->file = *file;
	m->part = PART_MIN;
	while (size / m->part >= MOVING_PARTS)
		m->part *= 2;
	pthread_mutex_lock(&list->lock);
	m->next = list->first;
	list->first = m;
	atomic_fetch_add(&list->count, 1);
	pthread_mutex_unlock(&list->lock);
}

void moving_end(struct moving_list *list, struct moving *m)
{
	struct moving **at = &list->first;

	pthread_mutex_lock(&list->lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	atomic_fetch_sub(&list->count, 1);
	pthread_mutex_unlock(&list->lock);
}

bool moving_has(struct moving_list *list, unsigned branch,
		const struct handle *file)
{
	const struct moving *m = NULL;

	if (!atomic_load(&list->count))
		return false;
	pthread_mutex_lock(&list->lock);
	for (m = list->first; m; m = m->next)
		if (m->branch == branch && handle_equal(&m->file, file))
			break;
	pthread_mutex_unlock(&list->lock);
	return m != NULL;
}

static uint64_t moving_part_of(const struct moving *m, uint64_t offset)
{
	uint64_t i = offset / m->part;

	return i < MOVING_PARTS ? i : MOVING_PARTS - 1;
}

void moving_note(struct moving_list *list, unsigned branch,
		 const struct handle *file, uint64_t from, uint64_t length)
{
	uint64_t end, i;
	struct moving *m;

	if (!atomic_load(&list->count))
		return;
	if (!length || __builtin_add_overflow(from, length - 1, &end))
		end = UINT64_MAX;
	pthread_mutex_lock(&list->lock);
	for (m = list->first; m; m = m->next) {
		if (m->branch != branch || !handle_equal(&m->file, file))
			continue;
		for (i = moving_part_of(m, from); i <= moving_part_of(m, end);
		     i++)
			m->dirty[i / 64] |= UINT64_C(1) << i % 64;
	}
	pthread_mutex_unlock(&list->lock);
}

bool moving_take(struct moving_list *list, struct moving *m, uint64_t at,
		 uint64_t *ret_from, uint64_t *ret_end)
{
	uint64_t i = moving_part_of(m, at);
	bool found = false;

	pthread_mutex_lock(&list->lock);
	for (; i < MOVING_PARTS && !found; i++) {
		if (!(m->dirty[i / 64] >> i % 64 & 1))
			continue;
		m->dirty[i / 64] &= ~(UINT64_C(1) << i % 64);
		*ret_from = i * m->part;
		*ret_end = i == MOVING_PARTS - 1 ? UINT64_MAX
						 : (i + 1) * m->part;
		found = true;
	}
	pthread_mutex_unlock(&list->lock);
	return found;
}

unsigned moving_count(struct moving_list *list, const struct moving *m)
{
	unsigned i, n = 0;

	pthread_mutex_lock(&list->lock);
	for (i = 0; i < MOVING_PARTS / 64; i++)
		n += (unsigned)__builtin_popcountll(m->dirty[i]);
	pthread_mutex_unlock(&list->lock);
	return n;
}
