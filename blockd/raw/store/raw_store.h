/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's metadata, durably: the state (blockd/raw/store/raw_state.h), its
 * log and its checkpoints on a medium.
 *
 * A change is applied in memory at once and gathered with others. A commit
 * makes all earlier changes durable, in one write of the log, after the data
 * they map. Many threads may change and commit: those that wait for a commit
 * share it. Clusters that a change freed are used again only when it is durable
 * and the owner says that nobody looks at them any more.
 *
 * Any thread; calls block.
 */
#ifndef BLOCKD_RAW_STORE_H
#define BLOCKD_RAW_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/raw/store/raw_format.h"
#include "blockd/raw/store/raw_medium.h"
#include "blockd/raw/store/raw_state.h"

struct raw_store;

struct raw_format_options {
	const char *pool_id;   /* a UUID; NULL: a new one */
	uint8_t cluster_shift; /* 0: RAW_CLUSTER_SHIFT */
	uint64_t log_size;     /* bytes; 0: by the medium's size */
	uint64_t without;      /* features (RAW_INCOMPAT_...) not to have */
	const char *text;      /* the pool's record */
	size_t text_length;
};

/*
 * Make an empty pool; whatever the medium holds is lost. The superblock is
 * written last. -ENOSPC: too small, the text says the least size.
 */
int raw_store_format(struct raw_medium *medium,
		     const struct raw_format_options *options,
		     struct error *err);

/* What open found that a person should know. */
struct raw_report {
	bool super_damaged; /* one of the two copies; it is written anew */
	bool super_stale;   /* one is older: written anew, too */
	bool log_torn;      /* its last batch, which nobody was told of */
	bool log_once;      /* its last batch is whole in one copy only */
	uint64_t batches;   /* replayed */
	/* Of log and checkpoint, of which the other was whole. */
	uint64_t copies_damaged;
	uint64_t log_copies; /* of these: of the log */
	/* Both copies were damaged: of the checkpoint, of the log. */
	uint64_t lost_parts, lost_batches;
	uint64_t unreadable; /* of these: another time they may be whole */
	uint64_t damaged;    /* objects that are not served for it */
	uint64_t unknown;    /* others, of which nothing is known */
};

static inline bool raw_report_lost(const struct raw_report *report)
{
	return report->lost_parts || report->lost_batches;
}

/*
 * @medium is borrowed until raw_store_close().
 *
 * Where both copies of a part are damaged, the objects that are whole for sure
 * are there. The others are marked (struct raw_object, damaged). Such a store
 * takes no changes and gives no clusters (raw_store_broken()).
 *
 * -ENODATA: no pool of ours; -EBADMSG: damaged, the text says where;
 * -EPROTONOSUPPORT: made by something newer; -EIO and others: of the medium.
 */
int raw_store_open(struct raw_medium *medium, struct raw_store **ret,
		   struct raw_report *ret_report, struct error *err);
/* The same, but nothing is written: the store takes no changes. */
int raw_store_look(struct raw_medium *medium, struct raw_store **ret,
		   struct raw_report *ret_report, struct error *err);
/*
 * The pool's record as of the last checkpoint, without taking anything up:
 * the errors of raw_store_open(). @ret_text: owned.
 */
int raw_store_peek(struct raw_medium *medium, char **ret_text,
		   size_t *ret_length, struct error *err);

/* Both superblocks off the medium: it holds no pool any more. */
int raw_store_erase(struct raw_store *store, struct error *err);

/* Commit first: changes that were not committed are lost. NULL is fine. */
void raw_store_close(struct raw_store *store);

/*
 * Return the superblock, for its constant parts: the identity, the clusters'
 * size, where they begin.
 */
const struct raw_super *raw_store_super(const struct raw_store *store);
/* To clusters that the caller has; not durably yet. Blocks. */
int raw_store_write_zeroes(struct raw_store *store, uint32_t physical,
			   uint32_t count, struct error *err);
/* Bytes of the medium that are the pool's. */
uint64_t raw_store_size(struct raw_store *store);

/*
 * The state, for looking at it. Between the two nothing changes; maps may be
 * looked up without (raw_map.h).
 */
struct raw_state *raw_store_lock(struct raw_store *store);
void raw_store_unlock(struct raw_store *store);

/*
 * Carry out @n records together: after a crash all of them are there, or
 * none.
 *
 * @ret_ticket  for raw_store_commit(); may be NULL
 *
 * -EBADMSG: as raw_state_apply(); -E2BIG: more than a batch holds; -ENOSPC: a
 * checkpoint of the state after it has no room. -EIO: an earlier commit failed,
 * or memory ran out in the middle of a group. Then the store takes no change
 * until it is opened again.
 */
int raw_store_change(struct raw_store *store, const struct raw_record *records,
		     size_t n, uint64_t *ret_ticket, struct error *err);

/*
 * The same of records that were decided on by a look at the clusters of the
 * first of them, a MAP, UNMAP or WRITTEN. -EAGAIN: the look is not right any
 * more, nothing was changed; look again. @look NULL: whatever is there.
 */
int raw_store_change_if(struct raw_store *store,
			const struct raw_record *records, size_t n,
			const struct raw_look *look, struct error *err);

/*
 * As raw_store_change_if(), with few records, for callers that must not wait:
 * -EBUSY when it would have to.
 */
int raw_store_change_now(struct raw_store *store,
			 const struct raw_record *records, size_t n,
			 const struct raw_look *look, struct error *err);

/*
 * Have @refuses asked about each record of a change before any of them is
 * carried out; called locked, brief. True: the change is refused with -ETXTBSY,
 * and nothing was changed. NULL: nobody is asked.
 */
void raw_store_guard(struct raw_store *store,
		     bool (*refuses)(void *context,
				     const struct raw_record *record),
		     void *context);

/*
 * Take clusters for a change that is going to map them. @near as in
 * raw_alloc.h. Returns how many, 0: the pool is full (some are kept for
 * checkpoints). raw_store_untake() gives back those that were not mapped.
 */
uint32_t raw_store_take(struct raw_store *store, uint32_t want, uint32_t near,
			uint32_t *ret_first);
void raw_store_untake(struct raw_store *store, uint32_t first, uint32_t n);
/* How many are free, but for those that are kept for checkpoints. */
uint32_t raw_store_available(struct raw_store *store);
/* raw_store_take() leaves @n of these from now on. */
void raw_store_keep(struct raw_store *store, uint32_t n);

/*
 * Stop the store: it takes no changes from here on, because of @cause, and
 * writes nothing.
 */
void raw_store_stop(struct raw_store *store, const struct error *cause);
/* Tell whether the store takes no changes; the text says why. */
bool raw_store_broken(struct raw_store *store, struct error *err);

/*
 * A commit or checkpoint failed: called once, brief, locked; any thread.
 * NULL: no.
 */
void raw_store_on_failed(struct raw_store *store,
			 void (*on_failed)(void *context), void *context);
/*
 * Try the places of the medium again whose failure stopped changes: those that
 * could not be written, or not be read at the open. Data that was answered for
 * is not touched. 0: nothing has failed. 1: the medium works. Closed without a
 * commit and opened again the store then has all that was answered for. With
 * nothing damaged it takes changes, too. Negative: the medium does not work
 * yet.
 */
int raw_store_retry(struct raw_store *store, struct error *err);
/*
 * Try whether the medium can be read, and written. Reads the superblocks, of
 * which one has to be of @pool_id, and writes a block between them that holds
 * nothing. One at a time. 0, or a negative errno. A store that takes no
 * changes, as it is damaged, writes nothing.
 */
int raw_store_try(struct raw_store *store, const char *pool_id,
		  struct error *err);

/* Changes that are not durable yet; any moment's truth. */
bool raw_store_pending(const struct raw_store *store);
/* The ticket of the newest change. */
uint64_t raw_store_newest(struct raw_store *store);

/*
 * Make everything up to @ticket durable, and data written to the medium before
 * the call. -EIO and others: it is not, and the store takes no more changes.
 */
int raw_store_commit(struct raw_store *store, uint64_t ticket,
		     struct error *err);

/* Write a checkpoint, so that the next open has nothing to replay. */
int raw_store_checkpoint(struct raw_store *store, struct error *err);

/*
 * The same while changes and commits go on, but for two moments: when the state
 * is frozen, and when the superblocks are written. -ENOMEM,
 * -ENOSPC: not now; others: the store takes no more changes.
 */
int raw_store_checkpoint_ahead(struct raw_store *store, struct error *err);
/*
 * Tell whether three quarters of the log are full. A commit that finds it full
 * has to wait for a checkpoint, so one ahead of time is due. Any thread.
 */
bool raw_store_filling(const struct raw_store *store);
/* Called after a commit when it has become so; brief, locked. NULL: no. */
void raw_store_on_filling(struct raw_store *store,
			  void (*on_filling)(void *context), void *context);

/*
 * The medium has become larger, to @size bytes: use all of it. A crash leaves
 * the pool as large as it was, or as it is to be. -EINVAL: it is smaller than
 * the pool; -ENOMEM; the errors of raw_store_checkpoint(). Repeating it is 0.
 */
int raw_store_extend(struct raw_store *store, uint64_t size, struct error *err);

/* Receiver of a check's findings: a sentence each. */
struct raw_findings {
	void (*tell)(void *context, const char *text, bool repaired);
	/* Which object it is, for people; into @buf. */
	void (*describe)(const struct raw_object *object, char *buf,
			 size_t size);
	void *context;
	uint64_t n;    /* told; starts at 0 */
	uint64_t left; /* of these, not repaired */
};

/*
 * Count everything in memory again; read both copies on the medium, and
 * compare. The store is used meanwhile, only commits wait. @repair: copies that
 * are damaged are written anew. An error: it could not be done.
 */
int raw_store_check(struct raw_store *store, bool repair,
		    struct raw_findings *findings, struct error *err);

/*
 * Find clusters that are taken by nobody. raw_store_suspect() puts all
 * candidates under suspicion. The caller waits until every request under way
 * has ended, and all that was leaving has left. Clusters that still are under
 * suspicion then have leaked. Between the two calls no other such search
 * begins.
 */
int raw_store_suspect(struct raw_store *store, struct error *err);
int raw_store_leaked(struct raw_store *store, bool repair,
		     struct raw_findings *findings, struct error *err);

/*
 * Clusters and memory that are freed durably and may still be looked at. Filled
 * by raw_store_leave() (false: nothing was freed). When every lookup and
 * request of that moment has ended, raw_store_left() gives the clusters back
 * and frees the memory.
 */
struct raw_leaving {
	struct raw_trash trash;
	struct raw_bitmap *parts; /* owned */
	uint32_t *clusters;       /* owned */
	uint32_t n;
};

bool raw_store_leave(struct raw_store *store, struct raw_leaving *ret);
void raw_store_left(struct raw_store *store, struct raw_leaving *leaving);

#endif
