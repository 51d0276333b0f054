/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block device: a target serves it, a pool provides it. Neither sees more of
 * the other than this.
 *
 * A blockdev belongs to one loop; all calls are made there. Each operation
 * completes through op->done() exactly once, on the loop, never from inside
 * the call: 0 or a negative errno (never a short count). Ranges are bytes,
 * inside the device, multiples of block_size, not empty, at most
 * BLOCKDEV_LENGTH_MAX (but that of status); the wrappers below assert it. The
 * target checks a peer's range with blockdev_range_ok() first.
 *
 * Durability: a write is durable once a flush that began after its done()
 * is done, or at its done() with BLOCKDEV_FUA.
 */
#ifndef BASE_BLOCKDEV_H
#define BASE_BLOCKDEV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/loop/loop.h"

#define BLOCKDEV_LENGTH_MAX UINT32_C(0x80000000) /* bytes, one operation */

enum blockdev_flag {
	BLOCKDEV_FUA = 1 << 0,     /* durable when done */
	BLOCKDEV_NO_HOLE = 1 << 1, /* write-zeroes: keep the space allocated */
	BLOCKDEV_FAST = 1 << 2,    /* write-zeroes: -EOPNOTSUPP if not fast */
};

enum blockdev_status_flag {
	BLOCKDEV_HOLE = 1 << 0, /* not allocated */
	BLOCKDEV_ZERO = 1 << 1, /* reads as zeroes */
};

/* One run of a device with one status. */
struct blockdev_status {
	uint64_t length; /* bytes */
	unsigned flags;  /* enum blockdev_status_flag; 0: data */
};

struct blockdev;

/*
 * Functions of a device. They look at no range: the wrappers below do. A device
 * that stands on another one calls the other's functions directly, as its own
 * ranges have been checked. The other device's size need not follow its own.
 */
struct blockdev_ops {
	/* Required. */
	void (*read)(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset);
	void (*write)(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags);
	void (*flush)(struct blockdev *dev, struct op *op);
	/* Free everything. Nothing is in flight. */
	void (*close)(struct blockdev *dev);

	/* Optional. NULL: not advertised. A hint: it may free nothing. */
	void (*discard)(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags);
	/* Optional. NULL: the target writes zeroes itself. */
	void (*write_zeroes)(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags);
	/*
	 * Optional. NULL: not advertised. The range will be read soon; a
	 * hint: it need not be in memory once this is done.
	 */
	void (*cache)(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length);
	/*
	 * Optional. NULL: everything is data. Fills up to @max runs from
	 * @offset on; the last may end anywhere inside the range, never past
	 * it. done(number of runs, at least 1).
	 */
	void (*status)(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max);
};

struct blockdev {
	const struct blockdev_ops *ops;
	struct loop *loop;
	uint64_t size;           /* bytes */
	uint32_t block_size;     /* bytes, power of two: smallest unit */
	uint32_t preferred_size; /* bytes, power of two: best unit */
	bool read_only;
	/*
	 * An operation has failed in a way that says something of the medium
	 * (blockdev_is_fault()). On the loop, before its done(); brief. NULL:
	 * nobody wants to know.
	 */
	void (*fault)(void *context);
	void *fault_context;
};

/*
 * Tell whether an error, negative, may come from the medium. Lack of room or
 * memory, and a request that cannot be, give other errors.
 */
bool blockdev_is_fault(int res);
/* Call dev->fault, if any, when @res is such an error. */
void blockdev_note_fault(const struct blockdev *dev, int res);

/*
 * Tell whether the range is not empty, does not wrap, and is inside the device.
 */
bool blockdev_range_ok(const struct blockdev *dev, uint64_t offset,
		       uint64_t length);

void blockdev_read(struct blockdev *dev, struct op *op, void *data,
		   uint32_t length, uint64_t offset);
void blockdev_write(struct blockdev *dev, struct op *op, const void *data,
		    uint32_t length, uint64_t offset, unsigned flags);
void blockdev_flush(struct blockdev *dev, struct op *op);
void blockdev_discard(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length, unsigned flags);
void blockdev_write_zeroes(struct blockdev *dev, struct op *op, uint64_t offset,
			   uint64_t length, unsigned flags);
void blockdev_cache(struct blockdev *dev, struct op *op, uint64_t offset,
		    uint64_t length);
void blockdev_get_status(struct blockdev *dev, struct op *op, uint64_t offset,
			 uint64_t length, struct blockdev_status *ret,
			 unsigned max);

/*
 * Take a new size: the owner made the file or disk behind the device longer,
 * not through this device. The device has @size bytes from here on. Less than
 * it has changes nothing.
 */
void blockdev_grown(struct blockdev *dev, uint64_t size);

/* NULL is fine. */
void blockdev_close(struct blockdev *dev);

/* A device of zeroes in memory: for tests. */
int blockdev_ram_open(struct loop *loop, uint64_t size, struct blockdev **ret,
		      struct error *err);

enum blockdev_file_flag {
	BLOCKDEV_FILE_DIRECT = 1 << 0, /* O_DIRECT; 4 KiB blocks */
	BLOCKDEV_FILE_READ_ONLY = 1 << 1,
};

/*
 * A regular file or block device by io_uring. Holes stay holes; discard
 * punches them. @size: bytes, 0 for the file's own size; the file must be at
 * least that long.
 * Blocks briefly (open, fstat).
 */
int blockdev_file_open(struct loop *loop, const char *path, uint64_t size,
		       unsigned flags, struct blockdev **ret,
		       struct error *err);

#endif
