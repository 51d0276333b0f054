/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands about extents share. */
#ifndef CLI_EXTENT_CMD_H
#define CLI_EXTENT_CMD_H

#include "cli/text/cli.h"

/* Answer with an extent and free its members. */
int extent_answer(struct cli *cli, struct node_extent *extent);

/* --iops, --bandwidth; what is not given is left alone. */
int extent_limits_fill(const struct cli *cli, struct node_limits *limits,
		       struct error *err);

#endif
