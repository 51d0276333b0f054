/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as any request (the first byte says which): looked at and put in
 * words without harm; what passes has what it must have, within its bounds.
 */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "csi/call/csi_check.h"
#include "csi/call/csi_text.h"
#include "proto/csi.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCServiceDescriptor *const services[] = {
	&csi__v1__identity__descriptor,
	&csi__v1__controller__descriptor,
	&csi__v1__group_controller__descriptor,
	&csi__v1__snapshot_metadata__descriptor,
	&csi__v1__node__descriptor,
};

static const ProtobufCMessageDescriptor *type_of(unsigned choice)
{
	unsigned all = 0;

	for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++)
		all += services[i]->n_methods;
	choice %= all;
	for (size_t i = 0;; i++) {
		if (choice < services[i]->n_methods)
			return services[i]->methods[choice].input;
		choice -= services[i]->n_methods;
	}
}

static const char *text_at(const ProtobufCMessage *m, const char *name)
{
	const ProtobufCFieldDescriptor *f =
		protobuf_c_message_descriptor_get_field_by_name(m->descriptor,
								name);

	if (!f || f->type != PROTOBUF_C_TYPE_STRING ||
	    f->label == PROTOBUF_C_LABEL_REPEATED)
		return NULL;
	return *(char *const *)((const char *)m + f->offset);
}

static bool is_looked_up(const ProtobufCMessageDescriptor *type)
{
	return type == &csi__v1__node_get_volume_stats_request__descriptor ||
	       type == &csi__v1__node_expand_volume_request__descriptor;
}

/*
 * Tell whether the specification has @code for a wrong field of these requests.
 */
static bool is_code_of(const ProtobufCMessageDescriptor *type,
		       enum rpc_code code)
{
	if (type == &csi__v1__get_metadata_allocated_request__descriptor ||
	    type == &csi__v1__get_metadata_delta_request__descriptor)
		return code == RPC_INVALID_ARGUMENT || code == RPC_OUT_OF_RANGE;
	if (type == &csi__v1__list_volumes_request__descriptor ||
	    type == &csi__v1__list_snapshots_request__descriptor)
		return code == RPC_INVALID_ARGUMENT || code == RPC_ABORTED;
	return code == RPC_INVALID_ARGUMENT;
}

static void check_passed(const ProtobufCMessage *m)
{
	static const char *const paths[] = {"staging_target_path",
					    "target_path", "volume_path"};
	const char *id = text_at(m, "volume_id");

	if (id)
		assert(strlen(id) <= CSI_STRING_MAX && csi_utf8_is_valid(id));
	if (m->descriptor ==
		    &csi__v1__node_publish_volume_request__descriptor ||
	    m->descriptor == &csi__v1__node_stage_volume_request__descriptor)
		assert(id && id[0]);
	for (size_t i = 0; i < 3; i++) {
		const char *path = text_at(m, paths[i]);

		if (!path || !path[0])
			continue;
		assert(strlen(path) <= CSI_PATH_MAX && csi_utf8_is_valid(path));
		/* A path that is only looked up may have any form. */
		if (!is_looked_up(m->descriptor))
			assert(path[0] == '/' && !strstr(path, "/../"));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[CSI_TEXT_MAX];
	struct error err = {0};
	enum rpc_code code = RPC_OK;
	ProtobufCMessage *m;

	if (size < 1)
		return 0;
	m = protobuf_c_message_unpack(type_of(data[0]), NULL, size - 1,
				      data + 1);
	if (!m)
		return 0;
	csi_text(text, sizeof(text), m);
	assert(strlen(text) < sizeof(text));
	if (csi_check(m, &code, &err) == 0) {
		check_passed(m);
	} else {
		assert(is_code_of(m->descriptor, code));
		assert(err.msg[0]);
	}
	protobuf_c_message_free_unpacked(m, NULL);
	return 0;
}
