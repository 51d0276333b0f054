/* SPDX-License-Identifier: Apache-2.0 */
#include "base/blockdev/blockdev.h"

#include <assert.h>
#include <errno.h>

bool blockdev_range_ok(const struct blockdev *dev, uint64_t offset,
		       uint64_t length)
{
	uint64_t end;

	return length > 0 && !__builtin_add_overflow(offset, length, &end) &&
	       end <= dev->size;
}

static void range_assert(const struct blockdev *dev, uint64_t offset,
			 uint64_t length)
{
	assert(offset <= dev->size && length <= dev->size - offset);
	assert(length > 0 && length <= BLOCKDEV_LENGTH_MAX);
	assert(((offset | length) & (dev->block_size - 1)) == 0);
}

bool blockdev_is_fault(int res)
{
	switch (-res) {
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EINTR:
	case EAGAIN:
	case EINVAL:
	case ERANGE:
	case EEXIST:
	case EBUSY:
	case ENOSYS:
	case EOPNOTSUPP:
	case ECANCELED: return false;
	default: return res < 0;
	}
}

void blockdev_note_fault(const struct blockdev *dev, int res)
{
	if (dev->fault && blockdev_is_fault(res))
		dev->fault(dev->fault_context);
}

void blockdev_read(struct blockdev *dev, struct op *op, void *data,
		   uint32_t length, uint64_t offset)
{
	range_assert(dev, offset, length);
	dev->ops->read(dev, op, data, length, offset);
}

void blockdev_write(struct blockdev *dev, struct op *op, const void *data,
		    uint32_t length, uint64_t offset, unsigned flags)
{
	assert(!dev->read_only);
	range_assert(dev, offset, length);
	dev->ops->write(dev, op, data, length, offset, flags);
}

void blockdev_flush(struct blockdev *dev, struct op *op)
{
	dev->ops->flush(dev, op);
}

void blockdev_discard(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length, unsigned flags)
{
	assert(!dev->read_only && dev->ops->discard);
	range_assert(dev, offset, length);
	dev->ops->discard(dev, op, offset, length, flags);
}

void blockdev_write_zeroes(struct blockdev *dev, struct op *op, uint64_t offset,
			   uint64_t length, unsigned flags)
{
	assert(!dev->read_only && dev->ops->write_zeroes);
	range_assert(dev, offset, length);
	dev->ops->write_zeroes(dev, op, offset, length, flags);
}

void blockdev_cache(struct blockdev *dev, struct op *op, uint64_t offset,
		    uint64_t length)
{
	assert(dev->ops->cache);
	range_assert(dev, offset, length);
	dev->ops->cache(dev, op, offset, length);
}

void blockdev_get_status(struct blockdev *dev, struct op *op, uint64_t offset,
			 uint64_t length, struct blockdev_status *ret,
			 unsigned max)
{
	assert(dev->ops->status && max > 0);
	assert(blockdev_range_ok(dev, offset, length));
	dev->ops->status(dev, op, offset, length, ret, max);
}

void blockdev_grown(struct blockdev *dev, uint64_t size)
{
	if (size > dev->size)
		dev->size = size;
}

void blockdev_close(struct blockdev *dev)
{
	if (dev)
		dev->ops->close(dev);
}
