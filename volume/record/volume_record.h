/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of a volume: the request (spec) and the present state (status). It
 * is kept as a JSON document in the shape of a Kubernetes object, kind
 * VolumeSplit of union.io/v1alpha1, by whichever store.
 *
 * Intent is written into it first, then acted on, then marked done; so after
 * a crash the record says what may have been begun.
 */
#ifndef VOLUME_VOLUME_RECORD_H
#define VOLUME_VOLUME_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "volume/record/label.h"

/* Of the objects that records are, in any store. */
#define RECORD_KIND_VOLUME   "VolumeSplit"
#define RECORD_KIND_NODE     "StorageNode"
#define RECORD_KIND_SNAPSHOT "VolumeSplitSnapshot"
#define RECORD_KIND_GROUP    "VolumeSplitGroupSnapshot"

#define RECORD_API_VERSION "union.io/v1alpha1"
#define RECORD_TEXT_MAX    (1u << 20) /* bytes of JSON; etcd takes 1.5 MiB */

/*
 * A volume's name is part of its extents' names, "NAME-INDEX", which follow
 * name_check(): 63 - strlen("-255").
 */
#define VOLUME_NAME_MAX        59
#define RECORD_NAME_SIZE       64    /* bytes with NUL; base/uuid_name.h */
#define RECORD_VERSION_SIZE    64    /* opaque, as the store gives it */
#define RECORD_SIZE_UNIT       4096u /* bytes; proto/blockd.proto, of extents */
#define RECORD_TEXT_SIZE       256   /* bytes with NUL, a sentence */
#define VOLUME_SPLITS_MAX      256
#define VOLUME_ATTACHMENTS_MAX 64
#define VOLUME_CONDITIONS_MAX  16
#define VOLUME_NODES_MAX       1024 /* in each placement list */
#define VOLUME_GRANTS_MAX      16
#define VOLUME_GIVEN_UP_MAX    64
#define VOLUME_GRANT_SIZE      128 /* bytes with NUL; proto/blockd.proto */

/* A condition: False while a file system of it needs a person. */
#define VOLUME_CONDITION_SOUND "FileSystemsSound"

#define VOLUME_EPOCH_MAX    (UINT64_C(1) << 62)  /* what JSON readers take */
#define VOLUME_CAPACITY_MIN (UINT64_C(64) << 20) /* bytes, one extent */
#define VOLUME_CAPACITY_MAX (UINT64_C(1) << 60)  /* bytes, 1 EiB */
#define VOLUME_LIMIT_MAX    (UINT64_C(1) << 60)  /* of each in volume_limits */

struct name_list {
	char (*items)[RECORD_NAME_SIZE]; /* owned */
	size_t count;
};

int name_list_add(struct name_list *list, const char *name, struct error *err);
void name_list_remove(struct name_list *list, const char *name);
bool name_list_has(const struct name_list *list, const char *name);
void name_list_done(struct name_list *list);

enum volume_phase {
	VOLUME_CREATING, /* extents may exist; repeat create, or delete */
	VOLUME_READY,
	VOLUME_DELETING,  /* extents may be gone; repeat delete */
	VOLUME_REVERTING, /* its content may be of two times; repeat revert */
	VOLUME_MOVING,    /* a split is being copied; repeat move, or cancel */
};

enum split_state {
	/*
	 * The extent may or may not exist. In a ready volume: a split it is
	 * being grown by, which is no part of it yet.
	 */
	SPLIT_PLANNED,
	SPLIT_CREATED,    /* exists, never formatted */
	SPLIT_FORMATTING, /* mkfs may have begun: run it again */
	SPLIT_READY,   /* holds the file system fs_uuid, or its part of that */
	SPLIT_DELETED, /* extent deleted: the volume is being deleted, or was
			  half undone */
};

/* How a split moves (volume/move/move_way.h). */
enum split_move_way {
	SPLIT_MOVE_COPY,  /* copied while nobody has the volume attached */
	SPLIT_MOVE_UNION, /* file by file, by the union that is mounted */
	SPLIT_MOVE_BLOCK, /* copied while its device is used, then exchanged */
};

/*
 * The other place of a split that moves: where its copy is made. Once the split
 * is there: the place that it has left, with an extent to be deleted.
 */
struct split_move {
	enum split_move_way way;
	char node[RECORD_NAME_SIZE]; /* "": it does not move */
	char pool[RECORD_NAME_SIZE];
	char extent[RECORD_NAME_SIZE];
	char extent_id[UUID_TEXT_SIZE]; /* "" until created */
	/*
	 * Bytes: all below it is in the copy, durably. By union: a file's bytes
	 * that went there, as far as anybody looked.
	 */
	uint64_t copied;
	bool left; /* to be deleted: the split is not there any more */
	/*
	 * By union: the last split of the record is the successor, at this
	 * place. Its branch may be in a union and have files of the volume.
	 */
	bool joined;
	bool back; /* by union: what went there comes back, as it was cancelled
		    */
};

#define VOLUME_DEVICE_SIZE 64 /* bytes with NUL */

struct volume_split {
	unsigned index;
	char node[RECORD_NAME_SIZE];
	char pool[RECORD_NAME_SIZE];
	char extent[RECORD_NAME_SIZE];  /* NAME-INDEX */
	char extent_id[UUID_TEXT_SIZE]; /* "" until created */
	uint64_t size; /* bytes; the extent may be larger, see grow_to */
	/*
	 * Bytes, above size, while the extent grows to that; it may have any
	 * size between. 0: it does not grow.
	 */
	uint64_t grow_to;
	enum split_state state;
	/* The file system may be smaller than the extent; only when READY. */
	bool fs_behind;
	/*
	 * The file system failed, could not be mounted, or was found damaged.
	 * It is checked whole before its next use. Only when READY.
	 */
	bool suspect;
	/*
	 * UUID of the mapper device over it where the volume is written to; the
	 * first split has that of a device of several. It is frozen for a cut.
	 * "": none, or the split's own blockd freezes what is over it.
	 */
	char device[VOLUME_DEVICE_SIZE];
	/*
	 * Its node was removed as lost for good: nothing looks for its extent
	 * any more, also where that turns up. The volume can be deleted. A
	 * union can be mounted without it (mount_options.h: degraded). A new
	 * split in its place (volume/flow/forget_lost.h) is at @move until it
	 * is the volume's.
	 */
	bool lost;
	char fs_uuid[UUID_TEXT_SIZE]; /* fixed at create */
	/* Source of its content; "": zeroes. */
	char source[RECORD_NAME_SIZE];
	char source_id[UUID_TEXT_SIZE];
	/*
	 * The source's node, if it is in another pool: the content is copied.
	 * "": in the same pool, which shares it.
	 */
	char source_node[RECORD_NAME_SIZE];
	bool copying;                  /* the copy is not whole */
	uint64_t pulled;               /* bytes of it, while copying */
	enum split_state source_state; /* the split's, once it is made */
	struct split_move move;
};

enum attachment_state {
	ATTACHMENT_ATTACHING, /* some of it may be there */
	ATTACHMENT_ATTACHED,
	ATTACHMENT_DETACHING, /* some of it may be gone */
	ATTACHMENT_PUBLISHED, /* may be attached there; nothing is there */
};

/* An extent that was a split's, and is nobody's for good. */
struct volume_given_up {
	char node[RECORD_NAME_SIZE]; /* where it was */
	char extent[RECORD_NAME_SIZE];
	char extent_id[UUID_TEXT_SIZE];
};

struct volume_attachment {
	char node[RECORD_NAME_SIZE];
	uint64_t epoch; /* 0: never attached, only published */
	/* "" while PUBLISHED, and where only a device is attached */
	char mount_point[PATH_MAX];
	enum attachment_state state;
	bool read_only;
	/*
	 * Published by volume_publish(): stays, as PUBLISHED, after a detach.
	 */
	bool published;
	/* True of one of several readers; then read_only, all at one epoch. */
	bool shared;
	char note[RECORD_TEXT_SIZE]; /* from volume_publish() */
	int64_t since_s;             /* seconds since 1970 */
};

/* As Kubernetes has them: type, True or False, a word, a sentence. */
struct volume_condition {
	char type[RECORD_NAME_SIZE];
	bool status;
	char reason[RECORD_NAME_SIZE];
	char message[RECORD_TEXT_SIZE];
	int64_t since_s; /* of the last change of status */
};

/* Source of a volume's content. */
enum volume_source_kind {
	VOLUME_SOURCE_NONE, /* nothing: it is formatted when first attached */
	VOLUME_SOURCE_SNAPSHOT,
	VOLUME_SOURCE_VOLUME, /* a clone, as of when it is made */
};

struct volume_source {
	enum volume_source_kind kind;
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE]; /* asked for with "": whichever it is */
};

struct volume_limits {
	uint64_t iops;             /* operations a second; 0: no limit */
	uint64_t bytes_per_second; /* 0: no limit */
};

/* Properties asked for. Owned members are freed by volume_spec_done(). */
struct volume_spec {
	uint64_t capacity; /* bytes, multiple of 4096 */
	/*
	 * A "union" merges the file systems of its extents. Others are one
	 * device: "linear" has its extents end to end, "stripe" in sets that
	 * are striped. "direct" has one extent.
	 */
	char layout[16];
	unsigned stripe_width; /* extents of a set; 0: no stripe */
	uint64_t stripe_unit;  /* bytes; 0: no stripe */
	/*
	 * "ext4" or "xfs": of each extent of a union, else of the device. "" of
	 * a bare device, which is linear or stripe. Only a guest mounts the
	 * file system of direct.
	 */
	char fs_type[16];
	char policy[16];    /* of the union: "pfrd" "mfs"... (docs/union.md) */
	char transport[16]; /* "auto" or one of initiator/initiator.h */
	/* Members that a request left open, and that were filled in since. */
	bool any_policy, any_transport, any_placement;
	unsigned min_splits; /* 0: as few as serve */
	unsigned max_splits; /* 0: VOLUME_SPLITS_MAX */
	uint64_t max_extent; /* bytes; 0: no limit but the pools' */
	bool share_pools;    /* several splits may lie in one pool */
	char placement[16];  /* "balanced" "packed" "local"; planner.h */
	char local_node[RECORD_NAME_SIZE]; /* local: that one; "": any */
	struct name_list nodes;            /* only these; empty: all */
	struct name_list exclude;          /* never these */
	struct name_list pools;            /* of those names only; empty: all */
	struct labels node_labels;         /* nodes that have all of these */
	/*
	 * Source of a clone. Its layout and file system are the source's (""
	 * when asked for: the same), its capacity is at least the source's (0:
	 * the same).
	 */
	struct volume_source source;
	struct volume_limits limits; /* volume_limit() changes them */
};

#define VOLUME_STRIPE_WIDTH UINT32_C(2) /* by default */
#define VOLUME_STRIPE_UNIT  (UINT64_C(256) << 10)

/*
 * Fill in the defaults of empty members and check the rest. The capacity is
 * rounded up to a multiple of volume_spec_unit(). -EINVAL or -ERANGE: the text
 * names the member and the allowed values.
 */
int volume_spec_check(struct volume_spec *spec, struct error *err);
/*
 * Tell whether the extents are one block device, without union ("linear",
 * "stripe" or "direct"), whatever is on it.
 */
bool volume_spec_is_device(const struct volume_spec *spec);
/*
 * Tell whether the volume is mounted on a node: a union, or the file system of
 * a device that is no guest's.
 */
bool volume_spec_is_tree(const struct volume_spec *spec);
/*
 * Count the file systems of @n_splits splits: those of the first splits. The
 * one of a device is kept with its first split.
 */
size_t volume_spec_file_systems(const struct volume_spec *spec,
				size_t n_splits);
/* "direct". */
bool volume_spec_direct(const struct volume_spec *spec);
/* "stripe". */
bool volume_spec_stripe(const struct volume_spec *spec);
/* The capacity is a multiple of this; bytes. */
uint64_t volume_spec_unit(const struct volume_spec *spec);
/* The smallest volume of this kind; bytes. */
uint64_t volume_spec_minimum(const struct volume_spec *spec);
/* The smallest split that its file system can be made on; bytes. */
uint64_t volume_spec_split_minimum(const struct volume_spec *spec);
int volume_spec_copy(const struct volume_spec *from, struct volume_spec *to,
		     struct error *err);
/*
 * Compare the spec of a volume with a checked one that is asked for. Words left
 * open match any: the defaults may have been others. Limits, which may change,
 * do not count.
 */
bool volume_spec_equal(const struct volume_spec *made,
		       const struct volume_spec *asked);
/* Of one kind and name; uids where both are known. */
bool volume_source_equal(const struct volume_source *a,
			 const struct volume_source *b);
void volume_spec_done(struct volume_spec *spec);

struct volume_record {
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE];
	char resource_version[RECORD_VERSION_SIZE]; /* "" before created */
	int64_t created_s;                          /* seconds since 1970 */
	struct labels labels;

	struct volume_spec spec;

	enum volume_phase phase;
	uint64_t epoch; /* of the newest attachment; raised by each attach */
	/*
	 * Grants of epochs, the newest (that of @epoch) first: attachments that
	 * an extent may still be served to, as far as the record knows. A grant
	 * is an identity, because numbers agree by chance where records were
	 * restored from a copy. Records of older versions have none.
	 */
	char grants[VOLUME_GRANTS_MAX][VOLUME_GRANT_SIZE];
	size_t n_grants;
	/*
	 * Owned; splits[i].index == i, and the number of its branch at a mount.
	 * Splits that a ready volume is being grown by come last, as does a
	 * successor (volume_record_leaving()).
	 */
	struct volume_split *splits;
	size_t n_splits;
	/*
	 * Owned; extents on nodes that were removed as lost, whose splits have
	 * another place: the newest last. An extent that is here once is never
	 * a split's again, so an old copy of the record says the truth, too.
	 */
	struct volume_given_up *given_up;
	size_t n_given_up;
	struct volume_attachment *attachments; /* owned */
	size_t n_attachments;
	/*
	 * The record is being deleted by the store's own tools, which wait
	 * until the volume is deleted. Cannot be taken back. Read only: set by
	 * the store.
	 */
	bool deleting;
	/* The snapshot that it is, or was last, reverted to; uid "": none. */
	char reverted[RECORD_NAME_SIZE];
	char reverted_uid[UUID_TEXT_SIZE];
	struct volume_condition *conditions; /* owned */
	size_t n_conditions;
};

struct volume_record *volume_record_new(void);
void volume_record_free(struct volume_record *record); /* NULL is fine */

/* "Creating", "Ready", ...: as in the record. */
const char *volume_phase_name(enum volume_phase phase);
const char *split_state_name(enum split_state state);
const char *attachment_state_name(enum attachment_state state);
/* "Copy", "Union", "Block". */
const char *split_move_way_name(enum split_move_way way);

/*
 * Sum of all splits in bytes, once the growing ones have grown; without a
 * successor.
 */
uint64_t volume_record_target(const struct volume_record *record);
/*
 * Count the splits (the first ones) that make up the capacity. The splits by
 * which a ready volume is being grown do not count.
 */
size_t volume_record_made(const struct volume_record *record);
/*
 * The split that another one succeeds, which is moving by its union; NULL:
 * none. Its successor is the last split: a file is in the one or the other.
 */
struct volume_split *volume_record_leaving(const struct volume_record *record);
struct volume_split *volume_record_successor(
	const struct volume_record *record);
/*
 * End the move of a split that another one succeeds, one of which is lost: the
 * other one is the split from now on. With both lost the split is. False: there
 * is no such move.
 */
bool volume_record_end_lost(struct volume_record *record);
/* Count the splits that are lost for good. */
size_t volume_record_lost(const struct volume_record *record);
/*
 * Count those of an attachment: for reading only, up to the last formatted one,
 * if any is formatted. A successor counts once it has joined.
 */
size_t volume_record_attached(const struct volume_record *record,
			      bool read_only);
/*
 * Tell whether file systems are behind: where the volume is attached, or at its
 * next attach, one has yet to grow or to be made.
 */
bool volume_record_fs_behind(const struct volume_record *record);
/*
 * Record that @node is lost for good: splits there are lost, and moves from or
 * to it have ended. Returns how many splits are lost since, or have ended a
 * move; 0: the record is as it was. An unfinished volume is left as it is.
 */
size_t volume_record_lose(struct volume_record *record, const char *node);
/*
 * Note that an extent is nobody's for good; with id "" there is none. The
 * oldest note is forgotten where there is no room, and the new one without
 * memory: such an extent is only named as an orphan.
 */
void volume_record_give_up(struct volume_record *record, const char *node,
			   const char *extent, const char *id);
/*
 * Tell whether the record gave up the extent with this id: it is noted so, or a
 * lost split's. Of an extent that a split or a move has this is false.
 */
bool volume_record_gave_up(const struct volume_record *record, const char *id);
/*
 * Record that the extent of @split (one of @record's) has @size bytes, at least
 * those recorded, and the capacity. -ERANGE: no size of an extent, or more than
 * a volume may have. It is also -ERANGE where the growth would move what lies
 * behind in a device. Nothing was changed then.
 */
int volume_record_grown(struct volume_record *record,
			struct volume_split *split, uint64_t size);

/*
 * Raise the epoch above @above, and grant it to a new attachment. The oldest
 * grant is forgotten where there is no room. -ERANGE: no epoch is left.
 */
int volume_record_raise(struct volume_record *record, uint64_t above,
			struct error *err);
/* Return the grant of the epoch; "": none. Borrowed. */
const char *volume_record_grant(const struct volume_record *record);
bool volume_record_knows(const struct volume_record *record, const char *grant);
/* Add a grant unknown to the record, so that the next epoch ends it. */
void volume_record_learn(struct volume_record *record, const char *grant);
/* Forget older grants: every extent is at the newest epoch. */
void volume_record_granted(struct volume_record *record);

/* The attachment on @node, or NULL. Borrowed. */
struct volume_attachment *volume_record_attachment(
	const struct volume_record *record, const char *node);
/* Add or find. -E2BIG over VOLUME_ATTACHMENTS_MAX. */
int volume_record_attach(struct volume_record *record, const char *node,
			 struct volume_attachment **ret, struct error *err);
void volume_record_unattach(struct volume_record *record, const char *node);

/* Set or replace the condition @type; since_s changes with @status only. */
int volume_record_condition(struct volume_record *record, const char *type,
			    bool status, const char *reason,
			    const char *message);

/* Compact JSON. Returned owned. */
int volume_record_encode(const struct volume_record *record, char **ret_json,
			 struct error *err);

/*
 * Decode a record from any source. Unknown members are ignored (an API server
 * adds its own). Known members of a wrong type, size or value, and missing
 * ones, are -EINVAL with their path. Another kind or version is
 * -EPROTONOSUPPORT. metadata.resourceVersion is optional.
 */
int volume_record_decode(const char *json, size_t length,
			 struct volume_record **ret, struct error *err);

#endif
