/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of trib-union. */
#ifndef UNION_OPTIONS_H
#define UNION_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "union/config/branch_spec.h"
#include "union/config/mount_words.h"
#include "union/config/policy_set.h"
#include "union/sys/branch_flags.h"
#include "union/sys/inode_number.h"

#define UNION_THREADS_MAX 1024

struct union_options {
	struct branch_spec *branches;
	size_t branch_count; /* 1 to BRANCH_MAX */
	char *mountpoint;
	char *list;        /* of branches, as given */
	char *fsname;      /* the source of the mount; default @list */
	char *mount_flags; /* ",nosuid,ro": of it, for libfuse; or NULL */
	struct mount_words words;
	char *control;  /* path of the control socket; NULL: none */
	char *log_file; /* NULL: nowhere once in the background */
	struct policy_set policies;
	struct inode_shown numbers;
	uint64_t readahead;     /* KiB; 0: as it is */
	unsigned statfs_ignore; /* flags of branches that have no free space */
	uint64_t min_free;      /* bytes */
	uint64_t cache_timeout; /* seconds */
	unsigned threads;
	uint64_t branch_timeout; /* seconds; 0: none */
	bool read_only;          /* as the last of ro and rw says */
	bool lists_quietly;      /* see struct unionfs */
	bool forgets_nothing;    /* the same */
	bool hides_capabilities; /* the same */
	bool allow_other, passthrough, shared;
	bool asks_io_uring; /* which does nothing */
	bool foreground, help, version;
	bool survive;        /* see handover.h */
	bool without_resend; /* as on a kernel that cannot: for tests */
	bool lists_later;    /* such a server: options_branches() of @list */
	int supervisor_fd;   /* of a server that survives: to its supervisor; -1
			      */
	int stored_fd;       /* of a supervisor that follows a killed one: to
			      * the launcher; -1
			      */
	int ready_fd;        /* -1: none; told when the union is mounted */
	int start_fd;        /* -1: none; it says when to begin: start_wait() */
};

/*
 * Parse the command line. -EINVAL names the word that is wrong. With help or
 * version nothing else is checked. union_options_done() frees, also after an
 * error.
 */
int union_options_parse(int argc, char **argv, struct union_options *ret,
			struct error *err);
void union_options_done(struct union_options *options);

/* Changes that mount -o remount asks for; all zero at first. */
struct union_change {
	struct mount_words words;
	struct setting *settings; /* of settings.h; owned, and each name */
	size_t count;
};

/*
 * Parse the options of a remount. An option that has the value already may be
 * given. @now NULL: only words are taken. -EINVAL names an option that cannot
 * change while the union is mounted. union_change_done() frees, also after an
 * error.
 */
int union_options_change(const struct union_options *now, const char *list,
			 struct union_change *ret, struct error *err);
void union_change_done(struct union_change *change);

void union_options_help(FILE *out);

#endif
