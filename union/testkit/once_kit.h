/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of once.h share: its memory, a request and its reply. */
#ifndef UNION_ONCE_KIT_H
#define UNION_ONCE_KIT_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/state/once.h"
#include "union/state/once_slots.h"

#define ONCE_KIT_SLOTS       8
#define ONCE_KIT_MEMORY_SIZE ((ONCE_KIT_SLOTS + 1) * ONCE_SLOT_SIZE)

/* What was given back since the memory was opened last. */
extern uint64_t once_kit_forgotten[ONCE_NODES_MAX], once_kit_dropped;
extern unsigned once_kit_forgotten_count;

/* Its context is not used. */
extern const struct once_server once_kit_server;

/* @size bytes that processes share; to be unmapped. */
void *once_kit_memory(size_t size);

/* As the next server does. */
struct once *once_kit_open(void *memory, size_t size);

struct request_note once_kit_request(uint64_t unique, uint32_t opcode);
struct handle once_kit_handle(uint8_t byte);

/* A reply as long as that to a lookup. */
struct once_kit_reply {
	struct fuse_out_header header;
	struct fuse_entry_out entry;
};

struct once_kit_reply once_kit_reply(uint64_t unique);

/* What a server does with it; it may be killed in it. */
bool once_kit_reply_kept(uint64_t unique);

#endif
