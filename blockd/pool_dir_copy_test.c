/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies in a dir pool below $TMPDIR (else in memory); its file system decides
 * how they are made: tests/system/pool_dir.sh runs this on one that has
 * reflinks, and on one that is small.
 */
#include "blockd/pool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/size.h"

#define BLOCK  4096
#define SIZE   (4 * MIB)
#define BLOCKS (SIZE / BLOCK)

struct kit {
	char dir[256];
	struct pool *pool;
	struct pool_record record;
	unsigned found, damaged, notes;
};

/* ---- the pool ---- */

static void on_extent(void *context, const struct pool_found *found)
{
	struct kit *k = context;

	k->found++;
	k->damaged += found->damage != NULL;
}

static void on_note(void *context, const char *text)
{
	struct kit *k = context;

	(void)text;
	k->notes++;
}

static void open_pool(struct kit *k)
{
	const struct pool_visitor visitor = {on_extent, on_note, k};
	struct error err = {0};

	k->found = k->damaged = k->notes = 0;
	if (pool_dir_open(k->dir, "p", NULL, &k->pool, &err) < 0 ||
	    k->pool->ops->load(k->pool, &visitor, &err) < 0)
		fail_msg("%s", error_text(&err));
}

static void reopen(struct kit *k)
{
	pool_close(k->pool);
	open_pool(k);
}

static int setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(k->dir, sizeof(k->dir), "%s/trib-copy-test.XXXXXX",
		       tmp ? tmp : "/dev/shm");
	assert_non_null(mkdtemp(k->dir));
	k->record = (struct pool_record){
		.name = "p",
		.kind = "dir",
		.overcommit_percent = 100,
		.created_s = 1,
	};
	(void)uuid_make(k->record.id);
	(void)uuid_make(k->record.incarnation);
	assert_int_equal(pool_dir_format(k->dir, &k->record, NULL), 0);
	open_pool(k);
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	struct kit *k = *state;
	const char *const argv[] = {"rm", "-rf", k->dir, NULL};
	struct process_result result;

	pool_close(k->pool);
	(void)process_run(argv, NULL, 10000, -1, &result, NULL);
	process_result_done(&result);
	free(k);
	return 0;
}

static struct extent_record record_of(const struct kit *k, const char *name,
				      uint64_t size)
{
	struct extent_record record = {
		.size = size,
		.created_s = 1,
		.state = EXTENT_OK,
		.blank = true,
	};

	(void)snprintf(record.name, sizeof(record.name), "%s", name);
	(void)uuid_make(record.id);
	memcpy(record.pool_id, k->record.id, sizeof(record.pool_id));
	return record;
}

static void create(struct kit *k, const char *name, uint64_t size)
{
	struct extent_record record = record_of(k, name, size);

	assert_int_equal(k->pool->ops->create(k->pool, &record, NULL), 0);
}

static int copy_to(struct kit *k, const char *from, const char *to,
		   uint64_t size, struct error *err)
{
	struct extent_record record = record_of(k, to, size);
	const struct pool_copy copy = {from, &record};

	return k->pool->ops->copy(k->pool, &copy, 1, NULL, NULL, err);
}

static int revert_to(struct kit *k, const char *name, const char *from,
		     uint64_t size)
{
	struct extent_record record = record_of(k, name, size);

	return k->pool->ops->revert(k->pool, &record, from, NULL);
}

/* ---- its files ---- */

static int data_open(struct kit *k, const char *name)
{
	auto_free char *path = k->pool->ops->path(k->pool, name);

	return open(path, O_RDWR | O_CLOEXEC);
}

/* @length bytes of @c at @offset; @c 0: a hole. */
static void put(struct kit *k, const char *name, char c, uint64_t offset,
		uint64_t length)
{
	auto_close int fd = data_open(k, name);
	auto_free char *data = malloc(length);

	memset(data, c, length);
	if (c)
		assert_int_equal(pwrite(fd, data, length, (off_t)offset),
				 length);
	else
		assert_int_equal(
			fallocate(fd,
				  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)offset, (off_t)length),
			0);
}

static char *content(struct kit *k, const char *name, uint64_t size)
{
	auto_close int fd = data_open(k, name);
	char *data = malloc(size);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, size);
	assert_int_equal(pread(fd, data, size, 0), size);
	return data;
}

static void same_content(struct kit *k, const char *a, const char *b)
{
	auto_free char *x = content(k, a, SIZE), *y = content(k, b, SIZE);

	assert_memory_equal(x, y, SIZE);
}

/* Files in extents/. */
static unsigned files(const struct kit *k)
{
	char path[300];
	unsigned n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/extents", k->dir);
	dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *e; (e = readdir(dir));)
		n += e->d_name[0] != '.';
	(void)closedir(dir);
	return n;
}

static bool reflinks(const struct kit *k)
{
	return k->pool->ops->copy_method(k->pool) == POOL_COPY_REFLINK;
}

static uint64_t allocated(struct kit *k, const char *name)
{
	struct extent_usage usage = {0};

	assert_int_equal(k->pool->ops->usage(k->pool, name, &usage, NULL), 0);
	return usage.allocated;
}

/* ---- copies ---- */

static void a_copy_has_the_content_and_does_not_follow(void **state)
{
	struct kit *k = *state;
	auto_free char *data = NULL;

	create(k, "a", SIZE);
	put(k, "a", 'x', MIB, 2 * MIB);
	put(k, "a", 'z', SIZE - BLOCK, BLOCK);
	assert_int_equal(copy_to(k, "a", "b", SIZE, NULL), 0);
	same_content(k, "a", "b");
	assert_in_range(allocated(k, "b"), 2 * MIB, 2 * MIB + 256 * KIB);
	put(k, "a", 'y', 0, SIZE);
	reopen(k);
	assert_int_equal(k->found, 2);
	assert_int_equal(k->damaged, 0);
	data = content(k, "b", SIZE);
	assert_int_equal(data[0], 0);
	assert_int_equal(data[MIB], 'x');
	assert_int_equal(data[SIZE - 1], 'z');
}

static void a_larger_copy_ends_in_zeroes(void **state)
{
	struct kit *k = *state;
	auto_free char *data = NULL;

	create(k, "a", SIZE);
	put(k, "a", 'x', 0, SIZE);
	assert_int_equal(copy_to(k, "a", "b", SIZE + MIB, NULL), 0);
	data = content(k, "b", SIZE + MIB);
	assert_int_equal(data[SIZE - 1], 'x');
	for (size_t i = 0; i < MIB; i++)
		assert_int_equal(data[SIZE + i], 0);
}

static void a_thick_one_is_allocated(void **state)
{
	struct kit *k = *state;
	struct extent_record record = record_of(k, "a", SIZE);

	record.thick = true;
	assert_int_equal(k->pool->ops->create(k->pool, &record, NULL), 0);
	assert_true(allocated(k, "a") >= SIZE);
	record.size = 2 * SIZE;
	assert_int_equal(k->pool->ops->grow(k->pool, &record, NULL), 0);
	assert_true(allocated(k, "a") >= 2 * SIZE);
}

static void a_thick_copy_is_allocated(void **state)
{
	struct kit *k = *state;
	struct extent_record record = record_of(k, "b", 2 * SIZE);
	const struct pool_copy copy = {"a", &record};

	create(k, "a", SIZE);
	put(k, "a", 'x', 0, MIB);
	record.thick = true;
	assert_int_equal(
		k->pool->ops->copy(k->pool, &copy, 1, NULL, NULL, NULL), 0);
	assert_true(allocated(k, "b") >= 2 * SIZE);
	assert_true(allocated(k, "a") < 2 * MIB);
	assert_int_equal(k->pool->ops->revert(k->pool, &record, "a", NULL), 0);
	assert_true(allocated(k, "b") >= 2 * SIZE);
}

static void says_what_is_shared(void **state)
{
	struct kit *k = *state;
	struct extent_usage usage = {0};

	create(k, "a", SIZE);
	put(k, "a", 'x', 0, SIZE);
	assert_int_equal(copy_to(k, "a", "b", SIZE, NULL), 0);
	assert_int_equal(k->pool->ops->usage(k->pool, "a", &usage, NULL), 0);
	assert_true(usage.allocated >= SIZE);
	assert_int_equal(usage.shared, reflinks(k) ? SIZE : 0);
	assert_int_equal(usage.reclaimable, usage.allocated - usage.shared);
}

/* Or the pool would seem to have room that nobody has. */
static void counts_what_is_shared_once(void **state)
{
	struct kit *k = *state;
	struct space_medium before = {0}, after = {0};
	const struct pool_ops *ops = k->pool->ops;

	create(k, "a", 16 * MIB);
	put(k, "a", 'x', 0, 16 * MIB);
	assert_int_equal(ops->measure(k->pool, &before, NULL), 0);
	for (int i = 0; i < 4; i++) {
		const char name[] = {'s', (char)('0' + i), '\0'};

		assert_int_equal(copy_to(k, "a", name, 16 * MIB, NULL), 0);
	}
	assert_int_equal(ops->measure(k->pool, &after, NULL), 0);
	/* Elsewhere nothing is shared, and others use the medium too. */
	if (reflinks(k))
		assert_true(after.allocated + after.free <=
			    before.allocated + before.free + 48 * MIB);
}

/* Three at once; "a", "b", "c" of them are there. */
static int copy_three(struct kit *k, pool_copied copied, struct error *err)
{
	struct extent_record records[3] = {
		record_of(k, "a1", SIZE),
		record_of(k, "b1", SIZE),
		record_of(k, "c1", SIZE),
	};
	const struct pool_copy copies[3] = {
		{"a", &records[0]},
		{"b", &records[1]},
		{"c", &records[2]},
	};

	return k->pool->ops->copy(k->pool, copies, 3, copied, k, err);
}

static void create_three(struct kit *k)
{
	const char *const names[] = {"a", "b", "c"};

	for (size_t i = 0; i < 3; i++) {
		create(k, names[i], SIZE);
		put(k, names[i], names[i][0], i * MIB, MIB);
	}
}

static int stops_late(void *context, uint64_t done, uint64_t total)
{
	assert_true(done <= total);
	assert_non_null(context);
	return done > total / 2 ? -ECANCELED : 0;
}

static void of_several_all_or_none_are_there(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	create_three(k);
	assert_int_equal(copy_three(k, stops_late, &err), -ECANCELED);
	assert_int_equal(files(k), 6);
	create(k, "c1", MIB);
	assert_int_equal(copy_three(k, NULL, &err), -EEXIST);
	assert_non_null(strstr(error_text(&err), "c1.data"));
	assert_int_equal(files(k), 8);
	assert_int_equal(k->pool->ops->doom(k->pool, "c1", NULL), 0);
	assert_int_equal(k->pool->ops->erase(k->pool, "c1", NULL), 0);
	assert_int_equal(copy_three(k, NULL, NULL), 0);
	assert_int_equal(files(k), 12);
	same_content(k, "b", "b1");
	same_content(k, "c", "c1");
}

static void a_revert_brings_content_and_record(void **state)
{
	struct kit *k = *state;

	create(k, "a", SIZE);
	put(k, "a", 'x', MIB, MIB);
	assert_int_equal(copy_to(k, "a", "s", SIZE, NULL), 0);
	put(k, "a", 'y', 0, SIZE);
	assert_int_equal(revert_to(k, "a", "s", SIZE), 0);
	same_content(k, "a", "s");
	/* It is itself again, and the snapshot does not follow. */
	put(k, "a", 'z', 0, BLOCK);
	assert_int_equal(files(k), 4);
	assert_int_equal(revert_to(k, "a", "s", SIZE), 0);
	same_content(k, "a", "s");
	reopen(k);
	assert_int_equal(k->found, 2);
	assert_int_equal(k->damaged, 0);
}

/* ---- a full file system ---- */

static void without_room_nothing_is_left(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct statvfs vfs;
	uint64_t size;

	assert_int_equal(statvfs(k->dir, &vfs), 0);
	size = vfs.f_bavail * vfs.f_frsize;
	size = size / 5 / MIB * MIB;
	create(k, "a", size);
	create(k, "b", size);
	put(k, "a", 'x', 0, size);
	put(k, "b", 'x', 0, size);
	create(k, "fill", 2 * size);
	put(k, "fill", 'x', 0, 2 * size);
	{
		struct extent_record records[2] = {record_of(k, "a1", size),
						   record_of(k, "b1", size)};
		const struct pool_copy copies[2] = {{"a", &records[0]},
						    {"b", &records[1]}};

		assert_int_equal(k->pool->ops->copy(k->pool, copies, 2, NULL,
						    NULL, &err),
				 -ENOSPC);
	}
	assert_int_equal(files(k), 6);
	reopen(k);
	assert_int_equal(k->found, 3);
	assert_int_equal(k->notes, 0);
}

/* ---- ranges ---- */

struct ranges {
	unsigned char told[BLOCKS];
	uint64_t end; /* of the last one */
	unsigned n, stop_after;
};

static int on_range(void *context, uint64_t offset, uint64_t length)
{
	struct ranges *ranges = context;

	assert_true(length > 0);
	assert_true(offset > ranges->end || ranges->n == 0);
	assert_true(offset + length <= SIZE);
	ranges->end = offset + length;
	for (uint64_t at = offset; at < ranges->end; at += BLOCK)
		ranges->told[at / BLOCK] = 1;
	return ++ranges->n == ranges->stop_after ? 7 : 0;
}

static int list(struct kit *k, const char *name, const char *base,
		uint64_t start, struct ranges *ranges)
{
	return k->pool->ops->ranges(k->pool, name, base, start, on_range,
				    ranges, NULL);
}

static void tells_what_is_allocated(void **state)
{
	struct kit *k = *state;
	struct ranges all = {0}, some = {0}, none = {0};

	create(k, "a", SIZE);
	assert_int_equal(copy_to(k, "a", "empty", SIZE, NULL), 0);
	put(k, "a", 'x', MIB, MIB);
	put(k, "a", 'x', 3 * MIB, BLOCK);
	assert_int_equal(copy_to(k, "a", "s", SIZE, NULL), 0);
	assert_int_equal(list(k, "s", NULL, 0, &all), 0);
	assert_int_equal(all.n, 2);
	for (uint64_t i = 0; i < BLOCKS; i++)
		assert_int_equal(all.told[i],
				 (i >= 256 && i < 512) || i == 768);
	assert_int_equal(list(k, "s", NULL, 2 * MIB, &some), 0);
	assert_int_equal(some.n, 1);
	assert_int_equal(list(k, "empty", NULL, 0, &none), 0);
	assert_int_equal(none.n, 0);
	some = (struct ranges){.stop_after = 1};
	assert_int_equal(list(k, "s", NULL, 0, &some), 7);
}

/* Never left out, and by reflinks nothing else either. */
static void check_differences(struct kit *k, const char *newer,
			      const char *older, uint64_t start,
			      const unsigned char *touched)
{
	auto_free char *a = content(k, newer, SIZE);
	auto_free char *b = content(k, older, SIZE);
	struct ranges ranges = {0};

	assert_int_equal(list(k, newer, older, start, &ranges), 0);
	for (uint64_t i = start / BLOCK; i < BLOCKS; i++) {
		bool differs = memcmp(a + i * BLOCK, b + i * BLOCK, BLOCK) != 0;

		if (differs && !ranges.told[i])
			fail_msg("block %zu differs and is left out",
				 (size_t)i);
		if (ranges.told[i] && !touched[i] && reflinks(k))
			fail_msg("block %zu is told, and is the same",
				 (size_t)i);
	}
}

static void never_leaves_a_difference_out(void **state)
{
	struct kit *k = *state;
	unsigned seed = (unsigned)getpid();
	const char *older = NULL;
	char names[2][8];

	print_message("seed %u\n", seed);
	create(k, "a", SIZE);
	for (unsigned round = 0; round < 8; round++) {
		unsigned char touched[BLOCKS] = {0};
		char *name = names[round % 2];

		for (unsigned i = 0; i < 40; i++) {
			uint64_t at = (uint64_t)rand_r(&seed) % BLOCKS;
			uint64_t n = 1 + (uint64_t)rand_r(&seed) % 16;

			if (at + n > BLOCKS)
				n = BLOCKS - at;
			put(k, "a", (char)(rand_r(&seed) % 3 ? i + 1 : 0),
			    at * BLOCK, n * BLOCK);
			memset(touched + at, 1, n);
		}
		(void)snprintf(name, sizeof(names[0]), "s%u", round);
		assert_int_equal(copy_to(k, "a", name, SIZE, NULL), 0);
		if (older) {
			check_differences(k, name, older, 0, touched);
			check_differences(k, name, older, 2 * MIB, touched);
			check_differences(k, older, name, 0, touched);
		}
		older = name;
	}
}

/* ---- killed at every system call ---- */

typedef int (*doomed_call)(struct kit *k);

/* It is at the start of a call that is not about its memory. */
static bool is_at_call(pid_t child)
{
	struct __ptrace_syscall_info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	switch (info.entry.nr) {
	case SYS_brk:
	case SYS_madvise:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_munmap: return false;
	default: return true;
	}
}

/* What kills the child before its @nth call; true: it came to its end. */
static bool run_doomed(struct kit *k, doomed_call call, unsigned nth)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		_exit(call(k) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL,
				PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL),
			 0);
	while (WIFSTOPPED(status) && nth > 0) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		nth -= WIFSTOPPED(status) && is_at_call(child);
	}
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return true;
	}
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	return false;
}

static int call_copy_three(struct kit *k)
{
	return copy_three(k, NULL, NULL);
}

static int call_revert(struct kit *k)
{
	return revert_to(k, "a", "s", 2 * SIZE);
}

static void remove_copies(struct kit *k)
{
	const char *const names[] = {"a1", "b1", "c1"};

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(k->pool->ops->doom(k->pool, names[i], NULL),
				 0);
		assert_int_equal(k->pool->ops->erase(k->pool, names[i], NULL),
				 0);
	}
}

static void a_group_killed_anywhere_is_whole_or_not_there(void **state)
{
	struct kit *k = *state;
	unsigned nth = 1, undone = 0, there = 0;

	create_three(k);
	for (bool ended = false; !ended; nth++) {
		ended = run_doomed(k, call_copy_three, nth);
		reopen(k);
		assert_int_equal(k->damaged, 0);
		assert_int_equal(files(k), 2 * k->found);
		if (k->found == 6) {
			same_content(k, "a", "a1");
			same_content(k, "b", "b1");
			same_content(k, "c", "c1");
			remove_copies(k);
			there += !ended;
		} else {
			assert_int_equal(k->found, 3);
			undone++;
		}
	}
	print_message("%u calls: undone after %u, whole after %u\n", nth - 2,
		      undone, there);
	assert_true(undone > 20);
	assert_true(there > 4);
}

/* The record says which content it is: the size goes with it. */
static void a_revert_killed_anywhere_is_the_old_or_the_new(void **state)
{
	struct kit *k = *state;
	unsigned nth = 1, undone = 0, there = 0;

	create(k, "a", SIZE);
	put(k, "a", 'x', 0, MIB);
	assert_int_equal(copy_to(k, "a", "s", SIZE, NULL), 0);
	for (bool ended = false; !ended; nth++) {
		struct extent_record record = record_of(k, "a", SIZE);
		auto_close int fd = -1;
		struct stat st;
		char c = 0;

		put(k, "a", 'y', 0, MIB);
		ended = run_doomed(k, call_revert, nth);
		reopen(k);
		assert_int_equal(k->damaged, 0);
		assert_int_equal(k->found, 2);
		assert_int_equal(files(k), 4);
		fd = data_open(k, "a");
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(pread(fd, &c, 1, 0), 1);
		assert_int_equal(c, st.st_size == SIZE ? 'y' : 'x');
		if (st.st_size == SIZE) {
			undone++;
			continue;
		}
		there += !ended;
		/* As it was. */
		assert_int_equal(k->pool->ops->doom(k->pool, "a", NULL), 0);
		assert_int_equal(k->pool->ops->erase(k->pool, "a", NULL), 0);
		assert_int_equal(k->pool->ops->create(k->pool, &record, NULL),
				 0);
	}
	print_message("%u calls: undone after %u, done after %u\n", nth - 2,
		      undone, there);
	assert_true(undone > 5);
	assert_true(there > 2);
}

/* ---- what is not ours to undo ---- */

static void touch(struct kit *k, const char *name)
{
	char path[300];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/extents/%s", k->dir, name);
	fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	fd_close(fd);
}

static void a_leftover_beside_a_record_is_left_alone(void **state)
{
	struct kit *k = *state;

	create(k, "a", SIZE);
	touch(k, "a.copying");
	reopen(k);
	assert_int_equal(k->found, 1);
	assert_int_equal(k->notes, 1);
	assert_int_equal(files(k), 3);
	put(k, "a", 'x', 0, BLOCK);
}

static void a_list_that_is_damaged_stops_the_load(void **state)
{
	struct kit *k = *state;
	const struct pool_visitor visitor = {on_extent, on_note, k};
	char path[300];
	struct error err = {0};
	int fd;

	create(k, "a", SIZE);
	touch(k, "a1.copying");
	touch(k, "a1.data");
	(void)snprintf(path, sizeof(path), "%s/extents/a1.copies", k->dir);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "a1\n../x\n", 8), 8);
	fd_close(fd);
	pool_close(k->pool);
	assert_int_equal(pool_dir_open(k->dir, "p", NULL, &k->pool, NULL), 0);
	assert_int_equal(k->pool->ops->load(k->pool, &visitor, &err), -EBADMSG);
	assert_non_null(strstr(error_text(&err), "a1.copies"));
	/* Nothing was thrown away: somebody may have been told of it. */
	(void)snprintf(path, sizeof(path), "%s/extents/a1.data", k->dir);
	assert_int_equal(access(path, F_OK), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_copy_has_the_content_and_does_not_follow),
		T(a_larger_copy_ends_in_zeroes),
		T(a_thick_one_is_allocated),
		T(a_thick_copy_is_allocated),
		T(says_what_is_shared),
		T(counts_what_is_shared_once),
		T(of_several_all_or_none_are_there),
		T(a_revert_brings_content_and_record),
		T(without_room_nothing_is_left),
		T(tells_what_is_allocated),
		T(never_leaves_a_difference_out),
		T(a_group_killed_anywhere_is_whole_or_not_there),
		T(a_revert_killed_anywhere_is_the_old_or_the_new),
		T(a_leftover_beside_a_record_is_left_alone),
		T(a_list_that_is_damaged_stops_the_load),
	};

	/* Only on an image without reflinks made for this: it is filled. */
	if (!getenv("SMALL_IMAGE"))
		cmocka_set_skip_filter("without_room_nothing_is_left");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
