/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notation of a branch: PATH, or PATH=WORD,WORD... A word is a mode (rw,
 * ro, nc, absent), "local" or a size. The size is the free space below which
 * the branch is a last choice. Each kind of word may come once, in any order
 * and case.
 *
 * A ':', '=' or '\' in the path has a '\' before it; ':' ends a branch. A '*',
 * '?' or '[' without '\' makes the path a pattern.
 */
#ifndef UNION_BRANCH_SPEC_H
#define UNION_BRANCH_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct branch_spec {
	char *path;        /* owned, escapes resolved; or a pattern */
	bool pattern;      /* @path is one of glob(3), with its escapes */
	unsigned flags;    /* BRANCH_LOCAL and a mode: RO, NC, ABSENT */
	uint64_t min_free; /* bytes, or BRANCH_MIN_FREE_UNION */
};

/*
 * Parse the first branch of @list. @list is then at the next branch, or NULL
 * after the last. -EINVAL; ret->path is the caller's to free, also after an
 * error.
 */
int branch_spec_parse(const char **list, struct branch_spec *ret,
		      struct error *err);

#define BRANCH_SPEC_WORDS_MAX 48 /* bytes; any branch_spec_format() fits */

/* Write the words of a branch, "rw,local,4G"; returns @buf. */
const char *branch_spec_format(char *buf, unsigned flags, uint64_t min_free);

#endif
