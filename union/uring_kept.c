/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_kept.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/crc32c.h"
#include "union/state.h"
#include "union/uring_cpus.h"
#include "union/uring_ring.h"

#define MAGIC       UINT64_C(0x3120676e697275) /* "uring 1" */
#define SPARE_SUM   256 /* entries of all queues for when others hang */
#define SPARE_MAX   16  /* of a queue */
#define SPARE_MIN   2
#define COUNT_MAX   65536
#define HEADER_SIZE 4096u
#define HEADERS_AT  6144u /* of an entry; behind its record */
#define PAYLOAD_AT  8192u
#define ENTRY_SIZE  ((size_t)PAYLOAD_AT + URING_PAYLOAD)

static_assert(sizeof(struct uring_kept_header) <= HEADER_SIZE, "it fits");
static_assert(sizeof(struct uring_record) <= HEADERS_AT, "it fits");
static_assert(HEADERS_AT + sizeof(struct uring_headers) <= PAYLOAD_AT, "");

uint32_t uring_kept_layout(void)
{
	static const uint64_t parts[] = {
		MAGIC,
		HEADERS_AT,
		PAYLOAD_AT,
		ENTRY_SIZE,
		sizeof(struct uring_kept_header),
		sizeof(struct uring_record),
		offsetof(struct uring_record, taken),
		offsetof(struct uring_record, in),
	};

	return crc32c(0, parts, sizeof(parts));
}

static char *entry_at(const struct uring_kept *kept, unsigned entry)
{
	return (char *)kept->header + HEADER_SIZE + entry * ENTRY_SIZE;
}

struct uring_place uring_kept_place(const struct uring_kept *kept,
				    unsigned entry)
{
	char *at = entry_at(kept, entry);

	return (struct uring_place){
		.record = (void *)at,
		.headers = (void *)(at + HEADERS_AT),
		.payload = at + PAYLOAD_AT,
		.number = entry,
	};
}

static size_t size_of(uint32_t count)
{
	return HEADER_SIZE + count * ENTRY_SIZE;
}

/* @at: there and nowhere else; NULL: anywhere */
static int map(struct uring_kept *kept, size_t size, void *at)
{
	int flags = MAP_SHARED | MAP_NORESERVE;
	void *got = mmap(at, size, PROT_READ | PROT_WRITE,
			 flags | (at ? MAP_FIXED_NOREPLACE : 0), kept->fd, 0);

	if (got == MAP_FAILED)
		return -errno;
	(void)madvise(got, size, MADV_DONTDUMP); /* of no use there */
	kept->header = got;
	return 0;
}

/* How many, for how many queues; and those that are used from the beginning. */
static int count_entries(unsigned threads, struct uring_kept_header *ret)
{
	int queues = uring_cpus_possible();
	unsigned spare;

	if (queues < 1)
		return queues ? queues : -EINVAL;
	spare = SPARE_SUM / (unsigned)queues;
	spare = spare > SPARE_MAX ? SPARE_MAX : spare;
	spare = spare < SPARE_MIN ? SPARE_MIN : spare;
	ret->queues = (uint32_t)queues;
	ret->first = ret->queues * uring_cpus_threads(ret->queues, threads);
	ret->count = ret->first + ret->queues * spare;
	return 0;
}

static int make_memory(struct uring_kept *kept,
		       const struct uring_kept_header *wanted)
{
	size_t size = size_of(wanted->count);
	int r;

	kept->fd = state_make_memory();
	if (kept->fd < 0)
		return -errno;
	r = ftruncate(kept->fd, (off_t)size) < 0 ? -errno
						 : map(kept, size, NULL);
	if (r < 0)
		return r;
	assert(kept->header);
	*kept->header = *wanted;
	kept->header->magic = MAGIC;
	kept->header->at = (uintptr_t)kept->header;
	return 0;
}

/* The ring whose thread this one shares; -1: it gets one. */
static int shares_with(const struct uring_kept *kept, unsigned entry)
{
	unsigned queues = kept->header->queues;
	bool leads = entry < queues || (entry >= kept->header->first &&
					entry < kept->header->first + queues);

	return leads ? -1 : kept->rings[entry - queues];
}

static int make_ring(struct uring_kept *kept, unsigned entry)
{
	struct uring_place place = uring_kept_place(kept, entry);
	int fd;

	place.record->queue = entry % kept->header->queues;
	place.record->parts[0] = (struct iovec){place.headers,
						sizeof(*place.headers)};
	place.record->parts[1] = (struct iovec){place.payload, URING_PAYLOAD};
	place.record->parts_at = (uintptr_t)place.record->parts;
	fd = uring_ring_make_kept(shares_with(kept, entry),
				  &place.record->params);
	if (fd < 0)
		return fd;
	kept->rings[entry] = fd;
	return 0;
}

static int alloc_rings(struct uring_kept *kept)
{
	uint32_t count;

	assert(kept->header); /* it is mapped */
	count = kept->header->count;
	kept->rings = calloc(count, sizeof(*kept->rings));
	if (!kept->rings)
		return -ENOMEM;
	memset(kept->rings, 0xff, count * sizeof(*kept->rings)); /* -1 */
	return 0;
}

int uring_kept_make(struct uring_kept *ret, unsigned threads, struct error *err)
{
	struct uring_kept kept = {.fd = -1};
	struct uring_kept_header wanted = {0};
	unsigned i;
	int r = count_entries(threads, &wanted);

	if (r == 0)
		r = make_memory(&kept, &wanted);
	if (r == 0)
		r = alloc_rings(&kept);
	for (i = 0; i < wanted.count && r == 0; i++)
		r = make_ring(&kept, i);
	if (r < 0) {
		uring_kept_done(&kept);
		return error_set(err, -r, "prepare io_uring: %s", strerror(-r));
	}
	*ret = kept;
	return 0;
}

static bool is_valid(const struct uring_kept_header *header, off_t size)
{
	return header->magic == MAGIC && header->queues &&
	       header->count <= COUNT_MAX && header->first <= header->count &&
	       size_of(header->count) == (size_t)size;
}

static int open_memory(struct uring_kept *kept)
{
	struct uring_kept_header header;
	struct stat st;

	if (fstat(kept->fd, &st) < 0 ||
	    pread(kept->fd, &header, sizeof(header), 0) != sizeof(header) ||
	    !is_valid(&header, st.st_size))
		return -EPROTO;
	return map(kept, (size_t)st.st_size, (void *)(uintptr_t)header.at);
}

int uring_kept_open(struct uring_kept *ret, int fd, int first)
{
	struct uring_kept kept = {.fd = fd};
	int i, r = open_memory(&kept);

	if (r == 0)
		r = alloc_rings(&kept);
	if (r < 0) {
		uring_kept_done(&kept);
		return r;
	}
	assert(kept.header);
	for (i = 0; i < (int)kept.header->count; i++) {
		kept.rings[i] = first + i;
		(void)fcntl(first + i, F_SETFD, FD_CLOEXEC); /* is open */
	}
	*ret = kept;
	return 0;
}

static void close_rings(struct uring_kept *kept)
{
	uint32_t i;

	for (i = 0; i < kept->header->count && kept->rings; i++)
		fd_close(kept->rings[i]);
	free(kept->rings);
}

void uring_kept_done(struct uring_kept *kept)
{
	if (kept->header) {
		close_rings(kept);
		(void)munmap(kept->header, size_of(kept->header->count));
	}
	if (kept->fd > 0)
		fd_close(kept->fd);
	*kept = (struct uring_kept){0};
}
