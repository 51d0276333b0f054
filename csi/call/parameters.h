/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of a StorageClass: one table of their names, allowed values
 * and effects. CSI has them as a map of strings.
 */
#ifndef CSI_PARAMETERS_H
#define CSI_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "csi/call/csi_check.h"
#include "volume/volume.h"

/*
 * Take a map into a spec, and the provisioner's keys about the claim into
 * labels. -EINVAL: an unknown key (the text has the known ones) or a value that
 * is not allowed (the text has the allowed ones).
 */
int parameters_read(ProtobufCMessage *const *entries, size_t n,
		    struct volume_spec *spec, struct labels *labels,
		    struct error *err);

/*
 * Take mutable parameters: keys that are not there change nothing. -EINVAL:
 * one that cannot be changed, or a value that cannot be; nothing is changed.
 */
int parameters_change(ProtobufCMessage *const *entries, size_t n,
		      struct volume_limits *limits, struct error *err);

/* Tell whether the key is in the table. */
bool parameters_know(const char *key);

/* The table as Markdown: docs/storageclass.md. */
void parameters_describe(FILE *out);

#endif
