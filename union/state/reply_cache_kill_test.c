/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of requests that are done once, after a kill of its writer. The
 * kill comes after each instruction of one request, and at any moment of many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "union/testkit/reply_cache_kit.h"

#include <cmocka.h>

/* The one request whose every instruction is looked after. */
static void whole_request(struct reply_cache *once)
{
	struct request request = reply_cache_kit_request(10, FUSE_CREATE);
	const struct handle handle = reply_cache_kit_handle(7);

	(void)reply_cache_begin(once, &request, -1);
	reply_cache_note_file(&request, 1, &handle);
	reply_cache_gains_node(&request, 11);
	reply_cache_gains_file(&request, 12);
	(void)reply_cache_kit_reply_kept(&request, 10);
	reply_cache_end(&request);
}

/* How far the request is, as the memory says; it may only go on. */
enum stage { NOTHING, BEGUN, NOTED, COUNTED, OPENED, ANSWERED };

static enum stage stage_of(const struct reply_cache_noted *noted)
{
	const struct handle handle = reply_cache_kit_handle(7);

	if (!noted)
		return BEGUN;
	assert_int_equal(noted->note, REPLY_CACHE_PRESENT);
	assert_int_equal(noted->branch, 1);
	assert_true(handle_equal(&noted->handle, &handle));
	if (!reply_cache_kit_forgotten_count)
		return NOTED;
	assert_int_equal(reply_cache_kit_forgotten_count, 1);
	assert_int_equal(reply_cache_kit_forgotten[0], 11);
	if (!reply_cache_kit_dropped)
		return COUNTED;
	assert_int_equal(reply_cache_kit_dropped, 12);
	return OPENED;
}

static enum stage look(const void *memory, int fd, int reader)
{
	static _Alignas(8) uint8_t copy[REPLY_CACHE_KIT_MEMORY_SIZE];
	struct request request = reply_cache_kit_request(
		10 | REPLY_CACHE_RESENT, FUSE_CREATE);
	struct reply_cache_kit_reply want = reply_cache_kit_reply(
					     10 | REPLY_CACHE_RESENT),
				     got;
	enum stage stage = ANSWERED;
	struct reply_cache_noted noted;
	struct reply_cache *once;
	bool known;

	memcpy(copy, memory, sizeof(copy));
	once = reply_cache_kit_open(copy, sizeof(copy));
	known = reply_cache_missing(once);
	if (reply_cache_begin(once, &request, fd)) {
		stage = reply_cache_noted(&request, &noted) ? stage_of(&noted)
							    : stage_of(NULL);
		if (!known)
			stage = NOTHING;
		reply_cache_end(&request);
	} else {
		assert_int_equal(read(reader, &got, sizeof(got)), sizeof(got));
		assert_memory_equal(&got, &want, sizeof(got));
	}
	reply_cache_free(once);
	return stage;
}

static void every_instruction_leaves_the_truth(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	unsigned seen[ANSWERED + 1] = {0};
	enum stage stage = NOTHING, now;
	struct reply_cache *once = reply_cache_kit_open(
		memory, REPLY_CACHE_KIT_MEMORY_SIZE);
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
	reply_cache_free(once);
	(void)close(ends[0]);
	(void)close(ends[1]);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

#define THREADS 4
#define KILLS   40

/* The work of each thread, as it notes itself. */
struct diary {
	_Atomic uint64_t unique;
	_Atomic uint32_t stage; /* enum stage; of that request */
};

struct victim {
	struct reply_cache *once;
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
		struct request request = reply_cache_kit_request(unique,
								 FUSE_MKDIR);

		atomic_store(&diary->stage, NOTHING);
		atomic_store(&diary->unique, unique);
		(void)reply_cache_begin(victim->once, &request, -1);
		atomic_store(&diary->stage, BEGUN);
		reply_cache_note(&request, REPLY_CACHE_ABSENT);
		atomic_store(&diary->stage, NOTED);
		(void)reply_cache_kit_reply_kept(&request, unique);
		atomic_store(&diary->stage, ANSWERED);
		reply_cache_end(&request);
	}
	return NULL;
}

static void serve_and_die(void *memory, struct diary *diaries, uint64_t first)
{
	struct victim victim = {.diaries = diaries, .first = first};
	pthread_t threads[THREADS];
	int i;

	if (reply_cache_open(memory, REPLY_CACHE_KIT_MEMORY_SIZE,
			     &reply_cache_kit_server, &victim.once) < 0)
		_exit(1);
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve_for_ever, &victim))
			_exit(1);
	(void)pthread_join(threads[0], NULL);
}

/* The slot of @diary's request is at its stage, or one step further. */
static void check_diary(struct reply_cache_slots *slots,
			const struct diary *diary)
{
	uint32_t stage = atomic_load(&diary->stage);
	struct reply_cache_slot *slot;

	if (!atomic_load(&diary->unique))
		return; /* it never ran */
	slot = reply_cache_slots_find(slots, atomic_load(&diary->unique));
	if (!slot) {
		/* While the next one begins, this is not its number yet. */
		assert_true(stage == NOTHING || stage == ANSWERED);
		return;
	}
	assert_int_equal(slot->opcode, FUSE_MKDIR);
	if (stage >= NOTED)
		assert_int_equal(atomic_load(&slot->note), REPLY_CACHE_ABSENT);
	if (stage == ANSWERED)
		assert_int_equal(slot->state, REPLY_CACHE_ANSWERED);
	if (stage < NOTED)
		assert_int_equal(slot->state, REPLY_CACHE_BEGUN);
	reply_cache_slot_publish(slot, REPLY_CACHE_FREE);
}

static void many_requests_at_once_leave_the_truth(void **state)
{
	void *memory = reply_cache_kit_memory(REPLY_CACHE_KIT_MEMORY_SIZE);
	struct diary *diaries = reply_cache_kit_memory(4096);
	struct reply_cache_slots slots;
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
		assert_int_equal(
			reply_cache_slots_open(
				memory, REPLY_CACHE_KIT_MEMORY_SIZE, &slots),
			0);
		for (j = 0; j < THREADS; j++) {
			check_diary(&slots, &diaries[j]);
			if (atomic_load(&diaries[j].unique) > first)
				first = atomic_load(&diaries[j].unique);
		}
		/* Nothing else is left. */
		for (j = 0; j < REPLY_CACHE_KIT_SLOTS; j++)
			assert_false(atomic_load(&slots.slots[j].state) &
				     REPLY_CACHE_DEAD);
		first += 2 * (uint64_t)THREADS;
	}
	(void)munmap(diaries, 4096);
	(void)munmap(memory, REPLY_CACHE_KIT_MEMORY_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_instruction_leaves_the_truth),
		cmocka_unit_test(many_requests_at_once_leave_the_truth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
