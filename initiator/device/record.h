/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one attachment, and the file that remembers it:
 * STATE_DIR/ID.attachment, "key=value" lines. The file is written before each
 * step that leaves something behind, with all that is needed to take that down.
 */
#ifndef INITIATOR_RECORD_H
#define INITIATOR_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "initiator/device/device.h"

#define RECORD_SUFFIX   ".attachment"
#define RECORD_SIZE_MAX 16384 /* bytes of the file */
#define RECORD_TEXT_MAX 1024  /* bytes of one value, with NUL */

struct record {
	char id[64];        /* base/uuid_name.h: at most 63 bytes */
	char transport[16]; /* empty: not yet chosen */
	char why[256];
	char local_path[RECORD_TEXT_MAX];
	char address[RECORD_TEXT_MAX];
	char export_name[RECORD_TEXT_MAX]; /* of iSCSI: the target's name */
	char identity[64];                 /* the disk's serial; empty: any */
	char chap_file[RECORD_TEXT_MAX];   /* empty: no CHAP */
	unsigned parts; /* exports in ID.parts (parts.h); 0: no such file */
	uint64_t size;  /* bytes */
	bool read_only;
	unsigned connections;
	unsigned dead_timeout_ms;
	char boot[UUID_TEXT_SIZE];    /* of another boot: nothing is left */
	char device[DEVICE_PATH_MAX]; /* the transport's; empty: not made yet */
	char top[DEVICE_PATH_MAX];    /* the one over it; empty: none */
	pid_t pid;                    /* 0: none */
	unsigned long long pid_start; /* base/process.h */
	/* The incarnation on which a kernel session may go on; empty:
	 * unknown. */
	char incarnation[RECORD_TEXT_MAX];
	bool ready; /* everything is there */
};

/* Can the text be kept? A control character cannot be kept in a line. */
bool record_text_ok(const char *text);

/*
 * Make the text of a record, returned owned, NUL-terminated; NULL: no memory.
 */
char *record_encode(const struct record *record);

/*
 * Read the text of a record. -EINVAL with the line that is wrong: a bad number,
 * a value too long, no "version=1" first, no id. Keys that are not known are
 * left out.
 */
int record_decode(const char *text, size_t length, struct record *ret,
		  struct error *err);

/*
 * Forget what a record of another boot has: its devices, mounts and processes
 * went with it.
 */
void record_forget_other_boot(struct record *r);

/*
 * Load, save or remove a record. -ENOENT (no record); -EINVAL, -EFBIG: damaged.
 */
int record_load(int dirfd, const char *id, struct record *ret,
		struct error *err);
int record_save(int dirfd, const struct record *record, struct error *err);
int record_remove(int dirfd, const char *id, struct error *err);

#endif
