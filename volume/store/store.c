/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

void store_objects_free(struct store_object *objects, size_t count)
{
	for (size_t i = 0; i < count; i++)
		store_object_done(&objects[i]);
	free(objects);
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
