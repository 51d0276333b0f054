/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything to do with volumes, pools and nodes; extents.h has single extents,
 * snapshot.h snapshots. The command and the CSI driver are two faces of these
 * headers.
 *
 * Every operation is idempotent and may be repeated after a crash at any
 * point. Errors common to all, beside those named at each:
 *
 *	-EINVAL        an argument; the text says which, and the allowed values
 *	-ENOENT        no such node, pool, extent or volume
 *	-EAGAIN        another operation on that volume is running; the text
 *	               names it. Nothing was done; repeat later (CSI: ABORTED)
 *	-EHOSTUNREACH  a node did not answer; what was begun is in the record,
 *	               the text says what to do (CSI: UNAVAILABLE)
 *	-ETIMEDOUT     the same, for a node that is too slow
 *
 * -EHOSTUNREACH, -ETIMEDOUT, -EAGAIN and -ECANCELED are not final: the work
 * may be partly done, the same call continues it and the opposite one undoes
 * it. After any other error nothing of the operation is left behind.
 *
 * A context may be used by several threads, but volume_config.progress is
 * then called from each.
 */
#ifndef VOLUME_VOLUME_H
#define VOLUME_VOLUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "initiator/initiator.h"
#include "volume/node/node_client.h"
#include "volume/record/node.h"
#include "volume/record/volume_record.h"

#define VOLUME_STORE_DEFAULT   "local:/var/lib/tributary/records.db"
#define VOLUME_RUN_DIR_DEFAULT "/run/tributary"
#define VOLUME_LABEL_UID       "tributary.io/volume-uid" /* on each extent */
#define VOLUME_LABEL_NAME      "tributary.io/volume"
/* On each extent of a snapshot, beside those of its volume. */
#define SNAPSHOT_LABEL_UID  "tributary.io/snapshot-uid"
#define SNAPSHOT_LABEL_NAME "tributary.io/snapshot"

/*
 * Report the progress of an operation.
 *
 * @step    a word for programs: "plan" "extent" "export" "device" "check"
 *	    "format" "mount" "grow" "union" "unmount" "delete" "record" ...
 * @done    of @total steps of this operation; they grow monotonically
 * @text    for people: "formatting split 2 of 3 on node b". Borrowed
 *
 * Called before each step (done = number of those before it) and once at the
 * end (done == total).
 */
typedef void (*volume_progress)(void *context, const char *step, unsigned done,
				unsigned total, const char *text);

struct volume_config {
	const char *store;   /* store_open(); NULL: VOLUME_STORE_DEFAULT */
	const char *node;    /* this machine's node name; NULL: host name */
	const char *run_dir; /* NULL: VOLUME_RUN_DIR_DEFAULT */
	bool no_node; /* this process is on no node, whatever @node says */
	/* Directory of trib-union; NULL: beside /proc/self/exe, then PATH. */
	const char *bin_dir;
	/*
	 * The socket of trib-launch, which then starts the programs that have
	 * to outlive this process (trib-union, trib-nbd). NULL: they are
	 * started here.
	 */
	const char *launcher;
	/* This machine's source address for NBD when it is no node itself. */
	const char *source_address; /* NULL: the kernel's choice */
	/*
	 * Directory with the CHAP secrets of extents attached by iSCSI: a file
	 * NAME for the extent of that name, "default" for others
	 * (base/wire/chap_secrets.h). NULL: no CHAP.
	 */
	const char *iscsi_secrets;
	int call_timeout_ms; /* of one call to a node; 0: 10,000 */
	/*
	 * Time that I/O waits for a lost server: initiator.h; 0: its default.
	 */
	unsigned dead_timeout_ms;
	int cancel_fd; /* readable: stop between steps; 0 or -1: none */
	volume_progress progress; /* NULL: none */
	void *progress_context;
};

struct volume_context;

/* Strings of @config are copied. Opens the store, makes run_dir. */
int volume_context_open(const struct volume_config *config,
			struct volume_context **ret, struct error *err);
void volume_context_close(struct volume_context *ctx); /* NULL is fine */
const char *volume_context_node(const struct volume_context *ctx);

/*
 * Operations on volumes that this thread begins from now on stop between two
 * steps (-ECANCELED) also when @fd is readable, whatever their context has;
 * -1: no more. @fd is borrowed until then.
 */
void volume_cancel_on(int fd);

/* ---- nodes ---- */

/*
 * Register a node, or change its registration. The node need not answer yet; an
 * answer under another name is -EINVAL.
 *
 * @ret_trouble  ERROR_TEXT_MAX bytes, or NULL: why the node does not answer, or
 *               a problem that needs a person; "": all is well
 */
int volume_node_add(struct volume_context *ctx, const struct node_record *node,
		    char *ret_trouble, struct error *err);
/*
 * Allow at most @max_volumes publications to the node, up to NODE_VOLUMES_MAX;
 * 0: any number. An unknown node is registered as one that only uses volumes.
 */
int volume_node_limit(struct volume_context *ctx, const char *name,
		      unsigned max_volumes, struct error *err);
/*
 * Cordon a node, or take that back: the planner places nothing new there.
 * Extents that are there stay, are used and may grow.
 *
 * @pool  this pool of it alone; NULL: the whole node, whatever its pools have
 *
 * 0: also when it is so already. -ENOENT: no such node; the node answers, and
 * has no such pool.
 */
int volume_node_cordon(struct volume_context *ctx, const char *name,
		       const char *pool, bool cordoned, struct error *err);
/*
 * Remove a node. -EBUSY: a volume or a snapshot has an extent there, a volume
 * is attached there, or its keeper sends heartbeats.
 */
int volume_node_remove(struct volume_context *ctx, const char *name,
		       struct error *err);
/* Ask one node. An unreachable node is no error. */
int volume_node_get(struct volume_context *ctx, const char *name,
		    struct node_state **ret, struct error *err);
/*
 * Tell whether there is a node of that name, answering or not. 1, 0 or a
 * negative errno.
 */
int volume_node_known(struct volume_context *ctx, const char *name,
		      struct error *err);
/* Ask all nodes at the same time. node_states_free(). */
int volume_node_list(struct volume_context *ctx, struct node_state **ret,
		     size_t *ret_count, struct error *err);

/* ---- pools ---- */

int volume_pool_create(struct volume_context *ctx,
		       const struct pool_request *request,
		       struct node_pool *ret, struct error *err);
/* -EBUSY: not empty. Not there: 0. */
int volume_pool_delete(struct volume_context *ctx, const char *node,
		       const char *name, struct error *err);
/* Returned owned, free(). */
int volume_pool_list(struct volume_context *ctx, const char *node,
		     struct node_pool **ret, size_t *ret_count,
		     struct error *err);

/*
 * Verify the metadata of a pool, also while it is used.
 *
 * @repair  free space that nothing uses
 * @ret     node_check_done() frees its members
 *
 * -EOPNOTSUPP: this kind of pool has nothing to verify.
 */
int volume_pool_check(struct volume_context *ctx, const char *node,
		      const char *name, bool repair, struct node_check *ret,
		      struct error *err);
/* Use the new space of a device or file that has grown. */
int volume_pool_grow(struct volume_context *ctx, const char *node,
		     const char *name, struct node_pool *ret,
		     struct error *err);

/* ---- volumes ---- */

struct volume_create_request {
	const char *name; /* at most VOLUME_NAME_MAX bytes */
	/* Only capacity is required, or a source. */
	const struct volume_spec *spec;
	const struct labels *labels; /* NULL: none */
};

/*
 * Plan a volume, then make every extent.
 *
 * @ret  the record; volume_record_free(); may be NULL
 *
 * 0: also when the volume exists with an equal spec and labels; an unfinished
 * one is finished. -EEXIST: it exists with others. -ENOSPC: the text says how
 * much is free on which node. -EBUSY: it is being deleted.
 *
 * With a source (snapshot.h): -ENOENT: no source of that name and uid. -EINVAL:
 * layout, file system or number of splits are not the source's. -ERANGE:
 * smaller than the source. -ENOSPC also: the pools of the source are not
 * allowed. -EAGAIN: the source can't be used yet, or another operation works on
 * it. -EBUSY: the source is in no state for it, as volume_snapshot_create() has
 * it.
 */
int volume_create(struct volume_context *ctx,
		  const struct volume_create_request *request,
		  struct volume_record **ret, struct error *err);

/* -ENOENT. volume_record_free(). */
int volume_get(struct volume_context *ctx, const char *name,
	       struct volume_record **ret, struct error *err);

/*
 * List all volumes by name. A record that cannot be read is left out and named
 * in @ret_problem (RECORD_TEXT_SIZE bytes; "" when all are fine; may be NULL).
 * volume_records_free().
 */
int volume_list(struct volume_context *ctx, struct volume_record ***ret,
		size_t *ret_count, char *ret_problem, struct error *err);
void volume_records_free(struct volume_record **records, size_t count);

/*
 * Make a volume larger, without unmounting it. Its extents grow in their pools.
 * The rest becomes new extents elsewhere, as the spec allows, and new branches
 * of the mounted union.
 *
 * @name      NAME or NAME@UID, see volume_delete()
 * @capacity  bytes, rounded up to a multiple of 4096; 0: finish an unfinished
 *            resize, the file systems here included
 * @ret       the record; volume_record_free(); may be NULL
 *
 * The extents come first, from any machine. Devices and file systems grow only
 * on the machine that has the volume attached for writing. New ones are
 * formatted, mounted and added to the union there. This happens in the same
 * call on that machine, else when the call is repeated there, or at the next
 * attach. Until then volume_record_fs_behind(*ret).
 *
 * New extents are part of the volume once all of them exist; a final error
 * leaves none of them. An extent that has grown stays so. After an error the
 * record's capacity may be above the old one, but always exists.
 *
 * -ERANGE: smaller than it is, or larger than any may be. -ENOSPC: its pools
 * cannot hold it; the text says how large it could become and where space is
 * free. Nothing was changed then, unless the text says how far it has grown.
 * While a node is silent that is -EHOSTUNREACH, as the node may have room.
 * -EBUSY: not finished, or being deleted. -EPERM: it is mounted here and this
 * process may not grow a mounted ext4 (CAP_SYS_RESOURCE); nothing was changed.
 * -EIO: a split is broken here; attach repairs it, then its file system grows.
 * -EOPNOTSUPP: the mounted union has no control socket: all is done but the new
 * branches, which the next attach adds.
 */
int volume_resize(struct volume_context *ctx, const char *name,
		  uint64_t capacity, struct volume_record **ret,
		  struct error *err);

/*
 * Give unused space of a volume's file systems back to its pools. The volume
 * must be mounted here for writing.
 *
 * @ret  bytes trimmed in all file systems, as fstrim(8) says; also set after an
 *       error of some of them; NULL: not wanted
 *
 * -ENOENT; -EBUSY: not mounted here, the text says where; -EROFS: mounted for
 * reading only; -EOPNOTSUPP: a block device, or the device of a split cannot.
 */
int volume_trim(struct volume_context *ctx, const char *name, uint64_t *ret,
		struct error *err);

/* @problem  NULL: none. All borrowed. */
typedef void (*volume_trimmed)(void *context, const char *name, uint64_t bytes,
			       const char *problem);

/*
 * Trim every volume that is mounted here for writing.
 *
 * @told  called after each volume; NULL: not wanted
 *
 * Returns the first error; the other volumes were trimmed all the same.
 */
int volume_trim_here(struct volume_context *ctx, volume_trimmed told,
		     void *context, struct error *err);

struct volume_publish_request {
	const char *name; /* NAME or NAME@UID, see volume_delete() */
	const char *node; /* a node of the store */
	bool read_only;
	/*
	 * Other nodes may read at the same time. Requires read_only; all
	 * publications of the volume then have to be shared.
	 */
	bool shared;
	/*
	 * Text of at most RECORD_TEXT_SIZE - 1 bytes, kept with the
	 * publication. A repeated call with another one is -EEXIST. NULL: "".
	 */
	const char *note;
};

/*
 * Reserve the volume for a node: from then on it can be attached there, and
 * nowhere else (shared: also where it is published as shared). Nothing is
 * done on any node.
 *
 * -ENOENT: no such volume, or no such node (error text says which;
 * *ret_no_node, when not NULL, is true for the node). -EDQUOT: as many are
 * published there as it takes (volume_node_limit()). -EBUSY: published to,
 * or attached on, another node; the text names it. -EEXIST: published there
 * with another read_only, shared or note.
 */
int volume_publish(struct volume_context *ctx,
		   const struct volume_publish_request *request,
		   bool *ret_no_node, struct error *err);

/*
 * Take a publication back. A node that still has the volume attached is cut
 * off, as by attach with force. The epoch is raised, and each extent's server
 * drops the old one. A server that does not answer does so before the next
 * attach anywhere. -EBUSY: the node is up and uses an extent of its own, which
 * cannot be taken away: detach there first.
 *
 * @name  NAME or NAME@UID, see volume_delete()
 * @node  NULL: from every node
 *
 * No such volume, or not published there: 0.
 */
int volume_unpublish(struct volume_context *ctx, const char *name,
		     const char *node, struct error *err);

struct volume_attach_request {
	const char *name;
	/*
	 * Absolute; an empty directory that exists. NULL for a "linear"
	 * volume, which becomes a device: volume_device().
	 */
	const char *mount_point;
	const char *transport; /* NULL: the spec's */
	/*
	 * Options as for mount(8), separated by commas, for every branch and,
	 * where they concern it ("context=..."), the union. NULL: none. Only
	 * options that cannot break a volume are taken; -EINVAL names any
	 * other. With "degraded" a union is mounted also without splits that
	 * are lost for good, and lacks their names; else that is -EBUSY.
	 */
	const char *mount_options;
	bool read_only; /* true where it is published read_only */
	/* Attached on another node: fence that one and go on. */
	bool force;
};

/*
 * Attach the volume here: raise the epoch, attach each extent, format new ones,
 * check, mount, start the union.
 *
 * Attached here at this mount point already: broken parts are repaired. -EBUSY:
 * attached on another node (the text names it), at another mount point here, or
 * the mount point is in use. -EUCLEAN: a blank extent holds data, or a file
 * system is not the one in the record; nothing was changed on it. The same when
 * a file system needs a person: volume/mount/split_check.h.
 *
 * Published to another node and not to this one: -EBUSY, as attached there.
 */
int volume_attach(struct volume_context *ctx,
		  const struct volume_attach_request *request,
		  struct error *err);

/*
 * The block device of a "linear" volume attached here.
 * @ret: INITIATOR_TEXT_MAX bytes. -ENOENT: not attached here. -EINVAL: its
 * layout is another.
 */
int volume_device(struct volume_context *ctx, const char *name, char *ret,
		  struct error *err);

struct volume_detach_request {
	const char *name;
	/*
	 * Unmount although files are open. Their users get errors from then on;
	 * data they had not flushed may be lost.
	 */
	bool force;
	/*
	 * Refuse while a program in another mount namespace, as a container's,
	 * has a file or directory of it in use. Else its mount there is dead
	 * from then on. Not with force.
	 */
	bool asks_elsewhere;
	/* The volume must be known, here or by a record: else -ENOENT. */
	bool known;
};

/*
 * Undo attach here. Not attached here: 0. -EBUSY: the text names the processes
 * that use it. A silent node does not stop it: that export stays, and the next
 * attach fences it.
 */
int volume_detach(struct volume_context *ctx,
		  const struct volume_detach_request *request,
		  struct error *err);

/*
 * The volume mounted at @path on this machine (@path itself, not below).
 * @ret_name: RECORD_NAME_SIZE bytes. -ENOENT: none.
 */
int volume_find_mounted(struct volume_context *ctx, const char *path,
			char *ret_name, struct error *err);

/*
 * Rebuild the record of a volume from the labels of its extents
 * (volume/op/extent_labels.h). The record may be lost, may name nodes or pools
 * by old names, or may lack extents made since it was saved. The extents stay
 * as they are. Snapshots, publications and limits cannot be rebuilt.
 *
 * @id   NAME, or NAME@UID where extents of several volumes have that name
 * @ret  the record; volume_record_free(); may be NULL
 *
 * 0: also when the record is complete. -ENOENT: no extent is found. -EUCLEAN:
 * some extents are missing, or lack labels. -EHOSTUNREACH: the same, and a node
 * did not answer. -EINVAL: two volumes have that name. -EEXIST: two nodes have
 * one of the extents, or another volume has the name. -EBUSY: it is attached
 * somewhere.
 */
int volume_recover(struct volume_context *ctx, const char *id,
		   struct volume_record **ret, struct error *err);

/*
 * Delete a volume. Not there: 0. -EBUSY: attached somewhere, the text says
 * where.
 *
 * @name  NAME: any volume of that name; NAME@UID: only the one of that uid. The
 *        uid is compared under the lease, so a volume made anew since is safe
 */
int volume_delete(struct volume_context *ctx, const char *name,
		  struct error *err);

/* ---- how things are ---- */

struct volume_split_status {
	struct volume_split split;
	bool reachable;     /* its node answered */
	bool found;         /* the extent is there and is the record's */
	uint64_t allocated; /* bytes */
	uint64_t epoch;     /* of its export */
	unsigned connections;
	char state[32]; /* "ok" "unreachable" "missing" "damaged" "detached"...
			 */
	char problem[ERROR_TEXT_MAX]; /* "" when there is none */
	/* On this machine, while attached here: */
	char transport[16];
	char device[INITIATOR_TEXT_MAX];
	char branch[PATH_MAX]; /* where its file system is mounted */
	bool mounted;
	uint64_t fs_size, fs_used, fs_free; /* bytes; 0: not mounted */
};

struct volume_status {
	struct volume_record *record;       /* owned */
	struct volume_split_status *splits; /* owned, record->n_splits */
	bool attached_here;
	bool mounted;  /* the union answers at its mount point */
	int union_pid; /* 0: no such process */
	char mount_point[PATH_MAX];
	uint64_t fs_size, fs_used, fs_free; /* bytes, of the union */
	/* Conditions for a person, worst first; empty: all is well. */
	struct volume_condition *conditions; /* owned */
	size_t n_conditions;
};

int volume_status_get(struct volume_context *ctx, const char *name,
		      struct volume_status **ret, struct error *err);
void volume_status_free(struct volume_status *status); /* NULL is fine */

enum orphan_kind {
	ORPHAN_EXTENT, /* an extent of a volume or snapshot without a record */
	ORPHAN_SPLIT,  /* a record's split without its extent */
	ORPHAN_ATTACHMENT, /* a device or mount here without a record */
};

struct orphan {
	enum orphan_kind kind;
	char node[RECORD_NAME_SIZE];
	char volume[RECORD_NAME_SIZE];   /* "": unknown */
	char snapshot[RECORD_NAME_SIZE]; /* of that volume; "": of none */
	char uid[UUID_TEXT_SIZE]; /* of its snapshot, else volume; "": unknown
				   */
	char name[RECORD_NAME_SIZE];    /* extent or attachment */
	char extent_id[UUID_TEXT_SIZE]; /* "" of an attachment */
	uint64_t size;                  /* bytes */
	/*
	 * Seconds since 1970: of the first scrub that saw this extent as an
	 * orphan; 0: none did (volume/scrub/scrub.h).
	 */
	int64_t since_s;
	/*
	 * A record says by the extent's id that it was its own and is nobody's
	 * for good. No other extent is ever freed but by its name.
	 */
	bool given_up;
	char message[RECORD_TEXT_SIZE]; /* what to do about it */
};

/*
 * Compare the records with the nodes and this machine. Returned owned, free().
 * @ret_unreachable: nodes that could not be asked.
 */
int volume_orphans(struct volume_context *ctx, struct orphan **ret,
		   size_t *ret_count, size_t *ret_unreachable,
		   struct error *err);

#endif
