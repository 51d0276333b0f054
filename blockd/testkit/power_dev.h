/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools: a medium of blockd/testkit/power_kit.h as a block
 * device.
 *
 * Like a disk, the device carries out requests in any order and takes its time.
 * From the moment a write has begun it may be on the medium. From the moment it
 * is done a flush that begins then has it. A write with BLOCKDEV_FUA is there
 * when it is done, and nothing else with it.
 */
#ifndef BLOCKD_POWER_DEV_H
#define BLOCKD_POWER_DEV_H

#include "base/blockdev/blockdev.h"
#include "blockd/testkit/power_kit.h"

/* Flaws of the device, so that a test finds them. */
enum power_dev_flaw {
	POWER_DEV_SOUND,
	POWER_DEV_LOSES_WRITES, /* a flush may not have what is done */
	POWER_DEV_LOSES_FUA,    /* it is an ordinary write */
};

struct power_dev_options {
	struct power *power; /* borrowed */
	unsigned seed;       /* of how long things take */
	enum power_dev_flaw flaw;
};

int power_dev_open(const struct power_dev_options *options, struct loop *loop,
		   struct blockdev **ret, struct error *err);

#endif
