/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of records: JSON documents by kind and name. Each has a version that
 * changes when the document does; a writer names the version it read. A
 * document is a record of a kind below, in the shape of a Kubernetes object
 * whose metadata.name is the name. A store may set metadata.resourceVersion and
 * metadata.creationTimestamp in it. A store also holds leases: one operation on
 * one object at a time, in all processes.
 *
 * A call may block for as long as the store's timeout. Calls may come from any
 * thread.
 */
#ifndef VOLUME_STORE_H
#define VOLUME_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/record/volume_record.h"
#include "volume/store/record_place.h"

/*
 * The kind of leases without a record, held for the life of a process:
 * leader_election.h.
 */
#define STORE_LEASE_LEADER "Leader"

struct store;

struct store_object {
	char name[RECORD_NAME_SIZE];
	char version[RECORD_VERSION_SIZE];
	char *json; /* owned, NUL-terminated */
	size_t length;
};

void store_object_done(struct store_object *object);

#define STORE_PAGE 500 /* objects; store_walk() reads so many at a time */

struct store_page {
	struct store_object *objects; /* owned, by name */
	size_t count;                 /* may be less than asked for */
	char mark[RECORD_MARK_SIZE];  /* of this page; the place has the next */
	bool more;                    /* else this is the last page */
};

void store_page_done(struct store_page *page);

/* Heartbeats: a node without one for STORE_BEAT_LOST_S is lost. */
#define STORE_BEAT_S      10 /* seconds from one beat to the next */
#define STORE_BEAT_LOST_S 40 /* since the last one; as Kubernetes' nodes */

struct store_beat {
	char name[RECORD_NAME_SIZE];
	int64_t age_s; /* seconds since the last one, by the store's clock */
};

/* An event about a record, for people. */
struct store_notice {
	const char *kind, *name; /* of the record */
	bool warning;            /* else it is good news */
	const char *reason;      /* one word: "NodeLost" */
	const char *message;     /* a sentence */
};

/* A parameter of a class of claims. */
struct store_parameter {
	char *key, *value; /* owned */
};

/* A class of claims whose scheduler wants to know the room for them. */
struct store_class {
	char *name;                         /* owned; unique */
	struct store_parameter *parameters; /* owned */
	size_t n_parameters;
	/* The room for it, which rooms_publish() publishes. */
	bool known;         /* false: nothing is to be published */
	uint64_t available; /* bytes in all pools that may be used */
	uint64_t maximum;   /* bytes of the largest volume */
};

/* Changes that a watch reports. */
enum store_change {
	STORE_CHANGE_SET,     /* @object is new, or another than before */
	STORE_CHANGE_REMOVED, /* the one called @name */
	STORE_CHANGE_SYNCED,  /* all is told that there is */
	STORE_CHANGE_CUT, /* the store is out of reach: @text. SYNCED follows */
};

/*
 * Called for each change; all borrowed. A result other than 0 ends the watch,
 * which returns it.
 */
typedef int (*store_watcher)(void *context, enum store_change change,
			     const char *name,
			     const struct store_object *object,
			     const char *text);

struct store_ops {
	const char *name; /* "local": the part of a location before ':' */

	/* @where: the location without "NAME:". */
	int (*open)(const char *where, struct store **ret, struct error *err);
	void (*close)(struct store *store);

	/* -EEXIST. @ret_version: RECORD_VERSION_SIZE bytes, may be NULL. */
	int (*create)(struct store *store, const char *kind, const char *name,
		      const char *json, char *ret_version, struct error *err);
	/* -ENOENT. */
	int (*get)(struct store *store, const char *kind, const char *name,
		   struct store_object *ret, struct error *err);
	/*
	 * List objects of a kind that come after @place by name, @max at most,
	 * and move @place behind them. An object that stays is in exactly one
	 * page of a row. Objects that come and go meanwhile may be in none.
	 * store_page_done().
	 */
	int (*list)(struct store *store, const char *kind,
		    struct record_place *place, size_t max,
		    struct store_page *ret, struct error *err);
	/*
	 * Replace the document if its version is still @version.
	 * -ESTALE: somebody changed it; -ENOENT: somebody deleted it.
	 */
	int (*compare_and_swap)(struct store *store, const char *kind,
				const char *name, const char *version,
				const char *json, char *ret_version,
				struct error *err);
	/* The same conditions; @version NULL: whatever it is. */
	int (*remove)(struct store *store, const char *kind, const char *name,
		      const char *version, struct error *err);

	/*
	 * Take the lease on an object (which need not exist) for this process.
	 * -EAGAIN: a live owner has it; the text names the owner and its @doing
	 * ("attaching volume"). A dead owner's lease is taken over. The lease
	 * is renewed, where needed, until release() or close().
	 */
	int (*lease)(struct store *store, const char *kind, const char *name,
		     const char *doing, struct error *err);
	/*
	 * Check that this process has the lease, without asking a server. 0:
	 * also for the next 3 s. -ESTALE: it was not taken, or was lost, so
	 * that others may have it.
	 */
	int (*holds)(struct store *store, const char *kind, const char *name,
		     struct error *err);
	/* Give the lease back, if it is this process's. */
	void (*release)(struct store *store, const char *kind,
			const char *name);

	/*
	 * Send a heartbeat of node @name, which need not have a record. -EBUSY:
	 * another machine, which is not lost, sends heartbeats of that name.
	 */
	int (*beat)(struct store *store, const char *name, struct error *err);
	/* Remove the heartbeats of a node. Not there: 0. */
	int (*beat_end)(struct store *store, const char *name,
			struct error *err);
	/*
	 * List the last heartbeat of each node, in no order. Returned owned,
	 * free().
	 */
	int (*beats)(struct store *store, struct store_beat **ret,
		     size_t *ret_count, struct error *err);

	/*
	 * Report the objects of a kind, in the calling thread: first all, then
	 * SYNCED, then each change. No version is reported twice. Of changes in
	 * quick succession only the last may be reported.
	 *
	 * A store out of reach is waited for. 0: @stop_fd is readable. -EACCES,
	 * -ENXIO...: trying again does not help. -ENOMEM; and the result of
	 * @watcher.
	 */
	int (*watch)(struct store *store, const char *kind, int stop_fd,
		     store_watcher watcher, void *context, struct error *err);

	/*
	 * Optional; NULL: the store has no place for it. Record an event where
	 * the store's own tools show it with the record. Repeated events are
	 * counted, too many are dropped. No such record: 0.
	 */
	int (*notice)(struct store *store, const struct store_notice *notice,
		      struct error *err);

	/*
	 * Optional; NULL: the store has no scheduler. List the classes of
	 * @driver that bind a claim where its pod is scheduled to. Returned
	 * owned, store_classes_free().
	 */
	int (*classes)(struct store *store, const char *driver,
		       struct store_class **ret, size_t *ret_count,
		       struct error *err);
	/*
	 * Optional, with classes(). Publish the room of all @classes that are
	 * known; the room of other classes of @driver is published no more.
	 * Only what has changed is written.
	 */
	int (*rooms_publish)(struct store *store, const char *driver,
			     const struct store_class *classes, size_t count,
			     struct error *err);
};

/* The first member of every store. */
struct store {
	const struct store_ops *ops;
};

void store_close(struct store *store); /* NULL is fine */
/* Call notice(), if the store has one. */
int store_tell(struct store *store, const char *kind, const char *name,
	       bool warning, const char *reason, struct error *err,
	       const char *fmt, ...) __attribute__((format(printf, 7, 8)));
/* @object: borrowed. Returns 0: go on; else store_walk() returns that. */
typedef int (*store_each)(void *context, const struct store_object *object,
			  struct error *err);

/*
 * Call @each for all objects of a kind that come after @place by name, page by
 * page. When it returns other than 0, @place is just before that object.
 *
 * @place  NULL: from the first, and nobody needs to go on
 */
int store_walk(struct store *store, const char *kind,
	       struct record_place *place, store_each each, void *context,
	       struct error *err);

/* NULL is fine. */
void store_classes_free(struct store_class *classes, size_t count);

#endif
