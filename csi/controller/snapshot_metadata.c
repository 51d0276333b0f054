/* SPDX-License-Identifier: Apache-2.0 */
/* The SnapshotMetadata service: which blocks have data, or have changed. */
#include <errno.h>
#include <string.h>

#include "csi/controller/controller.h"
#include "csi/controller/snapshot.h"

#define RESULTS_MAX 512 /* ranges in a message */

/*
 * The stream's message, filled and sent again and again. Both answers have the
 * same fields.
 */
struct stream {
	struct csi_call *c;
	bool delta;
	size_t most; /* ranges in a message */
	Csi__V1__GetMetadataAllocatedResponse allocated;
	Csi__V1__GetMetadataDeltaResponse changed;
	Csi__V1__BlockMetadata ranges[RESULTS_MAX], *list[RESULTS_MAX];
};

static void stream_init(struct stream *s, struct csi_call *c, bool delta,
			int32_t max_results)
{
	*s = (struct stream){.c = c, .delta = delta, .most = RESULTS_MAX};
	if (max_results > 0 && max_results < RESULTS_MAX)
		s->most = (size_t)max_results;
	csi__v1__get_metadata_allocated_response__init(&s->allocated);
	csi__v1__get_metadata_delta_response__init(&s->changed);
	s->allocated.block_metadata_type =
		CSI__V1__BLOCK_METADATA_TYPE__VARIABLE_LENGTH;
	s->changed.block_metadata_type =
		CSI__V1__BLOCK_METADATA_TYPE__VARIABLE_LENGTH;
	for (size_t i = 0; i < RESULTS_MAX; i++) {
		csi__v1__block_metadata__init(&s->ranges[i]);
		s->list[i] = &s->ranges[i];
	}
	s->allocated.block_metadata = s->list;
	s->changed.block_metadata = s->list;
}

static int metadata_send(struct stream *s, uint64_t size,
			 const struct snapshot_range *ranges, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		s->ranges[i].byte_offset = (int64_t)ranges[i].offset;
		s->ranges[i].size_bytes = (int64_t)ranges[i].length;
	}
	s->allocated.n_block_metadata = n;
	s->changed.n_block_metadata = n;
	s->allocated.volume_capacity_bytes = (int64_t)size;
	s->changed.volume_capacity_bytes = (int64_t)size;
	return rpc_send(s->c->rpc,
			s->delta ? &s->changed.base : &s->allocated.base);
}

static int metadata_visit(void *stream, uint64_t size,
			  const struct snapshot_range *ranges, size_t count)
{
	struct stream *s = stream;
	int r;

	do {
		size_t n = count < s->most ? count : s->most;

		r = metadata_send(s, size, ranges, n);
		ranges += n;
		count -= n;
	} while (r == 0 && count > 0);
	return r;
}

/* The name of the snapshot; RECORD_NAME_SIZE bytes. */
static int metadata_find(struct csi_call *c, const char *snapshot_id, char *ret)
{
	struct snapshot_record *record = NULL;
	struct csi_id id;
	int r = -ENOENT;

	if (csi_id_parse(snapshot_id, &id) == 0)
		r = csi_snapshot_find(c, &id, &record);
	if (r == -ENOENT)
		return csi_fail(c, RPC_NOT_FOUND,
				"there is no snapshot '%.128s'", snapshot_id);
	if (r < 0)
		return csi_fail_errno(c, r);
	(void)strcpy(ret, record->name);
	snapshot_record_free(record);
	return 0;
}

static int metadata_run(struct csi_call *c,
			const struct snapshot_ranges_request *what,
			int32_t max_results)
{
	struct stream stream;
	int r;

	stream_init(&stream, c, what->older, max_results);
	r = volume_snapshot_ranges(c->csi->volumes, what, metadata_visit,
				   &stream, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_get_metadata_allocated(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__GetMetadataAllocatedRequest *in = in_;
	char name[RECORD_NAME_SIZE];
	const struct snapshot_ranges_request what = {
		.snapshot = name, .start = (uint64_t)in->starting_offset};
	int r = metadata_find(c, in->snapshot_id, name);

	(void)out;
	return r < 0 ? r : metadata_run(c, &what, in->max_results);
}

int csi_get_metadata_delta(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__GetMetadataDeltaRequest *in = in_;
	char name[RECORD_NAME_SIZE], base[RECORD_NAME_SIZE];
	const struct snapshot_ranges_request what = {
		.snapshot = name,
		.older = base,
		.start = (uint64_t)in->starting_offset};
	int r = metadata_find(c, in->base_snapshot_id, base);

	(void)out;
	if (r == 0)
		r = metadata_find(c, in->target_snapshot_id, name);
	return r < 0 ? r : metadata_run(c, &what, in->max_results);
}
