/* SPDX-License-Identifier: Apache-2.0 */
/* mount -o remount,... of a union: what mount(8)'s helper does. */
#ifndef UNION_REMOUNT_H
#define UNION_REMOUNT_H

#include <stdbool.h>

#include "base/error.h"
#include "union/config/remount_call.h"

/*
 * Are these the arguments of trib-union for a remount? @whole: called by
 * mount(8), which leaves out the defaults, and repeats what is so already.
 */
bool remount_is_wanted(int argc, char **argv);

/* Remount. 0; or -errno with @err, and all is as it was. */
int remount(int argc, char **argv, bool whole, struct error *err);

#endif
