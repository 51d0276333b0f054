/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of snapshots: of one volume (kind VolumeSplitSnapshot) and of
 * several volumes cut at one instant (VolumeSplitGroupSnapshot). Both are of
 * union.io/v1alpha1 and kept as volume_record.h has it.
 *
 * A snapshot's record has all that is needed to make a volume of it. A snapshot
 * outlives its volume.
 */
#ifndef VOLUME_SNAPSHOT_RECORD_H
#define VOLUME_SNAPSHOT_RECORD_H

#include "volume/record/volume_record.h"

/*
 * The extents of a snapshot are called "snap.UID-INDEX" after its uid: they
 * share the names of a node with those of volumes.
 */
#define SNAPSHOT_EXTENT_PREFIX "snap."
#define SNAPSHOT_NAME_MAX      59 /* bytes; volumes can be called the same */
#define SNAPSHOT_MEMBERS_MAX   64 /* volumes in a group */

enum snapshot_phase {
	SNAPSHOT_CREATING, /* not cut, or nobody knows; repeat, or delete */
	SNAPSHOT_COPYING,  /* cut; its content is still being copied */
	SNAPSHOT_READY,
	SNAPSHOT_DELETING, /* extents may be gone; repeat delete */
};

enum snapshot_split_state {
	SNAPSHOT_SPLIT_PLANNED, /* the extent may or may not exist */
	SNAPSHOT_SPLIT_COPYING, /* exists; snapshot_split.copied says how far */
	SNAPSHOT_SPLIT_READY,
	SNAPSHOT_SPLIT_DELETED, /* gone (only while the snapshot is deleted) */
};

/* One extent of a snapshot. */
struct snapshot_split {
	unsigned index;
	char node[RECORD_NAME_SIZE];
	char pool[RECORD_NAME_SIZE];
	char extent[RECORD_NAME_SIZE];  /* of the snapshot */
	char extent_id[UUID_TEXT_SIZE]; /* "" until cut */
	char origin[RECORD_NAME_SIZE];  /* the volume's extent */
	char origin_id[UUID_TEXT_SIZE];
	uint64_t size;   /* bytes */
	uint64_t copied; /* bytes; of size, while COPYING */
	enum snapshot_split_state state;
	/*
	 * Its node was removed as lost for good: nothing looks for the extent
	 * any more. The snapshot can be deleted, and no more.
	 */
	bool lost;
	/* The volume's split at the cut: CREATED, FORMATTING or READY. */
	enum split_state content;
	bool fs_behind; /* as the volume's was, only when READY */
	char fs_uuid[UUID_TEXT_SIZE];
};

struct snapshot_record {
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE];
	char resource_version[RECORD_VERSION_SIZE]; /* "" before created */
	int64_t created_s;                          /* seconds since 1970 */
	struct labels labels;

	/* ---- asked for ---- */
	char volume[RECORD_NAME_SIZE];   /* its source, which may be gone */
	char volume_uid[UUID_TEXT_SIZE]; /* and another have its name */
	char group[RECORD_NAME_SIZE];    /* it is a member of that; "": none */
	char group_uid[UUID_TEXT_SIZE];
	/*
	 * Made to clone the volume with this uid, and deleted when that is
	 * done; "": made to stay.
	 */
	char temporary_for[UUID_TEXT_SIZE];

	/* ---- what there is ---- */
	enum snapshot_phase phase;
	char cut[UUID_TEXT_SIZE]; /* of the instant; "" before the first try */
	/* Seconds since 1970; 0: not cut. All members of a group have one. */
	int64_t cut_s;
	/* The volume as it was; its capacity is the snapshot's. */
	struct volume_spec spec;
	struct snapshot_split *splits; /* owned; splits[i].index == i */
	size_t n_splits;
	bool deleting;                       /* as in struct volume_record */
	struct volume_condition *conditions; /* owned */
	size_t n_conditions;
};

struct snapshot_record *snapshot_record_new(void);
void snapshot_record_free(struct snapshot_record *record); /* NULL is fine */
void snapshot_records_free(struct snapshot_record **records, size_t count);

const char *snapshot_phase_name(enum snapshot_phase phase);

/* Cut, whether or not its content is copied yet. */
bool snapshot_record_is_cut(const struct snapshot_record *record);
/* Bytes that are there, of the capacity, while it is COPYING. */
uint64_t snapshot_record_copied(const struct snapshot_record *record);

/* Count the extents that are lost for good. */
size_t snapshot_record_lost(const struct snapshot_record *record);
/*
 * Record that @node is lost for good, with the extents there. Returns how many
 * are lost since.
 */
size_t snapshot_record_lose(struct snapshot_record *record, const char *node);
/* Tell whether the extent with this id was the snapshot's and is lost. */
bool snapshot_record_gave_up(const struct snapshot_record *record,
			     const char *id);

/* As volume_record_condition(). */
int snapshot_record_condition(struct snapshot_record *record, const char *type,
			      bool status, const char *reason,
			      const char *message);

/* As volume_record_encode() and volume_record_decode(). */
int snapshot_record_encode(const struct snapshot_record *record,
			   char **ret_json, struct error *err);
int snapshot_record_decode(const char *json, size_t length,
			   struct snapshot_record **ret, struct error *err);

/* ---- groups ---- */

struct group_member {
	char volume[RECORD_NAME_SIZE];
	char volume_uid[UUID_TEXT_SIZE];
	char snapshot[RECORD_NAME_SIZE];
	char snapshot_uid[UUID_TEXT_SIZE];
};

/*
 * A group's phase is that of its members; never COPYING while one is CREATING.
 */
struct group_record {
	char name[RECORD_NAME_SIZE];
	char uid[UUID_TEXT_SIZE];
	char resource_version[RECORD_VERSION_SIZE];
	int64_t created_s;
	struct labels labels; /* the members have them too */

	/* Parameters of the caller's request, kept to be compared: opaque. */
	struct labels parameters;

	enum snapshot_phase phase;
	char cut[UUID_TEXT_SIZE];
	int64_t cut_s; /* seconds since 1970; 0: not cut */
	/* Owned; by the volume's name. Fixed at create. */
	struct group_member *members;
	size_t n_members;
	bool deleting;
	struct volume_condition *conditions; /* owned */
	size_t n_conditions;
};

struct group_record *group_record_new(void);
void group_record_free(struct group_record *record); /* NULL is fine */
void group_records_free(struct group_record **records, size_t count);

int group_record_condition(struct group_record *record, const char *type,
			   bool status, const char *reason,
			   const char *message);
int group_record_encode(const struct group_record *record, char **ret_json,
			struct error *err);
int group_record_decode(const char *json, size_t length,
			struct group_record **ret, struct error *err);

#endif
