/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Controller service: reservation of a volume for a node. Nothing is done
 * on the node, which finds the publication in the volume's record. So there is
 * no publish_context.
 */
#include <errno.h>
#include <string.h>

#include "csi/call/capability.h"
#include "csi/controller/controller.h"

/*
 * Return the access mode, which is promised beside reading only. It is kept
 * with the publication, so that a call with another mode is told from a
 * repeated one.
 */
static const char *mode_name(const Csi__V1__VolumeCapability *cap)
{
	const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value(
		&csi__v1__volume_capability__access_mode__mode__descriptor,
		capability_mode(cap));

	return value ? value->name : ""; /* csi_check() let it pass */
}

static int publish_volume(struct csi_call *c,
			  const Csi__V1__ControllerPublishVolumeRequest *in)
{
	const Csi__V1__VolumeCapability *cap = in->volume_capability;
	const struct volume_publish_request request = {
		.name = in->volume_id,
		.node = in->node_id,
		.read_only = in->readonly || capability_reads_only(cap),
		.shared = capability_is_shared(cap),
		.note = mode_name(cap),
	};
	bool no_node = false;
	int r;

	/* Longer ones are no node's, and would be an invalid argument. */
	if (name_check("node", in->node_id, NULL) < 0)
		return csi_fail(c, RPC_NOT_FOUND,
				"there is no node of that node_id");
	r = volume_publish(c->csi->volumes, &request, &no_node, c->err);
	if (r == -ENOENT)
		return csi_fail(c, RPC_NOT_FOUND, "there is no %s '%s'",
				no_node ? "node" : "volume",
				no_node ? in->node_id : c->id.name);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_controller_publish_volume(struct csi_call *c, const void *in_,
				  void *out)
{
	const Csi__V1__ControllerPublishVolumeRequest *in = in_;
	struct volume_record *record = NULL;
	int r = csi_begin(c, in->volume_id);

	(void)out;
	if (r == 0)
		r = csi_record(c, &record);
	if (r == 0 &&
	    capability_check(in->volume_capability, &record->spec, c->err) < 0)
		r = csi_fail_errno(c, -EINVAL);
	if (r == 0)
		r = publish_volume(c, in);
	volume_record_free(record);
	return r;
}

/* A volume, or a node, that is not there is not published. */
int csi_controller_unpublish_volume(struct csi_call *c, const void *in_,
				    void *out)
{
	const Csi__V1__ControllerUnpublishVolumeRequest *in = in_;
	const char *node = in->node_id[0] ? in->node_id : NULL;
	int r;

	(void)out;
	if (csi_id_parse(in->volume_id, &c->id) < 0 ||
	    (node && name_check("node", node, NULL) < 0))
		return 0;
	r = csi_lock_existing(c);
	if (r <= 0)
		return r;
	r = volume_unpublish(c->csi->volumes, in->volume_id, node, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}
