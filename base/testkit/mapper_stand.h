/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: device mapper devices in memory, over files. They answer the calls
 * of mapper.h, and their requests go where their table in use says. A suspend
 * waits for requests in flight, and holds new ones back, as the kernel does.
 * Thread-safe.
 */
#ifndef BASE_MAPPER_STAND_H
#define BASE_MAPPER_STAND_H

#include "base/dm/mapper.h"

struct mapper_stand;

/* NULL: no memory. */
struct mapper_stand *mapper_stand_new(void);
/* Nobody may be in a call. */
void mapper_stand_free(struct mapper_stand *stand);

/* The calls of mapper.h on these devices; borrowed. */
struct mapper *mapper_stand_mapper(struct mapper_stand *stand);

/* How a device below answers. */
enum mapper_stand_disk_state {
	MAPPER_STAND_WELL,
	MAPPER_STAND_SILENT,  /* its requests wait */
	MAPPER_STAND_FAILING, /* all end with -EIO, waiting ones, too */
};

/* A device below: @device is the file @fd, borrowed. -ENOMEM. */
int mapper_stand_add_disk(struct mapper_stand *stand, dev_t device, int fd);
void mapper_stand_set_disk(struct mapper_stand *stand, dev_t device,
			   enum mapper_stand_disk_state state);

/*
 * Call @before at the begin of each change: "create", "load", "suspend",
 * "resume", "clear", "remove". A negative errno from it is that of the change,
 * which is not made then. NULL: none. It may make calls of its own.
 */
typedef int mapper_stand_before(void *context, const char *change,
				const char *uuid);
void mapper_stand_set_before(struct mapper_stand *stand,
			     mapper_stand_before *before, void *context);

/* Open or close a device: its open count. -ENOENT. */
int mapper_stand_open(struct mapper_stand *stand, const char *uuid);
void mapper_stand_close(struct mapper_stand *stand, const char *uuid);

/*
 * Read or write by a device. Waits while it is suspended. -EIO: past its end,
 * on an error segment, or from below; -ENXIO: no such device.
 */
int mapper_stand_read(struct mapper_stand *stand, const char *uuid, void *data,
		      size_t length, uint64_t offset);
int mapper_stand_write(struct mapper_stand *stand, const char *uuid,
		       const void *data, size_t length, uint64_t offset);

/* Requests in flight on a device below. */
unsigned mapper_stand_in_flight(struct mapper_stand *stand, dev_t device);

#endif
