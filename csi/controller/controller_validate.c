/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: could the volume be used so? */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/capability.h"
#include "csi/call/parameters.h"
#include "csi/call/reply.h"
#include "csi/call/request.h"
#include "csi/controller/controller.h"

/* 0, or -EINVAL with why the volume cannot be used so. */
static int validate_volume(const Csi__V1__ValidateVolumeCapabilitiesRequest *in,
			   const struct volume_record *record,
			   struct error *err)
{
	struct request request = {0};
	struct volume_limits limits;
	int r;

	if (in->n_volume_context > 0)
		return error_set(err, EINVAL,
				 "the volume has no context, but one is given");
	limits = record->spec.limits;
	r = parameters_change((ProtobufCMessage *const *)in->mutable_parameters,
			      in->n_mutable_parameters, &limits, err);
	if (r < 0)
		return r;
	if (limits.iops != record->spec.limits.iops ||
	    limits.bytes_per_second != record->spec.limits.bytes_per_second)
		return error_set(err, EINVAL,
				 "the volume has other mutable parameters");
	for (size_t i = 0; i < in->n_volume_capabilities; i++) {
		r = capability_check(in->volume_capabilities[i], &record->spec,
				     err);
		if (r < 0)
			return r;
	}
	if (in->n_parameters == 0)
		return 0;
	r = request_read(&request, (ProtobufCMessage *const *)in->parameters,
			 in->n_parameters, in->volume_capabilities,
			 in->n_volume_capabilities, &record->spec, err);
	request.spec.source = record->spec.source;
	request.spec.capacity = record->spec.capacity;
	/* A pod's, not a parameter's. */
	if (strcmp(request.spec.placement, "local") == 0)
		(void)strcpy(request.spec.local_node, record->spec.local_node);
	if (r == 0 && !volume_spec_equal(&record->spec, &request.spec))
		r = error_set(err, EINVAL,
			      "the volume was made with other parameters");
	request_done(&request);
	return r;
}

static Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed *validate_confirm(
	struct csi_call *c,
	const Csi__V1__ValidateVolumeCapabilitiesRequest *in)
{
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed *confirmed = reply_new(
		c,
		&csi__v1__validate_volume_capabilities_response__confirmed__descriptor);
	size_t n = in->n_volume_capabilities;

	confirmed->n_volume_capabilities = n;
	confirmed->volume_capabilities = rpc_alloc(c->rpc, n * sizeof(void *));
	for (size_t i = 0; i < n; i++)
		confirmed->volume_capabilities[i] = reply_capability(
			c, in->volume_capabilities[i]);
	reply_map(
		c,
		&csi__v1__validate_volume_capabilities_response__confirmed__parameters_entry__descriptor,
		(ProtobufCMessage *const *)in->parameters, in->n_parameters,
		&confirmed->n_parameters, &confirmed->parameters);
	reply_map(
		c,
		&csi__v1__validate_volume_capabilities_response__confirmed__mutable_parameters_entry__descriptor,
		(ProtobufCMessage *const *)in->mutable_parameters,
		in->n_mutable_parameters, &confirmed->n_mutable_parameters,
		&confirmed->mutable_parameters);
	return confirmed;
}

int csi_validate_volume_capabilities(struct csi_call *c, const void *in_,
				     void *out_)
{
	const Csi__V1__ValidateVolumeCapabilitiesRequest *in = in_;
	Csi__V1__ValidateVolumeCapabilitiesResponse *out = out_;
	struct volume_record *record = NULL;
	struct error why = {0};
	int r = csi_find(c, in->volume_id, &record);

	if (r < 0)
		return r;
	if (validate_volume(in, record, &why) < 0)
		out->message = rpc_strdup(c->rpc, error_text(&why));
	else
		out->confirmed = validate_confirm(c, in);
	volume_record_free(record);
	return 0;
}
