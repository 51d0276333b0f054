/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What blockd remembers of an extent: kept beside its data, in the form of
 * blockd/pool/record_text.h, so that a pool describes itself.
 *
 *	tributary-extent 1
 *	name=NAME                    base/uuid_name.h
 *	id=UUID
 *	pool=UUID                    of the pool it was made in
 *	size=BYTES
 *	created=SECONDS              since 1970
 *	state=creating|ok
 *	blank=yes|no                 no export that may write was ever made
 *	label=KEY=VALUE              up to 16, sorted by key
 *	kind=snapshot                only of a snapshot
 *	thick=yes                    only when allocated at create
 *	reserved=BYTES               promised to a snapshot; only there
 *	origin=NAME=UUID             these two only of a snapshot, and of an
 *	method=shared|reflink|copy   extent made from a source
 *	cut=UUID                     a snapshot's instant; only there
 *	limit-iops=NUMBER            only when there is one
 *	limit-bytes=NUMBER           a second; only when there is one
 *	export-epoch=NUMBER          these only when it was ever exported
 *	export-active=yes|no         served now
 *	export-read-only=yes|no
 *	export-initiator=TEXT        up to 64
 *	export-target=NAME           these two only when it is a LUN of a
 *	export-lun=NUMBER            target that was named
 *	export-account=NAME          only when one was
 *	export-block-size=512|4096   only when it was asked for
 *	export-grant=TEXT            who has the epoch; only when told
 *	crc32c=XXXXXXXX
 *
 * A record of an extent that has nothing of the newer keys is written as it
 * was before there were any.
 */
#ifndef BLOCKD_EXTENT_RECORD_H
#define BLOCKD_EXTENT_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "blockd/pool/extent_scsi.h"

#define EXTENT_RECORD_KIND    "tributary-extent"
#define EXTENT_RECORD_VERSION 1

#define EXTENT_NAME_SIZE      64 /* bytes with NUL; name_check() */
#define EXTENT_LABELS_MAX     16
#define EXTENT_LABEL_MAX      128 /* bytes, of a key or a value */
#define EXTENT_INITIATORS_MAX 64  /* TARGET_INITIATORS_MAX */
#define EXTENT_INITIATOR_MAX  255 /* bytes; "iscsi:NAME@PREFIX" */
#define EXTENT_GRANT_SIZE     128 /* bytes with NUL */

#define EXTENT_ALIGN    4096                /* bytes */
#define EXTENT_SIZE_MIN (UINT64_C(1) << 20) /* bytes */
/* bytes; the largest file of ext4 with 4 KiB blocks */
#define EXTENT_SIZE_MAX ((UINT64_C(1) << 44) - 4096)

#define EXTENT_IOPS_MAX  UINT64_C(1000000000) /* operations a second */
#define EXTENT_BYTES_MIN (UINT64_C(64) << 10) /* a second */
#define EXTENT_BYTES_MAX (UINT64_C(1) << 50)  /* a second */

enum extent_state {
	EXTENT_CREATING, /* never answered for: undone by recovery */
	EXTENT_OK,
	/* In memory only: */
	EXTENT_DELETING, /* the file's name says it on disk */
	EXTENT_COPYING,  /* there already; undone by recovery */
};

enum extent_kind {
	EXTENT_KIND_EXTENT,
	EXTENT_KIND_SNAPSHOT, /* never written, only exported read-only */
};

/* How a pool makes one object begin with the content of another. */
enum pool_copy_method {
	POOL_COPY_NONE,    /* it can't */
	POOL_COPY_SHARED,  /* clusters are shared: at once */
	POOL_COPY_REFLINK, /* the file system shares blocks: at once */
	POOL_COPY_BYTES,   /* byte by byte: takes time and space */
};

struct extent_label {
	char *key;   /* owned */
	char *value; /* owned */
};

struct extent_export {
	bool exists; /* it was exported at least once */
	bool active; /* served now */
	bool read_only;
	uint64_t epoch; /* never falls, also when not active */
	/* The one attachment that has this epoch; "": it was not told. */
	char grant[EXTENT_GRANT_SIZE];
	/* Logical blocks by iSCSI, bytes: 512, 4096, or 0: as suits the pool */
	uint64_t block_size;
	unsigned n_initiators;
	char **initiators; /* owned */
	struct extent_scsi scsi;
};

/* What an extent or snapshot was made from. */
struct extent_origin {
	char name[EXTENT_NAME_SIZE]; /* as it was called then; "": nothing */
	char id[UUID_TEXT_SIZE];
	enum pool_copy_method method;
	char cut[UUID_TEXT_SIZE]; /* of a snapshot: its instant; else "" */
};

struct extent_limits {
	uint64_t iops;             /* operations a second; 0: no limit */
	uint64_t bytes_per_second; /* 0: no limit */
};

struct extent_record {
	char name[EXTENT_NAME_SIZE];
	char id[UUID_TEXT_SIZE];
	char pool_id[UUID_TEXT_SIZE];
	uint64_t size;      /* bytes */
	uint64_t created_s; /* since 1970 */
	enum extent_state state;
	bool blank;
	enum extent_kind kind;
	bool thick;        /* allocated at create */
	uint64_t reserved; /* bytes; of a snapshot: promised to it */
	struct extent_origin origin;
	struct extent_limits limits;
	unsigned n_labels;
	struct extent_label *labels; /* owned, sorted by key */
	struct extent_export export;
};

/* As in the text, and in proto/blockd.proto; "none" for POOL_COPY_NONE. */
const char *extent_state_name(enum extent_state state);
const char *extent_kind_name(enum extent_kind kind);
const char *pool_copy_method_name(enum pool_copy_method method);

/* -EINVAL with the rule that was broken. */
int extent_size_check(uint64_t size, struct error *err);
int extent_limits_check(const struct extent_limits *limits, struct error *err);
int extent_block_size_check(uint64_t size, struct error *err);
/* Is it what may be told of an attachment? "" is. */
int extent_grant_check(const char *grant, struct error *err);

/*
 * Replace the labels: copied, sorted. -EINVAL: too many, too long, a key
 * twice or empty, or anything but printable ASCII.
 */
int extent_record_set_labels(struct extent_record *record,
			     const struct extent_label *labels, size_t n,
			     struct error *err);
bool extent_record_same_labels(const struct extent_record *a,
			       const struct extent_record *b);

/* Replace the initiators: copied. -EINVAL: too many or too long. */
int extent_record_set_initiators(struct extent_record *record,
				 const char *const *initiators, size_t n,
				 struct error *err);
bool extent_export_same(const struct extent_export *a,
			const struct extent_export *b);

/* @to is overwritten without being freed. -ENOMEM. */
int extent_record_copy(struct extent_record *to,
		       const struct extent_record *from);
void extent_record_done(struct extent_record *record);

/* Returned owned. */
int extent_record_encode(const struct extent_record *record, char **ret,
			 size_t *ret_length, struct error *err);

/*
 * @ret  set only on success; extent_record_done() frees it
 *
 * Returns 0 or -EBADMSG with what is wrong; nothing of a record that does
 * not pass every check is used.
 */
int extent_record_decode(const void *data, size_t length,
			 struct extent_record *ret, struct error *err);

#endif
