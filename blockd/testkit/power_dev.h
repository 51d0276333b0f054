/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools: a medium of blockd/testkit/power_kit.h as a block
 * device.
 *
 * As a disk does, it carries out what is under way in any order and takes its
 * time: from the moment a write has begun it may be on the medium, from the
 * moment it is done a flush that begins then has it. One with BLOCKDEV_FUA is
 * there when it is done, and nothing else with it.
 */
#ifndef BLOCKD_POWER_DEV_H
#define BLOCKD_POWER_DEV_H

#include "base/blockdev/blockdev.h"
#include "blockd/testkit/power_kit.h"

/* What it does wrong, so that it is found out. */
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
