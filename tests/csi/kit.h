/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the driver, and what checks of it are made of.
 *
 * The hosts are up (tests/csi/lib.sh): host N's driver is at
 * DIR/hostN/csi.sock, its staging paths are below DIR/hostN/staging, its
 * targets below DIR/hostN/pods.
 *
 * A request is words: the method, then fields as message.h has them, which
 * are put over those that make it a right one. In place of the method may be
 * the name of a recorded request, which has its own (recorded.h). In a field
 *"$word" is a variable; its value may have others in it. Always there:
 *
 *	dir host       of the call
 *	node           the id of that host's node
 *	name id size   of the volume
 *
 *	access mode    "mount.fs_type=" or "block="; a number
 *	staging target of the volume on that host
 *
 *	snapshot base  ids of snapshots
 *	group member omember second  ids of a group, its members, a volume
 *
 * One thread, but for kit_send().
 */
#ifndef TESTS_CSI_KIT_H
#define TESTS_CSI_KIT_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "tests/csi/message.h"

#define KIT_HOSTS    3
#define KIT_TEXT_MAX 8192
#define KIT_MIB      1048576

/* @dir: borrowed for ever. Ends the process when it cannot be. */
void kit_open(const char *dir);
void kit_close(void);

/* ---- words ---- */

void kit_let(const char *name, const char *value);
/* @text with its variables replaced; one of 16 buffers, in turn. */
const char *kit_text(const char *text) __attribute__((format_arg(1)));
#define value_of(name) kit_text("$" name)

/* ---- calls ---- */

struct kit_answer {
	enum rpc_code code;
	char text[ERROR_TEXT_MAX]; /* of a failure */
	ProtobufCMessage *message; /* of a success; kit_answer_done() */
};

struct kit_request {
	const struct rpc_method *method;
	ProtobufCMessage *in; /* protobuf_c_message_free_unpacked() */
	int host;
};

/* @words: ends with NULL. */
struct kit_request kit_request_make(int host, const char *const *words);
/* A field more of every CreateVolume; "": none. Borrowed for ever. */
void kit_use_pool(const char *field);
/* Any thread. @timeout_ms 0: a minute. */
void kit_send(const struct kit_request *request, int timeout_ms,
	      struct kit_answer *ret);
void kit_answer_done(struct kit_answer *answer);

/* Both at the same time, from two threads. */
void kit_send_both(const struct kit_request *a, const struct kit_request *b,
		   struct kit_answer ret[2]);

/* Make, send, keep the answer for answer(). */
enum rpc_code kit_call(int host, const char *const *words);
/* Of the last kit_call(): a field of its answer; the text of its failure. */
const char *answer(const char *path);
int64_t answer_number(const char *path);
const char *answer_text(void);

/* What the last call of SnapshotMetadata streamed; main thread only. */
struct kit_stream {
	size_t messages, ranges;
	size_t most; /* ranges in a message */
	int64_t first_end, end, bytes, capacity;
	bool wrong; /* an order, a style or a capacity that changes */
};
const struct kit_stream *kit_streamed(void);

#define WORDS(...)      ((const char *const[]){__VA_ARGS__, NULL})
#define call(host, ...) kit_call(host, WORDS(__VA_ARGS__))

/* ---- verdicts; each ends the check when it is not so ---- */

void kit_fail(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), noreturn));
void kit_expect(enum rpc_code want, enum rpc_code got, const char *method);

/* NAME(host, METHOD, FIELD...): it has to succeed. */
#define ok(host, ...) \
	kit_expect(RPC_OK, kit_call(host, WORDS(__VA_ARGS__)), #__VA_ARGS__)
#define refused(host, code, ...) \
	kit_expect(code, kit_call(host, WORDS(__VA_ARGS__)), #__VA_ARGS__)
#define same(got, want) kit_same(got, want, #got)
#define holds(condition)                      \
	do {                                  \
		if (!(condition))             \
			kit_fail(#condition); \
	} while (0)
void kit_same(const char *got, const char *want, const char *what);
bool has_text(const char *text, const char *part);

/* Runs @check, and says on TAP what came of it; false: it failed. */
bool kit_run(void (*check)(const void *context), const void *context,
	     const char *name);
/* "1..N" at the end; the exit status. */
int kit_end(void);

/* ---- the volume: how far it is in its life, on host 1 ---- */

enum level { NONE, CREATED, ATTACHED, STAGED, PUBLISHED };

/* By the calls an orchestrator makes, in either direction. */
void level_set(enum level level);
enum level level_get(void);
/* By hand: what a check did to it. */
void level_is(enum level level);

/*
 * Take down every volume that a call made, however far it is; with @all
 * the volume of level_set() too. False when something stayed.
 */
bool scrap(bool all);
/* Delete every snapshot, with its group. False when one stayed. */
bool scrap_snapshots(void);

/* ---- what is seen at a path ---- */

void kit_sleep_ms(unsigned ms);
bool kit_exists(const char *path);
void kit_make_folder(const char *path); /* it may be there */
void kit_remove_tree(const char *path);
unsigned kit_group_of(const char *path); /* gid */

unsigned mounts_at(const char *path); /* one above the other */
bool is_mounted(const char *path);
/* Write or read a text through a published path, file or block. */
int content_write(const char *path, const char *text);
/* Write so many MiB of something, to the device or to a file. */
int content_fill(const char *path, unsigned mib);
bool content_is(const char *path, const char *text);
/* Bytes of the device, or of the file system. */
uint64_t content_size(const char *path);
const char *target_of(int host); /* of the volume */
const char *staging_of(int host);

#endif
