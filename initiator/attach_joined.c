/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_joined.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "initiator/attach_parts.h"
#include "initiator/attach_request.h"
#include "initiator/attach_single.h"
#include "initiator/attach_state.h"
#include "initiator/attach_top.h"
#include "initiator/device/joined_table.h"
#include "initiator/device/top_device.h"

#define JOINED_NAME   "dm" /* in the place of a transport's */
#define JOINED_SUFFIX ".joined"
#define PART_ID_MAX   12

static void dir_of(const char *state_dir, const char *id,
		   char ret[static PATH_MAX])
{
	(void)snprintf(ret, PATH_MAX, "%.3900s/%.63s" JOINED_SUFFIX, state_dir,
		       id);
}

static void id_of(unsigned part, char ret[static PART_ID_MAX])
{
	(void)snprintf(ret, PART_ID_MAX, "%u", part);
}

bool attach_joined_possible(void)
{
	return mapper_probe(top_device_mapper, NULL) == 0;
}

bool attach_joined_is(const struct attachment *a)
{
	char dir[PATH_MAX];

	dir_of(a->state_dir, a->record.id, dir);
	/* A record that can't be read has no transport. */
	return a->record.transport[0]
		       ? strcmp(a->record.transport, JOINED_NAME) == 0
		       : access(dir, F_OK) == 0;
}

bool attach_joined_wanted(const struct initiator_request *q)
{
	return q->n_parts > 1 && attach_joined_possible();
}

/* ---- one part ---- */

/* Open part @part of the device, locked. As attach_state_load(). */
static int part_open(const char *state_dir, const char *id, unsigned part,
		     bool make, int operation, struct attach_state *state,
		     struct attachment *ret, struct error *err)
{
	char dir[PATH_MAX], part_id[PART_ID_MAX];
	int r;

	dir_of(state_dir, id, dir);
	id_of(part, part_id);
	r = attach_state_begin(ret, state, dir, part_id, make, operation, err);
	return r < 0 ? r : attach_state_load(ret, err);
}

int attach_joined_part(const char *state_dir, const char *id, unsigned part,
		       struct initiator_device *ret, struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct attachment one;
	int r = part_open(state_dir, id, part, false, LOCK_SH, &state, &one,
			  err);

	if (r == 0 || r == -ENOENT)
		return error_set(err, ENOENT, "no part %u of '%s'", part, id);
	if (r > 0)
		(void)attach_single_examine(&one, ret);
	return r < 0 ? r : 0;
}

/* The parts with records, damaged ones, too: they are without a gap. */
static unsigned parts_there(const struct attachment *a)
{
	char path[PATH_MAX], dir[PATH_MAX];
	unsigned n = 0;

	dir_of(a->state_dir, a->record.id, dir);
	do {
		(void)snprintf(path, sizeof(path), "%.4000s/%u" RECORD_SUFFIX,
			       dir, n);
	} while (access(path, F_OK) == 0 && ++n);
	return n;
}

/* ---- attach ---- */

static int device_number(const char *path, dev_t *ret, struct error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	*ret = st.st_rdev;
	return 0;
}

static int part_attach(const struct attachment *a,
		       const struct initiator_request *q, unsigned part,
		       dev_t *ret, struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct initiator_request request = q->parts[part];
	struct initiator_device device;
	struct attachment one;
	int r;

	request.read_only = q->read_only;
	request.renew = q->renew;
	request.connections = q->connections;
	request.dead_timeout_ms = q->dead_timeout_ms;
	request.launcher = q->launcher;
	r = part_open(a->state_dir, a->record.id, part, true, LOCK_EX, &state,
		      &one, err);
	request.id = one.record.id;
	one.launcher = q->launcher;
	if (r >= 0)
		r = attach_single(&one, r > 0, &request, &device, err);
	if (r == 0)
		r = device_number(device.device, ret, err);
	return r < 0 ? error_prefix(err, r, "part %u of %zu: ", part,
				    q->n_parts)
		     : 0;
}

/* Attach the parts, and make the table over them. */
static int join(const struct attachment *a, const struct initiator_request *q,
		const struct parts *parts, struct mapper_table *ret,
		struct error *err)
{
	dev_t devices[SEGMENTS_PARTS_MAX];
	struct segments segments;
	int r = parts_segments(parts, &segments, err);

	for (unsigned i = 0; r == 0 && i < parts->n; i++)
		r = part_attach(a, q, i, &devices[i], err);
	if (r < 0)
		return r;
	r = joined_table_make(&segments, devices, ret);
	return r < 0 ? error_set(err, -r, "a table of %u parts: %s", parts->n,
				 strerror(-r))
		     : 0;
}

static int keep_parts(const struct attachment *a, const struct parts *parts,
		      struct error *err)
{
	char name[128];

	attach_parts_name(a, name, sizeof(name));
	return parts_save(a->dirfd, name, parts, err);
}

static int make_joined(struct attachment *a, const struct initiator_request *q,
		       struct error *err)
{
	static const struct transport joined = {.name = JOINED_NAME};
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	auto_free struct parts *parts = NULL;
	int r = attach_parts_of(q, &parts, err);

	if (r < 0)
		return r;
	attach_request_fill(&a->record, q, &joined,
			    "several extents: device mapper over one device "
			    "of each");
	a->record.parts = parts->n;
	r = record_save(a->dirfd, &a->record, err);
	if (r == 0)
		r = join(a, q, parts, &table, err);
	if (r == 0)
		r = keep_parts(a, parts, err);
	if (r == 0)
		r = top_device_make(&a->record, a->tag, &table, err);
	if (r < 0)
		return r;
	a->record.ready = true;
	return record_save(a->dirfd, &a->record, err);
}

/* Let the device have what is below it now. */
static int follow(struct attachment *a, const struct mapper_table *next,
		  struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table now = {.count = 0};
	int r = top_device_read(&a->record, &now, err);

	if (r == 0 && !joined_table_grows(&now, next))
		r = error_set(err, ESTALE, "%s lies on other devices",
			      a->record.top);
	if (r == 0)
		r = top_device_mend(&a->record, err);
	if (r == 0 && !mapper_table_equal(&now, next))
		r = top_device_follow(&a->record, next, err);
	return r;
}

static int again(struct attachment *a, const struct initiator_request *q,
		 struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	auto_free struct parts *now = NULL, *asked = NULL;
	char name[128];
	int r = attach_parts_of(q, &asked, err);

	attach_parts_name(a, name, sizeof(name));
	if (r == 0)
		r = parts_load(a->dirfd, name, &now, err);
	if (r < 0)
		return r;
	if (parts_take_place(now, asked, err) < 0)
		return -ESTALE;
	r = join(a, q, asked, &table, err);
	if (r == 0)
		r = keep_parts(a, asked, err);
	if (r == 0)
		r = follow(a, &table, err);
	if (r < 0)
		return r;
	a->record.parts = asked->n;
	a->record.size = q->size;
	return record_save(a->dirfd, &a->record, err);
}

/* ---- what is there ---- */

/*
 * Check one part. -ENODEV, -ESTALE: the device does not lie on it, or it is
 * dead itself.
 */
static int part_check(const struct attachment *a,
		      const struct mapper_table *table, unsigned part,
		      bool *ret_dead, struct error *err)
{
	struct initiator_device device;
	dev_t number = 0;
	int r = attach_joined_part(a->state_dir, a->record.id, part, &device,
				   err);

	*ret_dead = true;
	if (r < 0)
		return r;
	if (!device.healthy) {
		*ret_dead = device.dead;
		return error_set(err, EIO, "%.200s", device.problem);
	}
	r = device_number(device.device, &number, err);
	if (r == 0 && !mapper_table_has_device(table, number))
		r = error_set(err, ESTALE,
			      "%s does not lie on %s: attach it again",
			      a->record.top, device.device);
	return r;
}

/*
 * 0: all of it is well. Else the error of the first part that only attaching
 * anew helps, or else of the first that is not well.
 *
 * @ret_dead  only attaching anew helps
 * @ret_part  that part; -1: the problem is that of the whole
 */
static int check_all(const struct attachment *a, bool *ret_dead, int *ret_part,
		     struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	int r = top_device_read(&a->record, &table, err), first = 0;

	*ret_part = -1;
	*ret_dead = r != -EACCES;
	if (r < 0)
		return r;
	*ret_dead = false;
	for (unsigned i = 0; !*ret_dead && i < a->record.parts; i++) {
		struct error why = {.code = 0};
		bool dead = false;

		r = part_check(a, &table, i, &dead, &why);
		if (r == 0 || (first < 0 && !dead))
			continue;
		first = error_set(err, -r, "part %u of %u: %s", i,
				  a->record.parts, error_text(&why));
		*ret_part = (int)i;
		*ret_dead = dead;
	}
	return first;
}

bool attach_joined_examine(struct attachment *a, struct initiator_device *ret)
{
	struct error problem = {.code = 0};
	bool dead = true;
	int part = -1, r;

	if (!a->record.ready)
		r = error_set(&problem, EIO,
			      "not finished: attach it again, or detach it");
	else if (top_device_is_cut_off(&a->record))
		r = error_set(&problem, ESTALE,
			      "%s is cut off: attach it again", a->record.top);
	else
		r = check_all(a, &dead, &part, &problem);
	attach_single_describe(&a->record, ret);
	ret->healthy = r == 0;
	ret->dead = r < 0 && dead;
	ret->bad_part = part;
	ret->keeps = ret->dead && a->record.top[0] &&
		     top_device_in_use(&a->record);
	(void)snprintf(ret->problem, sizeof(ret->problem), "%.255s",
		       r < 0 ? error_text(&problem) : "");
	return ret->dead;
}

/* ---- taking it down ---- */

static int part_cut_off(const struct attachment *a, unsigned part, bool all,
			struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct initiator_device device;
	struct attachment one;
	int r = part_open(a->state_dir, a->record.id, part, false, LOCK_EX,
			  &state, &one, err);

	if (r <= 0 || (!attach_single_examine(&one, &device) && !all))
		return r < 0 ? r : 0;
	return attach_top_cut_off(&one, err);
}

/* Cut the parts off: those that are dead, or @all. */
static int cut_off_parts(const struct attachment *a, bool all,
			 struct error *err)
{
	const unsigned n = parts_there(a);
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = part_cut_off(a, i, all, err);
	return r;
}

/* The parts first: a suspend waits for requests that go there. */
static int cut_off(struct attachment *a, struct error *err)
{
	int r = cut_off_parts(a, true, err);

	return r < 0 ? r : attach_top_cut_off(a, err);
}

int attach_joined_fence(struct attachment *a, bool held_elsewhere,
			struct error *err)
{
	if (held_elsewhere && !device_is_held_elsewhere(a->record.top))
		return 0;
	return cut_off(a, err);
}

static int part_remove(const struct attachment *a, unsigned part,
		       struct error *err)
{
	auto_attach_state struct attach_state state = ATTACH_STATE_CLOSED;
	struct attachment one;
	int r = part_open(a->state_dir, a->record.id, part, false, LOCK_EX,
			  &state, &one, err);

	if (r >= 0)
		r = attach_single_remove(&one, err);
	return r < 0 ? error_prefix(err, r, "part %u: ", part) : 0;
}

/* The directory, with its lock and logs. What else is in it stays. */
static void remove_dir(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *e;

	while (dir && (e = readdir(dir)))
		(void)unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		(void)closedir(dir); /* was only read */
	(void)rmdir(path);
}

int attach_joined_remove(struct attachment *a, struct error *err)
{
	char dir[PATH_MAX], name[128];
	int r = 0;

	/* In use, a dead part can be exchanged yet. */
	if (!a->record.top[0] || !top_device_in_use(&a->record))
		r = cut_off_parts(a, false, err);
	if (r == 0)
		r = attach_top_remove(a, err);
	for (unsigned n = parts_there(a); r == 0 && n-- > 0;)
		r = part_remove(a, n, err);
	attach_parts_name(a, name, sizeof(name));
	if (r == 0)
		r = file_remove(a->dirfd, name, err);
	if (r < 0)
		return r;
	dir_of(a->state_dir, a->record.id, dir);
	remove_dir(dir);
	return record_remove(a->dirfd, a->record.id, err);
}

/* ---- the whole ---- */

/* Take down what is there, and make another. */
static int anew(struct attachment *a, bool loaded,
		const struct initiator_request *q, struct initiator_device *ret,
		struct error *err)
{
	struct error undo = {.code = 0};
	int r = 0;

	/* Users of a dead device must not hold the next one up. */
	if (attach_joined_is(a)) {
		r = cut_off(a, err);
		if (r == 0)
			r = attach_joined_remove(a, err);
	} else if (loaded && a->record.top[0]) {
		r = attach_top_cut_off(a, err);
	}
	if (r == 0)
		r = attach_single_remove(a, err);
	if (r < 0)
		return error_prefix(err, r,
				    "the rest of attachment %s: ", q->id);
	r = make_joined(a, q, err);
	if (r < 0 && attach_joined_remove(a, &undo) < 0)
		(void)error_prefix(
			err, r,
			"(and the rest could not be taken down: %.150s) ",
			error_text(&undo));
	if (r < 0)
		return error_prefix(err, r, "attach %s: ", q->id);
	(void)attach_joined_examine(a, ret);
	return 0;
}

/* @device: what is there */
static int attach_there(struct attachment *a, const struct initiator_request *q,
			const struct initiator_device *device,
			struct error *err)
{
	if (!a->record.ready || q->n_parts < 2 ||
	    q->read_only != a->record.read_only ||
	    (device->dead && !device->keeps))
		return -ESTALE;
	return again(a, q, err);
}

int attach_joined(struct attachment *a, bool loaded,
		  const struct initiator_request *q,
		  struct initiator_device *ret, struct error *err)
{
	int r;

	if (!loaded || !attach_joined_is(a))
		return anew(a, loaded, q, ret, err);
	(void)attach_joined_examine(a, ret);
	r = attach_there(a, q, ret, err);
	if (r == -ESTALE && ret->dead && q->n_parts > 1)
		return anew(a, loaded, q, ret, err);
	(void)attach_joined_examine(a, ret);
	if (r == -ESTALE)
		return error_set(err, EEXIST,
				 "attachment %s is %s already, of other parts: "
				 "detach it first",
				 q->id, ret->device);
	return r < 0 ? error_prefix(err, r, "attachment %s: ", q->id) : 0;
}
