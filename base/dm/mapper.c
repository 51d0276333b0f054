/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dm/mapper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

/* Letters that no program has to quote (libdevmapper's own set, less). */
static bool text_ok(const char *text)
{
	size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz"
				     "0123456789+-_.");

	return length && !text[length] && length < MAPPER_NAME_MAX;
}

int mapper_check_uuid(const char *uuid, struct error *err)
{
	size_t length = strlen(MAPPER_UUID_PREFIX);

	if (!text_ok(uuid) || strncmp(uuid, MAPPER_UUID_PREFIX, length) != 0 ||
	    !uuid[length])
		return error_set(err, EPERM,
				 "'%.128s' is no UUID of ours: the device "
				 "mapper device is left alone",
				 uuid);
	return 0;
}

int mapper_probe(struct mapper *m, struct error *err)
{
	return m->ops->probe(m, err);
}

int mapper_create(struct mapper *m, const char *name, const char *uuid,
		  const struct mapper_table *table, unsigned flags,
		  int limit_ms, struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	if (r < 0)
		return r;
	if (!text_ok(name))
		return error_set(err, EINVAL,
				 "'%.128s' is no name of a device mapper "
				 "device",
				 name);
	if (!table->count)
		return error_set(err, EINVAL, "the table of %s is empty", name);
	return m->ops->create(m, name, uuid, table, flags, limit_ms, err);
}

int mapper_load(struct mapper *m, const char *uuid,
		const struct mapper_table *table, unsigned flags, int limit_ms,
		struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	if (r < 0)
		return r;
	if (!table->count)
		return error_set(err, EINVAL, "the table of %s is empty", uuid);
	return m->ops->load(m, uuid, table, flags, limit_ms, err);
}

int mapper_suspend(struct mapper *m, const char *uuid, unsigned flags,
		   int limit_ms, struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	return r ? r : m->ops->suspend(m, uuid, flags, limit_ms, err);
}

int mapper_resume(struct mapper *m, const char *uuid, unsigned flags,
		  int limit_ms, struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	return r ? r : m->ops->resume(m, uuid, flags, limit_ms, err);
}

int mapper_clear(struct mapper *m, const char *uuid, int limit_ms,
		 struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	return r ? r : m->ops->clear(m, uuid, limit_ms, err);
}

int mapper_remove(struct mapper *m, const char *uuid, unsigned flags,
		  int limit_ms, struct error *err)
{
	int r = mapper_check_uuid(uuid, err);

	return r ? r : m->ops->remove(m, uuid, flags, limit_ms, err);
}

int mapper_get(struct mapper *m, const char *uuid, struct mapper_device *ret,
	       struct error *err)
{
	return m->ops->get(m, uuid, ret, err);
}

int mapper_read(struct mapper *m, const char *uuid, bool inactive,
		struct mapper_table *ret, struct error *err)
{
	return m->ops->read(m, uuid, inactive, ret, err);
}

int mapper_list(struct mapper *m, const char *prefix,
		struct mapper_device **ret, size_t *ret_count,
		struct error *err)
{
	return m->ops->list(m, prefix, ret, ret_count, err);
}

int mapper_swap(struct mapper *m, const char *uuid,
		const struct mapper_table *table, unsigned flags, int limit_ms,
		struct error *err)
{
	int r = mapper_load(m, uuid, table, flags, limit_ms, err);

	if (!r)
		r = mapper_resume(m, uuid, flags, limit_ms, err);
	if (r < 0 && r != -EPERM)
		/* Not there, or it has none: then there is nothing to drop. */
		(void)mapper_clear(m, uuid, limit_ms, NULL);
	return r;
}

int mapper_fence(struct mapper *m, const char *uuid, int limit_ms,
		 struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table now = {.count = 0};
	auto_cleanup(mapper_table_done) struct mapper_table none = {.count = 0};
	int r = mapper_read(m, uuid, false, &now, err);

	if (r < 0)
		return r;
	if (!now.count || mapper_table_is_error(&now))
		return 0; /* no request comes through */
	r = mapper_table_add_error(&none, now.size);
	if (r < 0)
		return error_set(err, -r, "fence %s: %s", uuid, strerror(-r));
	return mapper_swap(m, uuid, &none, MAPPER_NO_FLUSH, limit_ms, err);
}
