/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots, clones and reverts: objects that share clusters. A snapshot is a
 * record of 20 bytes in the log, however much there is to share.
 *
 * What fits one batch is there with it, or not at all. Else an object "making"
 * comes first, then the new ones, "made with" it, and when all is there the
 * first one goes. A load that finds it takes all of them away.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw/pool_raw_internal.h"

/* An object that is to be made. */
struct member {
	uint32_t id, from;
	uint64_t clusters;
	bool thick;
	char *text; /* owned; its record, after what makes it one of a group */
	size_t prefix, length; /* bytes of it; of both */
};

struct group {
	struct pool_raw *raw;
	struct member *members; /* owned */
	size_t n;
	uint32_t anchor;
};

static void group_done(struct group *group)
{
	for (size_t i = 0; group->members && i < group->n; i++)
		free(group->members[i].text);
	free(group->members);
}

static int member_init(struct group *group, struct member *member,
		       const struct pool_copy *copy, struct error *err)
{
	struct pool_raw *raw = group->raw;
	const struct extent_record *record = copy->record;
	int r = pool_raw_need(raw, copy->from, &member->from, &member->clusters,
			      err);

	if (r == 0 && pool_raw_is_damaged(raw, member->from))
		r = error_set(err, EIO, "extent '%.64s' is damaged",
			      copy->from);
	if (r == 0 && pool_raw_find(raw, record->name, NULL))
		r = error_set(err, EEXIST, "pool '%s' has an extent '%s'",
			      raw->pool.record.name, record->name);
	if (r == 0)
		r = extent_record_encode(record, &member->text, &member->length,
					 err);
	if (r < 0)
		return r;
	member->thick = record->thick && record->kind == EXTENT_KIND_EXTENT;
	if (member->clusters < pool_raw_clusters(raw, record->size))
		member->clusters = pool_raw_clusters(raw, record->size);
	return 0;
}

/* Lock @ids held. */
static int group_number(struct group *group, struct error *err)
{
	uint32_t *ids = calloc(group->n + 1, sizeof(*ids));
	uint64_t clusters = 0;
	int r;

	if (!ids)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < group->n; i++)
		clusters += group->members[i].clusters;
	r = pool_raw_new_ids(group->raw, ids, group->n + 1, clusters, err);
	for (size_t i = 0; r == 0 && i < group->n; i++)
		group->members[i].id = ids[i];
	group->anchor = ids[group->n];
	free(ids);
	return r;
}

static int group_init(struct group *group, struct pool_raw *raw,
		      const struct pool_copy *copies, size_t n,
		      struct error *err)
{
	int r = 0;

	*group = (struct group){.raw = raw, .n = n};
	group->members = calloc(n, sizeof(*group->members));
	if (!group->members)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = member_init(group, &group->members[i], &copies[i], err);
	return r < 0 ? r : group_number(group, err);
}

static void member_records(const struct member *member,
			   struct raw_record records[2])
{
	records[0] = (struct raw_record){
		.type = RAW_OBJECT,
		.object = member->id,
		.clusters = member->clusters,
		.text = member->text,
		.text_length = (uint32_t)member->length,
	};
	records[1] = (struct raw_record){
		.type = RAW_SHARE,
		.object = member->id,
		.from = member->from,
	};
}

/* ---- all in one batch ---- */

/* -E2BIG: they are too many for it. */
static int make_at_once(struct group *group, uint64_t *ret_ticket,
			struct error *err)
{
	struct raw_record *records = calloc(group->n, 2 * sizeof(*records));
	int r;

	if (!records)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < group->n; i++) {
		if (group->members[i].thick) {
			free(records);
			return -E2BIG; /* its holes take more */
		}
		member_records(&group->members[i], records + 2 * i);
	}
	r = raw_store_change(group->raw->store, records, 2 * group->n,
			     ret_ticket, err);
	free(records);
	return r;
}

/* ---- one after the other ---- */

static int anchor_make(struct group *group, struct error *err)
{
	const struct raw_record anchor = {
		.type = RAW_OBJECT,
		.object = group->anchor,
		.text = POOL_RAW_MAKING,
		.text_length = strlen(POOL_RAW_MAKING),
	};

	return raw_store_change(group->raw->store, &anchor, 1, NULL, err);
}

/* "made with N\n" in front of its record. */
static int member_mark(const struct group *group, struct member *member,
		       struct error *err)
{
	char *text;
	int prefix = asprintf(&text, POOL_RAW_MADE_WITH "%u\n", group->anchor);
	char *both = prefix < 0
			     ? NULL
			     : realloc(text, (size_t)prefix + member->length);

	if (!both) {
		if (prefix >= 0)
			free(text);
		return error_set(err, ENOMEM, "out of memory");
	}
	memcpy(both + prefix, member->text, member->length);
	free(member->text);
	member->text = both;
	member->prefix = (size_t)prefix;
	member->length += member->prefix;
	return 0;
}

static int member_make(struct group *group, struct member *member,
		       struct error *err)
{
	struct raw_record records[2];
	int r = member_mark(group, member, err);

	if (r < 0)
		return r;
	member_records(member, records);
	r = raw_store_change(group->raw->store, records, 2, NULL, err);
	if (r == 0 && member->thick)
		r = pool_raw_fill(group->raw, member->id, 0, member->clusters,
				  err);
	return r;
}

/* Plain records now; a load does the rest after a crash. */
static int members_unmark(struct group *group, uint64_t *ret_ticket,
			  struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < group->n; i++) {
		struct member *member = &group->members[i];
		struct raw_record records[2];

		member_records(member, records);
		records[0].text += member->prefix;
		records[0].text_length -= (uint32_t)member->prefix;
		r = raw_store_change(group->raw->store, records, 1, ret_ticket,
				     err);
	}
	return r;
}

static int make_in_turn(struct group *group, uint64_t *ret_ticket,
			struct error *err)
{
	struct error other;
	int r = anchor_make(group, err);

	for (size_t i = 0; r == 0 && i < group->n; i++)
		r = member_make(group, &group->members[i], err);
	if (r < 0) {
		/* When this fails, too, the next load does it. */
		(void)pool_raw_undo(group->raw, group->anchor, &other);
		return r;
	}
	/* From here on they are. */
	r = pool_raw_change(
		group->raw,
		&(struct raw_record){.type = RAW_DROP, .object = group->anchor},
		err);
	return r < 0 ? r : members_unmark(group, ret_ticket, err);
}

/* Lock @ids is not held: a device waits for its requests. */
static int hold_sources(struct pool_raw *raw, const struct pool_copy *copies,
			size_t n, uint32_t *ids, struct error *err)
{
	int r = 0;

	for (size_t i = 0; raw->direct && r == 0 && i < n; i++) {
		r = pool_raw_need(raw, copies[i].from, &ids[i], NULL, err);
		if (r == 0)
			r = pool_raw_direct_hold(raw, ids[i], err);
		if (r < 0)
			ids[i] = 0;
	}
	return r;
}

static void release_sources(struct pool_raw *raw, const uint32_t *ids, size_t n)
{
	for (size_t i = 0; i < n && ids[i]; i++)
		pool_raw_direct_release(raw, ids[i]);
}

static int copy_held(struct pool_raw *raw, const struct pool_copy *copies,
		     size_t n, struct error *err)
{
	struct group group;
	uint64_t ticket = 0;
	int r;

	(void)pthread_mutex_lock(&raw->ids);
	r = group_init(&group, raw, copies, n, err);
	if (r == 0)
		r = make_at_once(&group, &ticket, err);
	if (r == -E2BIG)
		r = make_in_turn(&group, &ticket, err);
	(void)pthread_mutex_unlock(&raw->ids);
	group_done(&group);
	/* Earlier writes are durable with it. */
	return r < 0 ? r : raw_store_commit(raw->store, ticket, err);
}

int pool_raw_copy(struct pool *pool, const struct pool_copy *copies, size_t n,
		  pool_copied copied, void *context, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t *ids = calloc(n + 1, sizeof(*ids));
	int r;

	(void)copied; /* it takes no time */
	(void)context;
	if (!ids)
		return error_set(err, ENOMEM, "out of memory");
	r = hold_sources(raw, copies, n, ids, err);
	if (r == 0)
		r = copy_held(raw, copies, n, err);
	release_sources(raw, ids, n);
	free(ids);
	return r;
}

/* ---- revert ---- */

static int revert_held(struct pool_raw *raw, const struct extent_record *record,
		       const char *from, struct error *err)
{
	struct raw_record records[2] = {{.type = RAW_OBJECT},
					{.type = RAW_SHARE}};
	uint64_t clusters = 0, needed = pool_raw_clusters(raw, record->size);
	auto_free char *text = NULL;
	uint64_t ticket = 0;
	size_t length = 0;
	int r = pool_raw_need(raw, record->name, &records[0].object,
			      &records[0].clusters, err);

	if (r == 0)
		r = pool_raw_need(raw, from, &records[1].from, &clusters, err);
	if (r == 0 && pool_raw_is_damaged(raw, records[1].from))
		r = error_set(err, EIO, "extent '%.64s' is damaged", from);
	if (r == 0)
		r = extent_record_encode(record, &text, &length, err);
	if (r < 0)
		return r;
	if (records[0].clusters < clusters)
		records[0].clusters = clusters;
	if (records[0].clusters < needed)
		records[0].clusters = needed;
	records[0].text = text;
	records[0].text_length = (uint32_t)length;
	records[1].object = records[0].object;
	r = raw_store_change(raw->store, records, 2, &ticket, err);
	if (r == 0)
		r = raw_store_commit(raw->store, ticket, err);
	/* The clusters that it had are free when this returns. */
	if (r == 0)
		r = raw_users_clean_now(raw->users, err);
	if (r == 0 && record->thick)
		r = pool_raw_thicken(raw, records[0].object, needed, err);
	return r;
}

int pool_raw_revert(struct pool *pool, const struct extent_record *record,
		    const char *from, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id, from_id = 0;
	int r;

	if (!raw->direct)
		return revert_held(raw, record, from, err);
	r = pool_raw_need(raw, record->name, &id, NULL, err);
	if (r == 0)
		r = pool_raw_need(raw, from, &from_id, NULL, err);
	if (r == 0)
		r = pool_raw_direct_hold(raw, id, err);
	if (r < 0)
		return r;
	r = pool_raw_direct_hold(raw, from_id, err);
	if (r == 0) {
		r = revert_held(raw, record, from, err);
		pool_raw_direct_release(raw, from_id);
	}
	pool_raw_direct_release(raw, id);
	return r;
}
