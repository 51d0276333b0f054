/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/initiator.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "initiator/attach_exchange.h"
#include "initiator/attach_parts.h"
#include "initiator/attach_request.h"
#include "initiator/attach_top.h"
#include "initiator/device/top_device.h"
#include "initiator/transport/transport.h"

#define LOCK_NAME ".lock"
#define LIST_MAX  65536 /* attachments of one machine */

/* The state directory, locked until it is closed. */
struct state {
	char path[PATH_MAX];
	int dirfd;
	int lock;
};

static void state_close(struct state *s)
{
	mapper_kernel_hold(-1);
	fd_close(s->lock); /* and with it the lock */
	fd_close(s->dirfd);
}
#define auto_state auto_cleanup(state_close)

/* Open the state directory. -ENOENT when it is missing and not to be made. */
static int state_open(struct state *s, const char *path, bool make,
		      int operation, struct error *err)
{
	int r = make ? dir_make(path, 0700, err) : 0;

	if (r < 0)
		return r;
	if (!realpath(path, s->path))
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	s->dirfd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dirfd < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	s->lock = openat(s->dirfd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC,
			 0600);
	if (s->lock < 0)
		return error_set(err, errno, "'%s/" LOCK_NAME "': %s", path,
				 strerror(errno));
	do {
		r = flock(s->lock, operation);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return error_set(err, errno, "lock '%s': %s", path,
				 strerror(errno));
	mapper_kernel_hold(s->lock);
	return 0;
}

static int attachment_init(struct attachment *a, const struct state *s,
			   const char *id, struct error *err)
{
	memset(a, 0, sizeof(*a));
	a->dirfd = s->dirfd;
	a->state_dir = s->path;
	(void)snprintf(a->record.id, sizeof(a->record.id), "%s", id);
	return device_tag(s->dirfd, id, a->tag, err);
}

/* Open the directory, locked, and in @a its attachment @id, not yet loaded. */
static int attachment_open(struct attachment *a, struct state *s,
			   const char *state_dir, const char *id, bool make,
			   int operation, struct error *err)
{
	int r = name_check("attachment", id, err);

	memset(a, 0, sizeof(*a));
	if (r < 0)
		return r;
	r = state_open(s, state_dir, make, operation, err);
	if (r < 0)
		return r;
	return attachment_init(a, s, id, err);
}

/*
 * Load the record of @a, or an empty one. Returns 1 (there is one), 0 (none, or
 * a damaged one: leftovers are found by their tag) or an error.
 */
static int attachment_load(struct attachment *a, struct error *err)
{
	struct record found;
	int r = record_load(a->dirfd, a->record.id, &found, err);

	if (r == -ENOENT || r == -EINVAL || r == -EFBIG)
		return 0;
	if (r < 0)
		return r;
	a->record = found;
	record_forget_other_boot(&a->record);
	return 1;
}

/* Undo all of an attachment, whatever transport made it, and forget it. */
static int take_down(struct attachment *a, struct error *err)
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

static void describe(const struct record *r, struct initiator_device *ret)
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

/*
 * Tell the device and its health. Returns true when it can only be made anew.
 */
static bool examine(struct attachment *a, struct initiator_device *ret)
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
	describe(&a->record, ret);
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
		return error_set(err, EINVAL,
				 "it has several parts, and grows when it is "
				 "attached with all of them");
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

/* @asked: its parts; NULL: those it has */
static int grow(struct attachment *a, const struct parts *asked, uint64_t size,
		struct error *err)
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
	if (a->record.top[0])
		r = top_device_follow(&a->record, err);
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
			r = grow(a, parts, q->size, err);
	}
	if (r < 0)
		return error_prefix(err, "attachment %s: ", a->record.id);
	(void)examine(a, ret);
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
	if (r < 0 && take_down(a, &undo) < 0)
		(void)error_prefix(
			err, "(and the rest could not be taken down: %.150s) ",
			error_text(&undo));
	return r;
}

static size_t probe_all(struct initiator_capability *ret, size_t max)
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
	struct initiator_capability capabilities[TRANSPORTS_MAX];
	const struct transport *t;
	char why[INITIATOR_TEXT_MAX];
	/* Users of a dead device must not hold the next one up. */
	int r = a->record.top[0] ? attach_top_cut_off(a, err) : 0;

	if (!r)
		r = take_down(a, err);
	if (r < 0)
		return error_prefix(err, "the rest of attachment %s: ", q->id);
	(void)probe_all(capabilities, TRANSPORTS_MAX);
	r = transport_choose(q, capabilities, &t, why, err);
	if (!r)
		r = make(a, q, t, why, err);
	if (r < 0)
		return error_prefix(err, "attach %s: ", q->id);
	(void)examine(a, ret);
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
	(void)examine(a, device);
	return r < 0 ? error_prefix(err, "exchange what is below %s: ", q->id)
		     : 0;
}

int initiator_attach(const struct initiator_request *q,
		     struct initiator_device *ret, struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	struct initiator_device device = {.bad_part = -1};
	struct attachment a;
	int r = attach_request_check(q, err);

	if (r < 0)
		return r;
	r = attachment_open(&a, &state, q->state_dir, q->id, true, LOCK_EX,
			    err);
	if (r < 0)
		return r;
	a.launcher = q->launcher;
	r = attachment_load(&a, err);
	if (r == 0)
		r = attach_anew(&a, q, &device, err);
	else if (r > 0 && !examine(&a, &device) && !has_to_change(&a, q))
		r = reuse(&a, q, &device, err);
	else if (r > 0)
		r = attach_over(&a, q, &device, err);
	if (r == 0)
		*ret = device;
	return r;
}

/* ---- the rest ---- */

int initiator_detach(const char *state_dir, const char *id, struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	struct attachment a;
	int r = attachment_open(&a, &state, state_dir, id, false, LOCK_EX, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = attachment_load(&a, err);
	if (r >= 0)
		r = take_down(&a, err);
	return r < 0 ? error_prefix(err, "detach %s: ", id) : 0;
}

int initiator_fence(const char *state_dir, const char *id, bool held_elsewhere,
		    struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	struct attachment a;
	int r = attachment_open(&a, &state, state_dir, id, false, LOCK_EX, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = attachment_load(&a, err);
	if (r > 0)
		r = attach_top_fence(&a, held_elsewhere, err);
	return r < 0 ? error_prefix(err, "fence %s: ", id) : 0;
}

int initiator_get(const char *state_dir, const char *id,
		  struct initiator_device *ret, struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	struct attachment a;
	int r = attachment_open(&a, &state, state_dir, id, false, LOCK_SH, err);

	if (!r)
		r = record_load(a.dirfd, id, &a.record, err);
	if (r == -ENOENT)
		return error_set(err, ENOENT, "no attachment '%s'", id);
	if (r < 0)
		return r;
	record_forget_other_boot(&a.record);
	(void)examine(&a, ret);
	return 0;
}

/* Make one entry of the list; a record that cannot be read is one too. */
static int list_one(const struct state *s, const char *id,
		    struct initiator_device *ret, struct error *err)
{
	struct error problem = {.code = 0};
	struct attachment a;
	int r = attachment_init(&a, s, id, err);

	if (r < 0)
		return r;
	if (record_load(a.dirfd, id, &a.record, &problem) < 0) {
		describe(&a.record, ret);
		ret->dead = true;
		(void)snprintf(ret->problem, sizeof(ret->problem), "%.255s",
			       error_text(&problem));
		return 0;
	}
	record_forget_other_boot(&a.record);
	(void)examine(&a, ret);
	return 0;
}

/* Take the id of "ID.attachment", in @id. */
static bool id_of_file(const char *name, char *id, size_t size)
{
	size_t length = strlen(name), suffix = strlen(RECORD_SUFFIX);

	if (length <= suffix || length - suffix >= size ||
	    strcmp(name + length - suffix, RECORD_SUFFIX) != 0)
		return false;
	(void)snprintf(id, size, "%.*s", (int)(length - suffix), name);
	return !name_check("attachment", id, NULL);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct initiator_device *)a)->id,
		      ((const struct initiator_device *)b)->id);
}

static int list_all(const struct state *s, DIR *dir,
		    struct initiator_device **ret, size_t *ret_count,
		    struct error *err)
{
	auto_free struct initiator_device *list = NULL;
	size_t count = 0;
	struct dirent *e;
	char id[64];
	int r;

	while ((e = readdir(dir))) {
		struct initiator_device *more;

		if (!id_of_file(e->d_name, id, sizeof(id)))
			continue;
		if (count == LIST_MAX)
			return error_set(err, EFBIG, "too many attachments");
		more = realloc(list, (count + 1) * sizeof(*list));
		if (!more)
			return error_set(err, ENOMEM, "no memory for a list");
		list = more;
		r = list_one(s, id, &list[count], err);
		if (r < 0)
			return r;
		count++;
	}
	if (count)
		qsort(list, count, sizeof(*list), by_id);
	*ret = take_ptr(list);
	*ret_count = count;
	return 0;
}

int initiator_list(const char *state_dir, struct initiator_device **ret,
		   size_t *ret_count, struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	DIR *dir;
	int r = state_open(&state, state_dir, false, LOCK_SH, err);

	if (r == -ENOENT) {
		*ret = NULL;
		*ret_count = 0;
		return 0;
	}
	if (r < 0)
		return r;
	dir = opendir(state.path);
	if (!dir)
		return error_set(err, errno, "'%s': %s", state_dir,
				 strerror(errno));
	r = list_all(&state, dir, ret, ret_count, err);
	(void)closedir(dir);
	return r;
}

int initiator_resize(const char *state_dir, const char *id, uint64_t size,
		     struct error *err)
{
	auto_state struct state state = {.dirfd = -1, .lock = -1};
	struct initiator_device device;
	struct attachment a;
	int r;

	if (!size || size > INT64_MAX || size % DEVICE_BLOCK_SIZE)
		return error_set(err, EINVAL,
				 "an extent's size is a multiple of %d bytes",
				 DEVICE_BLOCK_SIZE);
	r = attachment_open(&a, &state, state_dir, id, false, LOCK_EX, err);
	if (!r)
		r = record_load(a.dirfd, id, &a.record, err);
	if (r == -ENOENT)
		return error_set(err, ENOENT, "no attachment '%s'", id);
	if (r < 0)
		return r;
	record_forget_other_boot(&a.record);
	if (examine(&a, &device))
		return error_set(err, EIO, "attachment %s: %s", id,
				 device.problem);
	r = grow(&a, NULL, size, err);
	return r < 0 ? error_prefix(err, "resize %s: ", id) : 0;
}

size_t initiator_probe(struct initiator_capability *ret, size_t max)
{
	size_t n = probe_all(ret, max);

	if (n == max)
		return n;
	attach_top_probe(&ret[n]);
	return n + 1;
}
