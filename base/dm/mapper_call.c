/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dm/mapper_call.h"

#include <errno.h>
#include <inttypes.h>
#include <libdevmapper.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define RETRY_STEP_MS 20
#define DEVICES_MAX   65536 /* of one machine */

const char *const mapper_change_names[MAPPER_CHANGES] = {
	"create", "load", "suspend", "resume", "clear", "remove",
};

/* libdevmapper has one state for a process; this guards it. */
static pthread_mutex_t library = PTHREAD_MUTEX_INITIALIZER;
static char said[256]; /* the first error of the call under way */

__attribute__((format(printf, 5, 6))) static void keep_error(int level,
							     const char *file,
							     int line, int code,
							     const char *format,
							     ...)
{
	va_list arguments;

	(void)file;
	(void)line;
	(void)code;
	/* libdevmapper.h: 2 fatal, 3 error; a bit says "to stderr" */
	if ((level & 7) > 3 || said[0])
		return;
	va_start(arguments, format);
	(void)vsnprintf(said, sizeof(said), format, arguments);
	va_end(arguments);
}

static void library_begin(void)
{
	(void)pthread_mutex_lock(&library);
	dm_log_with_errno_init(keep_error);
	/* Without its cookies the library makes the nodes, and never waits. */
	dm_udev_set_sync_support(0);
	said[0] = 0;
}

static void library_end(void)
{
	dm_lib_release(); /* its descriptor */
	(void)pthread_mutex_unlock(&library);
}

/* Run a task. 0 or a negative errno; the words are in said[]. */
static int task_run(struct dm_task *task)
{
	int code;

	if (dm_task_run(task))
		return 0;
	code = dm_task_get_errno(task);
	return code ? -code : -EIO;
}

static int task_error(int r, const char *what, const char *which,
		      struct error *err)
{
	return error_set(err, -r, "device mapper: %s %s: %s%s%.200s", what,
			 which, strerror(-r), said[0] ? ": " : "", said);
}

static void task_free(struct dm_task **task)
{
	if (*task)
		dm_task_destroy(*task);
}
#define auto_task auto_cleanup(task_free)

static struct dm_task *task_of(int type, const char *uuid)
{
	struct dm_task *task = dm_task_create(type);

	if (task && uuid && !dm_task_set_uuid(task, uuid)) {
		dm_task_destroy(task);
		return NULL;
	}
	return task;
}

/* ---- reading ---- */

static void fill_device(struct dm_task *task, const struct dm_info *info,
			struct mapper_device *ret)
{
	const char *name = dm_task_get_name(task);
	const char *uuid = dm_task_get_uuid(task);

	memset(ret, 0, sizeof(*ret));
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name ? name : "");
	(void)snprintf(ret->uuid, sizeof(ret->uuid), "%s", uuid ? uuid : "");
	ret->device = makedev(info->major, info->minor);
	ret->open_count = info->open_count > 0 ? (unsigned)info->open_count : 0;
	ret->suspended = info->suspended;
	ret->live = info->live_table;
	ret->inactive = info->inactive_table;
	ret->read_only = info->read_only;
	ret->deferred = info->deferred_remove;
}

/* By UUID, or by name when that is NULL. -ENOENT without words. */
static int get(const char *uuid, const char *name, struct mapper_device *ret)
{
	auto_task struct dm_task *task = task_of(DM_DEVICE_INFO, uuid);
	struct dm_info info;
	int r;

	if (!task || (!uuid && !dm_task_set_name(task, name)))
		return -ENOMEM;
	r = task_run(task);
	if (r < 0) /* ENOENT: there is no driver to ask */
		return r == -ENXIO ? -ENOENT : r == -ENOENT ? -ENODEV : r;
	if (!dm_task_get_info(task, &info) || !info.exists)
		return -ENOENT;
	fill_device(task, &info, ret);
	return 0;
}

int mapper_call_get(const char *uuid, struct mapper_device *ret,
		    struct error *err)
{
	int r;

	library_begin();
	r = get(uuid, NULL, ret);
	if (r == -ENOENT)
		r = error_set(err, ENOENT, "no device mapper device %s", uuid);
	else if (r < 0)
		r = task_error(r, "get", uuid, err);
	library_end();
	return r;
}

static char *table_text(struct dm_task *task)
{
	char *text = NULL, *kind, *arguments;
	size_t length = 0;
	uint64_t start, sectors;
	void *next = NULL;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	do {
		next = dm_get_next_target(task, next, &start, &sectors, &kind,
					  &arguments);
		if (kind) /* else there is no table */
			(void)fprintf(out, "%" PRIu64 " %" PRIu64 " %s%s%s\n",
				      start, sectors, kind,
				      *arguments ? " " : "", arguments);
	} while (next);
	if (fclose(out)) { /* the only check needed: it keeps the error */
		free(text);
		return NULL;
	}
	return text;
}

static int read_table(const char *uuid, bool inactive, struct mapper_table *ret,
		      struct error *err)
{
	auto_task struct dm_task *task = task_of(DM_DEVICE_TABLE, uuid);
	auto_free char *text = NULL;
	int r;

	if (!task || (inactive && !dm_task_query_inactive_table(task)))
		return error_set(err, ENOMEM, "no memory for a table");
	r = task_run(task);
	if (r == -ENXIO)
		return error_set(err, ENOENT, "no device mapper device %s",
				 uuid);
	if (r < 0)
		return task_error(r, "read the table of", uuid, err);
	text = table_text(task);
	if (!text)
		return error_set(err, ENOMEM, "no memory for a table");
	return mapper_table_decode(text, ret, err);
}

int mapper_call_read(const char *uuid, bool inactive, struct mapper_table *ret,
		     struct error *err)
{
	int r;

	library_begin();
	r = read_table(uuid, inactive, ret, err);
	library_end();
	return r;
}

struct device_list {
	struct mapper_device *items;
	size_t count;
};

static int list_add(struct device_list *list, const struct mapper_device *d)
{
	struct mapper_device *more;

	if (list->count == DEVICES_MAX)
		return -EFBIG;
	more = realloc(list->items, (list->count + 1) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	list->items = more;
	list->items[list->count++] = *d;
	return 0;
}

static int list_names(struct dm_task *task, const char *prefix,
		      struct device_list *list)
{
	const struct dm_names *names = dm_task_get_names(task);
	struct mapper_device device;
	int r = 0;

	if (!names || !names->dev)
		return 0;
	for (;;) {
		r = get(NULL, names->name, &device);
		if (!r && !strncmp(device.uuid, prefix, strlen(prefix)))
			r = list_add(list, &device);
		if (r < 0 && r != -ENOENT) /* it went in between */
			return r;
		if (!names->next)
			return 0;
		names = (const void *)((const char *)names + names->next);
	}
}

int mapper_call_list(const char *prefix, struct mapper_device **ret,
		     size_t *ret_count, struct error *err)
{
	struct device_list list = {.count = 0};
	struct dm_task *task;
	int r;

	library_begin();
	task = task_of(DM_DEVICE_LIST, NULL);
	r = task ? task_run(task) : -ENOMEM;
	if (!r)
		r = list_names(task, prefix, &list);
	if (r < 0)
		r = task_error(r, "list", "devices", err);
	task_free(&task);
	library_end();
	if (r < 0) {
		free(list.items);
		return r;
	}
	*ret = list.items;
	*ret_count = list.count;
	return 0;
}

/* ---- probing ---- */

static bool has_target(struct dm_task *task, const char *name)
{
	const struct dm_versions *v = dm_task_get_versions(task);

	while (v) {
		if (!strcmp(v->name, name))
			return true;
		if (!v->next)
			break;
		v = (const void *)((const char *)v + v->next);
	}
	return false;
}

static int probe(struct error *err)
{
	static const char *const targets[] = {"linear", "striped", "error"};
	auto_task struct dm_task *task = task_of(DM_DEVICE_LIST_VERSIONS, NULL);
	int r = task ? task_run(task) : -ENOMEM;

	if (r < 0)
		return error_set(err, ENODEV, "no device mapper here (%.200s)",
				 said[0] ? said : strerror(-r));
	for (size_t i = 0; i < array_size(targets); i++)
		if (!has_target(task, targets[i]))
			return error_set(err, ENODEV,
					 "the kernel's device mapper has no "
					 "target '%s'",
					 targets[i]);
	return 0;
}

int mapper_call_probe(struct error *err)
{
	int r;

	library_begin();
	r = probe(err);
	library_end();
	return r;
}

/* ---- changes ---- */

static int add_targets(struct dm_task *task, const struct mapper_table *table)
{
	auto_free char *text = mapper_table_encode(table);
	char *next = text, *line;

	if (!text)
		return -ENOMEM;
	while ((line = strsep(&next, "\n")) && *line) {
		uint64_t start, length;
		char kind[16];
		int at = 0;

		if (sscanf(line, "%" SCNu64 " %" SCNu64 " %15s%n", &start,
			   &length, kind, &at) != 3)
			return -EINVAL;
		if (line[at] == ' ')
			at++;
		if (!dm_task_add_target(task, start, length, kind, line + at))
			return -ENOMEM;
	}
	return 0;
}

static int fill_task(struct dm_task *task,
		     const struct mapper_change_request *q)
{
	bool ok = true;

	if (q->name)
		ok = dm_task_set_name(task, q->name);
	if (ok && q->flags & MAPPER_READ_ONLY)
		ok = dm_task_set_ro(task);
	if (ok && q->flags & MAPPER_NO_FLUSH)
		ok = dm_task_no_flush(task) && dm_task_skip_lockfs(task);
	if (ok && q->change == MAPPER_CHANGE_CREATE)
		ok = dm_task_set_add_node(task, DM_ADD_NODE_ON_CREATE);
	return !ok ? -ENOMEM : q->table ? add_targets(task, q->table) : 0;
}

/* Who has the name or the UUID of a device that cannot be made? */
static int taken(const struct mapper_change_request *q, struct error *err)
{
	struct mapper_device device;

	if (!get(q->uuid, NULL, &device) || !get(NULL, q->name, &device))
		return error_set(err, EEXIST,
				 "device mapper: " MAPPER_FOLDER
				 "%.100s is there already, UUID '%.100s'",
				 device.name, device.uuid);
	return 0;
}

static int run_change(const struct mapper_change_request *q, int type,
		      struct error *err)
{
	auto_task struct dm_task *task = task_of(type, q->uuid);
	int r = task ? fill_task(task, q) : -ENOMEM;

	if (!r)
		r = task_run(task);
	if (r < 0)
		return task_error(r == -ENXIO ? -ENOENT : r,
				  mapper_change_names[q->change],
				  q->name ? q->name : q->uuid, err);
	dm_task_update_nodes();
	return 0;
}

/* By name, or the library would leave the node. */
static int remove_once(const char *uuid, bool deferred)
{
	auto_task struct dm_task *task = task_of(DM_DEVICE_REMOVE, NULL);
	struct mapper_device device;
	int r = get(uuid, NULL, &device);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (!task || !dm_task_set_name(task, device.name) ||
	    (deferred && !dm_task_deferred_remove(task)))
		return -ENOMEM;
	r = task_run(task);
	dm_task_update_nodes();
	return r == -ENXIO ? 0 : r;
}

static int remove_device(const struct mapper_change_request *q,
			 struct error *err)
{
	int64_t end = clock_ms() + q->retry_ms;
	int r;

	while ((r = remove_once(q->uuid, false)) == -EBUSY && clock_ms() < end)
		(void)poll(NULL, 0, RETRY_STEP_MS);
	if (r == -EBUSY && q->flags & MAPPER_DEFERRED)
		r = remove_once(q->uuid, true);
	return r < 0 ? task_error(r, "remove", q->uuid, err) : 0;
}

static int change(const struct mapper_change_request *q, struct error *err)
{
	static const int types[MAPPER_CHANGES] = {
		[MAPPER_CHANGE_CREATE] = DM_DEVICE_CREATE,
		[MAPPER_CHANGE_LOAD] = DM_DEVICE_RELOAD,
		[MAPPER_CHANGE_SUSPEND] = DM_DEVICE_SUSPEND,
		[MAPPER_CHANGE_RESUME] = DM_DEVICE_RESUME,
		[MAPPER_CHANGE_CLEAR] = DM_DEVICE_CLEAR,
	};
	int r;

	if (q->change == MAPPER_CHANGE_REMOVE)
		return remove_device(q, err);
	r = q->change == MAPPER_CHANGE_CREATE ? taken(q, err) : 0;
	return r < 0 ? r : run_change(q, types[q->change], err);
}

int mapper_call_change(const struct mapper_change_request *request,
		       struct error *err)
{
	int r = mapper_check_uuid(request->uuid, err);

	if (r < 0)
		return r;
	library_begin();
	r = change(request, err);
	library_end();
	return r;
}
