/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on one volume: its lease, its record, its steps. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/op/context.h"
#include "volume/op/record_io.h"

/* Of the thread; an operation's other threads have it from the operation. */
static _Thread_local int cancel_on = -1;

void volume_cancel_on(int fd)
{
	cancel_on = fd;
}

void operation_init(struct operation *op, struct volume_context *ctx,
		    const char *name)
{
	pthread_mutexattr_t attributes;

	*op = (struct operation){.ctx = ctx, .cancel_fd = cancel_on};
	(void)snprintf(op->name, sizeof(op->name), "%s", name);
	(void)pthread_mutexattr_init(&attributes);
	(void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
	(void)pthread_mutex_init(&op->lock, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
}

void operation_done(struct operation *op)
{
	(void)pthread_mutex_destroy(&op->lock);
}

void operation_lock(struct operation *op)
{
	(void)pthread_mutex_lock(&op->lock);
}

void operation_unlock(struct operation *op)
{
	(void)pthread_mutex_unlock(&op->lock);
}

static int operation_lease(struct volume_context *ctx, const char *name,
			   const char *doing, struct error *err)
{
	return ctx->store->ops->lease(ctx->store, RECORD_KIND_VOLUME, name,
				      doing, err);
}

/* Try again where only a condition writer of this process is in the way. */
static int lease_after_conditions(struct volume_context *ctx, const char *name,
				  const char *doing, struct error *err)
{
	int64_t until_ms = clock_ms() + CONDITION_WAIT_MS;
	uint64_t seen;
	int r;

	do {
		seen = condition_write_wait(&ctx->condition_writer, name,
					    until_ms);
		r = operation_lease(ctx, name, doing, err);
	} while (r == -EAGAIN &&
		 condition_write_since(&ctx->condition_writer, name, seen) &&
		 clock_ms() < until_ms);
	return r;
}

/* The lease is ours. */
static int operation_load(struct operation *op, struct volume_context *ctx,
			  const char *name, struct error *err)
{
	int r;

	operation_init(op, ctx, name);
	r = volume_get(ctx, name, &op->record, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		operation_end(op);
	return r;
}

int operation_begin(struct operation *op, struct volume_context *ctx,
		    const char *name, const char *doing, struct error *err)
{
	int r = name_check("volume", name, err);

	if (r == 0)
		r = lease_after_conditions(ctx, name, doing, err);
	return r < 0 ? r : operation_load(op, ctx, name, err);
}

int operation_begin_condition(struct operation *op, struct volume_context *ctx,
			      const char *name, const char *doing,
			      struct error *err)
{
	int r = name_check("volume", name, err);

	if (r < 0)
		return r;
	condition_write_begin(&ctx->condition_writer, name);
	r = operation_lease(ctx, name, doing, err);
	if (r == 0)
		r = operation_load(op, ctx, name, err);
	if (r < 0)
		condition_write_end(&ctx->condition_writer);
	return r;
}

void operation_end_condition(struct operation *op)
{
	struct volume_context *ctx = op->ctx;

	operation_end(op);
	condition_write_end(&ctx->condition_writer);
}

const char *id_split(const char *id, char *ret_name)
{
	const char *at = strchr(id, '@');
	size_t length = at ? (size_t)(at - id) : strlen(id);

	if (length >= RECORD_NAME_SIZE)
		length = 0;
	memcpy(ret_name, id, length);
	ret_name[length] = '\0';
	return at ? at + 1 : "";
}

bool id_means(const char *id, const char *name, const char *uid)
{
	char own[RECORD_NAME_SIZE];
	const char *wanted = id_split(id, own);

	return strcmp(own, name) == 0 &&
	       (!wanted[0] || strcmp(wanted, uid) == 0);
}

int operation_begin_id(struct operation *op, struct volume_context *ctx,
		       const char *id, const char *doing, struct error *err)
{
	const char *at = strchr(id, '@');
	char name[RECORD_NAME_SIZE];
	int r;

	/* A text too long to be a name is refused as it is. */
	if (!at || (size_t)(at - id) >= sizeof(name))
		return operation_begin(op, ctx, id, doing, err);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(at - id), id);
	r = operation_begin(op, ctx, name, doing, err);
	if (r == 0 && op->record && strcmp(op->record->uid, at + 1) != 0) {
		volume_record_free(op->record);
		op->record = NULL;
	}
	return r;
}

void operation_end(struct operation *op)
{
	volume_record_free(op->record);
	op->record = NULL;
	op->ctx->store->ops->release(op->ctx->store, RECORD_KIND_VOLUME,
				     op->name);
	operation_done(op);
}

void operation_unattach(struct operation *op, struct volume_attachment *a)
{
	for (size_t i = 0; !a->read_only && i < op->record->n_splits; i++)
		op->record->splits[i].device[0] = '\0';
	if (!a->published) {
		volume_record_unattach(op->record, a->node);
		return;
	}
	a->state = ATTACHMENT_PUBLISHED;
	a->mount_point[0] = '\0';
}

static const char *how_it_is(enum volume_phase phase)
{
	switch (phase) {
	case VOLUME_CREATING: return "not finished";
	case VOLUME_REVERTING: return "being reverted to a snapshot";
	case VOLUME_MOVING: return "being moved";
	default: return "being deleted";
	}
}

static const char *what_to_do(enum volume_phase phase)
{
	switch (phase) {
	case VOLUME_CREATING: return "repeat the command that creates it";
	case VOLUME_REVERTING: return "`trib snapshot revert` finishes that";
	case VOLUME_MOVING:
		return "`trib volume move` finishes that, with --cancel it "
		       "takes that back";
	default: return "nothing else can be done with it";
	}
}

int operation_check_made(const struct operation *op, struct error *err)
{
	if (!op->record)
		return error_set(err, ENOENT, "there is no volume '%s'",
				 op->name);
	if (op->record->phase == VOLUME_READY)
		return 0;
	return error_set(err, EBUSY, "volume '%s' is %s; %s", op->name,
			 how_it_is(op->record->phase),
			 what_to_do(op->record->phase));
}

int operation_check_usable(const struct operation *op, struct error *err)
{
	return op->record && op->record->phase == VOLUME_MOVING &&
			       volume_record_successor(op->record)
		       ? 0
		       : operation_check_made(op, err);
}

int operation_refuse_lost(const struct operation *op, struct error *err)
{
	const size_t lost = volume_record_lost(op->record);
	const size_t n = op->record->n_splits;

	if (volume_spec_is_device(&op->record->spec) || lost == n)
		return error_set(err, EBUSY,
				 "volume '%s' has lost %zu of %zu splits with "
				 "their nodes, and is nothing without them; "
				 "`trib volume delete %s` deletes the rest",
				 op->name, lost, n, op->name);
	return error_set(err, EBUSY,
			 "volume '%s' has lost %zu of %zu splits with their "
			 "nodes; `trib mount -o degraded %s DIRECTORY` mounts "
			 "the rest, `trib volume repair --forget-lost %s` "
			 "makes new splits in their place, `trib volume "
			 "delete %s` deletes the rest",
			 op->name, lost, n, op->name, op->name, op->name);
}

int operation_check_ready(const struct operation *op, struct error *err)
{
	int r = operation_check_made(op, err);

	if (r < 0 || volume_record_lost(op->record) == 0)
		return r;
	return operation_refuse_lost(op, err);
}

int operation_check_staying(const struct operation *op, struct error *err)
{
	static const char text[] =
		"it is being deleted, and waits for its extents to be "
		"deleted: finish that by deleting its claim, or by `trib "
		"volume delete`; to save its data first, mount it with "
		"--read-only";

	if (!op->record->deleting)
		return 0;
	/* The error says it, too. */
	(void)store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name, true,
			 "DeletionWaits", NULL, "%s", text);
	return error_set(err, EBUSY, "volume '%s': %s", op->name, text);
}

static void operation_tell(struct operation *op, const char *step,
			   const char *fmt, va_list ap)
{
	char text[ERROR_TEXT_MAX];

	if (!op->ctx->progress)
		return;
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	op->ctx->progress(op->ctx->progress_context, step, op->done, op->total,
			  text);
}

int operation_step(struct operation *op, struct error *err, const char *step,
		   const char *fmt, ...)
{
	struct pollfd cancel[] = {{.fd = op->ctx->cancel_fd, .events = POLLIN},
				  {.fd = op->cancel_fd, .events = POLLIN}};
	va_list ap;

	/* poll() passes over a descriptor of -1. */
	if (!op->undoing && poll(cancel, array_size(cancel), 0) > 0)
		return error_set(err, ECANCELED,
				 "stopped before step '%s'; the same command "
				 "goes on from there",
				 step);
	operation_lock(op);
	if (op->done >= op->total)
		op->total = op->done + 1;
	va_start(ap, fmt);
	operation_tell(op, step, fmt, ap);
	va_end(ap);
	op->done++;
	operation_unlock(op);
	return 0;
}

void operation_finish(struct operation *op, const char *fmt, ...)
{
	va_list ap;

	op->done = op->total;
	va_start(ap, fmt);
	operation_tell(op, "done", fmt, ap);
	va_end(ap);
}

static int save_locked(struct operation *op, struct error *err)
{
	struct volume_record *record = op->record;
	char *json = NULL;
	int r = volume_record_encode(record, &json, err);

	return r < 0 ? r
		     : record_io_save(op->ctx, &record_kind_volume,
				      record->name, json,
				      record->resource_version, err);
}

int operation_save(struct operation *op, struct error *err)
{
	int r;

	operation_lock(op);
	r = save_locked(op, err);
	operation_unlock(op);
	return r;
}

int operation_remove(struct operation *op, struct error *err)
{
	int r = record_io_remove(op->ctx, &record_kind_volume, op->name,
				 op->record->resource_version, err);

	if (r < 0)
		return r;
	volume_record_free(op->record);
	op->record = NULL;
	return 0;
}
