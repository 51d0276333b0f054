/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas on all file systems of a union but fs1, which has room for all. They
 * limit users, groups or a project, in space and in names, a little above the
 * use of the first tree. A file that meets a quota goes elsewhere, and nobody
 * gets more than is allowed.
 */
#ifndef TESTS_UNION_QUOTAS_H
#define TESTS_UNION_QUOTAS_H

#include <stdint.h>

#include "base/error.h"
#include "tests/union/op.h"

#define QUOTAS_SAY_MAX 400

struct quotas {
	const char
		*dir; /* of fs0..., mounted with usrquota,grpquota,prjquota */
	char *const *branches; /* branch N is on file system N % file_systems */
	unsigned count, file_systems;
	struct dice dice;
};

/* The branches are there, and empty. 0, or -errno with @err. */
int quotas_prepare(struct quotas *q, uint64_t seed, struct error *err);

/* Set the limits on the filled file systems. As above. */
int quotas_begin(struct quotas *q, struct error *err);

/* 0; 1: somebody has more than they may, @said tells who. */
int quotas_check(const struct quotas *q, char said[QUOTAS_SAY_MAX]);

#endif
