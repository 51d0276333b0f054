/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that tests of reply_cache.h share: its memory, a request and its
 * reply.
 */
#ifndef UNION_REPLY_CACHE_KIT_H
#define UNION_REPLY_CACHE_KIT_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/state/reply_cache.h"
#include "union/state/reply_cache_slots.h"

#define REPLY_CACHE_KIT_SLOTS 8
#define REPLY_CACHE_KIT_MEMORY_SIZE \
	((REPLY_CACHE_KIT_SLOTS + 1) * REPLY_CACHE_SLOT_SIZE)

/* Lookups and files given back since the memory was opened last. */
extern uint64_t reply_cache_kit_forgotten[REPLY_CACHE_NODES_MAX],
	reply_cache_kit_dropped;
extern unsigned reply_cache_kit_forgotten_count;

/* Its context is not used. */
extern const struct reply_cache_server reply_cache_kit_server;

/* Make @size bytes that processes share; to be unmapped. */
void *reply_cache_kit_memory(size_t size);

/* Open the memory as the next server does. */
struct reply_cache *reply_cache_kit_open(void *memory, size_t size);

struct request reply_cache_kit_request(uint64_t unique, uint32_t opcode);
struct handle reply_cache_kit_handle(uint8_t byte);

/* A reply as long as that to a lookup. */
struct reply_cache_kit_reply {
	struct fuse_out_header header;
	struct fuse_entry_out entry;
};

struct reply_cache_kit_reply reply_cache_kit_reply(uint64_t unique);

/* Do what a server does with a reply; it may be killed in it. */
bool reply_cache_kit_reply_kept(struct request *request, uint64_t unique);

#endif
