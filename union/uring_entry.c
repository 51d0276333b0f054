/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_entry.h"

#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "union/once.h"

#define MAPPED (URING_PAYLOAD + 4096) /* the headers have the last page */

static_assert(sizeof(struct uring_headers) <= MAPPED - URING_PAYLOAD, "");

/* What no request needed is never touched. */
static bool map_place(struct uring_place *ret)
{
	char *at = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return false;
	*ret = (struct uring_place){.headers = (void *)(at + URING_PAYLOAD),
				    .payload = at};
	return true;
}

static void free_entry(struct uring_entry *entry)
{
	if (entry->place.payload && !entry->place.record)
		(void)munmap(entry->place.payload, MAPPED); /* is ours */
	free(entry);
}

struct uring_entry *uring_entry_new(struct uring_entries *entries,
				    const struct uring_place *place,
				    unsigned queue, const void *owner)
{
	struct uring_entry *entry = calloc(1, sizeof(*entry));
	unsigned i;

	if (!entry)
		return NULL;
	if (place)
		entry->place = *place;
	i = place || map_place(&entry->place)
		    ? atomic_fetch_add(&entries->count, 1)
		    : UINT_MAX;
	if (i >= URING_ENTRIES_MAX) {
		if (i != UINT_MAX)
			atomic_fetch_sub(&entries->count, 1);
		free_entry(entry);
		return NULL;
	}
	entry->queue = queue;
	entry->owner = owner;
	pthread_mutex_init(&entry->lock, NULL);
	pthread_cond_init(&entry->answered, NULL);
	atomic_store(&entries->items[i], entry);
	return entry;
}

static unsigned entry_count(struct uring_entries *entries)
{
	unsigned count = atomic_load(&entries->count);

	return count < URING_ENTRIES_MAX ? count : URING_ENTRIES_MAX;
}

void uring_entries_done(struct uring_entries *entries)
{
	unsigned i, count = entry_count(entries);
	struct uring_entry *entry;

	for (i = 0; i < count; i++) {
		entry = atomic_load(&entries->items[i]);
		if (!entry)
			continue;
		pthread_mutex_destroy(&entry->lock);
		pthread_cond_destroy(&entry->answered);
		free_entry(entry);
	}
}

static void begin(struct uring_entry *entry, uint64_t unique,
		  uint64_t commit_id)
{
	pthread_mutex_lock(&entry->lock);
	entry->unique = unique;
	entry->commit_id = commit_id;
	entry->replied = false;
	pthread_mutex_unlock(&entry->lock);
}

/* What is in the entry. -EPROTO: it says sizes that cannot be. */
static int find_request(const struct uring_entry *entry,
			struct uring_request *ret)
{
	const struct uring_headers *headers = entry->place.headers;
	uint32_t payload = headers->ring.payload_size;
	size_t op;

	memcpy(&ret->in, headers->in_out, sizeof(ret->in));
	ret->commit_id = headers->ring.commit_id;
	ret->op = headers->op_in;
	ret->payload = entry->place.payload;
	ret->payload_size = payload;
	if (payload > URING_PAYLOAD || ret->in.len < sizeof(ret->in) ||
	    ret->in.len - sizeof(ret->in) < payload)
		return -EPROTO;
	/* The kernel does not say its size, only all of the request's. */
	op = ret->in.len - sizeof(ret->in) - payload;
	ret->op_size = (uint32_t)op;
	return op > sizeof(headers->op_in) ? -EPROTO : 0;
}

int uring_entry_begin(struct uring_entry *entry, void *data, uint32_t published)
{
	struct uring_request request;
	char *at = data;
	int r = find_request(entry, &request);

	begin(entry, request.in.unique, request.commit_id);
	if (r < 0)
		return r;
	if (entry->place.record)
		uring_record_take(entry->place.record, &request, published);
	memcpy(at, &request.in, sizeof(request.in));
	at += sizeof(request.in);
	memcpy(at, request.op, request.op_size);
	memcpy(at + request.op_size, request.payload, request.payload_size);
	return (int)request.in.len;
}

int uring_entry_again(struct uring_entry *entry, void *data)
{
	const struct uring_record *record = entry->place.record;
	struct fuse_in_header *in = data;

	uring_record_restore(record, entry->place.payload, data);
	in->unique |= ONCE_RESENT;
	begin(entry, in->unique, record->commit_id);
	return (int)in->len;
}

/* With the lock. */
static void put_reply(struct uring_entry *entry, int error, size_t payload)
{
	const struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + payload),
		.error = error,
		/* The kernel did not send it again. */
		.unique = entry->unique & ~ONCE_RESENT,
	};

	memcpy(entry->place.headers->in_out, &out, sizeof(out));
	entry->place.headers->ring.payload_size = (uint32_t)payload;
	entry->replied = true;
	pthread_cond_signal(&entry->answered);
}

/* What is not saved is not overwritten: uring_record.h. */
static size_t reply_max(const struct uring_entry *entry)
{
	const struct uring_record *record = entry->place.record;

	return record && record->payload_size > URING_SAVED ? URING_SAVED
							    : URING_PAYLOAD;
}

/* That of its payload which is there. */
static struct iovec part_of(const struct iovec *iov, int i)
{
	const size_t head = i ? 0 : sizeof(struct fuse_out_header);

	return (struct iovec){(char *)iov[i].iov_base + head,
			      iov[i].iov_len - head};
}

static int reply(struct uring_entry *entry, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	size_t used = 0, most = reply_max(entry);
	struct iovec part;
	int i;

	for (i = 0; i < count; i++) {
		part = part_of(iov, i);
		if (part.iov_len > most - used) {
			put_reply(entry, -EIO, 0);
			return -EINVAL;
		}
		if (part.iov_len)
			memcpy(entry->place.payload + used, part.iov_base,
			       part.iov_len);
		used += part.iov_len;
	}
	put_reply(entry, out->error, used);
	return (int)(sizeof(*out) + used);
}

static int try_reply(struct uring_entry *entry, const struct iovec *iov,
		     int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	int r = -ENOENT;

	pthread_mutex_lock(&entry->lock);
	if (entry->unique == out->unique && !entry->replied)
		r = reply(entry, iov, count);
	pthread_mutex_unlock(&entry->lock);
	return r;
}

int uring_entries_reply(struct uring_entries *entries,
			struct uring_entry *first, const struct iovec *iov,
			int count)
{
	int r = first ? try_reply(first, iov, count) : -ENOENT;
	unsigned i, all = entry_count(entries);
	struct uring_entry *entry;

	for (i = 0; i < all && r == -ENOENT; i++) {
		entry = atomic_load(&entries->items[i]);
		if (entry && entry != first)
			r = try_reply(entry, iov, count);
	}
	return r;
}

bool uring_entry_wait(struct uring_entry *entry, const void *owner)
{
	bool mine;

	pthread_mutex_lock(&entry->lock);
	while (entry->owner == owner && !entry->replied)
		pthread_cond_wait(&entry->answered, &entry->lock);
	mine = entry->owner == owner;
	pthread_mutex_unlock(&entry->lock);
	return mine;
}

uint64_t uring_entry_end(struct uring_entry *entry, const void *owner)
{
	uint64_t commit_id = 0;

	pthread_mutex_lock(&entry->lock);
	if (entry->owner == owner && entry->replied) {
		commit_id = entry->commit_id;
		entry->unique = 0;
		entry->replied = false;
	}
	pthread_mutex_unlock(&entry->lock);
	return commit_id;
}

static bool has(struct uring_entry *entry, uint64_t unique)
{
	bool found;

	pthread_mutex_lock(&entry->lock);
	found = entry->unique == unique;
	pthread_mutex_unlock(&entry->lock);
	return found;
}

const struct uring_entry *uring_entries_find(struct uring_entries *entries,
					     uint64_t unique)
{
	unsigned i, count = entry_count(entries);
	struct uring_entry *entry;

	for (i = 0; i < count; i++) {
		entry = atomic_load(&entries->items[i]);
		if (entry && has(entry, unique))
			return entry;
	}
	return NULL;
}

static bool take(struct uring_entry *entry, uint64_t unique, int error,
		 const void *owner)
{
	bool found;

	pthread_mutex_lock(&entry->lock);
	found = entry->unique == unique;
	if (found) {
		entry->owner = owner;
		if (!entry->replied)
			put_reply(entry, error, 0);
		pthread_cond_signal(&entry->answered);
	}
	pthread_mutex_unlock(&entry->lock);
	return found;
}

struct uring_entry *uring_entries_take(struct uring_entries *entries,
				       uint64_t unique, int error,
				       const void *owner)
{
	unsigned i, count = entry_count(entries);
	struct uring_entry *entry;

	for (i = 0; i < count; i++) {
		entry = atomic_load(&entries->items[i]);
		if (entry && take(entry, unique, error, owner))
			return entry;
	}
	return NULL;
}
