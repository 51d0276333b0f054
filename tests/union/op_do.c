/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

/*
 * The end of the times that calls set. Later ones are of the clock, so not
 * compared.
 */
#define SET_TIMES_END 1500000000

static char *text;
static size_t used;

void say(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text + used, OP_TEXT_MAX - used, format, args);
	va_end(args);
	if (n > 0)
		used += (size_t)n;
	if (used >= OP_TEXT_MAX)
		used = OP_TEXT_MAX - 1;
}

bool op_other_kind;

unsigned long op_links(mode_t mode, unsigned long links)
{
	return op_other_kind && S_ISDIR(mode) ? 0 : links;
}

void say_result(long result)
{
	if (result < 0)
		say(" %s", op_other_kind && errno == ENOTEMPTY
				   ? "EEXIST"
				   : strerrorname_np(errno));
	else
		say(" %ld", result);
}

static void say_time(const char *name, const struct timespec *time)
{
	if (time->tv_sec < SET_TIMES_END)
		say(" %s=%lld.%09ld", name, (long long)time->tv_sec,
		    time->tv_nsec);
}

void say_stat(const struct stat *st)
{
	say(" mode=%o links=%lu owner=%u:%u", st->st_mode,
	    op_links(st->st_mode, st->st_nlink), st->st_uid, st->st_gid);
	if (!S_ISDIR(st->st_mode))
		say(" size=%lld", (long long)st->st_size);
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		say(" device=%u:%u", major(st->st_rdev), minor(st->st_rdev));
	say(" block=%ld", (long)st->st_blksize);
	say_time("atime", &st->st_atim);
	say_time("mtime", &st->st_mtim);
}

const char *op_path(const char *path, char *buf)
{
	size_t i, n;

	if (*path != OP_LONG_NAME)
		return path;
	n = (size_t)atoi(path + 1);
	for (i = 0; i < n; i++)
		buf[i] = (char)(n < 1000     ? 'L'
				: i + 1 == n ? 'a'
				: i % 2      ? '/'
					     : '.');
	buf[n] = '\0';
	return buf;
}

bool op_is_nameless(const struct op *op, int fd)
{
	struct stat st;

	if (!op->named || fstat(fd, &st) < 0 || st.st_nlink)
		return false;
	say(" nameless");
	return true;
}

void op_fill(uint64_t seed, void *data, size_t length)
{
	struct dice dice;
	uint8_t *at = data;
	size_t i;

	dice_init(&dice, seed);
	for (i = 0; i < length; i++)
		at[i] = (uint8_t)(dice_next(&dice) >> 40);
}

uint64_t op_sum(const void *data, size_t length)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	const uint8_t *at = data;
	size_t i;

	for (i = 0; i < length; i++)
		h = (h ^ at[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* The times of a path and of the directory it is in, before a call. */
struct watch {
	char path[OP_FULL_PATH_MAX];
	bool there[2];
	struct stat st[2];
};

static const char *watched(const struct watch *watch, int i, char *buf)
{
	char *slash;

	if (i == 0)
		return watch->path;
	(void)snprintf(buf, OP_FULL_PATH_MAX, "%s", watch->path);
	slash = strrchr(buf, '/');
	if (!slash)
		return ".";
	*slash = '\0';
	return buf;
}

static bool moved(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec || a->tv_nsec != b->tv_nsec;
}

static bool time_is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec ||
	       (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static struct timespec clock_now(clockid_t clock)
{
	struct timespec now;

	if (clock_gettime(clock, &now) < 0)
		abort();
	return now;
}

/*
 * Two changes on two branches can get one time: then the later is not seen. A
 * file system takes it from the coarse clock, which is a tick behind, or from
 * the exact one where somebody has just looked (multigrain timestamps, Linux
 * 6.13). So the coarse clock passes what the exact one says now.
 */
static void tick_wait(void)
{
	static const struct timespec part = {.tv_nsec = 1000000};
	const struct timespec begun = clock_now(CLOCK_REALTIME);
	struct timespec now;

	do {
		(void)nanosleep(&part, NULL); /* or a signal: then less */
		now = clock_now(CLOCK_REALTIME_COARSE);
	} while (!time_is_before(&begun, &now));
}

static void watch_begin(struct watch *watch, const char *path)
{
	char buf[OP_FULL_PATH_MAX], long_path[OP_FULL_PATH_MAX];
	int i;

	(void)snprintf(watch->path, sizeof(watch->path), "%s",
		       op_path(path, long_path));
	for (i = 0; i < 2; i++)
		watch->there[i] = lstat(watched(watch, i, buf),
					&watch->st[i]) == 0;
}

static const char *changes(const struct watch *watch, int i,
			   const struct stat *now)
{
	const struct stat *was = &watch->st[i];
	bool m = moved(&was->st_mtim, &now->st_mtim);
	bool c = moved(&was->st_ctim, &now->st_ctim);

	if (!watch->there[i])
		return "new";
	if (was->st_ino != now->st_ino)
		return "another";
	return m ? c ? "mc" : "m" : c ? "c" : "";
}

static void watch_end(const struct watch *watch)
{
	static const char *const names[] = {"it", "dir"};
	char buf[OP_FULL_PATH_MAX];
	struct stat now;
	int i;

	for (i = 0; i < 2; i++) {
		if (lstat(watched(watch, i, buf), &now) < 0) {
			say(" %s:%s", names[i], strerrorname_np(errno));
			continue;
		}
		say(" %s:%s links=%lu", names[i], changes(watch, i, &now),
		    op_links(now.st_mode, now.st_nlink));
		if (watch->there[i] && now.st_ino == watch->st[i].st_ino &&
		    now.st_dev != watch->st[i].st_dev)
			say(" device changed");
	}
}

static void dispatch(const struct op *op, int *fds)
{
	switch (op->kind) {
	case OP_OPEN:
	case OP_CLOSE:
	case OP_SEEK:
	case OP_TRUNCATE:
	case OP_FTRUNCATE:
	case OP_FALLOCATE:
	case OP_SYNC:
	case OP_LOCK:
	case OP_FLAGS:
	case OP_FSTAT: op_do_file(op, fds); break;
	case OP_READ:
	case OP_WRITE:
	case OP_COPY:
	case OP_MMAP: op_do_data(op, fds); break;
	case OP_CHMOD:
	case OP_CHOWN:
	case OP_UTIMENS:
	case OP_ACCESS:
	case OP_STAT:
	case OP_SAME: op_do_attr(op, fds); break;
	case OP_SETXATTR:
	case OP_GETXATTR:
	case OP_LISTXATTR:
	case OP_REMOVEXATTR:
	case OP_ACL: op_do_xattr(op, fds); break;
	case OP_LIST:
	case OP_LIST_CHANGING:
	case OP_STATFS:
	case OP_HANDLE: op_do_dir(op, fds); break;
	default: op_do_name(op, fds); break;
	}
}

void op_do(const struct op *op, int *fds, char *ret)
{
	static struct watch one, two;

	text = ret;
	used = 0;
	*text = '\0';
	if (op->watch) {
		tick_wait();
		watch_begin(&one, op->path);
		watch_begin(&two, op->path2);
	}
	dispatch(op, fds);
	if (op->watch) {
		watch_end(&one);
		watch_end(&two);
	}
}
