/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which loop devices of this machine hold which files. The kernel's table is
 * one for all mount namespaces, and a file is known by device and inode, so
 * one that was renamed or deleted, or bound in another namespace, is found.
 */
#ifndef BLOCKD_LOCAL_HOLD_H
#define BLOCKD_LOCAL_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LOCAL_HOLD_NAME_MAX 32 /* bytes with NUL: "loop123" */

struct local_hold {
	char name[LOCAL_HOLD_NAME_MAX]; /* "loop3" */
	uint64_t device;                /* stat(2) st_dev of the file */
	uint64_t inode;
	bool read_only;
};

struct local_holds {
	struct local_hold *items; /* owned */
	size_t count;
};

/*
 * All that are bound now. A device that can't be asked is an error, not a
 * file that nobody holds; a kernel without loop devices holds none.
 */
int local_holds_scan(struct local_holds *ret, struct error *err);
void local_holds_done(struct local_holds *holds);

/*
 * Name of a device that holds the file, borrowed; NULL: none does.
 *
 * @writers  only one that may write to it
 */
const char *local_holds_find(const struct local_holds *holds, uint64_t device,
			     uint64_t inode, bool writers);

#endif
