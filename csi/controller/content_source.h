/* SPDX-License-Identifier: Apache-2.0 */
/* Content source of a volume: a snapshot, or another volume. */
#ifndef CSI_CONTENT_SOURCE_H
#define CSI_CONTENT_SOURCE_H

#include "csi/call/call.h"

struct content_source {
	struct volume_source source; /* kind NONE: nothing */
	/* Layout, file system and capacity of the source; without lists. */
	struct volume_spec spec;
};

/*
 * Find the source of a CreateVolume. The source of an existing volume may be
 * gone: layout and file system are then those of the volume. Returns 0 or the
 * result of a failure; NOT_FOUND: no such source.
 */
int content_source_find(struct csi_call *c,
			const Csi__V1__CreateVolumeRequest *in,
			struct content_source *ret);

/* For request_read(): NULL without a source. */
const struct volume_spec *content_source_spec(
	const struct content_source *content);

#endif
