/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device server for tests: a unit over memory, on a loop of its own thread.
 * Its sessions do one command at a time.
 */
#ifndef TARGET_SCSI_TEST_KIT_H
#define TARGET_SCSI_TEST_KIT_H

#include <pthread.h>
#include <semaphore.h>

#include "target/scsi/scsi.h"
#include "target/scsi/scsi_internal.h"

#define KIT_BLOCKS 4096u /* of the unit, unless said otherwise */
#define KIT_DATA   (UINT32_C(1) << 20)

struct kit_op;

struct kit {
	struct loop *loop;
	pthread_t thread;
	struct scsi_target *target;
	struct scsi_unit *unit;
	struct blockdev *ram;  /* one for all sessions */
	struct blockdev *more; /* behind LUN 1, if a test adds one */
	uint32_t block_size;
	int fail;            /* what operations of the medium end with; or 0 */
	unsigned operations; /* of the medium, so far */
	unsigned flushes;
	unsigned fua_writes;
	/* Operations of the medium wait for kit_let_go(). */
	_Atomic bool hold;
	sem_t held; /* posted for each that waits */
	struct kit_op *waiting;
};

struct kit_session {
	struct kit *kit;
	struct scsi_nexus *nexus;
	struct scsi_task task;
	unsigned who;
	enum scsi_attribute attribute;
	sem_t done;
	struct loop_message message;
	uint8_t lun[8];
	uint8_t out[KIT_DATA] __attribute__((aligned(4096)));
	uint8_t in[KIT_DATA] __attribute__((aligned(4096)));
	uint8_t scratch[SCSI_SCRATCH_MAX] __attribute__((aligned(4096)));
};

/* @options: NULL for a thin unit of 512 byte blocks; size 0: KIT_BLOCKS. */
void kit_open(struct kit *kit, const struct scsi_unit_options *options);
void kit_close(struct kit *kit);

/* @who: a name and a session id are made of it. Owes no attention. */
struct kit_session *kit_login(struct kit *kit, unsigned who);
void kit_logout(struct kit_session *s);

/* A unit with two sessions. */
struct kit_pair {
	struct kit kit;
	struct kit_session *a, *b;
};

/* For cmocka: *@state is a struct kit_pair. @options as for kit_open(). */
int kit_pair_open(void **state, const struct scsi_unit_options *options);
int kit_pair_close(void **state);

/*
 * Do one command with @out_length bytes of s->out, and room for @in_length in
 * s->in. Returns the status.
 */
int kit_do(struct kit_session *s, const uint8_t *cdb, size_t cdb_length,
	   uint32_t out_length, uint32_t in_length);
#define KIT_DO(s, out_length, in_length, ...)                        \
	kit_do((s), (const uint8_t[]){__VA_ARGS__},                  \
	       sizeof((const uint8_t[]){__VA_ARGS__}), (out_length), \
	       (in_length))

/* TEST UNIT READY */
int kit_ready(struct kit_session *s);

/* The same in two steps. */
void kit_begin(struct kit_session *s, const uint8_t *cdb, size_t cdb_length,
	       uint32_t out_length, uint32_t in_length);
int kit_end(struct kit_session *s);
bool kit_is_done(struct kit_session *s);

/* The last command ended with CHECK CONDITION, this key and code. */
void kit_assert_sense(const struct kit_session *s, enum scsi_sense_key key,
		      enum scsi_asc asc);

/* The field pointer of the last command's sense data; -1: none. */
int kit_field(const struct kit_session *s);

/* The information field of the last command's sense data. */
uint32_t kit_information(const struct kit_session *s);

/* A task management function, to its end. Returns its result. */
int kit_reset(struct kit_session *s, enum scsi_function function);

struct reset;
struct reset *kit_reset_begin(struct kit_session *s,
			      enum scsi_function function);
int kit_reset_end(struct reset *reset);
bool kit_reset_is_done(struct reset *reset);

/* Do nothing. After kit_call() of this, all messages posted before have run. */
int kit_nothing(void *context);

/* ABORT TASK of the command that was begun. */
void kit_abort(struct kit_session *s);

/* Wait until one more operation of the medium is held. */
void kit_wait_held(struct kit *kit);

/* Let the waiting operations of the medium go on; later ones wait. */
void kit_step(struct kit *kit);

/* Let all operations of the medium go on, the waiting ones, too. */
void kit_let_go(struct kit *kit);

/* Run @call on the loop. */
void kit_call(struct kit *kit, int (*call)(void *context), void *context);

#endif
