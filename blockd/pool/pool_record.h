/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two records of a pool, in the form of blockd/pool/record_text.h.
 *
 * Its identity, in the pool itself (POOL/pool.tributary):
 *
 *	tributary-pool 1
 *	name=NAME                base/uuid_name.h
 *	id=UUID
 *	kind=dir
 *	incarnation=UUID         made with the pool; anew when it was gone
 *	capacity=BYTES           0: what the medium has
 *	overcommit=PERCENT
 *	created=SECONDS          since 1970
 *	crc32c=XXXXXXXX
 *
 * And what the node remembers of it (STATE/pools/NAME.pool):
 *
 *	tributary-known-pool 1
 *	name=NAME
 *	path=PATH                absolute
 *	id=UUID
 *	deleting=yes|no          the delete has begun; a restart finishes it
 *	crc32c=XXXXXXXX
 */
#ifndef BLOCKD_POOL_RECORD_H
#define BLOCKD_POOL_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/uuid_name.h"

#define POOL_NAME_SIZE 64 /* bytes with NUL; name_check() */
#define POOL_KIND_SIZE 16 /* bytes with NUL */

struct pool_record {
	char name[POOL_NAME_SIZE];
	char id[UUID_TEXT_SIZE];
	char kind[POOL_KIND_SIZE];
	char incarnation[UUID_TEXT_SIZE];
	uint64_t capacity; /* bytes; 0: what the medium has */
	uint64_t overcommit_percent;
	uint64_t created_s; /* since 1970 */
};

struct known_pool {
	char name[POOL_NAME_SIZE];
	char path[PATH_MAX];
	char id[UUID_TEXT_SIZE];
	bool deleting;
};

/* Encoders return owned text; decoders 0 or -EBADMSG with what is wrong. */
int pool_record_encode(const struct pool_record *record, char **ret,
		       size_t *ret_length, struct error *err);
int pool_record_decode(const void *data, size_t length, struct pool_record *ret,
		       struct error *err);
int known_pool_encode(const struct known_pool *known, char **ret,
		      size_t *ret_length, struct error *err);
int known_pool_decode(const void *data, size_t length, struct known_pool *ret,
		      struct error *err);

#endif
