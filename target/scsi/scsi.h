/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SCSI device server (SPC-4, SBC-3) over struct blockdev, without a
 * transport: commands in, status, sense and data out.
 *
 *	target   what an initiator logs in to: up to SCSI_LUNS units
 *	unit     one logical unit, shared by all sessions that reach it
 *	nexus    one session of one initiator with a target
 *	path     a nexus seen from one unit; it has the session's own device
 *	task     one command
 *
 * Threads: targets and units may be used from any thread. A nexus, its
 * paths and its tasks belong to one loop, and so do the paths' devices.
 *
 * A command goes:
 *
 *	fill in task: nexus, lun, cdb, expected lengths, done
 *	scsi_task_parse()   says how many bytes to collect and to make room for
 *	open task->path->dev if it is not yet, collect data, get buffers
 *	scsi_task_start()   done() is called once, maybe from inside
 *	send task->status, sense, data
 *	scsi_task_finish()
 */
#ifndef TARGET_SCSI_H
#define TARGET_SCSI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/blockdev/blockdev.h"
#include "base/error.h"
#include "base/loop/loop.h"

#define SCSI_LUNS      256 /* of one target, from 0 */
#define SCSI_CDB_MAX   16  /* bytes; longer ones are no command of ours */
#define SCSI_SENSE_MAX 64  /* bytes; ours */
#define SCSI_NAME_MAX  223 /* bytes of an iSCSI name; RFC 7143 4.2.7.1 */

/* Bytes that one command may move, unless the options say otherwise. */
#define SCSI_TRANSFER_MAX (UINT32_C(8) << 20)

/* The most that scsi_task_parse() asks a transport to collect or provide. */
#define SCSI_BUFFER_MAX (UINT32_C(64) << 20) /* bytes */

/*
 * The most scratch memory that scsi_task_parse() asks a transport for, besides.
 */
#define SCSI_SCRATCH_MAX (UINT32_C(1) << 20) /* bytes */

enum scsi_status { /* SAM-5 5.3.1 */
		   SCSI_GOOD = 0x00,
		   SCSI_CHECK_CONDITION = 0x02,
		   SCSI_CONDITION_MET = 0x04,
		   SCSI_BUSY = 0x08,
		   SCSI_RESERVATION_CONFLICT = 0x18,
		   SCSI_TASK_SET_FULL = 0x28,
		   SCSI_TASK_ABORTED = 0x40,
};

struct scsi_target;
struct scsi_unit;
struct scsi_nexus;
struct scsi_copy_result;

/* ---- units ---- */

struct scsi_unit_options {
	uint8_t uuid[16];    /* names the unit, for good */
	const char *serial;  /* printable, up to 36 bytes; NULL: the uuid */
	const char *product; /* printable, up to 16 bytes; NULL: ours */
	uint64_t size;       /* bytes; those past the last block are unused */
	/*
	 * 512 or 4096, not less than the block_size of its devices (1 counts
	 * as 512).
	 */
	uint32_t block_size;
	uint32_t physical_size; /* bytes, power of two; 0: block_size */
	uint32_t transfer_max;  /* bytes; 0: SCSI_TRANSFER_MAX */
	bool read_only;
	bool removable; /* the medium may be ejected and loaded */
	bool thin;      /* devices discard: UNMAP is advertised */
	/*
	 * Of a thin unit: where its owner calls scsi_unit_low_space(), in
	 * percent of the space behind it, to 99. Initiators can look it up and
	 * turn it off, but not change it. 0: there is no such threshold.
	 */
	unsigned low_space;
	/*
	 * File that keeps persistent reservations which are to survive loss
	 * of power (APTPL), written atomically on a helper thread. NULL:
	 * such are refused. Of a damaged file nothing is known: initiators are
	 * told that it is lost, until one of them replaces it (scsi_pr.h).
	 */
	const char *state_path;
};

/*
 * Everything in @options is copied. -EINVAL: options that can't be; -ENOMEM, or
 * what opening the state file returns. Returned owned.
 */
int scsi_unit_new(const struct scsi_unit_options *options,
		  struct scsi_unit **ret, struct error *err);

/*
 * Read the unit's reservations again from the state file. Before the unit is in
 * a target. -ENOMEM, or the error of opening the file.
 */
int scsi_unit_reload(struct scsi_unit *unit, struct error *err);

struct scsi_unit *scsi_unit_ref(struct scsi_unit *unit);
void scsi_unit_unref(struct scsi_unit *unit); /* NULL is fine */

/*
 * The unit has @size bytes from here on; smaller is not refused, but the
 * owner must not do it. Initiators are told (CAPACITY DATA HAS CHANGED).
 * Their devices are to be told before (blockdev_grown() on their loops).
 */
void scsi_unit_resize(struct scsi_unit *unit, uint64_t size);

/*
 * The space behind a thin unit fell below options.low_space: initiators are
 * told, each once, unless they turned that off.
 */
void scsi_unit_low_space(struct scsi_unit *unit);

uint32_t scsi_unit_block_size(const struct scsi_unit *unit);
uint64_t scsi_unit_size(const struct scsi_unit *unit); /* bytes */

/* ---- targets ---- */

/* @name: its iSCSI name, copied. -EINVAL, -ENOMEM. Returned owned. */
int scsi_target_new(const char *name, struct scsi_target **ret,
		    struct error *err);
struct scsi_target *scsi_target_ref(struct scsi_target *target);
void scsi_target_unref(struct scsi_target *target); /* NULL is fine */

/*
 * Put @unit (a reference of its own is taken) at @lun. A unit is put into one
 * target, once. -EEXIST: something is there; -EBUSY: it was in a target.
 */
int scsi_target_add(struct scsi_target *target, unsigned lun,
		    struct scsi_unit *unit, struct error *err);

/*
 * Take a unit out. Commands for it are answered LOGICAL UNIT NOT SUPPORTED from
 * here on. Commands that have begun go on. Nothing there: 0.
 */
void scsi_target_remove(struct scsi_target *target, unsigned lun);

/* The unit at @lun, a reference of the caller's own; NULL: none. */
struct scsi_unit *scsi_target_unit(struct scsi_target *target, unsigned lun);

/* ---- nexuses ---- */

struct scsi_path {
	struct scsi_unit *unit;   /* owned reference */
	struct scsi_nexus *nexus; /* it is of */
	unsigned lun;
	/*
	 * The transport's: the session's own device for the unit, opened on
	 * its loop before the first task with that path starts, closed after
	 * the last. NULL: commands that need the medium are answered NOT
	 * READY.
	 */
	struct blockdev *dev;
	void *transport; /* the transport's, NULL at first */

	/* The device server's. */
	struct scsi_path *next_of_nexus, *next_of_unit;
	_Atomic uint32_t attentions; /* 1 << enum scsi_attention */
	_Atomic unsigned epoch;      /* changes when its tasks are aborted */
	_Atomic unsigned plain;      /* tasks at the medium without a lock */
	unsigned granted;            /* and with one; the unit's lock */
	bool prevents;               /* medium removal; the unit's lock */
	struct scsi_copy_result *copied; /* newest first; the loop's */
};

/*
 * The session of @initiator (iSCSI name) with initiator session id @isid.
 * All units owe it the unit attention POWER ON. -ENOMEM.
 */
int scsi_nexus_new(struct scsi_target *target, struct loop *loop,
		   const char *initiator, const uint8_t isid[6],
		   struct scsi_nexus **ret);

struct scsi_nexus_ops {
	/*
	 * Optional. EXTENDED COPY reaches units that the session has not used
	 * yet: set path->dev for one, or return a negative errno. Without it
	 * there are only those whose devices are open. May block briefly.
	 */
	int (*open)(struct scsi_path *path, void *context);
	/*
	 * Optional. Tells whether the session may see the unit at @lun. Other
	 * units are not there for the session. Asked on the loop, without a
	 * lock of ours, before the session first uses a unit and when it asks
	 * for the list. Once true, the answer stays so until the session ends
	 * or the unit is taken out.
	 */
	bool (*admits)(unsigned lun, void *context);
};

void scsi_nexus_set_ops(struct scsi_nexus *nexus,
			const struct scsi_nexus_ops *ops, void *context);

/*
 * No task of it may be left. Reservations that live with a session end;
 * persistent ones stay. The devices are to be closed before
 * (scsi_nexus_each_path()). NULL is fine.
 */
void scsi_nexus_free(struct scsi_nexus *nexus);

void scsi_nexus_each_path(struct scsi_nexus *nexus,
			  void (*visit)(struct scsi_path *path, void *context),
			  void *context);

/* ---- tasks ---- */

/*
 * As iSCSI has it, RFC 7143 11.3.1. An ordered command that touches the medium
 * is alone there, in the order of scsi_task_start(); the others are all simple.
 */
enum scsi_attribute {
	SCSI_UNTAGGED = 0,
	SCSI_SIMPLE = 1,
	SCSI_ORDERED = 2,
	SCSI_HEAD_OF_QUEUE = 3,
	SCSI_ACA = 4,
};

struct scsi_command;

struct scsi_task {
	/* The transport's, set before scsi_task_parse(). */
	struct scsi_nexus *nexus;
	uint8_t lun[8];            /* as on the wire, SAM-5 4.7 */
	uint8_t cdb[SCSI_CDB_MAX]; /* shorter ones: zeroes behind */
	bool cdb_long;             /* it had more than 16 bytes */
	enum scsi_attribute attribute;
	/*
	 * The task is the rest of a command whose first part has begun. A unit
	 * attention, owed to the next command, is not for it.
	 */
	bool follows;
	uint32_t expected_out; /* bytes the initiator is to send */
	uint32_t expected_in;  /* bytes the initiator has room for */
	void (*done)(struct scsi_task *task);

	/* Of scsi_task_parse(). */
	struct scsi_path *path; /* NULL: no such unit */
	uint32_t out_length;    /* bytes to collect, up to expected_out */
	uint32_t in_size;       /* bytes of buffer; may be more than expected */
	uint32_t scratch_size;  /* bytes of buffer that nobody else looks at */
	bool needs_device;      /* path->dev has to be there */

	/* The transport's, set before scsi_task_start(). */
	const uint8_t *out; /* out_length bytes; page aligned is best */
	uint8_t *in;        /* in_size bytes */
	uint8_t *scratch;   /* scratch_size bytes; page aligned is best */

	/* Of done(). */
	uint8_t status; /* enum scsi_status */
	bool aborted;   /* a task management function: see below */
	uint8_t sense_length;
	uint8_t sense[SCSI_SENSE_MAX];
	/*
	 * Valid bytes in @in, up to in_size: send as many as were expected.
	 */
	uint32_t in_length;
	/*
	 * Bytes that the command moves by itself. The residual is against the
	 * expected bytes (RFC 7143 11.4.5): less is underflow, more overflow.
	 */
	uint32_t transfer_length;

	/* The device server's. */
	const struct scsi_command *command;
	struct op op;
	struct loop_message message;
	struct loop_work work;
	struct scsi_task *next;
	uint64_t offset, length; /* bytes of the medium */
	uint64_t at;             /* progress in them */
	void *context;           /* the command's own; freed with it */
	void (*step)(struct scsi_task *task, int res);
	void (*entered_call)(struct scsi_task *task);
	uint32_t piece;          /* bytes under way */
	unsigned flags;          /* enum blockdev_flag */
	unsigned epoch;          /* of the path when it was parsed */
	_Atomic uint8_t entered; /* enum scsi_entered */
	bool failed;             /* by parse: status and sense are set */
	bool cut; /* failed by its residual, which is told, too */
	bool abort;
};

/*
 * Look at the command: which data it moves, and whether it can be done at all.
 * An error is kept, and told by done(). Does not block. The task may be dropped
 * afterwards with scsi_task_finish(), without a start.
 */
void scsi_task_parse(struct scsi_task *task);

/*
 * Carry the task out. done() is called exactly once, on the nexus's loop, maybe
 * before this returns. If task->aborted, a task management function ended the
 * task, from its own nexus or another. No answer goes out then, except when the
 * status is SCSI_TASK_ABORTED.
 */
void scsi_task_start(struct scsi_task *task);

/* Free the task's members, before its memory is used again. */
void scsi_task_finish(struct scsi_task *task);

/*
 * Abort a task, on its loop, between parse and done(). The task ends as soon as
 * it can, with @aborted, unless it is done already. A write that has begun may
 * get written, all of it or in part, but before done().
 */
void scsi_task_abort(struct scsi_task *task);

/* ---- task management: of several tasks ---- */

enum scsi_function {
	SCSI_ABORT_TASK_SET, /* all tasks of this nexus with the unit */
	SCSI_CLEAR_TASK_SET, /* those of all nexuses */
	SCSI_LUN_RESET,
	SCSI_TARGET_RESET, /* all units; warm and cold are the same */
};

/* The device server's: waits until aborted tasks have left the medium. */
struct scsi_drain {
	struct loop_message message;
	struct loop *loop;
	struct scsi_drain *next;
};

struct scsi_reset {
	/* Called on the nexus's loop, maybe from inside scsi_reset_start(). */
	void (*done)(struct scsi_reset *reset);
	/* -ENOENT: no such unit (answer LUN DOES NOT EXIST). */
	int res;

	/* The device server's. */
	struct scsi_nexus *nexus;
	struct scsi_drain drain;
	enum scsi_function function;
	struct scsi_unit *unit; /* waited for; owned */
	int lun;                /* the last one that was hit */
};

/*
 * Start a reset. The tasks that it hits end by their own done() with @aborted,
 * on their own loops. A task that is not started yet ends when it is started.
 * reset->done() comes when no hit task that had started runs any more. Nothing
 * of those tasks reaches the medium afterwards. @reset stays valid until then.
 */
void scsi_reset_start(struct scsi_reset *reset, struct scsi_nexus *nexus,
		      enum scsi_function function, const uint8_t lun[8]);

/* Decode a single level LUN (SAM-5 4.7); -1: none of ours. */
int scsi_lun_decode(const uint8_t lun[8]);

/* In the format that @scsi_lun_decode reads. */
void scsi_lun_encode(unsigned lun, uint8_t ret[8]);

#endif
