/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/reply_cache_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

uint64_t reply_cache_kit_forgotten[REPLY_CACHE_NODES_MAX],
	reply_cache_kit_dropped;
unsigned reply_cache_kit_forgotten_count;

static void forget(void *context, uint64_t node)
{
	(void)context;
	assert_true(reply_cache_kit_forgotten_count < REPLY_CACHE_NODES_MAX);
	reply_cache_kit_forgotten[reply_cache_kit_forgotten_count++] = node;
}

static void drop(void *context, uint64_t file)
{
	(void)context;
	reply_cache_kit_dropped = file;
}

const struct reply_cache_server reply_cache_kit_server = {.forget = forget,
							  .drop = drop};

void *reply_cache_kit_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

struct reply_cache *reply_cache_kit_open(void *memory, size_t size)
{
	struct reply_cache *once;

	reply_cache_kit_forgotten_count = 0;
	reply_cache_kit_dropped = 0;
	assert_int_equal(
		reply_cache_open(memory, size, &reply_cache_kit_server, &once),
		0);
	return once;
}

struct request reply_cache_kit_request(uint64_t unique, uint32_t opcode)
{
	return (struct request){.unique = unique, .opcode = opcode};
}

struct handle reply_cache_kit_handle(uint8_t byte)
{
	struct handle handle = {.length = 12, .type = 3};

	memset(handle.data, byte, 12);
	return handle;
}

struct reply_cache_kit_reply reply_cache_kit_reply(uint64_t unique)
{
	struct reply_cache_kit_reply reply = {
		.header = {.len = sizeof(reply), .unique = unique}};

	memset(&reply.entry, 0x5a, sizeof(reply.entry));
	return reply;
}

/* Do as a reply_cache_kit_server; it may be killed in it. */
bool reply_cache_kit_reply_kept(struct request *request, uint64_t unique)
{
	struct reply_cache_kit_reply reply = reply_cache_kit_reply(unique);
	const struct iovec iov[] = {{&reply.header, sizeof(reply.header)},
				    {&reply.entry, sizeof(reply.entry)}};

	return reply_cache_reply(request, iov, 2);
}
