/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: what may be changed of a volume, its limits. */
#include <assert.h>
#include <errno.h>

#include "csi/call/parameters.h"
#include "csi/controller/controller.h"
#include "volume/snapshot/snapshot.h"

int csi_controller_modify_volume(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__ControllerModifyVolumeRequest *in = in_;
	struct volume_record *record = NULL;
	struct volume_limits limits;
	int r = csi_begin(c, in->volume_id);

	(void)out;
	if (r == 0)
		r = csi_record(c, &record);
	if (r < 0)
		return r;
	assert(record);
	limits = record->spec.limits;
	volume_record_free(record);
	if (parameters_change((ProtobufCMessage *const *)in->mutable_parameters,
			      in->n_mutable_parameters, &limits, c->err) < 0)
		return csi_fail_errno(c, -EINVAL);
	r = volume_limit(c->csi->volumes, c->id.name, &limits, NULL, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}
