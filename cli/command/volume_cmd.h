/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands about volumes share. */
#ifndef CLI_VOLUME_CMD_H
#define CLI_VOLUME_CMD_H

#include "cli/text/cli.h"

/* Make volume @name by the options, from @source, and say so. */
int volume_make(struct cli *cli, const char *name,
		const struct volume_source *source, struct error *err);

/* --iops, --bandwidth; what is not given is left alone. */
int limits_fill(const struct cli_options *o, struct volume_limits *limits,
		struct error *err);
/* A line for each. */
void limits_print(const struct volume_limits *limits);

/* Print a table of the splits of a new volume. */
void volume_splits_print(const struct volume_record *record);

#endif
