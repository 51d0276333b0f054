/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the device server: units, nexuses, the table of
 * commands, and functions for a command's code.
 *
 * Locks: a target's before a unit's. The plain path of a command takes
 * neither.
 */
#ifndef TARGET_SCSI_INTERNAL_H
#define TARGET_SCSI_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/wire/wire.h"
#include "target/scsi/scsi.h"
#include "target/scsi/scsi_defs.h"
#include "target/scsi/scsi_sense.h"

/* Bytes of a parameter list, or of an answer that is no medium data. Ours. */
#define SCSI_LIST_MAX 65536u

/* An iSCSI TransportID: a name, ",i,0x", the session id; SPC-4 7.6.4.6 */
#define SCSI_TRANSPORT_ID_MAX 248u /* bytes */

#define SCSI_SERIAL_MAX  36 /* bytes: a UUID's text; ours */
#define SCSI_PRODUCT_MAX 16 /* bytes; SPC-4 6.6.2 */

/* ---- unit attentions: the first that is set is reported first ---- */

enum scsi_attention {
	SCSI_UA_POWER_ON,
	SCSI_UA_RESET,
	SCSI_UA_CLEARED,
	SCSI_UA_PREEMPTED,
	SCSI_UA_RELEASED,
	SCSI_UA_UNREGISTERED,
	SCSI_UA_MEDIUM_CHANGED,
	SCSI_UA_CAPACITY,
	SCSI_UA_MODE_CHANGED,
	SCSI_UA_LUNS_CHANGED,
	SCSI_UA_LOW_SPACE,
	SCSI_UA_END,
};

/* Return the sense code of an attention. */
enum scsi_asc scsi_attention_asc(unsigned attention);

/* The unit owes it to the path; any thread. */
void scsi_attention_raise(struct scsi_path *path, enum scsi_attention ua);

/* To every path of the unit but @but (or NULL). Its lock is held. */
void scsi_attention_raise_all(struct scsi_unit *unit,
			      const struct scsi_path *but,
			      enum scsi_attention ua);

/* ---- units ---- */

/* Values that MODE SELECT may change; shared by all initiators. */
struct scsi_mode {
	bool descriptors;   /* D_SENSE: sense data in descriptor format */
	bool write_protect; /* SWP */
	bool tell_aborted;  /* TAS: status TASK ABORTED */
	bool write_through; /* WCE is 0 */
	bool quiet;         /* LBPERE is 0: thresholds are not told */
	bool disarmed;      /* the threshold's ENABLED is 0 */
};

struct scsi_registration;

/* Persistent reservations, SPC-4 5.13; see scsi_pr.h. */
struct scsi_pr {
	struct scsi_registration *first; /* owned */
	unsigned count;
	uint32_t generation;
	uint8_t type;                     /* 0: no reservation */
	struct scsi_registration *holder; /* NULL where all registrants hold */
	bool survives;                    /* APTPL */
	bool saved;     /* there is, or may be, a state file */
	bool lost;      /* it can't be read; see scsi_pr.h */
	bool replacing; /* that is being saved */
};

struct scsi_unit {
	_Atomic unsigned refs;

	/* Fixed. */
	uint8_t uuid[16];
	char serial[SCSI_SERIAL_MAX + 1];
	char product[SCSI_PRODUCT_MAX + 1];
	uint32_t block_size; /* bytes */
	unsigned block_shift;
	unsigned physical_exponent;
	uint32_t transfer_max; /* bytes */
	bool read_only, removable, thin;
	unsigned low_space; /* percent; 0: nobody is told */
	char *state_path;

	_Atomic uint64_t size; /* bytes, whole blocks */
	_Atomic bool ejected;
	_Atomic bool gone; /* out of its target, for good */

	/* Commands have to look for reservations under the lock. */
	_Atomic bool guarded;
	/*
	 * Commands that hold, or wait for, a range for themselves, and drains:
	 * while there are any, nobody goes the plain way.
	 */
	_Atomic unsigned exclusive;

	/* Copies of struct scsi_mode, read without the lock. */
	_Atomic bool descriptors, write_protect, tell_aborted, write_through;

	pthread_mutex_t lock; /* guards all that follows */
	struct scsi_target *target;
	struct scsi_path *paths;
	struct scsi_mode mode;
	struct scsi_path *reserved; /* by RESERVE, SPC-2 */
	struct scsi_pr pr;
	struct scsi_task *held, *waiting; /* ranges; waiting: in order */
	struct scsi_drain *drains;

	pthread_mutex_t saving; /* one writes the state file; before lock */
};

/* scsi_unit.c: after what guards commands has changed; its lock is held. */
void scsi_unit_guard(struct scsi_unit *unit);

/* Blocks. */
static inline uint64_t scsi_unit_blocks(const struct scsi_unit *unit)
{
	return atomic_load_explicit(&unit->size, memory_order_relaxed) >>
	       unit->block_shift;
}

/* The threshold's descriptor: in its mode page; SBC-4 6.5.9. */
#define SCSI_THRESHOLD_AT 16u /* bytes */

/*
 * scsi_mode.c: what everybody is told (but @by; NULL: nobody); its lock is
 * held.
 */
void scsi_mode_set(struct scsi_unit *unit, const struct scsi_mode *mode,
		   const struct scsi_path *by);
/* Set the unit's mode to its first values. The unit's lock is held. */
void scsi_mode_reset(struct scsi_unit *unit);

/* ---- targets and nexuses ---- */

struct scsi_target {
	_Atomic unsigned refs;
	char name[SCSI_NAME_MAX + 1];
	pthread_mutex_t lock; /* guards what follows */
	struct scsi_unit *units[SCSI_LUNS];
	struct scsi_nexus *nexuses;
};

struct scsi_nexus {
	struct scsi_target *target; /* owned reference */
	struct loop *loop;
	char initiator[SCSI_NAME_MAX + 1];
	uint8_t isid[6];
	uint8_t id[SCSI_TRANSPORT_ID_MAX]; /* its TransportID */
	unsigned id_length;                /* bytes */
	struct scsi_nexus *next;
	struct scsi_nexus_ops ops;
	void *context; /* of @ops */
	/* All there ever were; those of units that are gone stay. */
	struct scsi_path *first;
	struct scsi_path *paths[SCSI_LUNS]; /* the loop's */
};

/* The path to @lun, made if need be; NULL: no such unit, or no memory. */
struct scsi_path *scsi_nexus_path(struct scsi_nexus *nexus, unsigned lun);

/* Tell whether the session may see the unit at @lun. No lock is held. */
bool scsi_nexus_sees(struct scsi_nexus *nexus, unsigned lun);

/* scsi_target_unit(), if the session may see it. */
struct scsi_unit *scsi_nexus_unit(struct scsi_nexus *nexus, unsigned lun);

/*
 * The medium can be reached there, now: the device is opened if need be. On
 * the nexus's loop.
 */
bool scsi_path_ready(struct scsi_path *path);

/* The status of a copy; SPC-4 table 283 */
enum scsi_copy_status {
	SCSI_COPY_RUNS = 0,
	SCSI_COPY_DONE = 1,
	SCSI_COPY_FAILED = 2,
};

/* The remembered result of a copy; the session's, newest first. */
struct scsi_copy_result {
	struct scsi_copy_result *next;
	uint8_t list_id;
	enum scsi_copy_status status;
	unsigned segments; /* done */
	uint64_t bytes;
	/* Of one that failed, until they were told: */
	bool has_details;
	uint8_t scsi_status, sense_length;
	uint8_t sense[SCSI_SENSE_MAX];
};

/* ---- the medium: scsi_range.c ---- */

enum scsi_entered {
	SCSI_OUTSIDE,
	SCSI_PLAIN,     /* counted, no lock */
	SCSI_SHARED,    /* holds its range, with others */
	SCSI_EXCLUSIVE, /* alone */
	SCSI_WAITING_SHARED,
	SCSI_WAITING_EXCLUSIVE,
};

/*
 * The task works on the range [offset, length) of it from here on, alone
 * there if @exclusive. True: it may go on at once; else @entered is called
 * on its loop when it may.
 */
bool scsi_range_enter(struct scsi_task *task, bool exclusive,
		      void (*entered)(struct scsi_task *task));
void scsi_range_leave(struct scsi_task *task);

/* If it waits it waits no longer: entered() is called soon. On its loop. */
void scsi_range_cancel(struct scsi_task *task);

/*
 * Abort the tasks of @path. Tasks that have not begun end when they begin,
 * those at the medium at their next step. @unit->lock is held.
 *
 * @tell  they are answered TASK ABORTED
 */
void scsi_path_abort(struct scsi_path *path, bool tell);

/*
 * drain->message is posted to drain->loop when no aborted task is at the
 * medium any more. @unit->lock is held.
 */
void scsi_drain_start(struct scsi_unit *unit, struct scsi_drain *drain);

/* ---- sessions and reservations: scsi_reserve.c ---- */

/*
 * Fail the task where reservations say so. RESERVATION CONFLICT: another
 * initiator has one. DATA PROTECT: the kept reservations are lost. True: the
 * task has failed.
 */
bool scsi_reserved(struct scsi_task *task);

/* End everything that lives with the session. @path->unit->lock is held. */
void scsi_path_ended(struct scsi_path *path);

/* ---- commands ---- */

enum scsi_command_flag {
	SCSI_C_MEDIUM = 1 << 0,    /* touches blocks: needs them loaded */
	SCSI_C_WRITES = 1 << 1,    /* changes the medium */
	SCSI_C_EXCLUSIVE = 1 << 2, /* and has its range for itself */
	SCSI_C_NO_UNIT = 1 << 3,   /* answered where there is no unit */
	SCSI_C_QUIET = 1 << 4,     /* unit attentions don't stop it */
	/* Beside a reservation of somebody else, SPC-4 table 66: */
	SCSI_C_ALWAYS = 1 << 5,   /* allowed */
	SCSI_C_READS = 1 << 6,    /* allowed if writes alone are excluded */
	SCSI_C_PR = 1 << 7,       /* looks after itself */
	SCSI_C_LIST_IN = 1 << 8,  /* an allocation length; the answer */
	SCSI_C_LIST_OUT = 1 << 9, /* a parameter list */
	SCSI_C_THIN = 1 << 10,    /* not there unless the unit is thin */
};

#define SCSI_NO_ACTION (-1)

struct scsi_command {
	uint8_t opcode;
	int8_t action; /* service action, or SCSI_NO_ACTION */
	uint8_t length;
	uint16_t flags;    /* enum scsi_command_flag */
	uint8_t list_at;   /* LIST_*: where its length is in the CDB, */
	uint8_t list_size; /* and of how many bytes */
	uint8_t usage[SCSI_CDB_MAX]; /* bits that are looked at; byte 0 not */
	/*
	 * Optional. Looks at the CDB: sets the lengths to move, or fails the
	 * task.
	 */
	void (*parse)(struct scsi_task *task);
	/* Required. Ends with scsi_task_complete(), now or later. */
	void (*run)(struct scsi_task *task);
};

/*
 * NULL: there is none such; the operation code exists if @ret_opcode says
 * so, and has other service actions.
 */
const struct scsi_command *scsi_command_find(const uint8_t *cdb,
					     bool *ret_opcode);
/* By operation code and service action; NULL at the end. */
const struct scsi_command *scsi_command_at(unsigned index);

/* The tables of each file; an entry of length 0 ends them. */
extern const struct scsi_command scsi_primary_commands[];
extern const struct scsi_command scsi_rw_commands[];
extern const struct scsi_command scsi_verify_commands[];
extern const struct scsi_command scsi_compare_commands[];
extern const struct scsi_command scsi_cache_commands[];
extern const struct scsi_command scsi_provision_commands[];
extern const struct scsi_command scsi_mode_commands[];
extern const struct scsi_command scsi_medium_commands[];
extern const struct scsi_command scsi_reserve_commands[];
extern const struct scsi_command scsi_pr_in_commands[];
extern const struct scsi_command scsi_pr_out_commands[];
extern const struct scsi_command scsi_maintenance_commands[];
extern const struct scsi_command scsi_copy_commands[];
extern const struct scsi_command scsi_copy_results_commands[];

/* ---- for the code of commands: scsi_task.c ---- */

static inline struct scsi_unit *scsi_task_unit(const struct scsi_task *task)
{
	return task->path->unit;
}

static inline uint16_t scsi_be16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline uint32_t scsi_be24(const uint8_t *p)
{
	return (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
}

static inline uint32_t scsi_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | scsi_be24(p + 1);
}

static inline uint64_t scsi_be64(const uint8_t *p)
{
	return (uint64_t)scsi_be32(p) << 32 | scsi_be32(p + 4);
}

static inline void scsi_put16(uint8_t *p, unsigned value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
}

static inline void scsi_put32(uint8_t *p, uint32_t value)
{
	scsi_put16(p, value >> 16);
	scsi_put16(p + 2, value & 0xffff);
}

static inline void scsi_put64(uint8_t *p, uint64_t value)
{
	scsi_put32(p, (uint32_t)(value >> 32));
	scsi_put32(p + 4, (uint32_t)value);
}

/* Set status and sense; the caller completes the task, or leaves parse(). */
void scsi_fail(struct scsi_task *task, enum scsi_sense_key key,
	       enum scsi_asc asc);
void scsi_fail_sense(struct scsi_task *task, const struct scsi_sense *sense);
/* ILLEGAL REQUEST that points to a field; @bit: or SCSI_NO_BIT. */
void scsi_fail_field(struct scsi_task *task, enum scsi_asc asc, bool in_cdb,
		     unsigned byte, int bit);
/* INVALID FIELD IN CDB, or IN PARAMETER LIST; @bit: or SCSI_NO_BIT. */
void scsi_fail_cdb(struct scsi_task *task, unsigned byte, int bit);
void scsi_fail_list(struct scsi_task *task, unsigned byte, int bit);
/* LOGICAL BLOCK ADDRESS OUT OF RANGE, with the address. */
void scsi_fail_range(struct scsi_task *task, uint64_t lba);
/* Fail the task for a failed operation of the device at byte @offset. */
void scsi_fail_errno(struct scsi_task *task, int error, uint64_t offset,
		     bool write);
/* Just a status. */
void scsi_fail_status(struct scsi_task *task, enum scsi_status status);

/* End the task as status and sense say (GOOD unless it failed). */
void scsi_task_complete(struct scsi_task *task);

/* Answer with @length bytes, as many as were asked for, and complete. */
void scsi_task_reply(struct scsi_task *task, const void *data, size_t length);

/* The sense data of a path's most urgent unit attention, which is over. */
bool scsi_attention_take(struct scsi_path *path, struct scsi_sense *ret);

/* Ended by task management: the next step is to complete it. */
bool scsi_task_stopped(const struct scsi_task *task);

/* The next operation of the device calls @step with its result. */
struct op *scsi_task_op(struct scsi_task *task,
			void (*step)(struct scsi_task *task, int res));

/*
 * Fail the task unless [lba, lba + blocks) is on the medium; sets its range.
 * True: it is.
 */
bool scsi_task_range(struct scsi_task *task, uint64_t lba, uint64_t blocks);

#endif
