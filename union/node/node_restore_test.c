/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/node/node_restore.h"
#include "union/state/state.h"

#include <cmocka.h>

#define FILES    40  /* inodes that come and go */
#define BRANCHES 3   /* of directories: those with odd numbers */
#define STEPS    600 /* the most of one round */

static struct state state;
static struct node_table table;

static int setup(void **unused)
{
	unsigned i;

	(void)unused;
	assert_int_equal(state_create(&state), 0);
	for (i = 0; i < BRANCHES; i++)
		state.branches[i].used = STATE_BRANCH_USED;
	return node_table_init(&table, 100, &state);
}

static int done(void **unused)
{
	(void)unused;
	node_table_done(&table);
	state_done(&state);
	return 0;
}

static struct handle handle_of(unsigned branch, unsigned file)
{
	struct handle handle = {.length = 8, .type = 1};
	uint32_t words[2] = {branch, file};

	memcpy(handle.data, words, sizeof(words));
	return handle;
}

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static void look_up(struct node_table *t, unsigned file, unsigned branches)
{
	struct node_found found[BRANCHES];
	struct node *node;
	unsigned i, n = 0;
	bool dir = file % 2;

	for (i = 0; i < (dir ? BRANCHES : 1); i++) {
		if (dir && !(branches >> i & 1))
			continue;
		found[n].branch = i;
		found[n++].handle = handle_of(i, file);
	}
	if (n)
		assert_int_equal(node_intern(t, dir ? S_IFDIR : S_IFREG,
					     1000 + file, found, n, &node),
				 0);
}

static void forget(struct node_table *t, unsigned file, uint64_t count)
{
	struct handle handle = handle_of(0, file);
	struct node *node = node_hold(t, 0, &handle);

	if (!node)
		return;
	node_forget(t, node->id, count);
	node_let_go(t, node);
}

static void use(struct node_table *t, unsigned file, uint32_t random)
{
	struct handle handle = handle_of(0, file);
	struct node *node = node_hold(t, 0, &handle);

	if (!node)
		return;
	node_lock(t, node);
	if (!S_ISDIR(node->type))
		node_file(node)->backing_id = (int32_t)(random & 0xff);
	node_unlock(t, node);
	node_let_go(t, node);
}

/* The same @seed gives the same numbers. */
static void step(struct node_table *t, uint32_t *seed)
{
	uint32_t random = next(seed);
	unsigned file = next(seed) % FILES, branch = next(seed) % BRANCHES;
	struct handle handle = handle_of(branch, file);

	switch (random % 5) {
	case 0:
	case 1: look_up(t, file, next(seed) % 8 | 1); break;
	case 2: forget(t, file, random % 7); break;
	case 3: use(t, file, random); break;
	default:
		if (file % 2 && branch)
			node_copy_gone(t, branch, &handle, NULL);
	}
}

static void make_root(struct node_table *t)
{
	struct node_found found = {0, handle_of(0, FILES)};
	struct node *root;

	assert_int_equal(node_intern(t, S_IFDIR, 1, &found, 1, &root), 0);
	assert_int_equal(root->id, NODE_ROOT_ID);
}

static unsigned count_there(const struct node *node)
{
	const struct copy *copy;
	unsigned n = 0;

	for (copy = node_first(node); copy; copy = copy_next(copy))
		n++;
	return n;
}

static bool same_copies(const struct node *a, const struct node *b)
{
	const struct copy *copy, *other;
	struct handle handle;

	for (copy = node_first(a); copy; copy = copy_next(copy)) {
		other = node_copy_on(b, copy->branch);
		handle = copy_handle(copy);
		if (!other || !copy_has(other, &handle))
			return false;
	}
	return count_there(a) == count_there(b);
}

static int32_t backing_of(const struct node *node)
{
	return S_ISDIR(node->type) ? 0 : node->of.file.backing_id;
}

static bool same(struct node_table *a, struct node_table *b)
{
	const struct node *one, *two;
	uint64_t id;

	for (id = NODE_ROOT_ID; id <= FILES + 1; id++) {
		one = node_get(a, id);
		two = node_get(b, id);
		if (!one != !two)
			return false;
		if (!one)
			continue;
		if (one->generation != two->generation ||
		    one->ino != two->ino || one->type != two->type ||
		    one->lookups != two->lookups ||
		    backing_of(one) != backing_of(two) ||
		    !same_copies(one, two))
			return false;
	}
	return node_count(a) == node_count(b);
}

static void restore(struct node_table *t, struct state *of)
{
	assert_int_equal(node_table_init(t, 50, of), 0);
	assert_int_equal(node_restore(t), 0);
}

/* Copy the state that a server killed now would leave. */
static void copy_state(struct state *ret)
{
	const struct state_header *header = state.header;

	assert_int_equal(state_create(ret), 0);
	memcpy(ret->header, header, sizeof(*header));
	memcpy(ret->branches, state.branches,
	       BRANCHES * sizeof(*state.branches));
	memcpy(ret->nodes, state.nodes,
	       header->nodes_used * sizeof(*state.nodes));
	memcpy(ret->copies, state.copies,
	       header->copies_used * sizeof(*state.copies));
	memcpy(ret->quiet, state.quiet,
	       header->copies_used * sizeof(*state.quiet));
}

/* A table of a server that goes on from that. */
static void go_on(struct node_table *t, struct state *of)
{
	copy_state(of);
	restore(t, of);
}

static void end(struct node_table *t, struct state *of)
{
	node_table_done(t);
	state_done(of);
}

static void is_built_anew_after_any_step(void **unused)
{
	struct node_table again;
	struct state left;
	uint32_t seed = 7;
	unsigned i;

	(void)unused;
	make_root(&table);
	for (i = 0; i < STEPS; i++) {
		step(&table, &seed);
		go_on(&again, &left);
		assert_true(same(&table, &again));
		assert_true(left.header->next_generation >=
			    state.header->next_generation);
		end(&again, &left);
	}
	assert_true(table.nodes > 5);
}

static void goes_on_from_what_was_built_anew(void **unused)
{
	struct node_table plain;
	uint32_t seed = 9, same_seed = 9;
	unsigned i;

	(void)unused;
	assert_int_equal(node_table_init(&plain, 100, NULL), 0);
	make_root(&table);
	make_root(&plain);
	for (i = 0; i < STEPS; i++) {
		if (i % 50 == 49) {
			node_table_done(&table);
			restore(&table, &state);
		}
		step(&table, &seed);
		step(&plain, &same_seed);
	}
	/* Ids are given in another order. */
	assert_int_equal(node_count(&plain), node_count(&table));
	assert_int_equal(plain.copies, table.copies);
	node_table_done(&plain);
}

static void keeps_a_change_that_is_not_to_be_seen(void **unused)
{
	struct quiet_change change = {
		.after = {10, 5}, .modified = {9, 7}, .shown = {3, 1}};
	struct stat st = {.st_ctim = change.after, .st_mtim = change.modified};
	struct handle handle = handle_of(0, 2);
	struct timespec shown;
	struct node_table again;
	struct state left;
	struct node *node;

	(void)unused;
	make_root(&table);
	look_up(&table, 2, 1);
	preserve_ctime_change(&table, 0, &handle, &change);
	go_on(&again, &left);
	node = node_hold(&again, 0, &handle);
	assert_non_null(node);
	shown = preserve_ctime_shown(&again, node_first(node), &st);
	assert_int_equal(shown.tv_sec, 3);
	node_let_go(&again, node);
	end(&again, &left);
}

static void leaves_out_what_the_kernel_does_not_know(void **unused)
{
	struct handle handle = handle_of(0, 2);
	struct node_table again;
	struct state left;
	struct node *node;

	(void)unused;
	make_root(&table);
	look_up(&table, 2, 1);
	node = node_hold(&table, 0, &handle);
	node_forget(&table, node->id, 1);
	go_on(&again, &left);
	assert_int_equal(node_count(&again), 1);
	assert_false(node_has(&again, 0, &handle));
	end(&again, &left);
	node_let_go(&table, node);
}

/* The server was killed while it added that branch. */
static void leaves_out_a_branch_that_was_never_one(void **unused)
{
	struct node_table again;
	const struct node *node;
	struct state left;

	(void)unused;
	make_root(&table);
	look_up(&table, 1, 7);
	state.branches[2].used = 0;
	go_on(&again, &left);
	node = node_get(&again, NODE_ROOT_ID + 1);
	assert_int_equal(count_there(node), 2);
	assert_null(node_copy_on(node, 2));
	end(&again, &left);
}

static uint64_t bytes_of(const struct state *of)
{
	struct stat st;

	assert_int_equal(fstat(of->fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Absent records (times of copies that have none) are not looked at. */
static void going_on_takes_no_more_memory(void **unused)
{
	uint64_t bytes;
	unsigned i;

	(void)unused;
	make_root(&table);
	for (i = 1; i <= 10000; i++)
		look_up(&table, FILES + i, 1);
	bytes = bytes_of(&state);
	node_table_done(&table);
	restore(&table, &state);
	assert_int_equal(bytes_of(&state), bytes);
	assert_int_equal(node_count(&table), 10001);
}

/* Where the kernel has such: vm.memfd_noexec can want it. */
static void the_memory_cannot_be_executed(void **unused)
{
	int fd = memfd_create("test", MFD_CLOEXEC | 8 /* MFD_NOEXEC_SEAL */);
	struct stat st;

	(void)unused;
	assert_int_equal(fstat(state.fd, &st), 0);
	if (fd >= 0)
		assert_int_equal(st.st_mode & 0111, 0);
	fd_close(fd);
}

static void refuses_another_programs_memory(void **unused)
{
	struct error err = {0};
	struct state other;
	int fd = dup(state.fd), empty = memfd_create("test", MFD_CLOEXEC);

	(void)unused;
	state.header->layout++;
	assert_int_equal(state_open(&other, fd, &err), -EPROTO);
	assert_int_equal(state_open(&other, empty, &err), -EPROTO);
	state.header->layout--;
	assert_int_equal(state_open(&other, dup(state.fd), &err), 0);
	state_done(&other);
}

/* How far the one that is killed got. */
struct progress {
	_Atomic unsigned done;
};

static void run_until_killed(struct progress *progress, uint32_t seed)
{
	unsigned i;

	for (i = 0; i < 100000; i++) {
		step(&table, &seed);
		atomic_store(&progress->done, i + 1);
	}
	for (;;)
		pause();
}

static bool has_copy(const struct node *node, unsigned branch)
{
	return node && node_copy_on(node, branch);
}

/*
 * Is each part of @node as it is before (@a) or after (@b)? A step changes
 * several, one after the other.
 */
static bool is_between(const struct node *a, const struct node *b,
		       const struct node *node)
{
	bool one, two, has;
	unsigned i;

	if (!node)
		return !a || !b;
	if (!(a && a->generation == node->generation) &&
	    !(b && b->generation == node->generation))
		return false;
	if (!(a && a->lookups == node->lookups) &&
	    !(b && b->lookups == node->lookups))
		return false;
	for (i = 0; i < BRANCHES; i++) {
		one = has_copy(a, i);
		two = has_copy(b, i);
		has = has_copy(node, i);
		if (has != one && has != two)
			return false;
	}
	return node_first(node) != NULL;
}

static void check_between(struct node_table *before, struct node_table *after,
			  struct node_table *found)
{
	uint64_t id;

	for (id = NODE_ROOT_ID; id <= FILES + 1; id++)
		assert_true(is_between(node_get(before, id),
				       node_get(after, id),
				       node_get(found, id)));
}

/* Do so many steps by @seed. */
static void run_plain(struct node_table *plain, uint32_t seed, unsigned count)
{
	assert_int_equal(node_table_init(plain, 100, NULL), 0);
	make_root(plain);
	while (count--)
		step(plain, &seed);
}

static void is_whole_after_a_kill_at_any_moment(void **unused)
{
	struct progress *progress = mmap(NULL, sizeof(*progress),
					 PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct node_table before, after, again;
	uint32_t round, random = 5, wanted;
	pid_t pid;

	(void)unused;
	assert_ptr_not_equal(progress, MAP_FAILED);
	for (round = 0; round < 60; round++) {
		(void)done(NULL);
		assert_int_equal(setup(NULL), 0);
		make_root(&table);
		atomic_store(&progress->done, 0);
		wanted = next(&random) % 2000;
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0)
			run_until_killed(progress, round);
		while (atomic_load(&progress->done) < wanted)
			(void)sched_yield();
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		restore(&again, &state);
		run_plain(&before, round, progress->done);
		run_plain(&after, round, progress->done + 1);
		check_between(&before, &after, &again);
		node_table_done(&before);
		node_table_done(&after);
		node_table_done(&again);
	}
	munmap(progress, sizeof(*progress));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(is_built_anew_after_any_step),
		TEST(goes_on_from_what_was_built_anew),
		TEST(keeps_a_change_that_is_not_to_be_seen),
		TEST(leaves_out_what_the_kernel_does_not_know),
		TEST(leaves_out_a_branch_that_was_never_one),
		TEST(going_on_takes_no_more_memory),
		TEST(the_memory_cannot_be_executed),
		TEST(refuses_another_programs_memory),
		TEST(is_whole_after_a_kill_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
