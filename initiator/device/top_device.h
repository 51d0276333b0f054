/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device that an attachment's users have: a mapper device over the device
 * of its transport. So what is below can be exchanged, or cut off, while the
 * device is in use. Its leftovers are found by their UUID, MAPPER_UUID_PREFIX
 * and the tag's digits. Where the kernel has no device mapper, users have the
 * transport's device.
 */
#ifndef INITIATOR_TOP_DEVICE_H
#define INITIATOR_TOP_DEVICE_H

#include "base/dm/mapper.h"
#include "initiator/device/record.h"

/* Whose devices: mapper_kernel, but in tests. */
extern struct mapper *top_device_mapper;

/* Make the table over record.device alone, of record.size. Owned. */
int top_device_linear(const struct record *record, struct mapper_table *ret,
		      struct error *err);

/*
 * Make one with @table, and set record.top. Its name is @tag. A cut-off device
 * that is still open may have that name: then it is the next free of "TAG-1",
 * "TAG-2".
 */
int top_device_make(struct record *record, const char *tag,
		    const struct mapper_table *table, struct error *err);

/* The UUID of record.top; "": it has none. */
void top_device_uuid(const struct record *record, char *ret, size_t size);

/*
 * Read the table in use; owned. -ENODEV: record.top is gone. -EACCES: this
 * process may not ask, as in a container without the driver's node.
 */
int top_device_read(const struct record *record, struct mapper_table *ret,
		    struct error *err);

/*
 * Check that record.top is there and lies on record.device, or on a disk to
 * which blockd has mapped all of it. -ESTALE: it can only be made anew. Errors
 * of top_device_read().
 */
int top_device_check(const struct record *record, struct error *err);

/*
 * Let one go on that a crash left suspended, and drop a table that was not
 * taken.
 */
int top_device_mend(const struct record *record, struct error *err);

/* Tell whether somebody has it, and it is not cut off. */
bool top_device_in_use(const struct record *record);

/* Tell whether it is cut off: record.top is known. */
bool top_device_is_cut_off(const struct record *record);

/*
 * Get the device that its users have below it now, "/dev/loop3": that of the
 * first segment of its table. -ENOENT.
 */
int top_device_below(const struct record *record,
		     char ret[static DEVICE_PATH_MAX]);

/*
 * Hold its requests back until top_device_follow() or top_device_mend(), with
 * no flush. -ETIMEDOUT: what is below does not answer within @limit_ms; it is
 * not held.
 */
int top_device_hold(const struct record *record, int limit_ms,
		    struct error *err);

/* Let it have @table, while it is in use. */
int top_device_follow(const struct record *record,
		      const struct mapper_table *table, struct error *err);

/*
 * Make each request to the devices of @tag fail from now on. -ETIMEDOUT: what
 * is below has requests and does not answer.
 */
int top_device_fence(const char *tag, struct error *err);

/*
 * Take the devices of @tag away. In use: -EBUSY, which names the user. One that
 * is cut off goes when its last user closes it, and holds nothing below: 0.
 */
int top_device_remove(const char *tag, struct error *err);

#endif
