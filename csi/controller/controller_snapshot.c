/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: snapshots of a volume. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/reply.h"
#include "csi/controller/controller.h"
#include "csi/controller/snapshot.h"

/* ---- CreateSnapshot ---- */

/* Check that the snapshot of this name is the one asked for. */
static int snapshot_check_same(struct csi_call *c,
			       const Csi__V1__CreateSnapshotRequest *in,
			       const struct snapshot_record *record)
{
	const char *name = labels_get(&record->labels, CSI_LABEL_NAME);

	if (!name || strcmp(name, in->name) != 0 || record->group[0])
		return csi_fail(c, RPC_ALREADY_EXISTS,
				"a snapshot '%s' is there, which was not made "
				"for this name",
				record->name);
	if (strcmp(record->volume, c->id.name) != 0 ||
	    (c->id.uid[0] && strcmp(record->volume_uid, c->id.uid) != 0))
		return csi_fail(c, RPC_ALREADY_EXISTS,
				"snapshot '%s' is there, of volume '%s@%s'",
				record->name, record->volume,
				record->volume_uid);
	return 0;
}

/*
 * Tell whether there is anything to be cut. 1; 0: the snapshot is cut, and its
 * volume may be gone; or the value that a csi_fail function returned.
 */
static int snapshot_look(struct csi_call *c,
			 const Csi__V1__CreateSnapshotRequest *in,
			 const char *name)
{
	struct snapshot_record *there = NULL;
	struct volume_record *volume = NULL;
	int r = volume_snapshot_get(c->csi->volumes, name, &there, c->err);
	bool cut = r == 0 && snapshot_record_is_cut(there);

	if (r == 0)
		r = snapshot_check_same(c, in, there);
	else if (r != -ENOENT)
		r = csi_fail_errno(c, r);
	else
		r = 0;
	snapshot_record_free(there);
	if (r < 0 || cut)
		return r;
	r = csi_record(c, &volume);
	volume_record_free(volume);
	return r < 0 ? r : 1;
}

static int snapshot_cut(struct csi_call *c,
			const Csi__V1__CreateSnapshotRequest *in,
			const char *name, Csi__V1__CreateSnapshotResponse *out)
{
	struct snapshot_record *record = NULL;
	struct labels labels = {0};
	const struct snapshot_create_request request = {
		.name = name,
		.volume = c->id.name,
		.labels = &labels,
	};
	int r = snapshot_look(c, in, name);

	if (r < 0)
		return r;
	r = csi_snapshot_labels((ProtobufCMessage *const *)in->parameters,
				in->n_parameters, in->name, &labels, c->err);
	if (r == 0)
		r = volume_snapshot_create(c->csi->volumes, &request, &record,
					   c->err);
	labels_done(&labels);
	if (r < 0)
		return csi_fail_errno(c, r);
	out->snapshot = reply_snapshot(c, record);
	snapshot_record_free(record);
	return 0;
}

int csi_create_snapshot(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__CreateSnapshotRequest *in = in_;
	char name[RECORD_NAME_SIZE];
	int r;

	if (csi_id_parse(in->source_volume_id, &c->id) < 0)
		return csi_fail(c, RPC_NOT_FOUND,
				"source_volume_id: there is no such volume");
	csi_name_map(in->name, name);
	r = csi_snapshot_lock(c, "snapshot", name);
	return r < 0 ? r : snapshot_cut(c, in, name, out);
}

/* ---- DeleteSnapshot ---- */

int csi_delete_snapshot(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__DeleteSnapshotRequest *in = in_;
	struct snapshot_record *record = NULL;
	struct csi_id id;
	bool gone;
	int r;

	(void)out;
	/* An id that cannot be ours is of no snapshot here: it is deleted. */
	if (csi_id_parse(in->snapshot_id, &id) < 0)
		return 0;
	r = csi_snapshot_lock(c, "snapshot", id.name);
	if (r < 0)
		return r;
	r = volume_snapshot_get(c->csi->volumes, id.name, &record, c->err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	gone = record->temporary_for[0] ||
	       (id.uid[0] && strcmp(id.uid, record->uid) != 0);
	snapshot_record_free(record);
	if (gone) /* another one has its name now */
		return 0;
	r = volume_snapshot_delete(c->csi->volumes, id.name, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/* ---- GetSnapshot ---- */

int csi_get_snapshot(struct csi_call *c, const void *in_, void *out_)
{
	const Csi__V1__GetSnapshotRequest *in = in_;
	Csi__V1__GetSnapshotResponse *out = out_;
	struct snapshot_record *record = NULL;
	struct csi_id id;
	int r = -ENOENT;

	if (csi_id_parse(in->snapshot_id, &id) == 0)
		r = csi_snapshot_find(c, &id, &record);
	if (r == -ENOENT)
		return csi_fail(c, RPC_NOT_FOUND, "there is no such snapshot");
	if (r < 0)
		return csi_fail_errno(c, r);
	csi_snapshot_refresh(c, &record);
	out->snapshot = reply_snapshot(c, record);
	snapshot_record_free(record);
	return 0;
}

/* ---- ListSnapshots ---- */

static Csi__V1__ListSnapshotsResponse__Entry *snapshot_entry_of(
	struct csi_call *c, const struct snapshot_record *record)
{
	Csi__V1__ListSnapshotsResponse__Entry *entry = reply_new(
		c, &csi__v1__list_snapshots_response__entry__descriptor);

	entry->snapshot = reply_snapshot(c, record);
	return entry;
}

static bool snapshot_is_of(const struct snapshot_record *record,
			   const struct csi_id *volume)
{
	return strcmp(record->volume, volume->name) == 0 &&
	       (!volume->uid[0] ||
		strcmp(record->volume_uid, volume->uid) == 0);
}

/* By its id: one, or none. It is asked how far it is. */
static int list_one(struct csi_call *c, const Csi__V1__ListSnapshotsRequest *in,
		    const struct csi_id *volume,
		    Csi__V1__ListSnapshotsResponse *out)
{
	struct snapshot_record *record = NULL;
	struct csi_id id;
	int r = -ENOENT;

	if (csi_id_parse(in->snapshot_id, &id) == 0)
		r = csi_snapshot_find(c, &id, &record);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	if (!volume || snapshot_is_of(record, volume)) {
		csi_snapshot_refresh(c, &record);
		out->entries = rpc_alloc(c->rpc, sizeof(void *));
		out->entries[0] = snapshot_entry_of(c, record);
		out->n_entries = 1;
	}
	snapshot_record_free(record);
	return 0;
}

static int snapshot_fill_page(struct csi_call *c,
			      const struct snapshot_filter *filter,
			      Csi__V1__ListSnapshotsResponse *out)
{
	struct snapshot_record **records = NULL;
	bool more = false;
	size_t n = 0;
	int r = volume_snapshot_list(c->csi->volumes, filter, &records, &n,
				     &more, NULL, c->err);

	if (r < 0)
		return csi_fail_errno(c, r);
	out->entries = rpc_alloc(c->rpc, (n + 1) * sizeof(void *));
	out->n_entries = n;
	for (size_t i = 0; i < n; i++)
		out->entries[i] = snapshot_entry_of(c, records[i]);
	if (more)
		out->next_token = reply_token(c, filter->place);
	snapshot_records_free(records, n);
	return 0;
}

/*
 * List by name. A snapshot that stays is in exactly one page, whatever comes
 * and goes between two.
 */
static int snapshot_list(struct csi_call *c,
			 const Csi__V1__ListSnapshotsRequest *in,
			 const struct csi_id *volume,
			 Csi__V1__ListSnapshotsResponse *out)
{
	struct record_place place;
	struct snapshot_filter filter = {
		.cut = true,
		.volume = volume ? volume->name : NULL,
		/* A volume may have been made anew under that name. */
		.volume_uid = volume && volume->uid[0] ? volume->uid : NULL,
		.place = &place,
		.max = csi_page_size(in->max_entries),
	};

	if (csi_token_parse(in->starting_token, &place) < 0)
		return csi_fail(c, RPC_ABORTED,
				"starting_token is not one that ListSnapshots "
				"gave; begin again without");
	return snapshot_fill_page(c, &filter, out);
}

int csi_list_snapshots(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__ListSnapshotsRequest *in = in_;
	struct csi_id volume = {0};
	const struct csi_id *filter = in->source_volume_id[0] ? &volume : NULL;

	/* A volume that cannot be ours has no snapshots. */
	if (filter && csi_id_parse(in->source_volume_id, &volume) < 0)
		return 0;
	return in->snapshot_id[0] ? list_one(c, in, filter, out)
				  : snapshot_list(c, in, filter, out);
}
