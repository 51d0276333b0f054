/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline volume of a pod, "csi:" in its spec: CSI ephemeral volumes as
 * Kubernetes has them. NodePublishVolume is the only call: no controller and no
 * staging comes before. Its volume_context has the pod's spec. As the driver
 * asks for podInfoOnMount, the kubelet also sets keys "csi.storage.k8s.io/...",
 * whatever the spec has there.
 */
#ifndef CSI_INLINE_H
#define CSI_INLINE_H

#include "csi/call/request.h"
#include "csi/node/node_state.h"

/* The key of the size; the others are the parameters of a StorageClass. */
#define INLINE_SIZE "size"

/*
 * Tell whether a request is for an inline volume. 1, 0; -EINVAL: the kubelet's
 * value is not a boolean.
 */
int inline_is_asked(const publish_request *in, struct error *err);

/* The first key that only inline volumes have; NULL: none. Borrowed. */
const char *inline_attribute(
	Csi__V1__NodePublishVolumeRequest__VolumeContextEntry *const *context,
	size_t n);

/*
 * Read the request into a spec for volume_create(), size and labels included.
 * request_done() in any case. -EINVAL, -ERANGE.
 *
 * @node  of the pod
 */
int inline_read(struct request *request, const publish_request *in,
		const char *node, struct error *err);

#endif
