/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of damage: a pool on a medium that forgets all writes. */
#ifndef BLOCKD_RAW_DAMAGE_KIT_H
#define BLOCKD_RAW_DAMAGE_KIT_H

#include "blockd/raw/store/raw_store_internal.h"

#define MEDIUM  (UINT64_C(24) << 20)
#define BLOCKS  (MEDIUM / RAW_BLOCK)
#define OBJECTS 40
#define LENGTH  3000 /* clusters of an object: three leaves */

struct layered {
	struct raw_medium medium;
	uint8_t *base;            /* owned */
	uint8_t *written[BLOCKS]; /* over it; owned, NULL: none */
	bool unreadable[BLOCKS];
	unsigned writes;
};

struct damaged {
	struct layered l;
	struct raw_store *store;
	struct raw_report report;
	struct error err;
	uint32_t objects[OBJECTS + 1]; /* what each is; 0: it is not there */
};

void layered_put(struct layered *l, uint64_t block, const void *data);
/* All that was written since is gone, and all can be read. */
void layered_forget(struct layered *l);
/* Keep the data that was written. */
void layered_keep(struct layered *l);
/* Of what it is, and has. */
uint32_t damaged_fingerprint(const struct raw_state *state,
			     const struct raw_object *o);
/* With the clusters of @from; 0: none. */
void damaged_make_object(struct damaged *pool, uint32_t id, uint32_t from);
void damaged_map(struct damaged *pool, uint32_t id, uint64_t logical);
void damaged_open(struct damaged *pool);
void damaged_make(struct damaged *pool);
void damaged_fill(struct damaged *pool);
void damaged_done(struct damaged *pool);

#endif
