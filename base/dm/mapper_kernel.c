/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's device mapper: reads by this process, changes by trib-dm. Such a
 * change may wait in the kernel for a device below, where no signal ends it.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dm/mapper_call.h"
#include "base/file.h"
#include "base/process.h"

#define MODPROBE_TIMEOUT_MS 10000

static _Thread_local int hold_fd = -1;

int mapper_kernel_hold(int fd)
{
	int before = hold_fd;

	hold_fd = fd;
	return before;
}

/* Its answer on standard output: "ERRNO TEXT". */
static int answer_of(const char *out, const char *what, struct error *err)
{
	int code = 0, at = 0;

	if (sscanf(out, "%d %n", &code, &at) != 1 || code < 0)
		return error_set(err, EIO,
				 MAPPER_PROGRAM " %s ended without an answer "
						"(is it installed?)",
				 what);
	return code ? error_set(err, code, "%.400s", out + at) : 0;
}

/* Run trib-dm for a change, @limit_ms at most after its own retries. */
static int by_program(const struct mapper_change_request *q, int limit_ms,
		      struct error *err)
{
	const char *what = mapper_change_names[q->change];
	char program[PATH_MAX], retry[16];
	const char *argv[] = {file_find_program(MAPPER_PROGRAM, program),
			      what,
			      q->uuid,
			      q->flags & MAPPER_READ_ONLY ? "read-only" : "",
			      q->flags & MAPPER_NO_FLUSH ? "no-flush" : "",
			      q->flags & MAPPER_DEFERRED ? "deferred" : "",
			      retry,
			      q->name,
			      NULL};
	auto_free char *table = NULL;
	struct process_result result;
	struct error why = {.code = 0};
	int r;

	(void)snprintf(retry, sizeof(retry), "%d", q->retry_ms);
	if (q->table) {
		table = mapper_table_encode(q->table);
		if (!table)
			return error_set(err, ENOMEM, "no memory for a table");
	}
	r = process_run_holding(argv, table, hold_fd, limit_ms + q->retry_ms,
				-1, &result, &why);
	if (r == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "device mapper: %s of %s did not end in %d "
				 "ms: what is below does not answer",
				 what, q->uuid, limit_ms);
	if (r < 0)
		return error_set(err, -r, "%s", error_text(&why));
	r = answer_of(result.out, what, err);
	process_result_done(&result);
	return r;
}

static int kernel_probe(struct mapper *m, struct error *err)
{
	static const char *const modprobe[] = {"modprobe", "-q", "dm-mod",
					       NULL};

	(void)m;
	if (!mapper_call_probe(NULL))
		return 0;
	(void)process_must(modprobe, MODPROBE_TIMEOUT_MS, NULL);
	return mapper_call_probe(err);
}

static int kernel_create(struct mapper *m, const char *name, const char *uuid,
			 const struct mapper_table *table, unsigned flags,
			 int limit_ms, struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_CREATE,
		.name = name,
		.uuid = uuid,
		.table = table,
		.flags = flags,
	};

	(void)m;
	return by_program(&q, limit_ms, err);
}

static int kernel_load(struct mapper *m, const char *uuid,
		       const struct mapper_table *table, unsigned flags,
		       int limit_ms, struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_LOAD,
		.uuid = uuid,
		.table = table,
		.flags = flags,
	};

	(void)m;
	return by_program(&q, limit_ms, err);
}

static int kernel_suspend(struct mapper *m, const char *uuid, unsigned flags,
			  int limit_ms, struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_SUSPEND,
		.uuid = uuid,
		.flags = flags,
	};

	(void)m;
	return by_program(&q, limit_ms, err);
}

static int kernel_resume(struct mapper *m, const char *uuid, unsigned flags,
			 int limit_ms, struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_RESUME,
		.uuid = uuid,
		.flags = flags,
	};

	(void)m;
	return by_program(&q, limit_ms, err);
}

static int kernel_clear(struct mapper *m, const char *uuid, int limit_ms,
			struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_CLEAR,
		.uuid = uuid,
	};

	(void)m;
	return by_program(&q, limit_ms, err);
}

static int kernel_remove(struct mapper *m, const char *uuid, unsigned flags,
			 int limit_ms, struct error *err)
{
	struct mapper_change_request q = {
		.change = MAPPER_CHANGE_REMOVE,
		.uuid = uuid,
		.flags = flags,
		.retry_ms = limit_ms,
	};

	(void)m;
	return by_program(&q, MAPPER_LIMIT_MS, err);
}

static int kernel_get(struct mapper *m, const char *uuid,
		      struct mapper_device *ret, struct error *err)
{
	(void)m;
	return mapper_call_get(uuid, ret, err);
}

static int kernel_read(struct mapper *m, const char *uuid, bool inactive,
		       struct mapper_table *ret, struct error *err)
{
	(void)m;
	return mapper_call_read(uuid, inactive, ret, err);
}

static int kernel_list(struct mapper *m, const char *prefix,
		       struct mapper_device **ret, size_t *ret_count,
		       struct error *err)
{
	(void)m;
	return mapper_call_list(prefix, ret, ret_count, err);
}

static const struct mapper_ops kernel_ops = {
	.probe = kernel_probe,
	.create = kernel_create,
	.load = kernel_load,
	.suspend = kernel_suspend,
	.resume = kernel_resume,
	.clear = kernel_clear,
	.remove = kernel_remove,
	.get = kernel_get,
	.read = kernel_read,
	.list = kernel_list,
};

struct mapper mapper_kernel = {.ops = &kernel_ops};
