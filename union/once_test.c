/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of requests that are done once, whenever who writes it is killed:
 * after each instruction of one request, and at any moment of many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/once.h"
#include "union/once_slots.h"

#include <cmocka.h>

#define SLOTS       8
#define MEMORY_SIZE ((SLOTS + 1) * ONCE_SLOT_SIZE)

static uint64_t forgotten[ONCE_NODES_MAX], dropped;
static unsigned forgotten_count;

static void forget(void *context, uint64_t node)
{
	(void)context;
	assert_true(forgotten_count < ONCE_NODES_MAX);
	forgotten[forgotten_count++] = node;
}

static void drop(void *context, uint64_t file)
{
	(void)context;
	dropped = file;
}

static const struct once_server server = {.forget = forget, .drop = drop};

static void *memory_new(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	return memory;
}

static struct once *open_again(void *memory, size_t size)
{
	struct once *once;

	forgotten_count = 0;
	dropped = 0;
	assert_int_equal(once_open(memory, size, &server, &once), 0);
	return once;
}

static struct request_note request(uint64_t unique, uint32_t opcode)
{
	return (struct request_note){.unique = unique, .opcode = opcode};
}

static struct handle some_handle(uint8_t byte)
{
	struct handle handle = {.length = 12, .type = 3};

	memset(handle.data, byte, 12);
	return handle;
}

/* A reply as long as that to a lookup. */
struct reply {
	struct fuse_out_header header;
	struct fuse_entry_out entry;
};

static struct reply some_reply(uint64_t unique)
{
	struct reply reply = {
		.header = {.len = sizeof(reply), .unique = unique}};

	memset(&reply.entry, 0x5a, sizeof(reply.entry));
	return reply;
}

/* What a server does; it may be killed in it. */
static bool reply_kept(uint64_t unique)
{
	struct reply reply = some_reply(unique);
	const struct iovec iov[] = {{&reply.header, sizeof(reply.header)},
				    {&reply.entry, sizeof(reply.entry)}};

	return once_reply(iov, 2);
}

static void a_request_that_is_over_is_not_known(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct once *once = open_again(memory, MEMORY_SIZE);
	struct request_note note = request(2, FUSE_MKDIR);
	struct once_noted noted;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	assert_false(once_noted(&noted));
	assert_true(once_wants_note());
	once_note(ONCE_ABSENT);
	assert_false(once_wants_note());
	assert_false(once_noted(&noted)); /* it is the first time */
	assert_true(reply_kept(2));
	once_end();
	once_free(once);
	once = open_again(memory, MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_true(once_begin(once, &note, -1));
	assert_false(once_noted(&noted));
	once_end();
	once_free(once);
	(void)munmap(memory, MEMORY_SIZE);
}

static void what_was_noted_is_found_and_counts_are_given_back(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct once *once = open_again(memory, MEMORY_SIZE);
	struct request_note note = request(4, FUSE_CREATE);
	const struct handle handle = some_handle(7);
	struct once_noted noted;
	int i;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	once_note_file(3, &handle);
	once_note(ONCE_ABSENT); /* the first counts */
	once_gains_node(11);
	once_gains_node(12);
	once_gains_file(13);
	once_free(once);
	note.unique |= ONCE_RESENT;
	for (i = 0; i < 2; i++) { /* and the next is killed, too */
		once = open_again(memory, MEMORY_SIZE);
		assert_int_equal(once_missing(once), 1);
		assert_true(once_is_waiting(once));
		assert_true(once_begin(once, &note, -1));
		assert_false(once_is_waiting(once));
		assert_int_equal(once_missing(once), 0);
		assert_int_equal(forgotten_count, i ? 0 : 2);
		assert_int_equal(dropped, i ? 0 : 13);
		assert_true(once_noted(&noted));
		assert_int_equal(noted.note, ONCE_PRESENT);
		assert_int_equal(noted.branch, 3);
		assert_true(handle_equal(&noted.handle, &handle));
		once_free(once);
	}
	once_end();
	(void)munmap(memory, MEMORY_SIZE);
}

static void a_known_reply_is_sent_with_the_new_number(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct once *once = open_again(memory, MEMORY_SIZE);
	struct request_note note = request(6, FUSE_LOOKUP);
	struct reply want = some_reply(6 | ONCE_RESENT), got;
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_true(once_begin(once, &note, -1));
	once_gains_node(9);
	assert_false(reply_kept(8)); /* of another */
	assert_true(reply_kept(6));
	once_free(once);
	once = open_again(memory, MEMORY_SIZE);
	assert_int_equal(once_missing(once), 0);
	note.unique |= ONCE_RESENT;
	assert_false(once_begin(once, &note, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), sizeof(got));
	assert_memory_equal(&got, &want, sizeof(got));
	assert_int_equal(forgotten_count, 0);
	/* Once: it is not known any more. */
	assert_true(once_begin(once, &note, ends[1]));
	assert_int_equal(read(ends[0], &got, sizeof(got)), -1);
	once_end();
	once_free(once);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)munmap(memory, MEMORY_SIZE);
}

static void a_known_reply_that_nobody_wants_counts_nothing(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct once *once = open_again(memory, MEMORY_SIZE);
	struct request_note note = request(6, FUSE_LOOKUP);

	(void)state;
	assert_true(once_begin(once, &note, -1));
	once_gains_node(9);
	assert_true(reply_kept(6));
	once_free(once);
	once = open_again(memory, MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_false(once_begin(once, &note, -1)); /* EBADF */
	assert_int_equal(forgotten_count, 1);
	assert_int_equal(forgotten[0], 9);
	once_free(once);
	(void)munmap(memory, MEMORY_SIZE);
}

/* Longer than is kept: readdirplus. */
static void a_reply_that_was_not_kept_is_made_again(void **state)
{
	static char list[ONCE_REPLY_MAX];
	void *memory = memory_new(MEMORY_SIZE);
	struct once *once = open_again(memory, MEMORY_SIZE);
	struct request_note note = request(6, FUSE_READDIRPLUS);
	struct fuse_out_header header = {.unique = 6};
	const struct iovec iov[] = {{&header, sizeof(header)},
				    {list, sizeof(list)}};
	uint64_t node;

	(void)state;
	assert_true(once_begin(once, &note, -1));
	for (node = 1; node <= ONCE_NODES_MAX + 5; node++)
		once_gains_node(node);
	assert_true(once_reply(iov, 2));
	once_free(once);
	once = open_again(memory, MEMORY_SIZE);
	note.unique |= ONCE_RESENT;
	assert_true(once_begin(once, &note, -1));
	assert_int_equal(forgotten_count, ONCE_NODES_MAX);
	once_end();
	once_free(once);
	(void)munmap(memory, MEMORY_SIZE);
}

static void slots_of_requests_that_never_come_are_used_again(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct request_note note;
	struct once *once;
	uint64_t i;

	(void)state;
	for (i = 1; i <= 3 * SLOTS; i++) {
		once = open_again(memory, MEMORY_SIZE);
		note = request(2 * i, FUSE_RMDIR);
		assert_true(once_begin(once, &note, -1));
		assert_int_equal(once_missing(once),
				 i <= SLOTS ? i - 1 : SLOTS - 1);
		once_free(once);
	}
	/* The oldest went. */
	once = open_again(memory, MEMORY_SIZE);
	note = request(2 * (2 * SLOTS + 1) | ONCE_RESENT, FUSE_RMDIR);
	assert_true(once_begin(once, &note, -1));
	assert_int_equal(once_missing(once), SLOTS - 1);
	once_end();
	once_free(once);
	(void)munmap(memory, MEMORY_SIZE);
}

/* The one request whose every instruction is looked after. */
static void whole_request(struct once *once)
{
	const struct request_note note = request(10, FUSE_CREATE);
	const struct handle handle = some_handle(7);

	(void)once_begin(once, &note, -1);
	once_note_file(1, &handle);
	once_gains_node(11);
	once_gains_file(12);
	(void)reply_kept(10);
	once_end();
}

/* How far the request is, as the memory says; it may only go on. */
enum stage { NOTHING, BEGUN, NOTED, COUNTED, OPENED, ANSWERED };

static enum stage stage_of(const struct once_noted *noted)
{
	const struct handle handle = some_handle(7);

	if (!noted)
		return BEGUN;
	assert_int_equal(noted->note, ONCE_PRESENT);
	assert_int_equal(noted->branch, 1);
	assert_true(handle_equal(&noted->handle, &handle));
	if (!forgotten_count)
		return NOTED;
	assert_int_equal(forgotten_count, 1);
	assert_int_equal(forgotten[0], 11);
	if (!dropped)
		return COUNTED;
	assert_int_equal(dropped, 12);
	return OPENED;
}

static enum stage look(const void *memory, int fd, int reader)
{
	static _Alignas(8) uint8_t copy[MEMORY_SIZE];
	const struct request_note note = request(10 | ONCE_RESENT, FUSE_CREATE);
	struct reply want = some_reply(10 | ONCE_RESENT), got;
	enum stage stage = ANSWERED;
	struct once_noted noted;
	struct once *once;
	bool known;

	memcpy(copy, memory, sizeof(copy));
	once = open_again(copy, sizeof(copy));
	known = once_missing(once);
	if (once_begin(once, &note, fd)) {
		stage = once_noted(&noted) ? stage_of(&noted) : stage_of(NULL);
		if (!known)
			stage = NOTHING;
		once_end();
	} else {
		assert_int_equal(read(reader, &got, sizeof(got)), sizeof(got));
		assert_memory_equal(&got, &want, sizeof(got));
	}
	once_free(once);
	return stage;
}

static void every_instruction_leaves_the_truth(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	unsigned seen[ANSWERED + 1] = {0};
	enum stage stage = NOTHING, now;
	struct once *once = open_again(memory, MEMORY_SIZE);
	int ends[2], status = 0;
	unsigned steps = 0;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	pid = fork();
	if (!pid) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
			_exit(2);
		(void)raise(SIGSTOP);
		whole_request(once);
		_exit(0);
	}
	assert_true(pid > 0);
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		now = look(memory, ends[1], ends[0]);
		/* On and on, and when it was written it is over. */
		assert_true(now >= stage ||
			    (stage == ANSWERED && now == NOTHING));
		stage = now;
		seen[now]++;
		steps++;
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
	}
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 2)
		skip(); /* it may not be traced here */
	assert_int_equal(stage, NOTHING);
	for (now = NOTHING; now <= ANSWERED; now++)
		assert_true(seen[now] > 0);
	assert_true(steps > 100);
	once_free(once);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)munmap(memory, MEMORY_SIZE);
}

#define THREADS 4
#define KILLS   40

/* What each thread was at, as it says itself. */
struct diary {
	_Atomic uint64_t unique;
	_Atomic uint32_t stage; /* enum stage; of that request */
};

struct victim {
	struct once *once;
	struct diary *diaries;
	atomic_uint threads;
	uint64_t first;
};

static void *serve_for_ever(void *context)
{
	struct victim *victim = context;
	unsigned index = atomic_fetch_add(&victim->threads, 1);
	struct diary *diary = &victim->diaries[index];
	uint64_t unique = victim->first + 2 * index;

	for (;; unique += 2 * (uint64_t)THREADS) {
		const struct request_note note = request(unique, FUSE_MKDIR);

		atomic_store(&diary->stage, NOTHING);
		atomic_store(&diary->unique, unique);
		(void)once_begin(victim->once, &note, -1);
		atomic_store(&diary->stage, BEGUN);
		once_note(ONCE_ABSENT);
		atomic_store(&diary->stage, NOTED);
		(void)reply_kept(unique);
		atomic_store(&diary->stage, ANSWERED);
		once_end();
	}
	return NULL;
}

static void serve_and_die(void *memory, struct diary *diaries, uint64_t first)
{
	struct victim victim = {.diaries = diaries, .first = first};
	pthread_t threads[THREADS];
	int i;

	if (once_open(memory, MEMORY_SIZE, &server, &victim.once) < 0)
		_exit(1);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve_for_ever, &victim))
			_exit(1);
	(void)pthread_join(threads[0], NULL);
}

/* The slot of @diary's request is at its stage, or one step further. */
static void check_diary(struct once_slots *slots, const struct diary *diary)
{
	uint32_t stage = atomic_load(&diary->stage);
	struct once_slot *slot;

	if (!atomic_load(&diary->unique))
		return; /* it never ran */
	slot = once_slots_find(slots, atomic_load(&diary->unique));
	if (!slot) {
		/* While the next one begins, this is not its number yet. */
		assert_true(stage == NOTHING || stage == ANSWERED);
		return;
	}
	assert_int_equal(slot->opcode, FUSE_MKDIR);
	if (stage >= NOTED)
		assert_int_equal(atomic_load(&slot->note), ONCE_ABSENT);
	if (stage == ANSWERED)
		assert_int_equal(slot->state, ONCE_ANSWERED);
	if (stage < NOTED)
		assert_int_equal(slot->state, ONCE_BEGUN);
	once_slot_free(slot);
}

static void many_requests_at_once_leave_the_truth(void **state)
{
	void *memory = memory_new(MEMORY_SIZE);
	struct diary *diaries = memory_new(4096);
	struct once_slots slots;
	uint64_t first = 2, last;
	int i, j, status;
	pid_t pid;

	(void)state;
	for (i = 0; i < KILLS; i++) {
		memset(diaries, 0, 4096);
		pid = fork();
		if (!pid) {
			serve_and_die(memory, diaries, first);
			_exit(1);
		}
		assert_true(pid > 0);
		last = first + (uint64_t)rand() % 2000;
		while (atomic_load(&diaries[0].unique) < last &&
		       waitpid(pid, &status, WNOHANG) == 0)
			;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(once_slots_open(memory, MEMORY_SIZE, &slots),
				 0);
		for (j = 0; j < THREADS; j++) {
			check_diary(&slots, &diaries[j]);
			if (atomic_load(&diaries[j].unique) > first)
				first = atomic_load(&diaries[j].unique);
		}
		/* Nothing else is left. */
		for (j = 0; j < SLOTS; j++)
			assert_false(atomic_load(&slots.slots[j].state) &
				     ONCE_DEAD);
		first += 2 * (uint64_t)THREADS;
	}
	(void)munmap(diaries, 4096);
	(void)munmap(memory, MEMORY_SIZE);
}

static void takes_what_it_can_of_damaged_memory(void **state)
{
	uint8_t *memory = memory_new(MEMORY_SIZE);
	struct once_slots slots;
	struct once_slot *slot;
	unsigned i, hint = 0;

	(void)state;
	assert_int_equal(once_slots_open(memory, ONCE_SLOT_SIZE, &slots),
			 -EINVAL);
	assert_int_equal(once_slots_open(memory, MEMORY_SIZE, &slots), 0);
	for (i = 0; i < 4; i++) {
		slot = once_slots_claim(&slots, &hint);
		once_slot_begin(slot, 2 * i, FUSE_MKDIR);
	}
	slots.slots[0].note = ONCE_PRESENT;
	slots.slots[0].handle.length = HANDLE_MAX + 1;
	slots.slots[1].node_count = ONCE_NODES_MAX + 1;
	slots.slots[2].state = 77;
	atomic_store(&slots.head->used, 1u << 31);
	assert_int_equal(once_slots_open(memory, MEMORY_SIZE, &slots), 0);
	assert_int_equal(once_slots_missing(&slots), 1);
	assert_non_null(once_slots_find(&slots, 6));
	/* Of another layout: nothing of it is believed. */
	memset(memory, 0x11, MEMORY_SIZE);
	assert_int_equal(once_slots_open(memory, MEMORY_SIZE, &slots), 0);
	assert_int_equal(once_slots_missing(&slots), 0);
	for (i = 0; i < SLOTS; i++)
		assert_non_null(once_slots_claim(&slots, &hint));
	assert_null(once_slots_claim(&slots, &hint));
	(void)munmap(memory, MEMORY_SIZE);
}

static void without_it_nothing_is_known(void **state)
{
	const struct request_note note = request(2 | ONCE_RESENT, FUSE_MKDIR);
	struct once_noted noted;

	(void)state;
	assert_true(once_begin(NULL, &note, -1));
	assert_false(once_wants_note());
	once_note(ONCE_ABSENT);
	once_gains_node(1);
	once_gains_file(1);
	once_gains_nothing();
	assert_false(once_noted(&noted));
	assert_false(reply_kept(2 | ONCE_RESENT));
	once_end();
	assert_int_equal(once_missing(NULL), 0);
	once_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_that_is_over_is_not_known),
		cmocka_unit_test(
			what_was_noted_is_found_and_counts_are_given_back),
		cmocka_unit_test(a_known_reply_is_sent_with_the_new_number),
		cmocka_unit_test(
			a_known_reply_that_nobody_wants_counts_nothing),
		cmocka_unit_test(a_reply_that_was_not_kept_is_made_again),
		cmocka_unit_test(
			slots_of_requests_that_never_come_are_used_again),
		cmocka_unit_test(every_instruction_leaves_the_truth),
		cmocka_unit_test(many_requests_at_once_leave_the_truth),
		cmocka_unit_test(takes_what_it_can_of_damaged_memory),
		cmocka_unit_test(without_it_nothing_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
