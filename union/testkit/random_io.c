/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random reads and writes of one file in every way there is, each checked
 * against a copy in memory.
 *
 *	random_io FILE SEED COUNT
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define FILE_MAX  (512u << 10)
#define IO_MAX    (64u << 10)
#define ALIGNMENT 4096u

static uint64_t state;
static uint8_t *model;  /* FILE_MAX bytes; zero past @size */
static uint8_t *buffer; /* IO_MAX bytes, aligned */
static size_t size;
static const char *path;
static int fd, other_fd = -1; /* the second: read-only, or for O_DIRECT */
static unsigned long step;

static unsigned pick(unsigned below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned)(state >> 33) % below;
}

static void fail(const char *what, size_t offset)
{
	fprintf(stderr, "step %lu: %s at %zu, size %zu: %s\n", step, what,
		offset, size, strerror(errno));
	exit(1);
}

static void fill(uint8_t *data, size_t length)
{
	size_t i;
	uint8_t first = (uint8_t)(pick(255) + 1);

	for (i = 0; i < length; i++)
		data[i] = (uint8_t)(first + i);
}

static void check(const uint8_t *data, size_t offset, size_t length,
		  const char *how)
{
	size_t i;

	errno = 0;
	for (i = 0; i < length; i++)
		if (data[i] != model[offset + i])
			fail(how, offset + i);
}

static void wrote(size_t offset, size_t length, const uint8_t *data)
{
	memcpy(model + offset, data, length);
	if (offset + length > size)
		size = offset + length;
}

static void do_read(int from, const char *how)
{
	size_t offset = pick(FILE_MAX), length = pick(IO_MAX) + 1, left;
	ssize_t n = pread(from, buffer, length, (off_t)offset);

	left = offset < size ? size - offset : 0;
	if (n < 0 || (size_t)n != (left < length ? left : length))
		fail(how, offset);
	check(buffer, offset, (size_t)n, how);
}

static void do_write(void)
{
	size_t length = pick(IO_MAX) + 1, offset = pick(FILE_MAX - IO_MAX);

	fill(buffer, length);
	if (pwrite(fd, buffer, length, (off_t)offset) != (ssize_t)length)
		fail("pwrite", offset);
	wrote(offset, length, buffer);
}

static void do_append(void)
{
	size_t length = pick(1000) + 1;
	int append_fd;

	if (size + length > FILE_MAX)
		return;
	append_fd = open(path, O_WRONLY | O_APPEND);
	fill(buffer, length);
	if (append_fd < 0 ||
	    write(append_fd, buffer, length) != (ssize_t)length)
		fail("append", size);
	close(append_fd);
	wrote(size, length, buffer);
}

static void do_direct(void)
{
	size_t blocks = (size + ALIGNMENT - 1) / ALIGNMENT;
	size_t length = ALIGNMENT * (1 + pick(8));
	size_t offset = ALIGNMENT * (blocks ? pick((unsigned)blocks) : 0);
	ssize_t n;

	if (other_fd < 0 || offset + length > FILE_MAX)
		return;
	if (pick(2)) {
		fill(buffer, length);
		n = pwrite(other_fd, buffer, length, (off_t)offset);
		if (n != (ssize_t)length)
			fail("direct write", offset);
		wrote(offset, length, buffer);
		return;
	}
	n = pread(other_fd, buffer, length, (off_t)offset);
	if (n < 0 || (n < (ssize_t)length && offset + (size_t)n != size &&
		      offset < size))
		fail("direct read", offset);
	check(buffer, offset, (size_t)n, "direct read");
}

static void do_mmap(bool write)
{
	size_t offset, length, start;
	uint8_t *map;

	if (!size)
		return;
	offset = pick((unsigned)size);
	length = pick(IO_MAX) + 1;
	if (offset + length > size)
		length = size - offset;
	start = offset / ALIGNMENT * ALIGNMENT;
	map = mmap(NULL, offset - start + length,
		   write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		   (off_t)start);
	if (map == MAP_FAILED)
		fail("mmap", offset);
	if (write) {
		fill(map + (offset - start), length);
		memcpy(model + offset, map + (offset - start), length);
		if (pick(2) && msync(map, offset - start + length, MS_SYNC) < 0)
			fail("msync", offset);
	} else {
		check(map + (offset - start), offset, length, "mmap read");
	}
	munmap(map, offset - start + length);
}

static void do_truncate(void)
{
	size_t to = pick(FILE_MAX);

	if ((pick(2) ? ftruncate(fd, (off_t)to) : truncate(path, (off_t)to)) <
	    0)
		fail("truncate", to);
	if (to < size)
		memset(model + to, 0, size - to);
	size = to;
}

static void do_fallocate(int mode, const char *how)
{
	size_t length = pick(IO_MAX) + 1, offset = pick(FILE_MAX - IO_MAX);
	size_t end = offset + length;

	if (fallocate(fd, mode, (off_t)offset, (off_t)length) < 0) {
		if (errno == EOPNOTSUPP)
			return;
		fail(how, offset);
	}
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		memset(model + offset, 0, length);
	if (!(mode & FALLOC_FL_KEEP_SIZE) && end > size)
		size = end;
}

static void do_copy(void)
{
	off_t from = pick(FILE_MAX / 2), to = FILE_MAX / 2 + pick(FILE_MAX / 4);
	off_t from_start = from, to_start = to;
	size_t length = pick(IO_MAX);
	ssize_t n;

	if (from + (off_t)length > to)
		length = (size_t)(to - from); /* they must not overlap */
	n = copy_file_range(fd, &from, fd, &to, length, 0);

	if (n < 0)
		fail("copy_file_range", (size_t)from);
	memmove(model + to_start, model + from_start, (size_t)n);
	if (n && (size_t)to > size)
		size = (size_t)to;
}

/* Check that a hole reads as zeros. */
static void do_seek(void)
{
	off_t hole, data, at;

	if (!size)
		return;
	hole = lseek(fd, pick((unsigned)size), SEEK_HOLE);
	if (hole < 0 || (size_t)hole > size)
		fail("SEEK_HOLE", size);
	data = lseek(fd, hole, SEEK_DATA);
	if (data < 0)
		data = (off_t)size;
	for (at = hole; at < data; at++)
		if (model[at])
			fail("data in a hole", (size_t)at);
}

static void check_size(void)
{
	struct stat st, by_path;

	if (fstat(fd, &st) < 0 || (size_t)st.st_size != size)
		fail("fstat says another size", (size_t)st.st_size);
	if (stat(path, &by_path) < 0 || (size_t)by_path.st_size != size)
		fail("stat says another size", (size_t)by_path.st_size);
}

static void reopen(void)
{
	close(fd);
	if (other_fd >= 0)
		close(other_fd);
	fd = open(path, O_RDWR);
	if (fd < 0)
		fail("open", 0);
	other_fd = pick(2) ? open(path, O_RDWR | O_DIRECT) : -1;
}

static void one_step(void)
{
	switch (pick(18)) {
	case 0:
	case 1:
	case 2: do_read(fd, "read"); break;
	case 3:
	case 4:
	case 5: do_write(); break;
	case 6: do_append(); break;
	case 7:
	case 8: do_mmap(true); break;
	case 9: do_mmap(false); break;
	case 10: do_truncate(); break;
	case 11:
		do_fallocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			     "punch");
		break;
	case 12: do_fallocate(FALLOC_FL_ZERO_RANGE, "zero"); break;
	case 13: do_fallocate(0, "allocate"); break;
	case 14: do_copy(); break;
	case 15: do_seek(); break;
	case 16: do_direct(); break;
	default:
		if (pick(2))
			reopen();
		else if (fsync(fd) < 0)
			fail("fsync", 0);
	}
	check_size();
}

int main(int argc, char **argv)
{
	unsigned long count;

	if (argc != 4) {
		fputs("random_io FILE SEED COUNT\n", stderr);
		return 2;
	}
	path = argv[1];
	state = strtoull(argv[2], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	count = strtoul(argv[3], NULL, 10);
	model = calloc(1, FILE_MAX + IO_MAX);
	buffer = aligned_alloc(ALIGNMENT, IO_MAX);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	if (!model || !buffer || fd < 0)
		fail("start", 0);
	for (step = 0; step < count; step++)
		one_step();
	close(fd);
	fd = open(path, O_RDONLY);
	for (step = 0; step < 100; step++)
		do_read(fd, "last read");
	return 0;
}
