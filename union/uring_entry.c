/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_entry.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAPPED (URING_PAYLOAD + 4096) /* the headers have the last page */

static_assert(sizeof(struct uring_headers) <= MAPPED - URING_PAYLOAD, "");

struct uring_entry *uring_entry_new(struct uring_entries *entries,
				    unsigned queue, const void *owner)
{
	struct uring_entry *entry = calloc(1, sizeof(*entry));
	/* What no request needed is never touched. */
	void *mapped = entry ? mmap(NULL, MAPPED, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
			     : MAP_FAILED;
	unsigned i = mapped != MAP_FAILED ? atomic_fetch_add(&entries->count, 1)
					  : URING_ENTRIES_MAX;

	if (i >= URING_ENTRIES_MAX) {
		if (mapped != MAP_FAILED) {
			atomic_fetch_sub(&entries->count, 1);
			(void)munmap(mapped, MAPPED); /* is ours */
		}
		free(entry);
		return NULL;
	}
	entry->payload = mapped;
	entry->headers = (void *)((char *)mapped + URING_PAYLOAD);
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
		(void)munmap(entry->payload, MAPPED); /* is ours */
		free(entry);
	}
}

int uring_entry_begin(struct uring_entry *entry, void *data)
{
	const struct uring_headers *headers = entry->headers;
	uint32_t payload = headers->ring.payload_size;
	struct fuse_in_header in;
	char *at = data;
	size_t op;

	memcpy(&in, headers->in_out, sizeof(in));
	pthread_mutex_lock(&entry->lock);
	entry->unique = in.unique;
	entry->commit_id = headers->ring.commit_id;
	entry->replied = false;
	pthread_mutex_unlock(&entry->lock);
	if (payload > URING_PAYLOAD || in.len < sizeof(in) ||
	    in.len - sizeof(in) < payload)
		return -EPROTO;
	/* The kernel does not say its size, only all of the request's. */
	op = in.len - sizeof(in) - payload;
	if (op > sizeof(headers->op_in))
		return -EPROTO;
	memcpy(at, &in, sizeof(in));
	memcpy(at + sizeof(in), headers->op_in, op);
	memcpy(at + sizeof(in) + op, entry->payload, payload);
	return (int)in.len;
}

/* With the lock. */
static void put_reply(struct uring_entry *entry, int error, size_t payload)
{
	const struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + payload),
		.error = error,
		.unique = entry->unique,
	};

	memcpy(entry->headers->in_out, &out, sizeof(out));
	entry->headers->ring.payload_size = (uint32_t)payload;
	entry->replied = true;
	pthread_cond_signal(&entry->answered);
}

static int reply(struct uring_entry *entry, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	size_t used = 0;
	int i;

	for (i = 1; i < count; i++) {
		if (iov[i].iov_len > URING_PAYLOAD - used) {
			put_reply(entry, -EIO, 0);
			return -EINVAL;
		}
		if (iov[i].iov_len)
			memcpy(entry->payload + used, iov[i].iov_base,
			       iov[i].iov_len);
		used += iov[i].iov_len;
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

int uring_entries_find(struct uring_entries *entries, uint64_t unique)
{
	unsigned i, count = entry_count(entries);
	struct uring_entry *entry;
	int queue = -ENOENT;

	for (i = 0; i < count && queue < 0; i++) {
		entry = atomic_load(&entries->items[i]);
		if (!entry)
			continue;
		pthread_mutex_lock(&entry->lock);
		if (entry->unique == unique)
			queue = (int)entry->queue;
		pthread_mutex_unlock(&entry->lock);
	}
	return queue;
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
