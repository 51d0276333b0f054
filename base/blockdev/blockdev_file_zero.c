/* SPDX-License-Identifier: Apache-2.0 */
/* Discard and zeroes of a file or device: by the best way that it has. */
#include <errno.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/blockdev/blockdev_file.h"

#define ZERO_CHUNK (UINT32_C(1) << 20) /* bytes, where zeroes are written */

/* Steps to try, from the best way down; each may be refused. */
enum zero_step {
	ZERO_PUNCH, /* a hole: reads as zeroes, frees the space */
	ZERO_RANGE, /* allocated, unwritten */
	ZERO_WRITE, /* zeroes written */
	ZERO_SYNC,  /* FUA: make it durable */
	ZERO_END,
};

struct zeroing {
	struct op op;
	struct op *user;
	struct file *file;
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes */
	unsigned flags;  /* enum blockdev_flag */
	enum zero_step step;
	bool discards; /* the content may stay: no zeroes are written */
	char *zeroes;  /* ZERO_CHUNK bytes, for ZERO_WRITE */
};

static void zeroing_step(struct zeroing *z);

static void zeroing_end(struct zeroing *z, int res)
{
	struct op *user = z->user;

	if (res < 0)
		blockdev_note_fault(&z->file->dev, res);
	free(z->zeroes);
	free(z);
	user->done(user, res);
}

static bool refused(int res)
{
	return res == -EOPNOTSUPP || res == -EINVAL || res == -ENODEV ||
	       res == -ENOSYS;
}

/* The next way down after @step was refused. */
static void zeroing_lower(struct zeroing *z)
{
	struct file *file = z->file;

	if (z->step == ZERO_PUNCH) {
		file->punch_bad = true;
		/* A discard frees space or does nothing. */
		z->step = z->discards ? ZERO_END : ZERO_RANGE;
	} else {
		file->zero_range_bad = true;
		z->step = ZERO_WRITE;
	}
}

static void zeroing_advance(struct zeroing *z)
{
	if (z->step == ZERO_WRITE && z->length > 0)
		return;
	z->step = z->flags & BLOCKDEV_FUA && z->step < ZERO_SYNC ? ZERO_SYNC
								 : ZERO_END;
}

static void zeroing_done(struct op *op, int res)
{
	struct zeroing *z = container_of(op, struct zeroing, op);

	if (res == -EINTR) {
		zeroing_step(z);
		return;
	}
	if (refused(res) && z->step < ZERO_WRITE) {
		zeroing_lower(z);
		zeroing_step(z);
		return;
	}
	if (res < 0) {
		zeroing_end(z, res);
		return;
	}
	if (z->step == ZERO_WRITE) {
		z->offset += (unsigned)res;
		z->length -= (unsigned)res;
	}
	zeroing_advance(z);
	zeroing_step(z);
}

static void zeroing_write(struct zeroing *z)
{
	uint64_t length = z->length < ZERO_CHUNK ? z->length : ZERO_CHUNK;

	if (z->flags & BLOCKDEV_FAST) {
		loop_complete(z->file->dev.loop, z->user, -EOPNOTSUPP);
		free(z);
		return;
	}
	if (!z->zeroes && posix_memalign((void **)&z->zeroes, DIRECT_BLOCK,
					 ZERO_CHUNK) != 0) {
		z->zeroes = NULL;
		loop_complete(z->file->dev.loop, z->user, -ENOMEM);
		free(z);
		return;
	}
	memset(z->zeroes, 0, ZERO_CHUNK);
	loop_write(z->file->dev.loop, &z->op, z->file->fd, z->zeroes,
		   (uint32_t)length, z->offset, 0);
}

static void zeroing_step(struct zeroing *z)
{
	struct loop *loop = z->file->dev.loop;
	int fd = z->file->fd;

	switch (z->step) {
	case ZERO_PUNCH:
		loop_fallocate(loop, &z->op, fd,
			       FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			       z->offset, z->length);
		break;
	case ZERO_RANGE:
		loop_fallocate(loop, &z->op, fd,
			       FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
			       z->offset, z->length);
		break;
	case ZERO_WRITE: zeroing_write(z); break;
	case ZERO_SYNC: loop_fdatasync(loop, &z->op, fd); break;
	case ZERO_END: zeroing_end(z, 0); break;
	}
}

/* Start where it is known not to be refused. */
static enum zero_step first_step(const struct file *file, bool may_punch)
{
	if (may_punch && !file->punch_bad)
		return ZERO_PUNCH;
	return file->zero_range_bad ? ZERO_WRITE : ZERO_RANGE;
}

static void zeroing_new(struct blockdev *dev, struct op *user, uint64_t offset,
			uint64_t length, unsigned flags, bool discards)
{
	struct file *file = file_of(dev);
	struct zeroing *z;

	if (discards && file->punch_bad) { /* a hint, and FUA adds nothing */
		loop_complete(dev->loop, user, 0);
		return;
	}
	z = calloc(1, sizeof(*z));
	if (!z) {
		loop_complete(dev->loop, user, -ENOMEM);
		return;
	}
	z->op.done = zeroing_done;
	z->user = user;
	z->file = file;
	z->offset = offset;
	z->length = length;
	z->flags = flags;
	z->discards = discards;
	z->step = first_step(file, discards || !(flags & BLOCKDEV_NO_HOLE));
	zeroing_step(z);
}

void file_discard_op(struct blockdev *dev, struct op *op, uint64_t offset,
		     uint64_t length, unsigned flags)
{
	zeroing_new(dev, op, offset, length, flags, true);
}

void file_zero_op(struct blockdev *dev, struct op *op, uint64_t offset,
		  uint64_t length, unsigned flags)
{
	zeroing_new(dev, op, offset, length, flags, false);
}
