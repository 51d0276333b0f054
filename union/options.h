/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of trib-union. */
#ifndef UNION_OPTIONS_H
#define UNION_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "union/branch.h"
#include "union/branch_spec.h"
#include "union/policy.h"

#define UNION_THREADS_MAX 1024

struct union_options {
	struct branch_spec *branches;
	size_t branch_count; /* 1 to BRANCH_MAX */
	char *mountpoint;
	char *fsname;
	char *mount_flags; /* ",nosuid,ro": what mount(8) knows; or NULL */
	char *control;     /* path of the control socket; NULL: none */
	char *log_file;    /* NULL: nowhere once in the background */
	const struct policy *policy;
	uint64_t min_free;      /* bytes */
	uint64_t cache_timeout; /* seconds */
	unsigned threads;
	bool allow_other, passthrough, shared, foreground, help, version;
	int ready_fd; /* -1: none; told when the union is mounted */
};

/*
 * Parse it. -EINVAL with the word that is wrong. With help or version
 * nothing else is checked. union_options_done() frees, also after an error.
 */
int union_options_parse(int argc, char **argv, struct union_options *ret,
			struct error *err);
void union_options_done(struct union_options *options);

void union_options_help(FILE *out);

#endif
