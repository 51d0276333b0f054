/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: what there is room for. */
#include <errno.h>

#include "csi/call/reply.h"
#include "csi/call/request.h"
#include "csi/controller/controller.h"
#include "volume/plan/volume_room.h"

static Google__Protobuf__Int64Value *number(struct csi_call *c, uint64_t value)
{
	Google__Protobuf__Int64Value *number = reply_new(
		c, &google__protobuf__int64_value__descriptor);

	number->value = (int64_t)value;
	return number;
}

static int tell_room(struct csi_call *c, const struct request *request,
		     Csi__V1__GetCapacityResponse *out)
{
	const struct volume_spec *spec = &request->spec;
	struct volume_room room = {0};
	int r = volume_rooms_get(c->csi->volumes, &spec, 1, &room, c->err);

	if (r < 0)
		return csi_fail_errno(c, r);
	out->available_capacity = room.available > INT64_MAX
					  ? INT64_MAX
					  : (int64_t)room.available;
	out->maximum_volume_size = number(c, room.maximum);
	out->minimum_volume_size = number(c, room.minimum);
	return 0;
}

int csi_get_capacity(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__GetCapacityRequest *in = in_;
	struct request request = {0};
	const Csi__V1__TopologyRequirement place = {
		.n_requisite = in->accessible_topology ? 1 : 0,
		.requisite = (Csi__V1__Topology **)&in->accessible_topology};
	struct error why = {0};
	int here = 1, r = 0;

	/* A wrong parameter is an error; what cannot be used has no room. */
	if (request_read(&request, (ProtobufCMessage *const *)in->parameters,
			 in->n_parameters, NULL, 0, NULL, c->err) < 0)
		r = csi_fail_errno(c, -EINVAL);
	request_done(&request);
	if (r == 0 && in->accessible_topology) {
		here = request_place_known(
			c->csi,
			(Csi__V1__Topology *const *)&in->accessible_topology, 1,
			c->err);
		if (here < 0)
			r = csi_fail_errno(c, here);
	}
	if (r < 0 || !here)
		return r;
	if (request_read(&request, (ProtobufCMessage *const *)in->parameters,
			 in->n_parameters, in->volume_capabilities,
			 in->n_volume_capabilities, NULL, &why) == 0) {
		r = request_take_local(c->csi, &place, &request.spec, c->err);
		r = r < 0 ? csi_fail_errno(c, r) : tell_room(c, &request, out);
	}
	request_done(&request);
	return r;
}
