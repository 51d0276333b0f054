/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: a volume becomes larger, also while it is used. */
#include <errno.h>
#include <inttypes.h>

#include "base/size.h"
#include "csi/call/capability.h"
#include "csi/call/request.h"
#include "csi/controller/controller.h"

/*
 * Choose the volume's new size: never less than its present one. So a call that
 * comes again, or after a larger one, changes nothing.
 */
static int choose_size(struct csi_call *c, const Csi__V1__CapacityRange *range,
		       const struct volume_record *record, uint64_t *ret)
{
	uint64_t required = (uint64_t)range->required_bytes;
	uint64_t limit = (uint64_t)range->limit_bytes;
	uint64_t size = record->spec.capacity;

	if (limit && limit < required)
		return csi_fail(c, RPC_OUT_OF_RANGE,
				"the limit of %" PRIu64 " bytes is less than "
				"the %" PRIu64 " required",
				limit, required);
	if (required > VOLUME_CAPACITY_MAX)
		return csi_fail(c, RPC_OUT_OF_RANGE,
				"%" PRIu64 " bytes: a volume has at most "
				"%" PRIu64,
				required, VOLUME_CAPACITY_MAX);
	/* Both are small enough for that now. */
	(void)size_round_up(required, RECORD_SIZE_UNIT, &required);
	if (size < required)
		size = required;
	if (limit && size > limit)
		return csi_fail(c, RPC_OUT_OF_RANGE,
				"the volume has %" PRIu64 " bytes and would "
				"get %" PRIu64 ", more than the limit of "
				"%" PRIu64,
				record->spec.capacity, size, limit);
	*ret = size;
	return 0;
}

static int expand_check(struct csi_call *c,
			const Csi__V1__ControllerExpandVolumeRequest *in,
			const struct volume_record *record)
{
	int r = 0;

	if (in->volume_capability)
		r = capability_check(in->volume_capability, &record->spec,
				     c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

static int expand_volume(struct csi_call *c, const char *id, uint64_t size,
			 struct volume_record **record)
{
	struct volume_record *grown = NULL;
	int r;

	/* As large already, and nothing that was begun is left to finish. */
	if ((*record)->phase == VOLUME_READY &&
	    size == (*record)->spec.capacity &&
	    volume_record_target(*record) == size)
		return 0;
	r = volume_resize(c->csi->volumes, id, size, &grown, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	volume_record_free(*record);
	*record = grown;
	return 0;
}

/*
 * Grow the extents. Attached devices and file systems follow on their node, or
 * when the volume is staged the next time.
 */
int csi_controller_expand_volume(struct csi_call *c, const void *in_,
				 void *out_)
{
	const Csi__V1__ControllerExpandVolumeRequest *in = in_;
	Csi__V1__ControllerExpandVolumeResponse *out = out_;
	struct volume_record *record = NULL;
	uint64_t size = 0;
	int r = csi_begin(c, in->volume_id);

	if (r == 0)
		r = csi_record(c, &record);
	if (r == 0)
		r = expand_check(c, in, record);
	if (r == 0)
		r = choose_size(c, in->capacity_range, record, &size);
	if (r == 0)
		r = expand_volume(c, in->volume_id, size, &record);
	if (r == 0) {
		out->capacity_bytes = (int64_t)record->spec.capacity;
		out->node_expansion_required = true;
	}
	volume_record_free(record);
	return r;
}
