/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dm/mapper.h"
#include "base/nbd/nbd_connect.h"
#include "initiator/attach_parts.h"
#include "initiator/attach_top.h"
#include "initiator/device/loopdev.h"
#include "initiator/device/top_device.h"

#define CONNECT_TIMEOUT_MS 10000
#define ANSWER_MS          2000 /* more than a server of this network takes */

static bool same_text(const char *a, const char *b)
{
	return a && *b && strcmp(a, b) == 0;
}

/* The parts asked for in the place of those there. Returned owned. */
static int parts_of(const struct attachment *a,
		    const struct initiator_request *q, struct parts **ret,
		    struct error *err)
{
	auto_free struct parts *now = NULL, *asked = NULL;
	char name[128];
	int r;

	if (!q->n_parts && (!q->address || !q->export_name))
		return error_set(err, EINVAL, "no export is asked for");
	attach_parts_name(a, name, sizeof(name));
	r = parts_load(a->dirfd, name, &now, err);
	if (r == 0)
		r = attach_parts_of(q, &asked, err);
	if (r == 0)
		r = parts_take_place(now, asked, err);
	if (r == 0)
		*ret = take_ptr(asked);
	return r;
}

bool attach_exchange_possible(const struct attachment *a,
			      const struct initiator_request *q)
{
	const struct record *r = &a->record;
	const struct transport *t = transport_find(r->transport);
	auto_free struct parts *parts = NULL;

	if (!t || t->recovers || !r->top[0] || !top_device_in_use(r) ||
	    q->size < r->size || q->read_only != r->read_only ||
	    (strcmp(q->transport, "auto") != 0 &&
	     strcmp(q->transport, r->transport) != 0))
		return false;
	if (r->parts)
		return parts_of(a, q, &parts, NULL) == 0;
	if (q->n_parts)
		return false;
	if (t->local)
		return same_text(q->local_path, r->local_path);
	if (t->iscsi)
		return q->iscsi_portal &&
		       same_text(q->iscsi_target, r->export_name);
	return q->address && same_text(q->export_name, r->export_name);
}

/* ---- is it the same content? before anything is changed ---- */

static int check_server(const char *address_text, const char *export_name,
			const char *incarnation, struct error *err)
{
	const struct nbd_connect_options options = {
		.timeout_ms = CONNECT_TIMEOUT_MS,
		.silence_ms = CONNECT_TIMEOUT_MS,
		.cancel_fd = -1,
	};
	auto_free struct nbd_export *export = calloc(1, sizeof(*export));
	struct nbd_address address;
	int r;

	if (!export)
		return error_set(err, ENOMEM, "no memory");
	r = nbd_address_resolve(address_text, &address, err);
	if (r == 0)
		r = nbd_connect(&address, export_name, &options, NULL, export,
				err);
	if (r < 0)
		return r;
	if (!*incarnation || !export->has_description ||
	    strcmp(export->description, incarnation) != 0)
		return error_set(
			err, ESTALE,
			"export '%.100s' of %.100s is not known to be "
			"of the same incarnation: unflushed writes may "
			"be lost",
			export_name, address_text);
	return 0;
}

/* Is the file still the one that users of the device have? */
static int check_file(const struct attachment *a, struct error *err)
{
	const struct record *r = &a->record;
	char below[DEVICE_PATH_MAX];

	auto_close int fd = open(r->local_path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", r->local_path,
				 strerror(errno));
	if (top_device_below(r, below) < 0 || !loopdev_is_over(below, fd))
		return error_set(err, ESTALE, "%s is not over '%s' any more",
				 r->top, r->local_path);
	return 0;
}

static int check_servers(const struct attachment *a,
			 const struct initiator_request *q,
			 const struct parts *parts, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	int r = 0;

	for (unsigned i = 0; parts && r == 0 && i < parts->n; i++)
		r = check_server(parts->items[i].address,
				 parts->items[i].export_name,
				 parts->items[i].incarnation, err);
	if (t->local)
		return check_file(a, err);
	if (parts || t->iscsi) /* iSCSI: the target's name tells */
		return r;
	return check_server(q->address, q->export_name, a->record.incarnation,
			    err);
}

/* ---- the exchange ---- */

/* Where the next one is: the record of the one there has the rest. */
static int note_place(struct attachment *a, const struct initiator_request *q,
		      const struct parts *parts, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	const char *address = parts      ? parts->items[0].address
			      : t->iscsi ? q->iscsi_portal
					 : q->address;
	struct record *r = &a->record;
	char name[128];
	int status = 0;

	attach_parts_name(a, name, sizeof(name));
	if (!t->local)
		(void)snprintf(r->address, sizeof(r->address), "%s", address);
	if (parts) {
		r->parts = parts->n;
		status = parts_save(a->dirfd, name, parts, err);
	}
	r->size = q->size;
	r->ready = false; /* until the top device lies on the next one */
	return status < 0 ? status : record_save(a->dirfd, r, err);
}

/*
 * Hold requests back, and let the old device go. Requests in flight end by
 * themselves when that answers; else they are made to fail.
 */
static int let_go(struct attachment *a, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	int r = top_device_hold(&a->record, ANSWER_MS, NULL);
	int failed = t->fail(a, err);

	if (failed < 0 || r == 0)
		return failed;
	return top_device_hold(&a->record, MAPPER_LIMIT_MS, err);
}

static int put_next(struct attachment *a, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	int r;

	a->takes_place = true;
	r = t->attach(a, err);
	if (r == 0)
		r = record_save(a->dirfd, &a->record, err);
	if (r == 0)
		r = attach_top_follow(a, err);
	if (r < 0)
		return r;
	a->record.ready = true;
	return record_save(a->dirfd, &a->record, err);
}

int attach_exchange(struct attachment *a, const struct initiator_request *q,
		    struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	auto_free struct parts *parts = NULL;
	int r = a->record.parts ? parts_of(a, q, &parts, err) : 0;

	a->launcher = q->launcher;
	if (r == 0)
		r = check_servers(a, q, parts, err);
	if (r == 0)
		r = note_place(a, q, parts, err);
	if (r < 0)
		return r;
	r = let_go(a, err);
	if (r == 0)
		r = put_next(a, err);
	a->takes_place = false;
	if (r < 0) { /* half of it is for the next attach, or for detach */
		(void)t->fail(a, NULL);
		(void)top_device_mend(&a->record, NULL);
		(void)error_prefix(err, r, "its device is lost: ");
	}
	return r;
}
