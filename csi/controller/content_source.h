/* SPDX-License-Identifier: Apache-2.0 */
/* What a volume's content is to begin with: a snapshot, or another volume. */
#ifndef CSI_CONTENT_SOURCE_H
#define CSI_CONTENT_SOURCE_H

#include "csi/call/call.h"

struct content_source {
	struct volume_source source; /* kind NONE: nothing */
	/* Layout, file system and capacity of the source; without lists. */
	struct volume_spec spec;
};

/*
 * Of a CreateVolume. The source of a volume that is there already may be gone
 * by now: then layout and file system are those of the volume. 0 or what a
 * failure returned; NOT_FOUND: no such source.
 */
int content_source_find(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			struct content_source *ret);

/* For request_read(): NULL without a source. */
const struct volume_spec *content_source_spec(
	const struct content_source *content);

#endif
