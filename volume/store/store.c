/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void store_close(struct store *store)
{
	if (store)
		store->ops->close(store);
}

int store_tell(struct store *store, const char *kind, const char *name,
	       bool warning, const char *reason, struct error *err,
	       const char *fmt, ...)
{
	char text[ERROR_TEXT_MAX];
	const struct store_notice notice = {.kind = kind,
					    .name = name,
					    .warning = warning,
					    .reason = reason,
					    .message = text};
	va_list ap;

	if (!store->ops->notice)
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return store->ops->notice(store, &notice, err);
}

void store_object_done(struct store_object *object)
{
	free(object->json);
	object->json = NULL;
}

void store_page_done(struct store_page *page)
{
	for (size_t i = 0; i < page->count; i++)
		store_object_done(&page->objects[i]);
	free(page->objects);
	*page = (struct store_page){0};
}

int store_walk(struct store *store, const char *kind,
	       struct record_place *place, store_each each, void *context,
	       struct error *err)
{
	struct record_place first = {0};
	bool more = true;
	int r = 0;

	if (!place)
		place = &first;
	while (r == 0 && more) {
		struct record_place here = *place;
		struct store_page page = {0};

		r = store->ops->list(store, kind, place, STORE_PAGE, &page,
				     err);
		if (r < 0)
			return r;
		memcpy(here.mark, page.mark, sizeof(here.mark));
		for (size_t i = 0; r == 0 && i < page.count; i++) {
			r = each(context, &page.objects[i], err);
			if (r == 0)
				memcpy(here.after, page.objects[i].name,
				       sizeof(here.after));
		}
		if (r != 0)
			*place = here;
		more = page.more;
		store_page_done(&page);
	}
	return r;
}

static void store_class_done(struct store_class *class)
{
	for (size_t i = 0; i < class->n_parameters; i++) {
		free(class->parameters[i].key);
		free(class->parameters[i].value);
	}
	free(class->parameters);
	free(class->name);
}

void store_classes_free(struct store_class *classes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_class_done(&classes[i]);
	free(classes);
}
