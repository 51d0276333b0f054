/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/inline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/capability.h"
#include "csi/parameters.h"

#define KUBELET_PREFIX "csi.storage.k8s.io/"
#define EPHEMERAL_KEY  KUBELET_PREFIX "ephemeral"

typedef Csi__V1__NodePublishVolumeRequest__VolumeContextEntry entry;

/* What the kubelet tells of the pod, and what of it the record keeps. */
static const struct {
	const char *key, *label; /* label NULL: not kept */
} told[] = {
	{EPHEMERAL_KEY, NULL},
	{KUBELET_PREFIX "pod.name", "csi.union.io/pod-name"},
	{KUBELET_PREFIX "pod.namespace", "csi.union.io/pod-namespace"},
	{KUBELET_PREFIX "pod.uid", "csi.union.io/pod-uid"},
	{KUBELET_PREFIX "serviceAccount.name", NULL},
	{KUBELET_PREFIX "serviceAccount.tokens", NULL},
};

static const char *context_get(const publish_request *in, const char *key)
{
	for (size_t i = 0; i < in->n_volume_context; i++)
		if (strcmp(in->volume_context[i]->key, key) == 0)
			return in->volume_context[i]->value;
	return NULL;
}

int inline_is_asked(const publish_request *in, struct error *err)
{
	const char *value = context_get(in, EPHEMERAL_KEY);

	if (!value || strcmp(value, "false") == 0)
		return 0;
	if (strcmp(value, "true") == 0)
		return 1;
	return error_set(err, EINVAL,
			 "volume_context: " EPHEMERAL_KEY
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

/* 1: a key of the kubelet's. */
static int take_told(const entry *e, struct labels *labels, struct error *err)
{
	for (size_t i = 0; i < array_size(told); i++) {
		int r = 0;

		if (strcmp(told[i].key, e->key) != 0)
			continue;
		/* Kubernetes' names may be longer: for people, so left out. */
		if (told[i].label && strlen(e->value) < LABEL_TEXT_SIZE)
			r = labels_set(labels, told[i].label, e->value, err);
		return r < 0 ? r : 1;
	}
	if (strncmp(e->key, KUBELET_PREFIX, strlen(KUBELET_PREFIX)) == 0)
		return error_set(err, EINVAL,
				 "volume_context: '%.64s' is not known of a "
				 "pod's volume",
				 e->key);
	return 0;
}

/*
 * Of the context, those that are parameters go to @ret. Returns how many, or
 * a negative errno.
 */
static int pick(const publish_request *in, ProtobufCMessage **ret,
		struct labels *labels, struct error *err)
{
	int n = 0;

	for (size_t i = 0; i < in->n_volume_context; i++) {
		entry *e = in->volume_context[i];
		int r = take_told(e, labels, err);

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
	if (r < 0) {
		(void)error_prefix(err, "attribute '" INLINE_SIZE "': ");
		return r;
	}
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
