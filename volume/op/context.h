/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the flows: the context of volume.h and its clients. */
#ifndef VOLUME_CONTEXT_H
#define VOLUME_CONTEXT_H

#include <pthread.h>

#include "volume/node/node_client.h"
#include "volume/op/condition_writer.h"
#include "volume/store/store.h"
#include "volume/volume.h"

struct client_entry {
	struct client_entry *next;
	struct node_record node; /* as it was when the client was made */
	struct node_client *client;
};

struct known_nodes; /* volume/plan/known_load.h */

struct volume_context {
	struct store *store;
	char node[RECORD_NAME_SIZE]; /* "": this process is on none */
	char run_dir[PATH_MAX];
	char bin_dir[PATH_MAX];  /* "": found by itself */
	char launcher[PATH_MAX]; /* "": none */
	char source_address[NODE_ADDRESS_SIZE];
	char iscsi_secrets[PATH_MAX]; /* directory; "": no CHAP */
	int call_timeout_ms;
	unsigned dead_timeout_ms;
	int cancel_fd; /* -1: none */
	volume_progress progress;
	void *progress_context;
	pthread_mutex_t lock; /* guards @clients; no other is taken inside */
	struct client_entry *clients;
	struct known_nodes *known_nodes; /* owned; kept; guarded by @lock */
	/*
	 * Held from counting a node's publications to publishing one more.
	 * Taken before any other lock.
	 */
	pthread_mutex_t publish_lock;
	struct condition_writer condition_writer;
};

/* ---- nodes of the store ---- */

int context_node_load(struct volume_context *ctx, const char *name,
		      struct node_record *ret, struct error *err);
/* Return the client of a node; borrowed, lives as long as the context. */
int context_client(struct volume_context *ctx, const char *node,
		   struct node_client **ret, struct error *err);
/* Do the same for a record at hand. */
int context_client_of(struct volume_context *ctx,
		      const struct node_record *node, struct node_client **ret,
		      struct error *err);

/*
 * List the addresses to admit when @node attaches an extent served at
 * @data_address. These are the addresses configured for the node. Without any:
 * for this machine the source address of the kernel's choice, for another that
 * of its own server. Returns how many, or a negative errno.
 */
int context_initiators(struct volume_context *ctx, const char *node,
		       const char *data_address,
		       char ret[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE],
		       struct error *err);

/* The way of an initiator to an extent by iSCSI. */
struct iscsi_route {
	char portal[NODE_ADDRESS_SIZE]; /* "": not at all */
	char chap_file[PATH_MAX];       /* "": no CHAP */
};

/*
 * Find the route to @extent, just exported, on the node whose NBD is at
 * @data_address.
 */
void context_iscsi_route(const struct volume_context *ctx,
			 const struct node_extent *extent,
			 const char *data_address, struct iscsi_route *ret);
/* Fill the route into a request; all of it is borrowed. */
void iscsi_route_fill(const struct iscsi_route *route,
		      const struct node_extent *extent,
		      struct initiator_request *request);

/* "RUN_DIR/initiator": state_dir of initiator.h. @ret: PATH_MAX bytes. */
void context_initiator_dir(const struct volume_context *ctx, char *ret);

/*
 * Attachments of single extents are named with this, those of volumes after
 * their extent, "VOLUME-INDEX" (which has a '-', as this has not).
 */
#define EXTENT_ATTACHMENT_PREFIX "extent."

/*
 * Split NAME or NAME@UID. @ret_name has RECORD_NAME_SIZE bytes. Returns the
 * uid, borrowed, "": any. A name that is too long becomes "", which is no name
 * either.
 */
const char *id_split(const char *id, char *ret_name);
/* Tell whether @id may mean the object of that name and uid. */
bool id_means(const char *id, const char *name, const char *uid);

/*
 * Tell whether an error leaves open if the request was carried out, as
 * -EHOSTUNREACH.
 */
bool error_is_open(int r);

/* ---- one operation on one volume, under its lease ---- */

struct operation {
	struct volume_context *ctx;
	char name[RECORD_NAME_SIZE];
	struct volume_record *record; /* owned; NULL: there is none */
	unsigned done, total;         /* steps */
	int cancel_fd;                /* volume_cancel_on(); -1: none */
	bool undoing;                 /* not to be stopped */
	/*
	 * Guards @record, @done and @total, and lets one thread at a time
	 * call the progress, while splits are worked on side by side.
	 * Recursive; the context's lock may be taken inside.
	 */
	pthread_mutex_t lock;
};

void operation_lock(struct operation *op);
void operation_unlock(struct operation *op);

/*
 * Prepare an operation for progress only: no lease, no record. operation_done()
 * ends it.
 */
void operation_init(struct operation *op, struct volume_context *ctx,
		    const char *name);
void operation_done(struct operation *op);

/*
 * Take the lease on volume @name and load its record, if there is one.
 * operation_end() gives it back. -EAGAIN: another operation has the volume; a
 * write of condition_writer.h is waited for.
 */
int operation_begin(struct operation *op, struct volume_context *ctx,
		    const char *name, const char *doing, struct error *err);
/*
 * The same for NAME or NAME@UID. A volume of another uid does not exist for the
 * operation, until its end.
 */
int operation_begin_id(struct operation *op, struct volume_context *ctx,
		       const char *id, const char *doing, struct error *err);
void operation_end(struct operation *op);
/* The same for a note (volume/op/condition_writer.h): nobody is refused for it.
 */
int operation_begin_condition(struct operation *op, struct volume_context *ctx,
			      const char *name, const char *doing,
			      struct error *err);
void operation_end_condition(struct operation *op);

/*
 * This node's attachment ends: without a trace, or, where it is published, as
 * that. The record is changed, not saved.
 */
void operation_unattach(struct operation *op, struct volume_attachment *a);

/* Check that there is a record, of a ready volume: else -ENOENT, -EBUSY. */
int operation_check_made(const struct operation *op, struct error *err);
/* The same, or that its union moves a split: it can be used meanwhile. */
int operation_check_usable(const struct operation *op, struct error *err);
/* The same for what needs all splits: -EBUSY, one is lost. */
int operation_check_ready(const struct operation *op, struct error *err);
/* Say that splits are lost, and what can be done. -EBUSY. */
int operation_refuse_lost(const struct operation *op, struct error *err);
/*
 * Check that the record is not being deleted: -EBUSY, for operations that would
 * begin to use the volume.
 */
int operation_check_staying(const struct operation *op, struct error *err);

/*
 * Report the next step, from any thread. -ECANCELED: the caller wants to stop.
 */
int operation_step(struct operation *op, struct error *err, const char *step,
		   const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Report that all is done. */
void operation_finish(struct operation *op, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Write the record, from any thread: created when it has no version, else
 * swapped.
 */
int operation_save(struct operation *op, struct error *err);
/* Remove it from the store. */
int operation_remove(struct operation *op, struct error *err);

#endif
