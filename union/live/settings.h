/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What of a mounted union can be changed by name, as its options are called:
 * policies and `minfreespace`. Until it is unmounted.
 */
#ifndef UNION_SETTINGS_H
#define UNION_SETTINGS_H

#include <stddef.h>

#include "base/error.h"
#include "union/config/policy_set.h"

struct unionfs;

/*
 * All of them, the last of one name counts, or none. -ENOENT: there is no such
 * name; -EINVAL; both with @err. The first changes nothing.
 */
int settings_check(const struct setting *settings, size_t count,
		   struct error *err);
int settings_change(struct unionfs *fs, const struct setting *settings,
		    size_t count, struct error *err);

#endif
