/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/inline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/call/capability.h"
#include "csi/call/kubernetes_key.h"
#include "csi/call/parameters.h"

typedef Csi__V1__NodePublishVolumeRequest__VolumeContextEntry entry;

static const char *context_get(const publish_request *in, const char *key)
{
	for (size_t i = 0; i < in->n_volume_context; i++)
		if (strcmp(in->volume_context[i]->key, key) == 0)
			return in->volume_context[i]->value;
	return NULL;
}

int inline_is_asked(const publish_request *in, struct error *err)
{
	const char *value = context_get(in, KUBERNETES_KEY_EPHEMERAL);

	if (!value || strcmp(value, "false") == 0)
		return 0;
	if (strcmp(value, "true") == 0)
		return 1;
	return error_set(err, EINVAL,
			 "volume_context: " KUBERNETES_KEY_EPHEMERAL
			 " has to be true or false");
}

const char *inline_attribute(entry *const *context, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(context[i]->key, INLINE_SIZE) == 0 ||
		    parameters_know(context[i]->key))
			return context[i]->key;
	return NULL;
}

/*
 * Pick the entries of the context that are parameters into @ret. Returns how
 * many, or a negative errno.
 */
static int pick(const publish_request *in, ProtobufCMessage **ret,
		struct labels *labels, struct error *err)
{
	int n = 0;

	for (size_t i = 0; i < in->n_volume_context; i++) {
		entry *e = in->volume_context[i];
		bool fs_type = kubernetes_key_is_fs_type(e->key);
		int r = fs_type ? 0
				: kubernetes_key_take(
					  (const struct csi_entry *)e,
					  KUBERNETES_POD, labels, err);

		if (r < 0)
			return r;
		if (r == 0 && strcmp(e->key, INLINE_SIZE) != 0)
			ret[n++] = &e->base;
	}
	return n;
}

static int read_size(const publish_request *in, struct volume_spec *spec,
		     struct error *err)
{
	const char *text = context_get(in, INLINE_SIZE);
	Csi__V1__CapacityRange range = CSI__V1__CAPACITY_RANGE__INIT;
	uint64_t size = 0;
	int r = 0;

	if (text) {
		r = size_parse(text, &size, err);
		if (r == 0 && (size == 0 || size > VOLUME_CAPACITY_MAX))
			r = error_set(err, ERANGE, "no volume is that large");
	}
	if (r < 0)
		return error_prefix(err, r, "attribute '" INLINE_SIZE "': ");
	range.required_bytes = (int64_t)size;
	return request_capacity(&range, spec, &spec->capacity, err);
}

/* A pod's file system, on its node alone. */
static int check_use(const Csi__V1__VolumeCapability *cap, struct error *err)
{
	if (capability_is_block(cap))
		return error_set(err, EINVAL,
				 "an inline volume is a file system, no block "
				 "device");
	if (capability_is_shared(cap) || capability_reads_only(cap))
		return error_set(err, EINVAL,
				 "access mode %d: an inline volume is for one "
				 "node, which writes it",
				 capability_mode(cap));
	return 0;
}

int inline_read(struct request *request, const publish_request *in,
		const char *node, struct error *err)
{
	auto_free ProtobufCMessage **parameters = calloc(
		in->n_volume_context + 1, sizeof(*parameters));
	Csi__V1__VolumeCapability *caps[] = {in->volume_capability};
	struct labels labels = {0};
	int n, r;

	*request = (struct request){0};
	if (!parameters)
		return error_set(err, ENOMEM, "out of memory");
	r = check_use(caps[0], err);
	n = r < 0 ? r : pick(in, parameters, &labels, err);
	if (n < 0) {
		labels_done(&labels);
		return n;
	}
	r = request_read(request, parameters, (size_t)n, caps, 1, NULL, err);
	labels_done(&request->labels); /* there are none of a claim */
	request->labels = labels;
	if (r == 0)
		r = read_size(in, &request->spec, err);
	if (r == 0 && strcmp(request->spec.placement, "local") == 0)
		(void)snprintf(request->spec.local_node,
			       sizeof(request->spec.local_node), "%s", node);
	if (r == 0)
		r = labels_set(&request->labels, CSI_LABEL_NAME, in->volume_id,
			       err);
	if (r == 0)
		r = labels_set(&request->labels, CSI_LABEL_INLINE, node, err);
	return r;
}
