/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever the headers say, a request that is taken is as long as it says and
 * within what is there; one that is not can be answered all the same.
 */
#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/uring_entry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct uring_entries entries;
static struct uring_entry *entry;

static void fill(const uint8_t *data, size_t size)
{
	size_t headers = sizeof(*entry->place.headers);

	if (size > headers + URING_PAYLOAD)
		size = headers + URING_PAYLOAD;
	if (size < headers)
		headers = size;
	memset(entry->place.headers, 0, sizeof(*entry->place.headers));
	memcpy(entry->place.headers, data, headers);
	memcpy(entry->place.payload, data + headers, size - headers);
}

static void check_reply(uint64_t unique)
{
	struct fuse_out_header out = {
		.len = sizeof(out),
		.error = -EIO,
		.unique = unique,
	};
	const struct iovec iov = {&out, sizeof(out)};

	assert(uring_entries_reply(&entries, NULL, &iov, 1) == sizeof(out));
	assert(entry->place.headers->ring.payload_size == 0);
	(void)uring_entry_end(entry, &entries); /* of whatever number */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* As large as what one gives it, so that a byte too far is seen. */
	static char *request;
	struct fuse_in_header in;
	int length;

	if (!entry) {
		entry = uring_entry_new(&entries, NULL, 0, &entries);
		request = malloc(URING_REQUEST_MAX);
	}
	assert(entry && request);
	fill(data, size);
	memcpy(&in, entry->place.headers->in_out, sizeof(in));
	length = uring_entry_begin(entry, request, 0);
	assert(length == -EPROTO || (uint32_t)length == in.len);
	if (length > 0)
		assert(memcmp(request, &in, sizeof(in)) == 0);
	check_reply(in.unique);
	return 0;
}
