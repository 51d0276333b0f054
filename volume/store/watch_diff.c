/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/watch_diff.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct watch_diff_item {
	char name[RECORD_NAME_SIZE];
	char version[RECORD_VERSION_SIZE];
	bool seen; /* in the list that is being read */
};

void watch_diff_done(struct watch_diff *diff)
{
	free(diff->items);
	diff->items = NULL;
	diff->count = diff->room = 0;
}

void watch_diff_begin(struct watch_diff *diff)
{
	for (size_t i = 0; i < diff->count; i++)
		diff->items[i].seen = false;
}

/* Return the place where @name is, or belongs. */
static size_t item_place(const struct watch_diff *diff, const char *name,
			 bool *ret_there)
{
	size_t low = 0, high = diff->count;

	*ret_there = false;
	while (low < high && !*ret_there) {
		size_t middle = low + (high - low) / 2;
		int way = strcmp(name, diff->items[middle].name);

		if (way < 0)
			high = middle;
		else if (way > 0)
			low = middle + 1;
		else
			low = middle;
		*ret_there = way == 0;
	}
	return low;
}

static int item_insert(struct watch_diff *diff, size_t at, const char *name,
		       struct error *err)
{
	struct watch_diff_item *more;

	if (diff->count == diff->room) {
		size_t room = diff->room ? 2 * diff->room : 64;

		more = reallocarray(diff->items, room, sizeof(*more));
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		diff->items = more;
		diff->room = room;
	}
	more = &diff->items[at];
	memmove(more + 1, more, (diff->count - at) * sizeof(*more));
	diff->count++;
	*more = (struct watch_diff_item){0};
	memcpy(more->name, name, strlen(name) + 1);
	return 0;
}

int watch_diff_set(struct watch_diff *diff, const struct store_object *object,
		   struct error *err)
{
	bool there;
	size_t at = item_place(diff, object->name, &there);
	int r = there ? 0 : item_insert(diff, at, object->name, err);

	if (r < 0)
		return r;
	diff->items[at].seen = true;
	if (strcmp(diff->items[at].version, object->version) == 0)
		return 0;
	memcpy(diff->items[at].version, object->version,
	       sizeof(object->version));
	return diff->watcher(diff->context, STORE_CHANGE_SET, object->name,
			     object, NULL);
}

static int drop_at(struct watch_diff *diff, size_t at)
{
	char name[RECORD_NAME_SIZE];

	memcpy(name, diff->items[at].name, sizeof(name));
	diff->count--;
	memmove(&diff->items[at], &diff->items[at + 1],
		(diff->count - at) * sizeof(*diff->items));
	return diff->watcher(diff->context, STORE_CHANGE_REMOVED, name, NULL,
			     NULL);
}

int watch_diff_drop(struct watch_diff *diff, const char *name)
{
	bool there;
	size_t at = item_place(diff, name, &there);

	return there ? drop_at(diff, at) : 0;
}

int watch_diff_end(struct watch_diff *diff)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < diff->count;) {
		if (diff->items[i].seen)
			i++;
		else
			r = drop_at(diff, i);
	}
	if (r != 0)
		return r;
	return diff->watcher(diff->context, STORE_CHANGE_SYNCED, NULL, NULL,
			     NULL);
}
