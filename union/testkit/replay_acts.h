/* SPDX-License-Identifier: Apache-2.0 */
/* The requests that replay_test.c has done once. */
#ifndef UNION_REPLAY_ACTS_H
#define UNION_REPLAY_ACTS_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACT_ATTRIBUTE  "trusted.test"
#define ACT_CAPABILITY "security.capability"
#define AGAIN_ACTS_MAX 64

/* One request and the state before it. */
struct act {
	const char *name;
	void (*prepare)(const int *roots); /* branches 0 and 1 */
	const char *known[3]; /* names in the root: nodes 2, 3, ... */
	void (*fill)(struct fuse_in_header *header); /* opcode, node, body */
	int error;                                   /* the reply's, negative */
	bool shared;      /* others change the branches, too */
	bool lists;       /* the root is open, by the number in act_file */
	bool uncaps;      /* node 2 is open and has lost its file capability */
	bool makes_entry; /* its reply begins with a fuse_entry_out */
};

extern const struct act replay_acts[];
extern const size_t replay_act_count; /* AGAIN_ACTS_MAX at most */

/* The file number that requests name, in the process that serves. */
extern uint64_t act_file;

/*
 * Make the body of @length bytes, zeroed, of the request that @header becomes.
 */
void *act_body(struct fuse_in_header *header, uint32_t opcode, uint64_t node,
	       size_t length);
/* Add after it a string with its NUL, or @length bytes. */
void act_add_text(struct fuse_in_header *header, const char *text);
void act_add_bytes(struct fuse_in_header *header, const void *data,
		   size_t length);

#endif
