/* SPDX-License-Identifier: Apache-2.0 */
/* What a volume's content is to begin with: a snapshot, or another volume. */
#ifndef CSI_CONTENT_H
#define CSI_CONTENT_H

#include "csi/call/call.h"

struct content {
	struct volume_source source; /* kind NONE: nothing */
	/* Layout, file system and capacity of the source; without lists. */
	struct volume_spec spec;
};

/*
 * Of a CreateVolume. The source of a volume that is there already may be gone
 * by now: then layout and file system are those of the volume. 0 or what a
 * failure returned; NOT_FOUND: no such source.
 */
int content_find(struct csi_call *c, const Csi__V1__CreateVolumeRequest *in,
		 struct content *ret);

/* For request_read(): NULL without a source. */
const struct volume_spec *content_from(const struct content *content);

#endif
