/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by nbd-serve and iscsi-serve: files and memory as exports, listeners
 * that say where they listen, and signals.
 */
#ifndef TARGET_SERVE_KIT_H
#define TARGET_SERVE_KIT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/options.h"
#include "target/target.h"

#define SERVE_NAME_MAX 256 /* bytes of an export's name, with NUL; ours */

/* "NAME=PATH" or "NAME=ram:SIZE": memory that every connection sees. */
struct serve_disk {
	char name[SERVE_NAME_MAX];
	char path[PATH_MAX];
	uint64_t size; /* bytes */
	bool direct;   /* O_DIRECT */
};

/* Returned owned: free(). */
int serve_disk_new(const char *text, bool direct, struct serve_disk **ret,
		   struct error *err);

/* For struct target_export, with the disk as its context. */
int serve_disk_open(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err);

/* Say "listening ADDRESS" with the port that it got, for each of @addresses. */
int serve_listen(struct target *target, const struct option_list *addresses,
		 int (*listen)(struct target *target, const char *address,
			       int *ret_port, struct error *err),
		 struct error *err);

/* The features of @names (LOOP_FEATURE_NAMES). -EINVAL */
int serve_without(const struct option_list *names, unsigned *ret,
		  struct error *err);

/*
 * Block the signals that serve_wait() waits for, in this thread and all that it
 * starts. Call it before target_new().
 */
void serve_block_signals(void);

/*
 * Until SIGTERM or SIGINT. On SIGHUP live connections follow those of @exports
 * ("NAME=PATH") whose files have grown, and "grown" is said.
 */
int serve_wait(struct target *target, const struct option_list *exports);

/* A program of these. */
struct serve_program {
	const char *name;
	const struct option_row *rows; /* options of @config */
	size_t n_rows;
	void *config;
	const bool *help; /* of @config: that is all that is wanted */
	int (*run)(void *config, struct error *err);
};

/*
 * Read the program's options and run it. Returns the value for main() to
 * return.
 */
int serve_main(const struct serve_program *program, int argc, char **argv);

#endif
