/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_single.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "initiator/attach_exchange.h"
#include "initiator/attach_parts.h"
#include "initiator/attach_request.h"
#include "initiator/attach_top.h"
#include "initiator/device/top_device.h"

int attach_single_remove(struct attachment *a, struct error *err)
{
	const struct transport *only = transport_find(a->record.transport);
	int r = attach_top_remove(a, err);

	if (r < 0)
		return r;
	for (size_t i = 0; transports[i]; i++) {
		if (only && only != transports[i])
			continue;
		r = transports[i]->detach(a, err);
		if (r < 0)
			return r;
	}
	return record_remove(a->dirfd, a->record.id, err);
}

void attach_single_describe(const struct record *r,
			    struct initiator_device *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->bad_part = -1;
	ret->n_parts = r->parts;
	memcpy(ret->id, r->id, sizeof(r->id));
	memcpy(ret->transport, r->transport, sizeof(ret->transport));
	memcpy(ret->under, r->device, sizeof(r->device));
	memcpy(ret->device, r->top[0] ? r->top : r->device, sizeof(r->top));
	top_device_uuid(r, ret->mapper_uuid, sizeof(ret->mapper_uuid));
	(void)snprintf(ret->why, sizeof(ret->why), "%s", r->why);
	if (r->local_path[0])
		(void)snprintf(ret->source, sizeof(ret->source), "%.255s",
			       r->local_path);
	else
		(void)snprintf(ret->source, sizeof(ret->source),
			       "%.127s/%.127s", r->address, r->export_name);
	ret->size = r->size;
	ret->read_only = r->read_only;
}

/* The part that the text of nbd_parts_state() names first. -1: none. */
static int bad_part(const struct record *r, const char *text)
{
	const char *at = r->parts > 1 ? strstr(text, ": part ") : NULL;
	unsigned part;

	return at && sscanf(at, ": part %3u of ", &part) == 1 && part < r->parts
		       ? (int)part
		       : -1;
}

bool attach_single_examine(struct attachment *a, struct initiator_device *ret)
{
	const struct transport *t = transport_find(a->record.transport);
	struct error problem = {.code = 0};
	bool dead = true;
	int r;

	if (!t || !a->record.ready)
		r = error_set(&problem, EIO,
			      "not finished: attach it again, or detach it");
	else if (a->record.top[0] && top_device_is_cut_off(&a->record))
		r = error_set(&problem, ESTALE,
			      "%s is cut off: attach it again", a->record.top);
	else
		r = t->check(a, &dead, &problem);
	if (!r && a->record.top[0]) {
		r = top_device_check(&a->record, &problem);
		dead = r != -EACCES;
	}
	attach_single_describe(&a->record, ret);
	ret->healthy = !r;
	ret->dead = r < 0 && dead;
	ret->keeps = ret->dead && a->record.top[0] &&
		     top_device_in_use(&a->record);
	if (r < 0) {
		(void)snprintf(ret->problem, sizeof(ret->problem), "%.255s",
			       error_text(&problem));
		ret->bad_part = bad_part(&a->record, error_text(&problem));
	}
	return ret->dead;
}

/* ---- attach ---- */

static int grow_device(struct attachment *a, uint64_t size, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	uint64_t now = 0;
	int r = t->resize(a, size, err);

	if (!r)
		r = device_size(a->record.device, &now, err);
	if (r < 0)
		return r;
	if (now < size)
		return error_set(err, EIO, "%s stayed at %llu bytes",
				 a->record.device, (unsigned long long)now);
	return 0;
}

/*
 * Write the parts, then grow the device to them. The device stays as it was
 * after an error, and so do the parts.
 */
static int grow_parts(struct attachment *a, const struct parts *asked,
		      uint64_t size, struct error *err)
{
	auto_free struct parts *before = NULL, *now = NULL;
	char name[128];
	int r;

	attach_parts_name(a, name, sizeof(name));
	r = parts_load(a->dirfd, name, &before, err);
	if (r < 0)
		return r;
	if (!asked && before->n > 1)
		return error_set(err, EINVAL, ATTACH_SINGLE_GROW);
	now = malloc(sizeof(*now));
	if (!now)
		return error_set(err, ENOMEM, "no memory for a list of parts");
	*now = asked ? *asked : *before;
	if (!asked)
		now->items[0].size = size;
	r = parts_take_place(before, now, err);
	if (r == 0)
		r = parts_save(a->dirfd, name, now, err);
	if (r < 0)
		return r;
	r = grow_device(a, size, err);
	if (r < 0) /* what is there, if it can't be written, does no harm */
		(void)parts_save(a->dirfd, name, before, NULL);
	else
		a->record.parts = now->n;
	return r;
}

int attach_single_grow(struct attachment *a, const struct parts *asked,
		       uint64_t size, struct error *err)
{
	int r;

	if (size < a->record.size)
		return error_set(err, EINVAL,
				 "attachment %s has %llu bytes: it cannot "
				 "shrink",
				 a->record.id,
				 (unsigned long long)a->record.size);
	r = a->record.parts ? grow_parts(a, asked, size, err)
			    : grow_device(a, size, err);
	if (r < 0)
		return r;
	a->record.size = size;
	r = attach_top_follow(a, err);
	return r < 0 ? r : record_save(a->dirfd, &a->record, err);
}

/*
 * Use a device that is there, and alive: 0 with the device, or why it cannot be
 * used.
 */
static int reuse(struct attachment *a, const struct initiator_request *q,
		 struct initiator_device *ret, struct error *err)
{
	const struct transport *t = transport_find(a->record.transport);
	auto_free struct parts *parts = NULL;
	int r = 0;

	if (!attach_request_is_same(a, q))
		return error_set(err, EEXIST,
				 "attachment %s is %s over %s%s already: "
				 "detach it first",
				 ret->id, ret->device, ret->source,
				 ret->read_only ? ", read-only" : "");
	if (t->mend)
		r = t->mend(a, err);
	if (!r && a->record.top[0])
		r = top_device_mend(&a->record, err);
	if (!r && q->size != a->record.size) {
		if (q->n_parts)
			r = attach_parts_of(q, &parts, err);
		if (!r)
			r = attach_single_grow(a, parts, q->size, err);
	}
	if (r < 0)
		return error_prefix(err, r, "attachment %s: ", a->record.id);
	(void)attach_single_examine(a, ret);
	return 0;
}

static int make(struct attachment *a, const struct initiator_request *q,
		const struct transport *t, const char *why, struct error *err)
{
	auto_free struct parts *parts = NULL;
	struct error undo = {.code = 0};
	char name[128];
	int r = t->parts ? attach_parts_of(q, &parts, err) : 0;

	attach_request_fill(&a->record, q, t, why);
	a->record.parts = parts ? parts->n : 0;
	attach_parts_name(a, name, sizeof(name));
	if (!r)
		r = record_save(a->dirfd, &a->record, err);
	if (r < 0)
		return r;
	if (parts)
		r = parts_save(a->dirfd, name, parts, err);
	if (!r)
		r = t->attach(a, err);
	if (!r)
		r = attach_top_make(a, err);
	if (!r) {
		a->record.ready = true;
		r = record_save(a->dirfd, &a->record, err);
	}
	if (r < 0 && attach_single_remove(a, &undo) < 0)
		(void)error_prefix(
			err, r,
			"(and the rest could not be taken down: %.150s) ",
			error_text(&undo));
	return r;
}

size_t attach_single_probe(struct initiator_capability *ret, size_t max)
{
	size_t n;

	for (n = 0; n < max && transports[n]; n++) {
		struct error err = {.code = 0};
		int r = transports[n]->probe(&err);

		ret[n].transport = transports[n]->name;
		ret[n].usable = !r;
		(void)snprintf(ret[n].why, sizeof(ret[n].why), "%.255s",
			       r ? error_text(&err) : "usable");
	}
	return n;
}

/* By the transport that is asked for, or the best one. */
static int make_by_transport(struct attachment *a,
			     const struct initiator_request *q,
			     struct error *err)
{
	struct initiator_capability capabilities[TRANSPORTS_MAX];
	const struct transport *t;
	char why[INITIATOR_TEXT_MAX];
	int r;

	(void)attach_single_probe(capabilities, TRANSPORTS_MAX);
	r = transport_choose(q, capabilities, &t, why, err);
	return r < 0 ? r : make(a, q, t, why, err);
}

/* Is the one there well, but not what it is to be below? */
static bool has_to_change(const struct attachment *a,
			  const struct initiator_request *q)
{
	return (q->renew || !attach_request_is_same(a, q)) &&
	       attach_exchange_possible(a, q);
}

/* Take down what is there, and make another. */
static int attach_anew(struct attachment *a, const struct initiator_request *q,
		       struct initiator_device *ret, struct error *err)
{
	/* Users of a dead device must not hold the next one up. */
	int r = a->record.top[0] ? attach_top_cut_off(a, err) : 0;

	if (!r)
		r = attach_single_remove(a, err);
	if (r < 0)
		return error_prefix(err, r,
				    "the rest of attachment %s: ", q->id);
	r = make_by_transport(a, q, err);
	if (r < 0)
		return error_prefix(err, r, "attach %s: ", q->id);
	(void)attach_single_examine(a, ret);
	return 0;
}

/* @device: what is there, and dead or not what it has to be below */
static int attach_over(struct attachment *a, const struct initiator_request *q,
		       struct initiator_device *device, struct error *err)
{
	int r = attach_exchange_possible(a, q) ? attach_exchange(a, q, err)
					       : -ESTALE;

	if (r == -ESTALE && device->dead)
		return attach_anew(a, q, device, err);
	(void)attach_single_examine(a, device);
	return r < 0 ? error_prefix(err, r,
				    "exchange what is below %s: ", q->id)
		     : 0;
}

bool attach_single_stays(struct attachment *a,
			 const struct initiator_request *q)
{
	struct initiator_device device;

	return !attach_single_examine(a, &device) ||
	       attach_exchange_possible(a, q);
}

int attach_single(struct attachment *a, bool loaded,
		  const struct initiator_request *q,
		  struct initiator_device *ret, struct error *err)
{
	if (!loaded)
		return attach_anew(a, q, ret, err);
	if (!attach_single_examine(a, ret) && !has_to_change(a, q))
		return reuse(a, q, ret, err);
	return attach_over(a, q, ret, err);
}
