/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts of the kernel's request that libfuse does not pass on. The thread that
 * received the request notes them, for as long as it serves it.
 */
#ifndef UNION_REQUEST_H
#define UNION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Flags of FUSE_INIT; linux/fuse.h, protocol 7.45. */
#define REQUEST_HANDLE_KILLPRIV_V2 (UINT64_C(1) << 28)
#define REQUEST_INIT_EXT           (UINT64_C(1) << 30)
#define REQUEST_EXPIRE_ONLY        (UINT64_C(1) << 35)
#define REQUEST_PASSTHROUGH        (UINT64_C(1) << 37)

struct request_note {
	uint64_t unique;
	uint32_t opcode;
	uint32_t pid;          /* of the thread that asks; 0: not known here */
	bool kills_privileges; /* drop setuid, setgid: see request_decode() */
	bool of_cache;         /* a write by the kernel, of mapped pages */
	bool wants_nothing;    /* a setattr without a wish */
	bool unnamed;          /* a create that is to have no name */
	bool wants_birth;      /* a getattr to be answered as in statx.h */
	uint64_t init_flags;   /* of FUSE_INIT: the kernel's offers */
	/* Nodes that the request is about: see move_lock_request_nodes(). */
	uint64_t nodes[2];
	unsigned node_count;
};

/*
 * Read a request (the kernel's, or as much of it as there is).
 *
 * With HANDLE_KILLPRIV_V2 a flag says that the caller may not keep setuid,
 * setgid or capabilities of the file it changes. For a write that is passed
 * through there is no flag: before it the kernel sends a setattr that wants
 * nothing.
 */
void request_decode(const void *data, size_t length, struct request_note *ret);

/*
 * Change requests that libfuse does not know into similar ones, and note it:
 * FUSE_TMPFILE into FUSE_CREATE, FUSE_STATX into FUSE_GETATTR. A request that
 * is too short stays unchanged.
 */
void request_adapt(void *data, size_t length, struct request_note *note);

/* The request of this thread; all zero when it serves none. */
extern _Thread_local struct request_note request_current;

#endif
