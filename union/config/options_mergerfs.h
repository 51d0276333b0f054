/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options as users of mergerfs and /etc/fstab write them. An option with the
 * same meaning here is done, or is the rule anyhow. An option that is
 * impossible here is refused with the reason: docs/union-mergerfs.md.
 */
#ifndef UNION_OPTIONS_MERGERFS_H
#define UNION_OPTIONS_MERGERFS_H

#include "union/config/options.h"

/*
 * Take one option.
 *
 * @value  NULL: the option has none
 *
 * 0: it is done; -ENOENT without an error: not one of these; -EINVAL.
 */
int options_mergerfs(struct union_options *options, const char *name,
		     const char *value, struct error *err);

/* Is it an option for mount(8) and systemd alone, of no file system? */
bool options_of_fstab(const char *name);

/*
 * Turn the arguments of mount(8) for its helper into those of trib-union, in
 * place: "SPEC DIR [-sfnv] [-o LIST] [-t TYPE]". Returns the new count. 0:
 * nothing is to be mounted (-f). -EINVAL.
 */
int options_from_mount(int argc, char **argv, struct error *err);

#endif
