/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options as people of mergerfs and /etc/fstab write them. What means the
 * same here is done or is done anyhow, what cannot be is refused with the
 * reason: docs/union-mergerfs.md.
 */
#ifndef UNION_OPTIONS_MERGERFS_H
#define UNION_OPTIONS_MERGERFS_H

#include "union/config/options.h"

/*
 * @value  NULL: the option has none
 *
 * 0: it is done; -ENOENT without an error: not one of these; -EINVAL.
 */
int options_mergerfs(struct union_options *options, const char *name,
		     const char *value, struct error *err);

/* Is it an option for mount(8) and systemd alone, of no file system? */
bool options_of_fstab(const char *name);

/*
 * The arguments of mount(8) for its helper, "SPEC DIR [-sfnv] [-o LIST]
 * [-t TYPE]", as those of trib-union, in place; their new count. 0: it is
 * not to be mounted (-f). -EINVAL.
 */
int options_from_mount(int argc, char **argv, struct error *err);

#endif
