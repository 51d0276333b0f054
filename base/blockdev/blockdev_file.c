/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/blockdev/blockdev_file.h"

#define TRANSFER_MAX (UINT32_C(1) << 30) /* bytes; read(2) stops at 2 GiB */

/*
 * A device that has done all its operations waits for the next. SMALL_TOGETHER
 * small transfers go to it together, a large one at once. Measured at 32
 * requests of 4 KiB: with all that a round brings 0.78 of what a request at a
 * time does, with this 0.96 at less of the processor's time.
 */
#define SMALL          (UINT32_C(64) << 10) /* bytes */
#define SMALL_TOGETHER 4u

#define PAGE 4096u /* bytes; a part of one may have to be read first */

/* So many reads are not looked for in memory after one that was not there. */
#define NOT_CACHED_SKIP 32u

/*
 * A write to memory took longer than this: it waited for the disk, or other
 * programs have the processor, ns.
 */
#define WAITED_NS 2000000

/* After that so many writes are left to the ring: 32, 64... 32 << this. */
#define SLOW_MAX 6

/* One read or write, gone on with until it is whole. */
struct transfer {
	struct op op;
	struct op *user;
	struct file *file;
	char *data;
	uint32_t left;   /* bytes */
	uint64_t offset; /* bytes */
	int rw_flags;
	bool writes;
};

static void transfer_start(struct transfer *t)
{
	uint32_t length = t->left < TRANSFER_MAX ? t->left : TRANSFER_MAX;
	struct loop *loop = t->file->dev.loop;

	if (t->writes)
		loop_write(loop, &t->op, t->file->fd, t->data, length,
			   t->offset, t->rw_flags);
	else
		(t->file->direct ? loop_read : loop_read_cached)(
			loop, &t->op, t->file->fd, t->data, length, t->offset);
	if (t->file->direct)
		loop_submit_early(loop, length > SMALL ? 1 : SMALL_TOGETHER);
}

static void transfer_end(struct transfer *t, int res)
{
	struct op *user = t->user;

	if (t->file->direct)
		loop_disk_end(t->file->dev.loop);
	t->file->writes -= t->writes;
	if (res < 0)
		blockdev_note_fault(&t->file->dev, res);
	free(t);
	user->done(user, res);
}

static void transfer_done(struct op *op, int res)
{
	struct transfer *t = container_of(op, struct transfer, op);

	if (res == -EINTR || res == -EAGAIN) {
		transfer_start(t);
		return;
	}
	if (res < 0) {
		transfer_end(t, res);
		return;
	}
	if (res == 0) { /* the file is shorter than it was: not our zeroes */
		transfer_end(t, -EIO);
		return;
	}
	t->data += res;
	t->offset += (uint32_t)res;
	t->left -= (uint32_t)res;
	if (t->left > 0)
		transfer_start(t);
	else
		transfer_end(t, 0);
}

/* ---- reads of what is in memory ---- */

/* Read without waiting, if all of it is likely to be cached. False: it is not.
 */
static bool cached_read(struct file *file, void *data, uint32_t length,
			uint64_t offset)
{
	struct iovec to = {.iov_base = data, .iov_len = length};

	if (file->direct || length > SMALL || !loop_sq_empty(file->dev.loop))
		return false;
	if (file->not_cached > 0) {
		file->not_cached--;
		return false;
	}
	if (preadv2(file->fd, &to, 1, (off_t)offset, RWF_NOWAIT) ==
	    (ssize_t)length)
		return true;
	file->not_cached = NOT_CACHED_SKIP;
	return false;
}

static void transfer_new(struct blockdev *dev, struct op *user, void *data,
			 uint32_t length, uint64_t offset, bool writes,
			 int rw_flags)
{
	struct transfer *t = malloc(sizeof(*t));

	if (!t) {
		loop_complete(dev->loop, user, -ENOMEM);
		return;
	}
	*t = (struct transfer){
		.op.done = transfer_done,
		.user = user,
		.file = file_of(dev),
		.data = data,
		.left = length,
		.offset = offset,
		.rw_flags = rw_flags,
		.writes = writes,
	};
	if (t->file->direct)
		loop_disk_begin(dev->loop);
	t->file->writes += t->writes;
	transfer_start(t);
}

static void file_read_op(struct blockdev *dev, struct op *op, void *data,
			 uint32_t length, uint64_t offset)
{
	if (cached_read(file_of(dev), data, length, offset))
		loop_complete(dev->loop, op, 0);
	else
		transfer_new(dev, op, data, length, offset, false, 0);
}

/* ---- writes to memory ---- */

/*
 * Write to the page cache on the loop's own thread. By the ring a thread of the
 * kernel makes each write to a file system without RWF_NOWAIT (ext4): two
 * changes of task, more than the write itself. The kernel makes a write wait,
 * though, while too much memory is dirty or a journal is full.
 *
 * So a lone write of whole pages is tried here, where the loop's owner allows
 * it. Each one that waited leaves more of the next ones to the ring. False: it
 * is not done, or in part.
 */
static bool cached_write(struct file *file, const void *data, uint32_t length,
			 uint64_t offset, unsigned flags)
{
	struct loop *loop = file->dev.loop;
	ssize_t n;

	if (file->direct || flags & BLOCKDEV_FUA || length > SMALL ||
	    (offset | length) % PAGE != 0 || file->writes > 0 ||
	    !loop_sq_empty(loop))
		return false;
	if (file->aside > 0) {
		file->aside--;
		return false;
	}
	if (!loop_block_begin(loop))
		return false;
	n = pwrite(file->fd, data, length, (off_t)offset);
	if (loop_block_end(loop) > WAITED_NS) {
		file->aside = 32u << file->slow;
		file->slow += file->slow < SLOW_MAX;
	} else {
		file->slow -= file->slow > 0;
	}
	return n == (ssize_t)length;
}

static void file_write_op(struct blockdev *dev, struct op *op, const void *data,
			  uint32_t length, uint64_t offset, unsigned flags)
{
	if (cached_write(file_of(dev), data, length, offset, flags))
		loop_complete(dev->loop, op, 0);
	else
		transfer_new(dev, op, (void *)data, length, offset, true,
			     flags & BLOCKDEV_FUA ? RWF_DSYNC : 0);
}

struct flush {
	struct op op;
	struct op *user;
	struct file *file;
};

static void flush_done(struct op *op, int res)
{
	struct flush *flush = container_of(op, struct flush, op);
	struct op *user = flush->user;

	blockdev_note_fault(&flush->file->dev, res);
	free(flush);
	user->done(user, res);
}

static void file_flush_op(struct blockdev *dev, struct op *op)
{
	struct flush *flush = malloc(sizeof(*flush));

	if (!flush) {
		loop_complete(dev->loop, op, -ENOMEM);
		return;
	}
	*flush = (struct flush){{.done = flush_done}, op, file_of(dev)};
	loop_fdatasync(dev->loop, &flush->op, flush->file->fd);
}

/* ---- cache: by the page cache's own readahead ---- */

static void file_cache_op(struct blockdev *dev, struct op *op, uint64_t offset,
			  uint64_t length)
{
	loop_fadvise(dev->loop, op, file_of(dev)->fd, offset, length,
		     POSIX_FADV_WILLNEED);
}

/* ---- status: lseek can wait for the disk, so it runs beside the loop ---- */

struct status_work {
	struct loop_work work;
	struct op *user;
	struct file *file;
	uint64_t offset; /* bytes */
	uint64_t end;    /* bytes */
	struct blockdev_status *ret;
	unsigned max;
};

static void run_add(struct status_work *s, unsigned *n, uint64_t until,
		    unsigned flags)
{
	s->ret[*n].length = until - s->offset;
	s->ret[*n].flags = flags;
	s->offset = until;
	(*n)++;
}

static int status_run(struct loop_work *work)
{
	struct status_work *s = container_of(work, struct status_work, work);
	unsigned n = 0;

	while (n < s->max && s->offset < s->end) {
		off_t data = lseek(s->file->fd, (off_t)s->offset, SEEK_DATA);
		off_t hole;

		if (data < 0 && errno != ENXIO)
			return -errno;
		if (data < 0 || (uint64_t)data >= s->end) {
			run_add(s, &n, s->end, BLOCKDEV_HOLE | BLOCKDEV_ZERO);
			continue;
		}
		if ((uint64_t)data > s->offset) {
			run_add(s, &n, (uint64_t)data,
				BLOCKDEV_HOLE | BLOCKDEV_ZERO);
			continue;
		}
		hole = lseek(s->file->fd, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		run_add(s, &n,
			(uint64_t)hole < s->end ? (uint64_t)hole : s->end, 0);
	}
	return (int)n;
}

static void status_done(struct loop_work *work, int res)
{
	struct status_work *s = container_of(work, struct status_work, work);
	struct op *user = s->user;

	free(s);
	user->done(user, res);
}

static void file_status_op(struct blockdev *dev, struct op *op, uint64_t offset,
			   uint64_t length, struct blockdev_status *ret,
			   unsigned max)
{
	struct status_work *s = calloc(1, sizeof(*s));

	if (!s) {
		loop_complete(dev->loop, op, -ENOMEM);
		return;
	}
	s->work.run = status_run;
	s->work.done = status_done;
	s->user = op;
	s->file = file_of(dev);
	s->offset = offset;
	s->end = offset + length;
	s->ret = ret;
	s->max = max;
	loop_work(dev->loop, &s->work);
}

static void file_close_op(struct blockdev *dev)
{
	struct file *file = file_of(dev);

	fd_close(file->fd);
	free(file);
}

static const struct blockdev_ops cached_file_ops = {
	.read = file_read_op,
	.write = file_write_op,
	.flush = file_flush_op,
	.discard = file_discard_op,
	.write_zeroes = file_zero_op,
	.cache = file_cache_op,
	.status = file_status_op,
	.close = file_close_op,
};

/* Past the page cache there is nothing to read ahead into. */
static const struct blockdev_ops file_ops = {
	.read = file_read_op,
	.write = file_write_op,
	.flush = file_flush_op,
	.discard = file_discard_op,
	.write_zeroes = file_zero_op,
	.status = file_status_op,
	.close = file_close_op,
};

/* lseek knows no holes of a block device, and its size is not ours. */
static const struct blockdev_ops device_ops = {
	.read = file_read_op,
	.write = file_write_op,
	.flush = file_flush_op,
	.discard = file_discard_op,
	.write_zeroes = file_zero_op,
	.close = file_close_op,
};

static int file_size_of(int fd, const char *path, bool *ret_is_device,
			uint64_t *ret_size, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "stat '%s': %s", path,
				 strerror(errno));
	*ret_is_device = S_ISBLK(st.st_mode);
	if (S_ISREG(st.st_mode)) {
		*ret_size = (uint64_t)st.st_size;
		return 0;
	}
	if (!S_ISBLK(st.st_mode))
		return error_set(err, EINVAL,
				 "'%s' is neither a file nor a block device",
				 path);
	if (ioctl(fd, BLKGETSIZE64, ret_size) < 0)
		return error_set(err, errno, "size of '%s': %s", path,
				 strerror(errno));
	return 0;
}

int blockdev_file_open(struct loop *loop, const char *path, uint64_t size,
		       unsigned flags, struct blockdev **ret, struct error *err)
{
	bool read_only = flags & BLOCKDEV_FILE_READ_ONLY;
	bool direct = flags & BLOCKDEV_FILE_DIRECT;
	auto_close int fd = open(path, (read_only ? O_RDONLY : O_RDWR) |
					       (direct ? O_DIRECT : 0) |
					       O_CLOEXEC | O_NOCTTY);
	bool is_device = false;
	uint64_t has = 0;
	struct file *file;
	int r;

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	r = file_size_of(fd, path, &is_device, &has, err);
	if (r < 0)
		return r;
	if (size == 0)
		size = has;
	if (size == 0 || has < size)
		return error_set(err, EINVAL,
				 "'%s' is %llu bytes, %llu are needed", path,
				 (unsigned long long)has,
				 (unsigned long long)size);
	file = calloc(1, sizeof(*file));
	if (!file)
		return error_set(err, ENOMEM, "no memory for a device");
	file->dev = (struct blockdev){
		.ops = &file->ops,
		.loop = loop,
		.size = size,
		.block_size = direct ? DIRECT_BLOCK : 1,
		.preferred_size = DIRECT_BLOCK,
		.read_only = read_only,
	};
	file->ops = is_device ? device_ops
		    : direct  ? file_ops
			      : cached_file_ops;
	file->fd = take_fd(&fd);
	file->direct = direct;
	*ret = &file->dev;
	return 0;
}
