/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/slow_disk_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DELAY_MS 2u /* for each operation, unless said otherwise */

struct slow_disk slow_disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct slow_op {
	struct loop_timer timer;
	struct loop *loop;
	struct op *user;
	uint64_t offset;
	int res;
};

static void slow_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct slow_op *slow = container_of(timer, struct slow_op, timer);
	struct op *user = slow->user;

	if (slow->offset >= slow_disk.held) {
		loop_timer_start(slow->loop, timer, DELAY_MS);
		return;
	}
	res = slow->res;
	free(slow);
	slow_disk.in_flight--;
	user->done(user, res);
}

static void slow_start(struct blockdev *dev, struct op *user, uint32_t length,
		       uint64_t offset)
{
	struct slow_op *slow = calloc(1, sizeof(*slow));

	assert_non_null(slow);
	slow_disk.in_flight++;
	slow_disk.operations++;
	if (length > slow_disk.largest)
		slow_disk.largest = length;
	slow->loop = dev->loop;
	slow->user = user;
	slow->offset = offset;
	slow->res = offset == slow_disk.bad ? -EIO : 0;
	slow->timer.op.done = slow_done;
	loop_timer_start(dev->loop, &slow->timer, slow_disk.delay_ms);
}

static void slow_read(struct blockdev *dev, struct op *op, void *data,
		      uint32_t length, uint64_t offset)
{
	pthread_mutex_lock(&slow_disk.lock);
	memcpy(data, slow_disk.data + offset, length);
	pthread_mutex_unlock(&slow_disk.lock);
	slow_start(dev, op, length, offset);
}

static void slow_write(struct blockdev *dev, struct op *op, const void *data,
		       uint32_t length, uint64_t offset, unsigned flags)
{
	pthread_mutex_lock(&slow_disk.lock);
	memcpy(slow_disk.data + offset, data, length);
	pthread_mutex_unlock(&slow_disk.lock);
	slow_disk.flags |= flags;
	slow_start(dev, op, length, offset);
}

static void slow_flush(struct blockdev *dev, struct op *op)
{
	slow_start(dev, op, 0, 0);
}

static void slow_close(struct blockdev *dev)
{
	slow_disk.open--;
	free(dev);
}

static const struct blockdev_ops slow_ops = {
	.read = slow_read,
	.write = slow_write,
	.flush = slow_flush,
	.close = slow_close,
};

void slow_disk_reset(void)
{
	slow_disk.operations = slow_disk.largest = slow_disk.flags = 0;
	slow_disk.bad = slow_disk.held = UINT_MAX;
	slow_disk.delay_ms = DELAY_MS;
	slow_disk.block_size = 512;
}

int slow_disk_open(void *context, struct loop *loop, bool read_only,
		   struct blockdev **ret, struct error *err)
{
	struct blockdev *dev = calloc(1, sizeof(*dev));

	(void)context;
	(void)err;
	assert_non_null(dev);
	*dev = (struct blockdev){
		.ops = &slow_ops,
		.loop = loop,
		.size = SLOW_DISK_SIZE,
		.block_size = slow_disk.block_size,
		.preferred_size = 4096,
		.read_only = read_only,
	};
	slow_disk.open++;
	*ret = dev;
	return 0;
}

void slow_disk_fill(const uint8_t *data, size_t length)
{
	pthread_mutex_lock(&slow_disk.lock);
	if (data)
		memcpy(slow_disk.data, data, length);
	else
		memset(slow_disk.data, 0, length);
	pthread_mutex_unlock(&slow_disk.lock);
}

void slow_disk_check(const uint8_t *data, size_t length)
{
	pthread_mutex_lock(&slow_disk.lock);
	assert_memory_equal(slow_disk.data, data, length);
	pthread_mutex_unlock(&slow_disk.lock);
}

void slow_disk_await(unsigned operations)
{
	while (slow_disk.operations < operations)
		usleep(1000);
}
