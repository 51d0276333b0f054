/* SPDX-License-Identifier: Apache-2.0 */
/* What a volume is, by its layout, for people. */
#ifndef CLI_VOLUME_LAYOUT_H
#define CLI_VOLUME_LAYOUT_H

#include "cli/text/cli.h"
#include "volume/record/volume_record.h"

/* Take the width and the unit of a stripe. -EINVAL: too wide. */
int volume_layout_fill(const struct cli_options *o, struct volume_spec *spec,
		       struct error *err);

/* Print "a block device", or the file system and the policy of a union. */
void volume_layout_print(const struct volume_spec *spec);

#endif
