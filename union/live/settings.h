/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a mounted union that can be changed by name, as its options are
 * called: policies and `minfreespace`. A change lasts until the unmount.
 */
#ifndef UNION_SETTINGS_H
#define UNION_SETTINGS_H

#include <stddef.h>

#include "base/error.h"
#include "union/config/policy_set.h"

struct unionfs;

/*
 * Change all of @settings, or none; the last of one name counts. -ENOENT: there
 * is no such name; -EINVAL; both with @err. settings_check() changes nothing.
 */
int settings_check(const struct setting *settings, size_t count,
		   struct error *err);
int settings_change(struct unionfs *fs, const struct setting *settings,
		    size_t count, struct error *err);

#endif
