/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of the kernel. The thread that receives it has one of these
 * (fuse_threads.c), and each function that needs it gets it as an argument.
 * Functions of a lower layer take NULL where they work for no request.
 */
#ifndef UNION_REQUEST_H
#define UNION_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Flags of FUSE_INIT; linux/fuse.h, protocol 7.45. */
#define REQUEST_HANDLE_KILLPRIV_V2 (UINT64_C(1) << 28)
#define REQUEST_INIT_EXT           (UINT64_C(1) << 30)
#define REQUEST_EXPIRE_ONLY        (UINT64_C(1) << 35)
#define REQUEST_PASSTHROUGH        (UINT64_C(1) << 37)

struct fuse_req;
struct open_item;
struct reply_cache_slot;
struct unionfs;

#define REQUEST_ITEMS 2 /* copy_file_range() uses two files */

struct request {
	/* Of the kernel, by request_decode(): */
	uint64_t unique;
	uint32_t opcode;
	uint32_t pid;          /* of the thread that asks; 0: not known here */
	bool kills_privileges; /* drop setuid, setgid: see request_decode() */
	bool of_cache;         /* a write by the kernel, of mapped pages */
	bool wants_nothing;    /* a setattr without a wish */
	bool unnamed;          /* a create that is to have no name */
	bool wants_birth;      /* a getattr to be answered as in statx.h */
	uint64_t init_flags;   /* of FUSE_INIT: the kernel's offers */
	uint64_t nodes[2];     /* that it names, as far as it uses branches */
	unsigned node_count;

	/* Of libfuse, from the handler's beginning on: */
	struct fuse_req *req;
	struct unionfs *fs;
	uid_t uid; /* of the caller */
	gid_t gid;
	mode_t umask;

	/* Of the server: */
	struct open_item *items[REQUEST_ITEMS]; /* that it uses; NULL: none */
	bool watched;                           /* and may be answered early */
	struct reply_cache_slot *slot;          /* NULL: it has none */
	bool again;         /* a killed server had begun it */
	int32_t backing_id; /* for the reply that opens a file; 0: none */
	unsigned slot_hint; /* of the thread's next slot; outlives a request */
};

/*
 * Begin with a request: read @data, the kernel's, or as much of it as there is.
 * A request that libfuse does not know is changed into a similar one there.
 * FUSE_TMPFILE becomes FUSE_CREATE, FUSE_STATX becomes FUSE_GETATTR. One that
 * is too short for that stays unchanged.
 *
 * With HANDLE_KILLPRIV_V2 a flag says that the caller may not keep setuid,
 * setgid or capabilities of the file it changes. For a write that is passed
 * through there is no flag: before it the kernel sends a setattr that wants
 * nothing.
 */
void request_decode(void *data, size_t length, struct request *ret);

#endif
