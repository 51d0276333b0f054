/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/initiator.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "initiator/attach_joined.h"
#include "initiator/attach_request.h"
#include "initiator/attach_single.h"
#include "initiator/attach_state.h"
#include "initiator/attach_top.h"

#define LIST_MAX         65536 /* attachments of one machine */
#define RECONNECT_MS     3000  /* of a device that tries at least each second */
#define RECONNECT_TRY_MS 50

static bool examine(struct attachment *a, struct initiator_device *ret)
{
	return attach_joined_is(a) ? attach_joined_examine(a, ret)
				   : attach_single_examine(a, ret);
}

/*
 * A device of several that is there, by device mapper or by trib-nbd, stays so
 * until it is taken down.
 */
static int attach_either(struct attachment *a, bool loaded,
			 const struct initiator_request *q,
			 struct initiator_device *ret, struct error *err)
{
	bool there = attach_joined_is(a);
	bool stays = loaded && (there || attach_single_stays(a, q));
	int r = 0;

	if (stays ? there : attach_joined_wanted(q))
		return attach_joined(a, loaded, q, ret, err);
	if (there) /* what is left of one whose record is lost */
		r = attach_joined_remove(a, err);
	return r < 0 ? r : attach_single(a, loaded, q, ret, err);
}

int initiator_attach(const struct initiator_request *q,
		     struct initiator_device *ret, struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct initiator_device device = {.bad_part = -1};
	struct attachment a;
	int r = attach_request_check(q, err);

	if (r < 0)
		return r;
	r = attach_state_begin(&a, &state, q->state_dir, q->id, true, LOCK_EX,
			       err);
	if (r < 0)
		return r;
	a.launcher = q->launcher;
	r = attach_state_load(&a, err);
	if (r >= 0)
		r = attach_either(&a, r > 0, q, &device, err);
	if (r == 0)
		*ret = device;
	return r;
}

/* ---- the rest ---- */

int initiator_detach(const char *state_dir, const char *id, struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct attachment a;
	int r = attach_state_begin(&a, &state, state_dir, id, false, LOCK_EX,
				   err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = attach_state_load(&a, err);
	if (r >= 0)
		r = attach_joined_is(&a) ? attach_joined_remove(&a, err)
					 : attach_single_remove(&a, err);
	return r < 0 ? error_prefix(err, r, "detach %s: ", id) : 0;
}

int initiator_fence(const char *state_dir, const char *id, bool held_elsewhere,
		    struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct attachment a;
	int r = attach_state_begin(&a, &state, state_dir, id, false, LOCK_EX,
				   err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	r = attach_state_load(&a, err);
	if (r > 0)
		r = attach_joined_is(&a)
			    ? attach_joined_fence(&a, held_elsewhere, err)
			    : attach_top_fence(&a, held_elsewhere, err);
	return r < 0 ? error_prefix(err, r, "fence %s: ", id) : 0;
}

int initiator_get(const char *state_dir, const char *id,
		  struct initiator_device *ret, struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct attachment a;
	int r = attach_state_begin(&a, &state, state_dir, id, false, LOCK_SH,
				   err);

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

int initiator_get_reconnected(const char *state_dir, const char *id,
			      struct initiator_device *ret, struct error *err)
{
	int64_t end_ms = clock_ms() + RECONNECT_MS;
	int r = initiator_get(state_dir, id, ret, err);

	while (r == 0 && !ret->healthy && !ret->dead && clock_ms() < end_ms) {
		(void)poll(NULL, 0, RECONNECT_TRY_MS);
		r = initiator_get(state_dir, id, ret, err);
	}
	return r;
}

int initiator_get_part(const char *state_dir, const char *id, unsigned part,
		       struct initiator_device *ret, struct error *err)
{
	return attach_joined_part(state_dir, id, part, ret, err);
}

bool initiator_joins(void)
{
	return attach_joined_possible();
}

/* Make one entry of the list; a record that cannot be read is one too. */
static int list_one(const struct attach_state *s, const char *id,
		    struct initiator_device *ret, struct error *err)
{
	struct error problem = {.code = 0};
	struct attachment a;
	int r = attach_state_name(&a, s, id, err);

	if (r < 0)
		return r;
	if (record_load(a.dirfd, id, &a.record, &problem) < 0) {
		attach_single_describe(&a.record, ret);
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

static int list_all(const struct attach_state *s, DIR *dir,
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
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	DIR *dir;
	int r = attach_state_open(&state, state_dir, false, LOCK_SH, err);

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
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct initiator_device device;
	struct attachment a;
	int r;

	if (!size || size > INT64_MAX || size % DEVICE_BLOCK_SIZE)
		return error_set(err, EINVAL,
				 "an extent's size is a multiple of %d bytes",
				 DEVICE_BLOCK_SIZE);
	r = attach_state_begin(&a, &state, state_dir, id, false, LOCK_EX, err);
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
	r = attach_joined_is(&a) ? error_set(err, EINVAL, ATTACH_SINGLE_GROW)
				 : attach_single_grow(&a, NULL, size, err);
	return r < 0 ? error_prefix(err, r, "resize %s: ", id) : 0;
}

size_t initiator_probe(struct initiator_capability *ret, size_t max)
{
	size_t n = attach_single_probe(ret, max);

	if (n == max)
		return n;
	attach_top_probe(&ret[n]);
	return n + 1;
}
