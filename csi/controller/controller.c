/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: making and deleting volumes, and its capabilities. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/capability.h"
#include "csi/call/parameters.h"
#include "csi/call/reply.h"
#include "csi/call/request.h"
#include "csi/controller/content_source.h"
#include "csi/controller/controller.h"

/* ---- CreateVolume ---- */

/* Check that one of the places asked for is ours. */
static int check_places(struct csi_call *c,
			const Csi__V1__TopologyRequirement *places)
{
	int r;

	if (!places || places->n_requisite == 0)
		return 0;
	r = request_place_known(c->csi, places->requisite, places->n_requisite,
				c->err);
	if (r != 0)
		return r < 0 ? csi_fail_errno(c, r) : 0;
	return csi_fail(c, RPC_RESOURCE_EXHAUSTED,
			"none of the %zu places asked for is a node of this "
			"cluster (" CSI_TOPOLOGY_NODE ")",
			places->n_requisite);
}

static int take_local(struct csi_call *c,
		      const Csi__V1__CreateVolumeRequest *in,
		      struct volume_spec *spec)
{
	int r = request_take_local(c->csi, in->accessibility_requirements, spec,
				   c->err);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/*
 * Take a volume that was made under this name, if it is the one asked for now.
 */
static int take_existing(struct csi_call *c,
			 const Csi__V1__CreateVolumeRequest *in,
			 const struct volume_record *existing,
			 struct volume_spec *spec)
{
	const char *name = labels_get(&existing->labels, CSI_LABEL_NAME);

	if (!name || strcmp(name, in->name) != 0)
		return csi_fail(c, RPC_ALREADY_EXISTS,
				"a volume '%s' is there, which was not made "
				"for this name",
				existing->name);
	if (!request_allows(in->capacity_range, existing->spec.capacity))
		return csi_fail(c, RPC_ALREADY_EXISTS,
				"volume '%s' is there with %llu bytes, which "
				"is not the size asked for",
				existing->name,
				(unsigned long long)existing->spec.capacity);
	spec->capacity = existing->spec.capacity;
	/* The node to begin on is no property: a pod may move meanwhile. */
	if (strcmp(spec->placement, "local") == 0)
		(void)strcpy(spec->local_node, existing->spec.local_node);
	return 0;
}

/*
 * Choose the capacity of a new volume: the one asked for, made a volume's size
 * as that of its source was. So a request that made the source is enough for a
 * copy of it.
 */
static int new_capacity(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			const struct volume_spec *from, struct request *request)
{
	Csi__V1__CapacityRange range = CSI__V1__CAPACITY_RANGE__INIT;
	uint64_t *capacity = &request->spec.capacity;

	if (in->capacity_range)
		range = *in->capacity_range;
	if (from && range.required_bytes == 0)
		range.required_bytes = (int64_t)from->capacity;
	else if (from &&
		 (uint64_t)range.required_bytes < volume_spec_minimum(from))
		range.required_bytes = (int64_t)volume_spec_minimum(from);
	if (request_capacity(&range, &request->spec, capacity, c->err) < 0)
		return csi_fail_errno(c, -ERANGE);
	if (from && *capacity < from->capacity)
		return csi_fail(c, RPC_OUT_OF_RANGE,
				"%llu bytes are asked for, and the source has "
				"%llu",
				(unsigned long long)*capacity,
				(unsigned long long)from->capacity);
	return 0;
}

static int choose_capacity(struct csi_call *c,
			   const Csi__V1__CreateVolumeRequest *in,
			   const struct volume_spec *from, const char *name,
			   struct request *request)
{
	struct volume_record *existing = NULL;
	int r = volume_get(c->csi->volumes, name, &existing, c->err);

	if (r == 0)
		r = take_existing(c, in, existing, &request->spec);
	else if (r != -ENOENT)
		r = csi_fail_errno(c, r);
	else
		r = new_capacity(c, in, from, request);
	volume_record_free(existing);
	return r;
}

/*
 * Make the volume or find it. Another controller may make a found one larger
 * between two steps.
 */
static int make_or_find(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			const struct volume_create_request *create,
			const struct volume_spec *from, struct request *request,
			struct volume_record **ret)
{
	uint64_t before = 0;
	int r;

	do {
		r = choose_capacity(c, in, from, create->name, request);
		if (r < 0)
			return r;
		r = volume_create(c->csi->volumes, create, ret, c->err);
		if (r != -EEXIST || request->spec.capacity == before)
			break;
		before = request->spec.capacity;
	} while (true);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

static int volume_make(struct csi_call *c,
		       const Csi__V1__CreateVolumeRequest *in,
		       const struct volume_spec *from, struct request *request,
		       Csi__V1__CreateVolumeResponse *out)
{
	char name[RECORD_NAME_SIZE];
	const struct volume_create_request create = {
		.name = name,
		.spec = &request->spec,
		.labels = &request->labels};
	struct volume_record *record = NULL;
	int r;

	csi_name_map(in->name, name);
	if (labels_set(&request->labels, CSI_LABEL_NAME, in->name, c->err) < 0)
		return csi_fail_errno(c, -EINVAL);
	r = csi_lock(c, name);
	if (r == 0)
		r = make_or_find(c, in, &create, from, request, &record);
	if (r < 0)
		return r;
	out->volume = reply_volume(c, record);
	volume_record_free(record);
	return 0;
}

/* Everything of the request but its size. */
static int read_request(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			const struct content_source *content,
			struct request *request)
{
	int r = request_read(request, (ProtobufCMessage *const *)in->parameters,
			     in->n_parameters, in->volume_capabilities,
			     in->n_volume_capabilities,
			     content_source_spec(content), c->err);

	if (r == 0)
		r = parameters_change(
			(ProtobufCMessage *const *)in->mutable_parameters,
			in->n_mutable_parameters, &request->spec.limits,
			c->err);
	request->spec.source = content->source;
	return r < 0 ? csi_fail_errno(c, -EINVAL) : 0;
}

int csi_create_volume(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__CreateVolumeRequest *in = in_;
	struct request request = {0};
	struct content_source content;
	int r = content_source_find(c, in, &content);

	if (r < 0)
		return r;
	r = read_request(c, in, &content, &request);
	if (r == 0)
		r = check_places(c, in->accessibility_requirements);
	if (r == 0)
		r = take_local(c, in, &request.spec);
	if (r == 0)
		r = volume_make(c, in, content_source_spec(&content), &request,
				out);
	request_done(&request);
	return r;
}

/* ---- DeleteVolume ---- */

int csi_delete_volume(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__DeleteVolumeRequest *in = in_;
	int r;

	(void)out;
	/* An id that cannot be ours is of no volume here: it is deleted. */
	if (csi_id_parse(in->volume_id, &c->id) < 0)
		return 0;
	r = csi_lock_existing(c);
	if (r <= 0)
		return r;
	r = volume_delete(c->csi->volumes, in->volume_id, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/* ---- ControllerGetCapabilities ---- */

#define RPC(name) CSI__V1__CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__##name

static Csi__V1__ControllerServiceCapability *controller_capability(
	struct csi_call *c,
	Csi__V1__ControllerServiceCapability__RPC__Type type)
{
	Csi__V1__ControllerServiceCapability *cap = reply_new(
		c, &csi__v1__controller_service_capability__descriptor);

	cap->type_case = CSI__V1__CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
	cap->rpc = reply_new(
		c, &csi__v1__controller_service_capability__rpc__descriptor);
	cap->rpc->type = type;
	return cap;
}

int csi_controller_get_capabilities(struct csi_call *c, const void *in,
				    void *out_)
{
	static const Csi__V1__ControllerServiceCapability__RPC__Type types[] = {
		RPC(CREATE_DELETE_VOLUME),
		RPC(PUBLISH_UNPUBLISH_VOLUME),
		RPC(LIST_VOLUMES),
		RPC(GET_CAPACITY),
		RPC(CREATE_DELETE_SNAPSHOT),
		RPC(LIST_SNAPSHOTS),
		RPC(CLONE_VOLUME),
		RPC(PUBLISH_READONLY),
		RPC(EXPAND_VOLUME),
		RPC(LIST_VOLUMES_PUBLISHED_NODES),
		RPC(VOLUME_CONDITION),
		RPC(GET_VOLUME),
		RPC(SINGLE_NODE_MULTI_WRITER),
		RPC(MODIFY_VOLUME),
		RPC(GET_SNAPSHOT),
	};
	Csi__V1__ControllerGetCapabilitiesResponse *out = out_;

	(void)in;
	out->n_capabilities = array_size(types);
	out->capabilities = rpc_alloc(c->rpc,
				      array_size(types) * sizeof(void *));
	for (size_t i = 0; i < array_size(types); i++)
		out->capabilities[i] = controller_capability(c, types[i]);
	return 0;
}
