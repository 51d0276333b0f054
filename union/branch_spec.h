/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch as people write it: PATH, PATH=local, PATH=ro, PATH=local,ro. A
 * ':', '=' or '\' in the path has a '\' before it; ':' ends it.
 */
#ifndef UNION_BRANCH_SPEC_H
#define UNION_BRANCH_SPEC_H

#include "base/error.h"

struct branch_spec {
	char *path;     /* owned, escapes resolved */
	unsigned flags; /* BRANCH_LOCAL, BRANCH_RO */
};

/*
 * Take one branch off @list, which is then at the next, or NULL after the
 * last. -EINVAL; ret->path is the caller's to free, also after an error.
 */
int branch_spec_parse(const char **list, struct branch_spec *ret,
		      struct error *err);

#endif
