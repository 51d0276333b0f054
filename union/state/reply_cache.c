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

static bool needs_slot(const struct request *request)
{
	switch (request->opcode) {
	case FUSE_SETATTR: return request->wants_nothing;
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
	case FUSE_CREATE: /* and FUSE_TMPFILE, see request_decode() */
	case FUSE_READDIRPLUS: return true;
	default: return false;
	}
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
	reply_cache_slot_publish(slot, REPLY_CACHE_FREE);
}

/* Begin a request that came again. True: it is to be served. */
static bool begin_again(struct reply_cache *once, struct reply_cache_slot *slot,
			struct request *request, int fd)
{
	if (atomic_load(&slot->state) == REPLY_CACHE_ANSWERED &&
	    slot->reply_length >= sizeof(struct fuse_out_header)) {
		send_again(once, slot, request->unique, fd);
		return false;
	}
	give_back(once, slot);
	reply_cache_slot_begin(slot, slot->unique, slot->opcode);
	request->slot = slot;
	request->again = true;
	return true;
}

bool reply_cache_begin(struct reply_cache *once, struct request *request,
		       int fd)
{
	const struct timespec pause = {.tv_nsec = WAIT_NS};
	uint64_t unique = request->unique & ~REPLY_CACHE_RESENT;
	struct reply_cache_slot *slot = NULL;

	request->slot = NULL;
	request->again = false;
	if (!once || !needs_slot(request))
		return true;
	if (request->unique & REPLY_CACHE_RESENT)
		slot = reply_cache_slots_find(&once->slots, unique);
	if (slot)
		return begin_again(once, slot, request, fd);
	while (!(slot = reply_cache_slots_claim(&once->slots,
						&request->slot_hint)))
		(void)nanosleep(&pause, NULL);
	reply_cache_slot_begin(slot, unique, request->opcode);
	request->slot = slot;
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

static struct reply_cache_slot *slot_of(const struct request *request)
{
	return request ? request->slot : NULL;
}

bool reply_cache_reply(struct request *request, const struct iovec *iov,
		       int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct reply_cache_slot *slot = slot_of(request);

	if (!slot || iov[0].iov_len < sizeof(*header) ||
	    header->unique != request->unique)
		return false;
	slot->reply_length = (uint32_t)keep_bytes(slot->reply, iov, count);
	reply_cache_slot_publish(slot, REPLY_CACHE_ANSWERED);
	return true;
}

void reply_cache_end(struct request *request)
{
	if (request->slot)
		reply_cache_slot_publish(request->slot, REPLY_CACHE_FREE);
	request->slot = NULL;
}

bool reply_cache_wants_note(const struct request *request)
{
	const struct reply_cache_slot *slot = slot_of(request);

	return slot && !atomic_load(&slot->note);
}

static void publish_note(struct reply_cache_slot *slot,
			 enum reply_cache_note note)
{
	atomic_store_explicit(&slot->note, note, memory_order_release);
}

void reply_cache_note(struct request *request, enum reply_cache_note note)
{
	if (!reply_cache_wants_note(request))
		return;
	request->slot->branch = 0;
	request->slot->handle.length = 0;
	publish_note(request->slot, note);
}

void reply_cache_note_file(struct request *request, unsigned branch,
			   const struct handle *handle)
{
	if (!reply_cache_wants_note(request))
		return;
	request->slot->branch = branch;
	request->slot->handle = *handle;
	publish_note(request->slot, REPLY_CACHE_PRESENT);
}

bool reply_cache_noted(const struct request *request,
		       struct reply_cache_noted *ret)
{
	const struct reply_cache_slot *slot = slot_of(request);
	uint32_t note = slot && request->again ? atomic_load(&slot->note) : 0;

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

void reply_cache_gains_node(struct request *request, uint64_t node)
{
	struct reply_cache_slot *slot = slot_of(request);
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

void reply_cache_gains_file(struct request *request, uint64_t file)
{
	struct reply_cache_slot *slot = slot_of(request);

	if (slot)
		atomic_store(&slot->file, file);
}

void reply_cache_gains_nothing(struct request *request)
{
	struct reply_cache_slot *slot = slot_of(request);

	if (!slot)
		return;
	atomic_store(&slot->node_count, 0);
	atomic_store(&slot->file, 0);
}
