/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/label.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct label *label_find(const struct labels *labels, const char *key)
{
	for (size_t i = 0; i < labels->count; i++) {
		if (strcmp(labels->items[i].key, key) == 0)
			return &labels->items[i];
	}
	return NULL;
}

int labels_set(struct labels *labels, const char *key, const char *value,
	       struct error *err)
{
	size_t key_length = strnlen(key, LABEL_TEXT_SIZE);
	size_t value_length = strnlen(value, LABEL_TEXT_SIZE);
	struct label *label;

	if (key_length == 0)
		return error_set(err, EINVAL, "a label's key is empty");
	if (key_length >= LABEL_TEXT_SIZE || value_length >= LABEL_TEXT_SIZE)
		return error_set(err, EINVAL,
				 "label '%.40s...' is longer than %d bytes",
				 key, LABEL_TEXT_SIZE - 1);

	label = label_find(labels, key);
	if (!label) {
		if (labels->count >= LABELS_MAX)
			return error_set(err, E2BIG, "more than %d labels",
					 LABELS_MAX);
		label = reallocarray(labels->items, labels->count + 1,
				     sizeof(*label));
		if (!label)
			return error_set(err, ENOMEM, "out of memory");
		labels->items = label;
		label += labels->count++;
		memcpy(label->key, key, key_length + 1);
	}
	memcpy(label->value, value, value_length + 1);
	return 0;
}

const char *labels_get(const struct labels *labels, const char *key)
{
	const struct label *label = label_find(labels, key);

	return label ? label->value : NULL;
}

bool labels_match(const struct labels *wanted, const struct labels *labels)
{
	for (size_t i = 0; i < wanted->count; i++) {
		const char *value = labels_get(labels, wanted->items[i].key);

		if (!value || strcmp(value, wanted->items[i].value) != 0)
			return false;
	}
	return true;
}

bool labels_equal(const struct labels *a, const struct labels *b)
{
	return a->count == b->count && labels_match(a, b);
}

int labels_copy(const struct labels *from, struct labels *to, struct error *err)
{
	struct label *items = NULL;

	if (from->count > 0) {
		items = calloc(from->count, sizeof(*items));
		if (!items)
			return error_set(err, ENOMEM, "out of memory");
		memcpy(items, from->items, from->count * sizeof(*items));
	}
	labels_done(to);
	to->items = items;
	to->count = from->count;
	return 0;
}

void labels_done(struct labels *labels)
{
	free(labels->items);
	*labels = (struct labels){0};
}
