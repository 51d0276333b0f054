/* SPDX-License-Identifier: Apache-2.0 */
/* One operation on one volume: its lease, its record, its steps. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/context.h"

/* Of the thread; an operation's other threads have it from the operation. */
static _Thread_local int cancel_on = -1;

void volume_cancel_on(int fd)
{
	cancel_on = fd;
}

static void operation_init(struct operation *op, struct volume_context *ctx,
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

void operation_lock(struct operation *op)
{
	(void)pthread_mutex_lock(&op->lock);
}

void operation_unlock(struct operation *op)
{
	(void)pthread_mutex_unlock(&op->lock);
}

int operation_begin(struct operation *op, struct volume_context *ctx,
		    const char *name, const char *doing, struct error *err)
{
	int r = name_check("volume", name, err);

	if (r < 0)
		return r;
	r = ctx->store->ops->lease(ctx->store, STORE_KIND_VOLUME, name, doing,
				   err);
	if (r < 0)
		return r;
	operation_init(op, ctx, name);
	r = volume_get(ctx, name, &op->record, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		operation_end(op);
	return r;
}

void operation_end(struct operation *op)
{
	volume_record_free(op->record);
	op->record = NULL;
	op->ctx->store->ops->release(op->ctx->store, STORE_KIND_VOLUME,
				     op->name);
	(void)pthread_mutex_destroy(&op->lock);
}

void operation_unattach(struct operation *op, struct volume_attachment *a)
{
	if (!a->published) {
		volume_record_unattach(op->record, a->node);
		return;
	}
	a->state = ATTACHMENT_PUBLISHED;
	a->mount_point[0] = '\0';
}

int operation_check_ready(const struct operation *op, struct error *err)
{
	if (!op->record)
		return error_set(err, ENOENT, "there is no volume '%s'",
				 op->name);
	if (op->record->phase == VOLUME_READY)
		return 0;
	return error_set(err, EBUSY, "volume '%s' is %s; %s", op->name,
			 op->record->phase == VOLUME_CREATING ? "not finished"
							      : "being deleted",
			 op->record->phase == VOLUME_CREATING
				 ? "repeat the command that creates it"
				 : "nothing else can be done with it");
}

int operation_check_staying(const struct operation *op, struct error *err)
{
	static const char text[] =
		"it is being deleted, and waits for its extents to be: finish "
		"that by deleting its claim, or by `trib volume delete`; to "
		"save what is on it first, mount it with --read-only";

	if (!op->record->deleting)
		return 0;
	/* The error says it, too. */
	(void)store_tell(op->ctx->store, STORE_KIND_VOLUME, op->name, true,
			 "DeletionWaits", NULL, "%s", text);
	return error_set(err, EBUSY, "volume '%s': %s", op->name, text);
}

static void tell(struct operation *op, const char *step, const char *fmt,
		 va_list ap)
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

	/* poll() passes over what is -1. */
	if (!op->undoing && poll(cancel, array_size(cancel), 0) > 0)
		return error_set(err, ECANCELED,
				 "stopped before step '%s'; the same command "
				 "goes on from there",
				 step);
	operation_lock(op);
	if (op->done >= op->total)
		op->total = op->done + 1;
	va_start(ap, fmt);
	tell(op, step, fmt, ap);
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
	tell(op, "done", fmt, ap);
	va_end(ap);
}

static int save_locked(struct operation *op, struct error *err)
{
	const struct store_ops *ops = op->ctx->store->ops;
	struct volume_record *record = op->record;
	auto_free char *json = NULL;
	int r = volume_record_encode(record, &json, err);

	if (r < 0)
		return r;
	if (!record->resource_version[0])
		return ops->create(op->ctx->store, STORE_KIND_VOLUME,
				   record->name, json, record->resource_version,
				   err);
	r = ops->compare_and_swap(op->ctx->store, STORE_KIND_VOLUME,
				  record->name, record->resource_version, json,
				  record->resource_version, err);
	if (r == -ESTALE || r == -ENOENT) /* although we have the lease */
		return error_set(err, EAGAIN,
				 "the record of volume '%s' was changed by "
				 "somebody else; repeat the command",
				 record->name);
	return r;
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
	int r = op->ctx->store->ops->remove(op->ctx->store, STORE_KIND_VOLUME,
					    op->name,
					    op->record->resource_version, err);

	if (r == -ESTALE)
		return error_set(err, EAGAIN,
				 "the record of volume '%s' was changed by "
				 "somebody else; repeat the command",
				 op->name);
	if (r < 0 && r != -ENOENT)
		return r;
	volume_record_free(op->record);
	op->record = NULL;
	return 0;
}
