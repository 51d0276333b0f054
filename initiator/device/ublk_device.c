/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/ublk_device.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ublk_cmd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop/driver_ring.h"
#include "initiator/device/device.h"

/*
 * The commands by their numbers of Linux 6.4 and later, which Debian 12's
 * headers (6.1) lack: linux/ublk_cmd.h.
 */
#define COMMAND_INFO      _IOR('u', 0x02, struct ublksrv_ctrl_cmd)
#define COMMAND_ADD       _IOWR('u', 0x04, struct ublksrv_ctrl_cmd)
#define COMMAND_DEL       _IOWR('u', 0x05, struct ublksrv_ctrl_cmd)
#define COMMAND_START     _IOWR('u', 0x06, struct ublksrv_ctrl_cmd)
#define COMMAND_STOP      _IOWR('u', 0x07, struct ublksrv_ctrl_cmd)
#define COMMAND_PARAMS    _IOWR('u', 0x08, struct ublksrv_ctrl_cmd)
#define COMMAND_TAKE_OVER _IOWR('u', 0x10, struct ublksrv_ctrl_cmd)
#define COMMAND_RESUME    _IOWR('u', 0x11, struct ublksrv_ctrl_cmd)
#define COMMAND_FEATURES  _IOR('u', 0x13, struct ublksrv_ctrl_cmd) /* 6.5 */
/* DEL that waits for no user of the device: Linux 6.9. */
#define COMMAND_DEL_ASYNC _IOR('u', 0x14, struct ublksrv_ctrl_cmd)

#define RECOVERY     (UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE)
#define LIMIT_S      10 /* for a command; none waits for a server */
#define DISCARD_MAX  (UINT32_C(1) << 30) /* bytes */
#define SECTOR_SHIFT 9
#define BLOCK_SHIFT  12
#define CLASS_FOLDER "/sys/class/ublk-char"
#define NO_QUEUE     UINT16_MAX
#define NO_DEVICE    UINT32_MAX

_Static_assert(1 << BLOCK_SHIFT == DEVICE_BLOCK_SIZE, "one block size");

struct control {
	int fd;
	struct driver_ring *ring;
};

static void control_close(struct control *c)
{
	if (c->fd < 0)
		return;
	driver_ring_free(c->ring);
	fd_close(c->fd);
}
#define auto_control auto_cleanup(control_close)

static int control_open(struct control *c, struct error *err)
{
	int fd = open("/dev/ublk-control", O_RDWR | O_CLOEXEC), r;

	c->fd = -1;
	if (fd < 0)
		return error_set(err, ENODEV,
				 "the kernel has no ublk (/dev/ublk-control: "
				 "%s)",
				 strerror(errno));
	r = driver_ring_new(2, &c->ring);
	if (r < 0) {
		fd_close(fd);
		return error_set(err, ENODEV, "no io_uring for ublk: %s",
				 strerror(-r));
	}
	c->fd = fd;
	return 0;
}

/* One command to its end. 0 or a negative errno. */
static int command(struct control *c, unsigned operation, uint32_t id,
		   void *data, size_t length, uint64_t inline_data)
{
	const struct ublksrv_ctrl_cmd what = {
		.dev_id = id,
		.queue_id = NO_QUEUE,
		.addr = (uintptr_t)data,
		.len = (uint16_t)length,
		.data = {inline_data},
	};
	uint64_t tag;
	int r, result = -EIO;

	driver_ring_push(c->ring, c->fd, operation, &what, sizeof(what), 0);
	r = driver_ring_wait(c->ring, LIMIT_S);
	if (r == 0)
		(void)driver_ring_take(c->ring, &tag, &result);
	return r < 0 ? r : result;
}

/* One command to a device. */
static int device_command(unsigned operation, const char *what, unsigned id,
			  uint64_t inline_data, struct error *err)
{
	auto_control struct control c = {.fd = -1};
	int r = control_open(&c, err);

	if (r < 0)
		return r;
	r = command(&c, operation, id, NULL, 0, inline_data);
	return r < 0 ? error_set(err, -r, "%s ublk device %u: %s", what, id,
				 strerror(-r))
		     : 0;
}

int ublk_device_probe(struct error *err)
{
	auto_control struct control c = {.fd = -1};
	uint64_t features = 0;
	int r = control_open(&c, err);

	if (r < 0)
		return r;
	r = command(&c, COMMAND_FEATURES, NO_DEVICE, &features,
		    sizeof(features), 0);
	if (r < 0 || (features & RECOVERY) != RECOVERY)
		return error_set(err, ENODEV,
				 "the kernel's ublk is too old (Linux 6.5)");
	return 0;
}

static uint64_t tag_number(const char *tag)
{
	const char *digits = strchr(tag, '-');

	return strtoull(digits ? digits + 1 : tag, NULL, 16);
}

int ublk_device_find(const char *tag, struct ublk_device *ret,
		     struct error *err)
{
	auto_control struct control c = {.fd = -1};
	DIR *dir = opendir(CLASS_FOLDER);
	struct dirent *e;
	int r = -ENOENT;

	if (!dir) /* no driver, no devices */
		return -ENOENT;
	while (r == -ENOENT && (e = readdir(dir))) {
		struct ublksrv_ctrl_dev_info info = {.dev_id = 0};
		unsigned id;

		if (sscanf(e->d_name, "ublkc%u", &id) != 1)
			continue;
		if (c.fd < 0 && control_open(&c, err) < 0) {
			r = -ENODEV;
			break;
		}
		/* Some go meanwhile. */
		if (command(&c, COMMAND_INFO, id, &info, sizeof(info), 0) < 0 ||
		    info.ublksrv_flags != tag_number(tag))
			continue;
		*ret = (struct ublk_device){
			.id = id,
			.started = info.state != UBLK_S_DEV_DEAD,
			.orphaned = info.state == UBLK_S_DEV_QUIESCED,
		};
		r = 0;
	}
	(void)closedir(dir);
	return r;
}

static int set_params(struct control *c, unsigned id,
		      const struct ublk_device_options *options)
{
	struct ublk_params params = {
		.len = sizeof(params),
		.types = UBLK_PARAM_TYPE_BASIC,
		.basic =
			{
				.attrs = UBLK_ATTR_VOLATILE_CACHE,
				.logical_bs_shift = BLOCK_SHIFT,
				.physical_bs_shift = BLOCK_SHIFT,
				.io_min_shift = BLOCK_SHIFT,
				.io_opt_shift = BLOCK_SHIFT,
				.max_sectors = options->data_max >>
					       SECTOR_SHIFT,
				.dev_sectors = UBLK_DEVICE_SIZE >> SECTOR_SHIFT,
			},
		.discard =
			{
				.discard_granularity = DEVICE_BLOCK_SIZE,
				.max_discard_sectors = DISCARD_MAX >>
						       SECTOR_SHIFT,
				.max_write_zeroes_sectors = DISCARD_MAX >>
							    SECTOR_SHIFT,
				.max_discard_segments = 1,
			},
	};

	if (options->read_only)
		params.basic.attrs |= UBLK_ATTR_READ_ONLY;
	if (options->fua)
		params.basic.attrs |= UBLK_ATTR_FUA;
	if (options->zeroes)
		params.types |= UBLK_PARAM_TYPE_DISCARD;
	return command(c, COMMAND_PARAMS, id, &params, sizeof(params), 0);
}

int ublk_device_add(const struct ublk_device_options *options, unsigned *ret_id,
		    struct error *err)
{
	auto_control struct control c = {.fd = -1};
	struct ublksrv_ctrl_dev_info info = {
		.nr_hw_queues = 1,
		.queue_depth = UBLK_DEVICE_DEPTH,
		.max_io_buf_bytes = options->data_max,
		.dev_id = NO_DEVICE, /* the driver chooses */
		.ublksrv_pid = -1,
		.flags = RECOVERY,
		.ublksrv_flags = tag_number(options->tag),
	};
	int r = control_open(&c, err);

	if (r < 0)
		return r;
	r = command(&c, COMMAND_ADD, NO_DEVICE, &info, sizeof(info), 0);
	if (r < 0)
		return error_set(err, -r, "make a ublk device: %s",
				 strerror(-r));
	*ret_id = info.dev_id;
	r = set_params(&c, info.dev_id, options);
	if (r < 0) {
		(void)command(&c, COMMAND_DEL, info.dev_id, NULL, 0, 0);
		return error_set(err, -r, "set up ublk device %u: %s",
				 info.dev_id, strerror(-r));
	}
	return 0;
}

int ublk_device_start(unsigned id, struct error *err)
{
	return device_command(COMMAND_START, "start", id, (uint64_t)getpid(),
			      err);
}

int ublk_device_take_over(unsigned id, struct error *err)
{
	return device_command(COMMAND_TAKE_OVER, "take over", id, 0, err);
}

int ublk_device_resume(unsigned id, struct error *err)
{
	return device_command(COMMAND_RESUME, "resume", id, (uint64_t)getpid(),
			      err);
}

int ublk_device_stop(unsigned id, struct error *err)
{
	return device_command(COMMAND_STOP, "stop", id, 0, err);
}

int ublk_device_remove(unsigned id, struct error *err)
{
	int r = device_command(COMMAND_DEL_ASYNC, "remove", id, 0, err);

	if (r == -EOPNOTSUPP) /* as old kernels have it: waits for users */
		r = device_command(COMMAND_DEL, "remove", id, 0, err);
	return r;
}
