/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that read and write. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

#define ALIGNED 4096

static char buffer[OP_BUFFER] __attribute__((aligned(ALIGNED)));

static bool is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && !S_ISREG(st.st_mode);
}

static void do_read(const struct op *op, int fd)
{
	struct iovec parts[2] = {{buffer, (size_t)op->length / 2},
				 {buffer + op->length / 2,
				  (size_t)(op->length - op->length / 2)}};
	ssize_t n;

	if (is_directory(fd)) /* a fifo would wait */
		return;
	switch (op->way % 3) {
	case 0: n = read(fd, buffer, (size_t)op->length); break;
	case 1: n = pread(fd, buffer, (size_t)op->length, op->offset); break;
	default: n = preadv2(fd, parts, 2, op->offset, 0); break;
	}
	say_result(n);
	if (n > 0)
		say(" %llx", (unsigned long long)op_sum(buffer, (size_t)n));
}

static void do_write(const struct op *op, int fd)
{
	struct iovec parts[2] = {{buffer, (size_t)op->length / 2},
				 {buffer + op->length / 2,
				  (size_t)(op->length - op->length / 2)}};
	ssize_t n;

	if (is_directory(fd))
		return;
	op_fill(op->seed, buffer, (size_t)op->length);
	switch (op->way % 4) {
	case 0: n = write(fd, buffer, (size_t)op->length); break;
	case 1: n = pwrite(fd, buffer, (size_t)op->length, op->offset); break;
	case 2: n = pwritev2(fd, parts, 2, op->offset, RWF_DSYNC); break;
	default: n = pwritev2(fd, parts, 2, -1, RWF_APPEND); break;
	}
	say_result(n);
}

static int flags_of(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? 0 : flags;
}

/*
 * Copy all that is asked for: the file system decides how much one call copies.
 * Where ranges overlap, pieces of another length give another outcome. O_DIRECT
 * is for reads and writes: a copy need not be aligned.
 */
static void do_copy(const struct op *op, int from, int to)
{
	off_t in = op->offset, out = op->offset2;
	int64_t left = op->length;
	struct stat a, b;
	ssize_t n = 0;

	if (fstat(from, &a) == 0 && fstat(to, &b) == 0 &&
	    a.st_ino == b.st_ino && in < out + left && out < in + left)
		return;
	if ((flags_of(from) | flags_of(to)) & O_DIRECT)
		return;
	do {
		if (op->way % 4 == 0 && lseek(to, out, SEEK_SET) >= 0) {
			n = sendfile(to, from, &in, (size_t)left);
			out += n > 0 ? n : 0;
		} else {
			n = copy_file_range(from, &in, to, &out, (size_t)left,
					    0);
		}
		if (n > 0)
			left -= n;
	} while (n > 0 && left > 0);
	say_result(n < 0 ? -1 : 0);
	say(" copied=%lld", (long long)(op->length - left));
}

/* Within the file: beyond it there is SIGBUS. */
static void do_mmap(const struct op *op, int fd)
{
	int64_t at = op->offset & ~(int64_t)(ALIGNED - 1), length;
	bool writes = op->way % 3 != 0, shared = op->way % 4 != 1;
	struct stat st;
	char *map;

	if (is_directory(fd) || fstat(fd, &st) < 0 || at < 0 ||
	    at >= st.st_size) {
		say(" none");
		return;
	}
	length = st.st_size - at < ALIGNED * 3 ? st.st_size - at : ALIGNED * 3;
	map = mmap(NULL, (size_t)length, PROT_READ | (writes ? PROT_WRITE : 0),
		   shared ? MAP_SHARED : MAP_PRIVATE, fd, at);
	if (map == MAP_FAILED) {
		say_result(-1);
		return;
	}
	say(" %llx", (unsigned long long)op_sum(map, (size_t)length));
	if (writes)
		op_fill(op->seed, map, (size_t)(length + 1) / 2);
	if (op->way & 1)
		say_result(msync(map, (size_t)length, MS_SYNC));
	(void)munmap(map, (size_t)length); /* it is one */
	if (pread(fd, buffer, 100, at) > 0 && !(fcntl(fd, F_GETFL) & O_DIRECT))
		say(" then %llx", (unsigned long long)op_sum(buffer, 1));
}

void op_do_data(const struct op *op, int *fds)
{
	int fd = fds[op->slot];

	if (op_is_nameless(op, op->kind == OP_COPY ? fds[op->slot2] : fd))
		return;
	switch (op->kind) {
	case OP_READ: do_read(op, fd); break;
	case OP_WRITE: do_write(op, fd); break;
	case OP_COPY: do_copy(op, fd, fds[op->slot2]); break;
	default: do_mmap(op, fd); break;
	}
}
