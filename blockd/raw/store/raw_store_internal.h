/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/raw/store/raw_store.h. */
#ifndef BLOCKD_RAW_STORE_INTERNAL_H
#define BLOCKD_RAW_STORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "blockd/raw/store/raw_store.h"

/* Bytes of records that the smallest batch buffer has room for. */
#define RAW_BATCH_ROOM (RAW_BATCH_MAX - RAW_BLOCK)

struct raw_store {
	struct raw_medium *medium; /* borrowed */
	pthread_mutex_t lock;      /* guards all below, but not for @busy */
	pthread_cond_t done;       /* @busy was cleared */
	struct raw_state state;
	struct raw_batch pending; /* changes that no commit has taken */
	uint32_t kept;            /* clusters that are not given to data */
	_Atomic uint64_t newest;  /* ticket of the last change; no lock: */
	_Atomic uint64_t durable; /* tickets up to this; to look at */
	bool broken;
	struct error cause; /* why */
	bool failed;        /* a write failed, and may succeed later */
	bool unreadable;    /* a part that opening needs cannot be read */
	/* raw_store_guard(); of the lock. */
	bool (*refuses)(void *context, const struct raw_record *record);
	void *refuses_context;
	/* raw_store_on_failed(); of the lock. */
	void (*on_failed)(void *context);
	void *on_failed_context;

	/* Of all clusters that were ever freed, how many ... */
	uint64_t freed_left;    /* raw_store_leave() has given out */
	uint64_t freed_durable; /* are so durably */

	/*
	 * For the thread that has set @busy: one writes to the medium at a
	 * time.
	 */
	bool busy;
	struct raw_super super; /* as on the medium; n_checkpoint: lock too */
	struct raw_batch writing;
	uint64_t log_block;    /* where the next batch goes */
	uint64_t log_sequence; /* its number */
	uint64_t log_used;     /* bytes of the ring since the checkpoint */
	_Atomic bool filling;  /* that is much; any thread may look */
	/*
	 * Objects that the last batch, and all since the checkpoint, were
	 * about.
	 */
	struct raw_mask previous, since;
	/*
	 * A checkpoint is written while commits go on. Guarded by the lock;
	 * changes since it began, by @busy.
	 */
	bool ahead;
	struct raw_mask since_ahead;
	/* raw_store_on_filling(); of the lock. */
	void (*on_filling)(void *context);
	void *on_filling_context;
	bool told_filling;
	/* For the next superblock, when the medium has grown; 0: has not. */
	uint64_t grown_size; /* bytes */
	uint32_t grown_clusters;
};

/* Clusters of a medium of @size bytes that has this layout. */
uint32_t store_clusters_for(const struct raw_super *super, uint64_t size);

/* How many were ever freed, durably or not. Lock held. */
uint64_t store_freed(const struct raw_store *store);

/*
 * Take the role of the one that writes to the medium, and give it back. The
 * lock is held. store_take_log() takes the log alone, beside a checkpoint that
 * is written.
 */
void store_take_role(struct raw_store *store);
void store_take_log(struct raw_store *store);
void store_give_role(struct raw_store *store);
/* Return the error that the store takes no changes, and why. */
int store_broken(const struct raw_store *store, struct error *err);

/* The lock is held, and let go of meanwhile. */
int store_commit_locked(struct raw_store *store, uint64_t ticket,
			struct error *err);
/* @busy is the caller's. On failure the store is broken. */
int store_checkpoint_locked(struct raw_store *store, struct error *err);
/* Write pending changes, in one batch of the log. The same. */
int store_commit_once(struct raw_store *store, struct error *err);
void store_mark_broken(struct raw_store *store, const struct error *cause);
/* The same, but the content of the medium is as it was: raw_store_retry(). */
void store_mark_failed(struct raw_store *store, const struct error *cause);
/* A commit has to wait for a checkpoint: the next batch may have no place. */
bool store_log_full(const struct raw_store *store);

/* Both copies, one after the other. Its generation is raised. */
int store_write_super(struct raw_medium *medium, struct raw_super *super,
		      struct error *err);
/*
 * A batch of @length bytes is in the log: where the next one goes.
 *
 * @touched  the objects it is about
 */
void store_log_advance(struct raw_store *store, size_t length,
		       const struct raw_mask *touched);
/* The log is empty: a checkpoint has it all. */
void store_log_clear(struct raw_store *store);
/* The same, but for what came after its first @used bytes, about @since. */
void store_log_shorten(struct raw_store *store, uint64_t used,
		       const struct raw_mask *since);
/* Where block @block of a copy's ring is on the medium. */
uint64_t store_log_offset(const struct raw_super *super, unsigned copy,
			  uint64_t block);

/*
 * Return, of the checkpoint that @super has, the salt of its batches, and the
 * place of a part on the medium. The salt changes with the generation, so that
 * parts of an older checkpoint are not taken for it.
 */
uint32_t store_checkpoint_salt(const struct raw_super *super);
uint64_t store_part_offset(const struct raw_super *super, unsigned copy,
			   uint32_t part);

/* ---- blockd/raw/store/raw_store_open.c ---- */

/* The same as store_write_super(), but it keeps its generation. */
int store_put_super(struct raw_medium *medium, const struct raw_super *super,
		    struct error *err);
/* Zeroes on the medium, durably. */
int store_wipe(struct raw_medium *medium, uint64_t offset, uint64_t length,
	       struct error *err);

#define STORE_LOG_END UINT64_MAX

/*
 * Read the medium into a store of its own; nothing is written. @report says
 * which parts are to be written anew; @ret may be salvaged only.
 *
 * @upto  the batch of the log that it does not go on with; STORE_LOG_END: to
 *        its end. 0 is the first batch of a new pool
 */
int store_load(struct raw_medium *medium, const struct raw_super *super,
	       uint64_t upto, struct raw_report *report, struct raw_store **ret,
	       struct error *err);
/* One copy of the superblock. */
int store_read_super(struct raw_medium *medium, uint64_t offset,
		     struct raw_super *ret, struct error *err);

/* One copy of a part of the checkpoint, into store->writing; -ENODATA. */
int store_read_part(struct raw_store *store, unsigned copy, uint32_t part,
		    struct raw_batch_head *ret);

/* ---- blockd/raw/store/raw_replay.c ---- */

/* A batch at @offset, whole and checked; -ENODATA: none; or of the medium. */
int store_read_batch(struct raw_store *store, uint64_t offset, uint64_t end,
		     uint32_t salt, struct raw_batch_head *ret);
/*
 * Read the log from the batch on at which the store is, and apply it. Counts
 * what it finds. @upto: as above; it may be repeated with later ones.
 */
int store_replay_log(struct raw_store *store, uint64_t upto,
		     struct raw_report *report, struct error *err);

/*
 * Carry out the records that were read; after losses only those that are sure.
 */
struct store_replay {
	struct raw_store *store;
	struct raw_report *report;
	struct raw_mask touched;
	bool log; /* not a checkpoint */
	struct error *err;
};

int store_replay_record(void *context, const struct raw_record *record);

#endif
