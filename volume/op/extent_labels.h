/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The labels of a volume's extents. They tell of the volume, so that its record
 * can be made anew of its extents alone:
 *
 *	tributary.io/volume-uid    UID
 *	tributary.io/volume        NAME
 *	tributary.io/split         INDEX/COUNT: of so many, when it was made
 *	tributary.io/file-system   TYPE UUID; "-" for TYPE: none
 *	tributary.io/spec          LAYOUT POLICY TRANSPORT; "-" for none.
 *	                           A stripe's LAYOUT is "stripe/WIDTH/UNIT"
 *
 * The epoch is in the extent's export, the size and whether it was ever
 * written to in the extent itself.
 */
#ifndef VOLUME_EXTENT_LABELS_H
#define VOLUME_EXTENT_LABELS_H

#include "volume/volume.h"

#define VOLUME_LABEL_SPLIT "tributary.io/split"
#define VOLUME_LABEL_FS    "tributary.io/file-system"
#define VOLUME_LABEL_SPEC  "tributary.io/spec"

struct extent_labels {
	unsigned index, count;
	char fs_type[16]; /* "": none */
	char fs_uuid[UUID_TEXT_SIZE];
	char layout[16], policy[16], transport[16];
	unsigned stripe_width; /* 0: no stripe */
	uint64_t stripe_unit;  /* bytes */
};

/* Make all labels of the extent of @split. labels_done(). */
int extent_labels_make(const struct volume_record *record,
		       const struct volume_split *split, struct labels *ret,
		       struct error *err);

/* -EUCLEAN: it has none, as those of older versions, or they make no sense. */
int extent_labels_read(const struct node_extent *extent,
		       struct extent_labels *ret, struct error *err);

#endif
