/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/once_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

uint64_t once_kit_forgotten[ONCE_NODES_MAX], once_kit_dropped;
unsigned once_kit_forgotten_count;

static void forget(void *context, uint64_t node)
{
	(void)context;
	assert_true(once_kit_forgotten_count < ONCE_NODES_MAX);
	once_kit_forgotten[once_kit_forgotten_count++] = node;
}

static void drop(void *context, uint64_t file)
{
	(void)context;
	once_kit_dropped = file;
}

const struct once_server once_kit_server = {.forget = forget, .drop = drop};

void *once_kit_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

struct once *once_kit_open(void *memory, size_t size)
{
	struct once *once;

	once_kit_forgotten_count = 0;
	once_kit_dropped = 0;
	assert_int_equal(once_open(memory, size, &once_kit_server, &once), 0);
	return once;
}

struct request_note once_kit_request(uint64_t unique, uint32_t opcode)
{
	return (struct request_note){.unique = unique, .opcode = opcode};
}

struct handle once_kit_handle(uint8_t byte)
{
	struct handle handle = {.length = 12, .type = 3};

	memset(handle.data, byte, 12);
	return handle;
}

struct once_kit_reply once_kit_reply(uint64_t unique)
{
	struct once_kit_reply reply = {
		.header = {.len = sizeof(reply), .unique = unique}};

	memset(&reply.entry, 0x5a, sizeof(reply.entry));
	return reply;
}

/* What a once_kit_server does; it may be killed in it. */
bool once_kit_reply_kept(uint64_t unique)
{
	struct once_kit_reply reply = once_kit_reply(unique);
	const struct iovec iov[] = {{&reply.header, sizeof(reply.header)},
				    {&reply.entry, sizeof(reply.entry)}};

	return once_reply(iov, 2);
}
