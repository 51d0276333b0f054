/* SPDX-License-Identifier: Apache-2.0 */
/* The word of the command line that names the branches. */
#ifndef UNION_OPTIONS_BRANCHES_H
#define UNION_OPTIONS_BRANCHES_H

#include "union/config/options.h"

/*
 * Parse @list, "BRANCH:BRANCH...", into @options, which has no branches yet. A
 * pattern becomes the directories that match it, in the order of their bytes.
 * union_options_done() frees them, also after an error.
 *
 * 0; -EINVAL: a word that is wrong, a pattern that no directory matches, or
 * more than BRANCH_MAX of them; -ENOMEM.
 */
int options_branches(struct union_options *options, const char *list,
		     struct error *err);

#endif
