/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch as people write it: PATH, or PATH=WORD,WORD... with a mode (rw,
 * ro, nc), "local" and a size, the free space below which it is a last choice;
 * each at most once, in any order and case. A ':', '=' or '\' in the path has
 * a '\' before it; ':' ends it. A '*', '?' or '[' without one makes it a
 * pattern.
 */
#ifndef UNION_BRANCH_SPEC_H
#define UNION_BRANCH_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct branch_spec {
	char *path;        /* owned, escapes resolved; or a pattern */
	bool pattern;      /* @path is one of glob(3), with its escapes */
	unsigned flags;    /* BRANCH_LOCAL, BRANCH_RO, BRANCH_NC */
	uint64_t min_free; /* bytes, or BRANCH_MIN_FREE_UNION */
};

/*
 * Take one branch off @list, which is then at the next, or NULL after the
 * last. -EINVAL; ret->path is the caller's to free, also after an error.
 */
int branch_spec_parse(const char **list, struct branch_spec *ret,
		      struct error *err);

#define BRANCH_SPEC_WORDS_MAX 48 /* bytes; any branch_spec_format() fits */

/* The words of a branch, "rw,local,4G"; returns @buf. */
const char *branch_spec_format(char *buf, unsigned flags, uint64_t min_free);

#endif
