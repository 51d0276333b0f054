/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device in memory. Everything is done at once, and told from the loop's
 * next batch, because done() never comes from inside the call.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/blockdev/blockdev.h"
#include "base/cleanup.h"

struct ram_result {
	struct ram_result *next;
	struct op *op;
	int res;
};

struct ram {
	struct blockdev dev;
	char *data; /* mapped, dev.size bytes */
	struct loop_batch batch;
	struct ram_result *first;
	struct ram_result **last;
};

static struct ram *ram_of(struct blockdev *dev)
{
	return container_of(dev, struct ram, dev);
}

static void results_tell(struct loop_batch *batch)
{
	struct ram *ram = container_of(batch, struct ram, batch);
	struct ram_result *result = ram->first;

	ram->first = NULL;
	ram->last = &ram->first;
	while (result) {
		struct ram_result *next = result->next;
		struct op *op = result->op;
		int res = result->res;

		free(result);
		op->done(op, res);
		result = next;
	}
}

static void result_add(struct ram *ram, struct op *op, int res)
{
	struct ram_result *result = calloc(1, sizeof(*result));

	if (!result)
		abort(); /* a device for tests */
	result->op = op;
	result->res = res;
	*ram->last = result;
	ram->last = &result->next;
	loop_batch_add(ram->dev.loop, &ram->batch);
}

static void ram_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct ram *ram = ram_of(dev);

	memcpy(data, ram->data + offset, length);
	result_add(ram, op, 0);
}

static void ram_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct ram *ram = ram_of(dev);

	(void)flags; /* memory is as durable as it gets */
	memcpy(ram->data + offset, data, length);
	result_add(ram, op, 0);
}

static void ram_flush(struct blockdev *dev, struct op *op)
{
	result_add(ram_of(dev), op, 0);
}

static void ram_zero(struct blockdev *dev, struct op *op, uint64_t offset,
		     uint64_t length, unsigned flags)
{
	struct ram *ram = ram_of(dev);

	(void)flags; /* nothing is ever a hole, and it is always fast */
	memset(ram->data + offset, 0, length);
	result_add(ram, op, 0);
}

static void ram_close(struct blockdev *dev)
{
	struct ram *ram = ram_of(dev);

	loop_batch_remove(dev->loop, &ram->batch);
	(void)munmap(ram->data, dev->size); /* our own mapping */
	free(ram);
}

static const struct blockdev_ops ram_ops = {
	.read = ram_read,
	.write = ram_write,
	.flush = ram_flush,
	.discard = ram_zero,
	.write_zeroes = ram_zero,
	.close = ram_close,
};

int blockdev_ram_open(struct loop *loop, uint64_t size, struct blockdev **ret,
		      struct error *err)
{
	struct ram *ram;
	char *data;

	if (size == 0)
		return error_set(err, EINVAL, "a device of no size");
	data = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (data == MAP_FAILED)
		return error_set(err, errno, "mmap: %s", strerror(errno));
	ram = calloc(1, sizeof(*ram));
	if (!ram) {
		(void)munmap(data, size); /* our own mapping */
		return error_set(err, ENOMEM, "no memory for a device");
	}
	ram->dev = (struct blockdev){
		.ops = &ram_ops,
		.loop = loop,
		.size = size,
		.block_size = 1,
		.preferred_size = 4096,
	};
	ram->data = data;
	ram->batch.run = results_tell;
	ram->last = &ram->first;
	*ret = &ram->dev;
	return 0;
}
