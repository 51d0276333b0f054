/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/reply_cache.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "union/state/reply_cache_slots.h"

#define WAIT_NS 1000000 /* for a slot; there are more than threads */

struct reply_cache {
	struct reply_cache_slots slots;
	struct reply_cache_server server;
	int64_t opened_ms;
};

/* The request that this thread serves. */
static _Thread_local struct {
	struct reply_cache_slot *slot; /* NULL: it has none */
	uint64_t unique;               /* as the kernel sent it */
	bool again;                    /* a dead server had begun it */
	unsigned hint;                 /* of the thread's next slot */
} mine;

int reply_cache_open(void *memory, size_t size,
		     const struct reply_cache_server *server,
		     struct reply_cache **ret)
{
	struct reply_cache *once = calloc(1, sizeof(*once));
	int r = once ? reply_cache_slots_open(memory, size, &once->slots)
		     : -ENOMEM;

	if (r < 0) {
		free(once);
		return r;
	}
	once->server = *server;
	once->opened_ms = clock_ms();
	*ret = once;
	return 0;
}

void reply_cache_free(struct reply_cache *once)
{
	free(once);
}

unsigned reply_cache_missing(const struct reply_cache *once)
{
	return once ? reply_cache_slots_missing(&once->slots) : 0;
}

bool reply_cache_is_waiting(const struct reply_cache *once)
{
	return once && clock_ms() - once->opened_ms < REPLY_CACHE_PATIENCE_MS &&
	       reply_cache_slots_missing(&once->slots);
}

static bool needs_slot(const struct request_note *note)
{
	switch (note->opcode) {
	case FUSE_SETATTR: return note->wants_nothing;
	case FUSE_LOOKUP:
	case FUSE_SYMLINK:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_RENAME:
	case FUSE_RENAME2:
	case FUSE_LINK:
	case FUSE_OPEN:
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR:
	case FUSE_OPENDIR:
	case FUSE_CREATE: /* and FUSE_TMPFILE, see request_adapt() */
	case FUSE_READDIRPLUS: return true;
	default: return false;
	}
}

static struct reply_cache_slot *wait_for_slot(struct reply_cache *once)
{
	const struct timespec pause = {.tv_nsec = WAIT_NS};
	struct reply_cache_slot *slot;

	while (!(slot = reply_cache_slots_claim(&once->slots, &mine.hint)))
		(void)nanosleep(&pause, NULL);
	return slot;
}

/*
 * Strike each out first. A kill in between then leaves a node too many, which
 * is kept, and not one too few, which would be forgotten while in use.
 */
static void give_back(const struct reply_cache *once,
		      struct reply_cache_slot *slot)
{
	const struct reply_cache_server *server = &once->server;
	uint64_t file = atomic_exchange(&slot->file, 0);
	uint32_t count = atomic_load(&slot->node_count);

	if (file)
		server->drop(server->context, file);
	while (count) {
		atomic_store(&slot->node_count, --count);
		server->forget(server->context, slot->nodes[count]);
	}
}

/* Send the known reply. If the kernel refuses it, nothing of it counts. */
static void send_again(const struct reply_cache *once,
		       struct reply_cache_slot *slot, uint64_t unique, int fd)
{
	struct fuse_out_header *header = (void *)slot->reply;

	header->unique = unique;
	if (write(fd, slot->reply, slot->reply_length) < 0)
		give_back(once, slot);
	reply_cache_slot_free(slot);
}

/* Begin a request that came again. True: it is to be served. */
static bool begin_again(struct reply_cache *once, struct reply_cache_slot *slot,
			uint64_t unique, int fd)
{
	if (atomic_load(&slot->state) == REPLY_CACHE_ANSWERED &&
	    slot->reply_length >= sizeof(struct fuse_out_header)) {
		send_again(once, slot, unique, fd);
		return false;
	}
	give_back(once, slot);
	reply_cache_slot_begin(slot, slot->unique, slot->opcode);
	mine.slot = slot;
	mine.again = true;
	return true;
}

bool reply_cache_begin(struct reply_cache *once,
		       const struct request_note *note, int fd)
{
	uint64_t unique = note->unique & ~REPLY_CACHE_RESENT;
	struct reply_cache_slot *slot = NULL;

	if (!once || !needs_slot(note))
		return true;
	mine.unique = note->unique;
	mine.again = false;
	if (note->unique & REPLY_CACHE_RESENT)
		slot = reply_cache_slots_find(&once->slots, unique);
	if (slot)
		return begin_again(once, slot, note->unique, fd);
	mine.slot = wait_for_slot(once);
	reply_cache_slot_begin(mine.slot, unique, note->opcode);
	return true;
}

static size_t keep_bytes(uint8_t *to, const struct iovec *iov, int count)
{
	size_t length = 0;
	int i;

	for (i = 0; i < count; i++) {
		if (iov[i].iov_len > REPLY_CACHE_REPLY_MAX - length)
			return 0; /* it is as good to do it again */
		memcpy(to + length, iov[i].iov_base, iov[i].iov_len);
		length += iov[i].iov_len;
	}
	return length;
}

bool reply_cache_reply(const struct iovec *iov, int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct reply_cache_slot *slot = mine.slot;

	if (!slot || iov[0].iov_len < sizeof(*header) ||
	    header->unique != mine.unique)
		return false;
	slot->reply_length = (uint32_t)keep_bytes(slot->reply, iov, count);
	atomic_store_explicit(&slot->state, REPLY_CACHE_ANSWERED,
			      memory_order_release);
	return true;
}

void reply_cache_end(void)
{
	if (mine.slot)
		reply_cache_slot_free(mine.slot);
	mine.slot = NULL;
}

bool reply_cache_wants_note(void)
{
	return mine.slot && !atomic_load(&mine.slot->note);
}

static void publish_note(enum reply_cache_note note)
{
	atomic_store_explicit(&mine.slot->note, note, memory_order_release);
}

void reply_cache_note(enum reply_cache_note note)
{
	if (!reply_cache_wants_note())
		return;
	mine.slot->branch = 0;
	mine.slot->handle.length = 0;
	publish_note(note);
}

void reply_cache_note_file(unsigned branch, const struct handle *handle)
{
	if (!reply_cache_wants_note())
		return;
	mine.slot->branch = branch;
	mine.slot->handle = *handle;
	publish_note(REPLY_CACHE_PRESENT);
}

bool reply_cache_noted(struct reply_cache_noted *ret)
{
	const struct reply_cache_slot *slot = mine.slot;
	uint32_t note = slot && mine.again ? atomic_load(&slot->note) : 0;

	if (!note)
		return false;
	ret->note = note;
	ret->branch = slot->branch;
	ret->handle = slot->handle;
	return true;
}

/* Does the reply count nodes? Other requests forget the nodes they look up. */
static bool replies_with_nodes(uint32_t opcode)
{
	switch (opcode) {
	case FUSE_LOOKUP:
	case FUSE_SYMLINK:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_LINK:
	case FUSE_CREATE:
	case FUSE_READDIRPLUS: return true;
	default: return false;
	}
}

void reply_cache_gains_node(uint64_t node)
{
	struct reply_cache_slot *slot = mine.slot;
	uint32_t count;

	if (!slot || !replies_with_nodes(slot->opcode))
		return;
	count = atomic_load(&slot->node_count);
	if (count == REPLY_CACHE_NODES_MAX)
		return; /* if it comes again this is counted once too often */
	slot->nodes[count] = node;
	atomic_store_explicit(&slot->node_count, count + 1,
			      memory_order_release);
}

void reply_cache_gains_file(uint64_t file)
{
	if (mine.slot)
		atomic_store(&mine.slot->file, file);
}

void reply_cache_gains_nothing(void)
{
	if (!mine.slot)
		return;
	atomic_store(&mine.slot->node_count, 0);
	atomic_store(&mine.slot->file, 0);
}
