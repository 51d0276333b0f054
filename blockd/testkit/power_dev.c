/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/power_dev.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define TURNS_MAX 6u /* of the loop, that an operation takes */

struct power_dev {
	struct blockdev dev;
	struct power *power;
	unsigned random;
	enum power_dev_flaw flaw;
};

/* One operation under way. */
struct turn {
	struct loop_message message;
	struct power_dev *dev;
	struct op *user;
	unsigned left; /* turns of the loop */
	void (*end)(struct turn *turn);
	void *data; /* of a read; of a write, owned: what it was given */
	uint32_t length;
	uint64_t offset;
	unsigned flags;
};

static unsigned below(struct power_dev *dev, unsigned n)
{
	dev->random = dev->random * 1103515245 + 12345;
	return (dev->random >> 8) % n;
}

static void turn_run(struct loop_message *message)
{
	struct turn *turn = container_of(message, struct turn, message);
	struct op *user = turn->user;

	if (turn->left-- > 0) {
		loop_post(turn->dev->dev.loop, &turn->message);
		return;
	}
	turn->end(turn);
	free(turn);
	user->done(user, 0);
}

static struct turn *turn_new(struct blockdev *dev, struct op *user, void *data,
			     uint32_t length, uint64_t offset,
			     void (*end)(struct turn *turn))
{
	struct power_dev *power_dev = container_of(dev, struct power_dev, dev);
	struct turn *turn = calloc(1, sizeof(*turn));

	if (!turn)
		abort(); /* of a test */
	turn->message.run = turn_run;
	turn->dev = power_dev;
	turn->user = user;
	turn->left = below(power_dev, TURNS_MAX);
	turn->end = end;
	turn->data = data;
	turn->length = length;
	turn->offset = offset;
	loop_post(dev->loop, &turn->message);
	return turn;
}

static void read_end(struct turn *turn)
{
	struct raw_medium *medium = &turn->dev->power->medium;

	(void)medium->ops->read(medium, turn->data, turn->length, turn->offset);
}

static void dev_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	(void)turn_new(dev, op, data, length, offset, read_end);
}

/* Some of it, any blocks, or all. */
static void write_blocks(struct turn *turn, enum power_write how)
{
	for (uint32_t at = 0; at < turn->length; at += RAW_BLOCK)
		if (how != POWER_MAYBE || below(turn->dev, 2))
			power_write_block(turn->dev->power, turn->offset + at,
					  (const uint8_t *)turn->data + at,
					  how);
}

static void write_end(struct turn *turn)
{
	const enum power_dev_flaw flaw = turn->dev->flaw;
	enum power_write how = POWER_CACHED;

	if (turn->flags & BLOCKDEV_FUA && flaw != POWER_DEV_LOSES_FUA)
		how = POWER_AT_ONCE;
	write_blocks(turn, how);
	free(turn->data);
}

/* The reader has it, the medium may not. */
static void write_lost(struct turn *turn)
{
	for (uint32_t at = 0; at < turn->length; at += RAW_BLOCK)
		power_write_block(turn->dev->power, turn->offset + at,
				  (const uint8_t *)turn->data + at,
				  POWER_MAYBE);
	free(turn->data);
}

/* Takes @data. */
static void write_start(struct blockdev *dev, struct op *op, void *data,
			uint32_t length, uint64_t offset, unsigned flags)
{
	struct turn *turn = turn_new(dev, op, data, length, offset, write_end);

	turn->flags = flags;
	if (turn->dev->flaw == POWER_DEV_LOSES_WRITES && !below(turn->dev, 2))
		turn->end = write_lost;
	else if (!below(turn->dev, 3))
		write_blocks(turn, POWER_MAYBE);
}

static void *copy_of(const void *data, uint32_t length)
{
	void *copy = calloc(1, length);

	if (!copy)
		abort(); /* of a test */
	if (data)
		memcpy(copy, data, length);
	return copy;
}

static void dev_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	write_start(dev, op, copy_of(data, length), length, offset, flags);
}

static void dev_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	write_start(dev, op, copy_of(NULL, (uint32_t)length), (uint32_t)length,
		    offset, flags);
}

static void nothing_end(struct turn *turn)
{
	(void)turn;
}

/* Carried out as it begins: what is done before it ends it need not have. */
static void dev_flush(struct blockdev *dev, struct op *op)
{
	struct turn *turn = turn_new(dev, op, NULL, 0, 0, nothing_end);
	struct raw_medium *medium = &turn->dev->power->medium;

	(void)medium->ops->flush(medium);
}

static void dev_close(struct blockdev *dev)
{
	free(container_of(dev, struct power_dev, dev));
}

static const struct blockdev_ops power_dev_ops = {
	.read = dev_read,
	.write = dev_write,
	.flush = dev_flush,
	.write_zeroes = dev_write_zeroes,
	.close = dev_close,
};

int power_dev_open(const struct power_dev_options *options, struct loop *loop,
		   struct blockdev **ret, struct error *err)
{
	struct power_dev *dev = calloc(1, sizeof(*dev));

	if (!dev)
		return error_set(err, ENOMEM, "out of memory");
	dev->dev = (struct blockdev){
		.ops = &power_dev_ops,
		.loop = loop,
		.size = options->power->medium.size,
		.block_size = RAW_BLOCK,
		.preferred_size = RAW_BLOCK,
	};
	dev->power = options->power;
	dev->random = options->seed;
	dev->flaw = options->flaw;
	*ret = &dev->dev;
	return 0;
}
