/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/state.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/wire/crc32c.h"
#include "union/state/fd_store.h"
#include "union/state/node_record.h"
#include "union/state/open_table.h"
#include "union/state/reply_cache.h"
#include "union/state/reply_cache_slots.h"

#define MAGIC "tribunst"

/* Where each part begins; bytes. */
#define HEADER_SIZE    (64u << 10)
#define REPLY_CACHE_AT ((uint64_t)HEADER_SIZE)
#define BRANCHES_AT    (REPLY_CACHE_AT + REPLY_CACHE_SIZE)
#define THREADS_AT     (UINT64_C(512) << 20)
#define SLOTS_AT       (UINT64_C(768) << 20) /* of quiet changes */
#define OPENS_AT       (UINT64_C(1) << 30)
#define NODES_AT       (UINT64_C(2) << 30)
#define COPIES_AT      (NODES_AT + STATE_NODE_MAX * sizeof(struct node))
#define QUIET_AT       (COPIES_AT + STATE_COPY_MAX * sizeof(struct copy))
#define SHOWN_AT       (QUIET_AT + STATE_COPY_MAX * sizeof(struct quiet_change))
#define STATE_SIZE     (SHOWN_AT + STATE_NODE_MAX * sizeof(uint64_t))

static_assert(sizeof(struct state_header) <= HEADER_SIZE, "it fits its place");
static_assert(BRANCHES_AT + BRANCH_MAX * sizeof(struct state_branch) <=
		      THREADS_AT,
	      "it fits its place");
static_assert(THREADS_AT + STATE_THREAD_MAX * sizeof(struct state_thread) <=
		      SLOTS_AT,
	      "it fits its place");
static_assert(SLOTS_AT + STATE_QUIET_MAX * sizeof(struct quiet_slot) <=
		      OPENS_AT,
	      "it fits its place");
static_assert(OPENS_AT + STATE_OPEN_MAX * sizeof(struct state_open) <= NODES_AT,
	      "it fits its place");
static_assert((QUIET_AT - NODES_AT) / RECORD_UNIT <= UINT32_MAX,
	      "how far a copy is from its node fits");
static_assert(NODES_AT % RECORD_UNIT == 0 && COPIES_AT % RECORD_UNIT == 0,
	      "it can be counted");
static_assert(BRANCH_MAX - 1 <= UINT8_MAX, "a copy can name each branch");

uint32_t state_layout(void)
{
	const uint64_t parts[] = {
		STATE_VERSION,
		FD_STORE_VERSION,
		STATE_SIZE,
		COPIES_AT,
		QUIET_AT,
		SHOWN_AT,
		REPLY_CACHE_SIZE,
		BRANCH_MAX,
		HANDLE_MAX,
		OPEN_PLACE_BITS,
		POLICY_FUNCTIONS,
		sizeof(struct state_header),
		sizeof(struct state_branch),
		sizeof(struct state_thread),
		sizeof(struct state_open),
		sizeof(struct node),
		sizeof(struct copy),
		sizeof(struct quiet_change),
		sizeof(struct quiet_slot),
		sizeof(struct reply_cache_slot),
		offsetof(struct state_header, init),
		offsetof(struct state_header, policies_change),
		offsetof(struct state_branch, identity),
		offsetof(struct state_branch, doubted),
		offsetof(struct state_open, flags),
		offsetof(struct node, of),
		offsetof(struct copy, handle),
		offsetof(struct reply_cache_slot, reply),
	};

	return crc32c(0, parts, sizeof(parts)) | 1;
}

static int map(struct state *state)
{
	/* Not backed by memory until it is written to. */
	uint8_t *at = mmap(NULL, STATE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE, state->fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	/* Core dumps leave the memory out. */
	(void)madvise(at, STATE_SIZE, MADV_DONTDUMP);
	state->header = (void *)at;
	state->once = at + REPLY_CACHE_AT;
	state->branches = (void *)(at + BRANCHES_AT);
	state->threads = (void *)(at + THREADS_AT);
	state->quiet_slots = (void *)(at + SLOTS_AT);
	state->opens = (void *)(at + OPENS_AT);
	state->nodes = (void *)(at + NODES_AT);
	state->copies = (void *)(at + COPIES_AT);
	state->quiet = (void *)(at + QUIET_AT);
	state->shown = (void *)(at + SHOWN_AT);
	return 0;
}

int state_create(struct state *ret)
{
	struct state state = {.fd = file_memfd("trib-union")};
	int r;

	if (state.fd < 0)
		return -errno;
	r = ftruncate(state.fd, (off_t)STATE_SIZE) < 0 ? -errno : map(&state);
	if (r < 0 || !state.header) {
		fd_close(state.fd);
		return r;
	}
	memcpy(state.header->magic, MAGIC, sizeof(state.header->magic));
	state.header->layout = state_layout();
	state.header->nodes_used = 1;
	state.header->opens_used = 1;
	state.header->next_token = FD_STORE_FIRST;
	*ret = state;
	return 0;
}

int state_open(struct state *ret, int fd, struct error *err)
{
	struct state state = {.fd = fd};
	struct stat st;
	int r = 0;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != STATE_SIZE)
		r = -EPROTO;
	if (r == 0)
		r = map(&state);
	if (state.header && (memcmp(state.header->magic, MAGIC,
				    sizeof(state.header->magic)) != 0 ||
			     state.header->layout != state_layout())) {
		state_done(&state);
		return error_set(err, EPROTO,
				 "this program keeps other records than the "
				 "one that was killed");
	}
	if (r < 0) {
		fd_close(fd);
		return error_set(err, -r, "the memory of the one before: %s",
				 strerror(-r));
	}
	*ret = state;
	return 0;
}

/* Map the pages at once. Before Linux 5.14 each is mapped when touched. */
static void expect(void *at, uint64_t bytes)
{
	(void)madvise(at, bytes, MADV_POPULATE_READ);
}

void state_expect(const struct state *state)
{
	const struct state_header *header = state->header;

	expect(state->nodes, header->nodes_used * sizeof(*state->nodes));
	expect(state->copies, header->copies_used * sizeof(*state->copies));
}

void state_done(struct state *state)
{
	if (!state->header)
		return;
	(void)munmap(state->header, STATE_SIZE); /* is mapped */
	fd_close(state->fd);
	memset(state, 0, sizeof(*state));
}

bool state_has_root(const struct state *state)
{
	return atomic_load(&state->nodes[NODE_ROOT_ID].generation);
}

uint64_t state_new_token(struct state *state)
{
	return atomic_fetch_add(&state->header->next_token, 1);
}
