/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of CreateVolume, GetCapacity and Validate..., as volume.h has them.
 */
#ifndef CSI_REQUEST_H
#define CSI_REQUEST_H

#include "csi/call/call.h"

struct request {
	struct volume_spec spec; /* capacity is not set */
	struct labels labels;
};

/*
 * Read a request from parameters and capabilities, checked. Properties that
 * they leave open (layout, file system) are as @from has them, where that is
 * not NULL. -EINVAL: the text says which part is not possible. request_done()
 * in any case.
 */
int request_read(struct request *request, ProtobufCMessage *const *parameters,
		 size_t n_parameters, Csi__V1__VolumeCapability *const *caps,
		 size_t n_caps, const struct volume_spec *from,
		 struct error *err);
void request_done(struct request *request);

/*
 * The size to make: the least that @range allows and @spec can be, or
 * REQUEST_SIZE_DEFAULT when nothing is required. -ERANGE: there is none.
 *
 * @range  NULL: any
 */
#define REQUEST_SIZE_DEFAULT (UINT64_C(1) << 30) /* bytes */
int request_capacity(const Csi__V1__CapacityRange *range,
		     const struct volume_spec *spec, uint64_t *ret,
		     struct error *err);

/* Is @capacity within @range (NULL: any)? */
bool request_allows(const Csi__V1__CapacityRange *range, uint64_t capacity);

/*
 * Tell whether one of the places is a node of ours, answering or not. 1, 0 or a
 * negative errno.
 */
int request_place_known(struct csi *csi, Csi__V1__Topology *const *places,
			size_t n_places, struct error *err);

/*
 * Find the first node of a spec with placement "local": the first preferred
 * place that is one of our nodes, or the only requisite one. None:
 * spec->local_node stays empty. 0 or a negative errno.
 */
int request_take_local(struct csi *csi,
		       const Csi__V1__TopologyRequirement *places,
		       struct volume_spec *spec, struct error *err);

#endif
