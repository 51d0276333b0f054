/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_ublk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ublk_cmd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/loop/driver_ring.h"
#include "initiator/device/ublk_device.h"

/* By their numbers of Linux 6.4 and later: linux/ublk_cmd.h. */
#define COMMAND_FETCH  _IOWR('u', 0x20, struct ublksrv_io_cmd)
#define COMMAND_COMMIT _IOWR('u', 0x21, struct ublksrv_io_cmd)

#define SECTOR_SHIFT 9
/* For the kernel to see that a process has gone. */
#define GONE_LIMIT_MS 10000
#define GONE_STEP_MS  5

struct slot {
	struct nbd_parts_request request; /* first: its end finds the slot */
	struct nbd_ublk *ublk;
	uint8_t *data;
};

struct nbd_ublk {
	struct driver_ring *ring;
	int fd; /* /dev/ublkcN */
	unsigned id;
	struct nbd_parts *parts;
	bool read_only;
	uint32_t data_max;                   /* bytes of a request */
	const struct ublksrv_io_desc *descs; /* the kernel's, by slot */
	size_t descs_length;
	uint8_t *memory;
	unsigned ended; /* slots that the kernel has taken back */
	struct slot slots[UBLK_DEVICE_DEPTH];
};

/* Tell the kernel how a slot's request ended, and ask for another. */
static void queue_command(struct slot *s, unsigned operation, int result)
{
	const struct nbd_ublk *u = s->ublk;
	const struct ublksrv_io_cmd what = {
		.tag = (uint16_t)(s - u->slots),
		.result = result,
		.addr = (uintptr_t)s->data,
	};

	driver_ring_push(u->ring, u->fd, operation, &what, sizeof(what),
			 what.tag);
}

/* ---- requests ---- */

static void slot_done(struct nbd_parts_request *r, int error, const void *data)
{
	struct slot *s = container_of(r, struct slot, request);
	bool has_data = r->type == NBD_CMD_READ || r->type == NBD_CMD_WRITE;

	(void)data; /* a read's is in the slot already */
	queue_command(s, COMMAND_COMMIT,
		      error      ? error
		      : has_data ? (int)r->length
				 : 0);
}

static void slot_submit(struct slot *s, uint16_t type, uint16_t flags)
{
	s->request.type = type;
	s->request.flags = flags;
	s->request.done = slot_done;
	nbd_parts_submit(s->ublk->parts, &s->request);
}

/* What lies behind the data. */
static void answer_behind(struct slot *s, unsigned op, uint64_t length)
{
	bool reads = op == UBLK_IO_OP_READ;

	if (reads)
		memset(s->data, 0, length);
	queue_command(s, COMMAND_COMMIT, reads ? (int)length : -EIO);
}

/* Of data that is there. */
static void submit_data(struct slot *s, unsigned op, unsigned flags)
{
	switch (op) {
	case UBLK_IO_OP_READ:
		s->request.into = s->data;
		slot_submit(s, NBD_CMD_READ, 0);
		break;
	case UBLK_IO_OP_WRITE:
		s->request.data = s->data;
		slot_submit(s, NBD_CMD_WRITE,
			    flags & UBLK_IO_F_FUA ? NBD_CMD_FLAG_FUA : 0);
		break;
	case UBLK_IO_OP_WRITE_ZEROES:
		slot_submit(s, NBD_CMD_WRITE_ZEROES,
			    flags & UBLK_IO_F_NOUNMAP ? NBD_CMD_FLAG_NO_HOLE
						      : 0);
		break;
	case UBLK_IO_OP_DISCARD:
		/* NBD's TRIM promises no zeroes: nbd_fuse.c. */
		slot_submit(s, NBD_CMD_WRITE_ZEROES, 0);
		break;
	default: queue_command(s, COMMAND_COMMIT, -EOPNOTSUPP);
	}
}

static void take_request(struct slot *s)
{
	struct nbd_ublk *u = s->ublk;
	const struct ublksrv_io_desc *d = &u->descs[s - u->slots];
	const uint64_t size = nbd_parts_size(u->parts);
	const uint64_t length = (uint64_t)d->nr_sectors << SECTOR_SHIFT;
	const uint64_t offset = d->start_sector << SECTOR_SHIFT;
	const unsigned op = ublksrv_get_op(d);
	const bool flush = op == UBLK_IO_OP_FLUSH;

	s->request.offset = flush ? 0 : offset;
	s->request.length = flush ? 0 : length;
	s->request.data = NULL;
	s->request.into = NULL;
	if (flush && u->read_only)
		queue_command(s, COMMAND_COMMIT, 0);
	else if (flush)
		slot_submit(s, NBD_CMD_FLUSH, 0);
	else if (offset >= size || length > size - offset)
		answer_behind(s, op, length);
	else
		submit_data(s, op, d->op_flags);
}

static int take_result(struct nbd_ublk *u, uint64_t tag, int result)
{
	if (result == UBLK_IO_RES_OK) {
		take_request(&u->slots[tag]);
		return 0;
	}
	u->ended++;
	/* ABORT: the device was stopped. */
	return result == UBLK_IO_RES_ABORT ? 0 : result;
}

bool nbd_ublk_is_due(const struct nbd_ublk *u)
{
	return driver_ring_is_due(u->ring);
}

int nbd_ublk_run(struct nbd_ublk *u)
{
	uint64_t tag;
	int result, r = driver_ring_submit(u->ring);

	while (r == 0 && driver_ring_take(u->ring, &tag, &result))
		r = take_result(u, tag, result);
	return r;
}

int nbd_ublk_fd(const struct nbd_ublk *u)
{
	return u->ended < UBLK_DEVICE_DEPTH ? driver_ring_fd(u->ring) : -1;
}

int nbd_ublk_id(const struct nbd_ublk *u)
{
	return (int)u->id;
}

/* ---- life ---- */

static int set_admin(bool on)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	const uint32_t bit = UINT32_C(1) << CAP_SYS_ADMIN;

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	data[0].effective = on ? data[0].effective | bit
			       : data[0].effective & ~bit;
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

/*
 * Ask for requests. The kernel looks for partitions in a device while it is
 * started, unless who serves it is not privileged. There shall be none, and
 * that look would wait for us, who wait for the start.
 */
static int fetch_all(struct nbd_ublk *u)
{
	int r = set_admin(false), on;

	if (r < 0)
		return r;
	for (unsigned i = 0; i < UBLK_DEVICE_DEPTH; i++)
		queue_command(&u->slots[i], COMMAND_FETCH, 0);
	r = driver_ring_submit(u->ring);
	on = set_admin(true);
	return r < 0 ? r : on;
}

static int open_queue(struct nbd_ublk *u, struct error *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char path[32];
	void *descs;
	int r;

	(void)snprintf(path, sizeof(path), "/dev/ublkc%u", u->id);
	u->fd = open(path, O_RDWR | O_CLOEXEC);
	if (u->fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	u->descs_length = UBLK_DEVICE_DEPTH * sizeof(*u->descs);
	u->descs_length = (u->descs_length + page - 1) & ~(page - 1);
	descs = mmap(NULL, u->descs_length, PROT_READ,
		     MAP_SHARED | MAP_POPULATE, u->fd, UBLKSRV_CMD_BUF_OFFSET);
	if (descs == MAP_FAILED)
		return error_set(err, errno, "map '%s': %s", path,
				 strerror(errno));
	u->descs = descs;
	r = driver_ring_new(UBLK_DEVICE_DEPTH, &u->ring);
	if (r < 0)
		return error_set(err, -r, "io_uring: %s", strerror(-r));
	r = fetch_all(u);
	return r < 0 ? error_set(err, -r, "serve '%s': %s", path, strerror(-r))
		     : 0;
}

static int go_on(struct nbd_ublk *u, struct error *err)
{
	int64_t end = clock_ms() + GONE_LIMIT_MS;
	int r;

	while ((r = ublk_device_take_over(u->id, err)) == -EBUSY &&
	       clock_ms() < end)
		(void)poll(NULL, 0, GONE_STEP_MS);
	if (r == 0)
		r = open_queue(u, err);
	return r < 0 ? r : ublk_device_resume(u->id, err);
}

static int begin(struct nbd_ublk *u, const char *tag, struct error *err)
{
	const uint16_t can = nbd_parts_flags(u->parts);
	const struct ublk_device_options options = {
		.tag = tag,
		.data_max = u->data_max,
		.read_only = u->read_only,
		.fua = can & NBD_TRANSMIT_SEND_FUA,
		.zeroes = can & NBD_TRANSMIT_SEND_WRITE_ZEROES,
	};
	int r = ublk_device_add(&options, &u->id, err);

	if (r == 0)
		r = open_queue(u, err);
	return r < 0 ? r : ublk_device_start(u->id, err);
}

int nbd_ublk_new(const struct nbd_ublk_options *options, struct nbd_ublk **ret,
		 struct error *err)
{
	struct nbd_ublk *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return error_set(err, ENOMEM, "no memory for a queue");
	u->fd = -1;
	u->parts = options->parts;
	u->read_only = options->read_only;
	u->data_max = nbd_parts_data_max(u->parts);
	if (u->data_max > UBLK_DEVICE_DATA_MAX)
		u->data_max = UBLK_DEVICE_DATA_MAX;
	u->memory = mmap(NULL, (size_t)UBLK_DEVICE_DEPTH * UBLK_DEVICE_DATA_MAX,
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (u->memory == MAP_FAILED) {
		free(u);
		return error_set(err, ENOMEM, "no memory for buffers");
	}
	for (unsigned i = 0; i < UBLK_DEVICE_DEPTH; i++) {
		u->slots[i].ublk = u;
		u->slots[i].data = u->memory + (size_t)i * UBLK_DEVICE_DATA_MAX;
	}
	if (options->id >= 0)
		u->id = (unsigned)options->id;
	r = options->id < 0 ? begin(u, options->tag, err) : go_on(u, err);
	if (r < 0) {
		nbd_ublk_free(u);
		return r;
	}
	*ret = u;
	return 0;
}

void nbd_ublk_free(struct nbd_ublk *u)
{
	if (!u)
		return;
	driver_ring_free(u->ring);
	if (u->descs)
		(void)munmap((void *)(uintptr_t)u->descs, u->descs_length);
	fd_close(u->fd);
	(void)munmap(u->memory,
		     (size_t)UBLK_DEVICE_DEPTH * UBLK_DEVICE_DATA_MAX);
	free(u);
}
