/* SPDX-License-Identifier: Apache-2.0 */
/* Reads without a copy: pages of the page cache into a pipe. */
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>

#include "base/blockdev_file.h"

bool file_can_pipe(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	switch ((unsigned)fs.f_type) {
	case EXT4_SUPER_MAGIC: /* ext2 and ext3, too */
	case BTRFS_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case TMPFS_MAGIC: return true;
	default: return false;
	}
}

/* Gone on with until it is whole. */
struct piping {
	struct op op;
	struct op *user;
	struct file *file;
	struct iobuf *buf;
	uint32_t left;   /* bytes */
	uint64_t offset; /* bytes */
};

static void piping_start(struct piping *p)
{
	loop_read_pipe(p->file->dev.loop, &p->op, p->file->fd, p->buf, p->left,
		       p->offset);
}

static void piping_done(struct op *op, int res)
{
	struct piping *p = container_of(op, struct piping, op);
	struct op *user = p->user;

	/* The file is shorter than it was, as can be seen or as all fits in. */
	if (res == 0 || res == -EAGAIN)
		res = -EIO;
	if (res > 0) {
		p->buf->piped += (uint32_t)res;
		p->offset += (uint32_t)res;
		p->left -= (uint32_t)res;
	}
	if (res == -EINTR || (res > 0 && p->left > 0)) {
		piping_start(p);
		return;
	}
	if (res < 0)
		blockdev_note_fault(&p->file->dev, res);
	free(p);
	user->done(user, res < 0 ? res : 0);
}

void file_read_pipe_op(struct blockdev *dev, struct op *op, struct iobuf *buf,
		       uint32_t length, uint64_t offset)
{
	struct piping *p = malloc(sizeof(*p));

	if (!p) {
		file_tell_later(dev, op, -ENOMEM);
		return;
	}
	*p = (struct piping){
		.op.done = piping_done,
		.user = op,
		.file = file_of(dev),
		.buf = buf,
		.left = length,
		.offset = offset,
	};
	piping_start(p);
}
