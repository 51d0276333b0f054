/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/store_known.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct store_known_item {
	char name[RECORD_NAME_SIZE];
	char version[RECORD_VERSION_SIZE];
	bool seen; /* in the list that is being read */
};

void store_known_done(struct store_known *known)
{
	free(known->items);
	known->items = NULL;
	known->count = known->room = 0;
}

void store_known_begin(struct store_known *known)
{
	for (size_t i = 0; i < known->count; i++)
		known->items[i].seen = false;
}

/* Where @name is, or belongs. */
static size_t place(const struct store_known *known, const char *name,
		    bool *ret_there)
{
	size_t low = 0, high = known->count;

	*ret_there = false;
	while (low < high && !*ret_there) {
		size_t middle = low + (high - low) / 2;
		int way = strcmp(name, known->items[middle].name);

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

static int insert(struct store_known *known, size_t at, const char *name,
		  struct error *err)
{
	struct store_known_item *more;

	if (known->count == known->room) {
		size_t room = known->room ? 2 * known->room : 64;

		more = reallocarray(known->items, room, sizeof(*more));
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		known->items = more;
		known->room = room;
	}
	more = &known->items[at];
	memmove(more + 1, more, (known->count - at) * sizeof(*more));
	known->count++;
	*more = (struct store_known_item){0};
	memcpy(more->name, name, strlen(name) + 1);
	return 0;
}

int store_known_set(struct store_known *known,
		    const struct store_object *object, struct error *err)
{
	bool there;
	size_t at = place(known, object->name, &there);
	int r = there ? 0 : insert(known, at, object->name, err);

	if (r < 0)
		return r;
	known->items[at].seen = true;
	if (strcmp(known->items[at].version, object->version) == 0)
		return 0;
	memcpy(known->items[at].version, object->version,
	       sizeof(object->version));
	return known->watcher(known->context, STORE_CHANGE_SET, object->name,
			      object, NULL);
}

static int drop_at(struct store_known *known, size_t at)
{
	char name[RECORD_NAME_SIZE];

	memcpy(name, known->items[at].name, sizeof(name));
	known->count--;
	memmove(&known->items[at], &known->items[at + 1],
		(known->count - at) * sizeof(*known->items));
	return known->watcher(known->context, STORE_CHANGE_REMOVED, name, NULL,
			      NULL);
}

int store_known_drop(struct store_known *known, const char *name)
{
	bool there;
	size_t at = place(known, name, &there);

	return there ? drop_at(known, at) : 0;
}

int store_known_end(struct store_known *known)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < known->count;) {
		if (known->items[i].seen)
			i++;
		else
			r = drop_at(known, i);
	}
	if (r != 0)
		return r;
	return known->watcher(known->context, STORE_CHANGE_SYNCED, NULL, NULL,
			      NULL);
}
