/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote extent by the kernel's NBD client: the handshake is done here, the
 * sockets are handed to the kernel. Our leftovers there are known by their
 * backend identifier (/sys/block/nbdN/backend, Linux 5.14).
 *
 * Nobody watches the connection. When the server was lost, I/O waits in the
 * kernel for the dead timeout. Attaching again in that time hands the kernel
 * new sockets, if the server is the same incarnation.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nbd/nbd_connect.h"
#include "base/process.h"
#include "initiator/device/device.h"
#include "initiator/nbd/nbd_netlink.h"
#include "initiator/transport/transport.h"

#define CONNECT_TIMEOUT_MS  10000
#define MODPROBE_TIMEOUT_MS 10000
#define REQUEST_TIMEOUT_S   10 /* then the kernel takes the socket for dead */
#define GONE_TIMEOUT_MS     5000
#define CONNECTIONS_MAX     16

static int nbd_probe(struct error *err)
{
	static const char *const argv[] = {"modprobe", "-q", "nbd", NULL};
	struct process_result result;
	struct error why = {.code = 0};
	int code = 0;

	if (!nbd_netlink_probe(NULL))
		return 0;
	if (process_run(argv, NULL, MODPROBE_TIMEOUT_MS, -1, &result, &why) < 0)
		return error_set(err, ENODEV,
				 "the kernel has no NBD client (modprobe nbd: "
				 "%.100s)",
				 why.code == ENOENT ? "not found"
						    : error_text(&why));
	code = result.exit_code;
	process_result_done(&result);
	if (!nbd_netlink_probe(NULL))
		return 0;
	return error_set(err, ENODEV,
			 "the kernel has no NBD client (modprobe nbd: exit %d)",
			 code);
}

/* ---- sockets ---- */

struct sockets {
	int fd[CONNECTIONS_MAX];
	unsigned count;
	struct nbd_export export;
};

static void sockets_close(struct sockets *s)
{
	while (s->count)
		fd_close(s->fd[--s->count]);
}

/*
 * Open the kernel's sockets; the kernel has references of its own once it took
 * them.
 */
static int sockets_open(const struct record *r, struct sockets *s,
			struct error *err)
{
	unsigned wanted = r->connections < CONNECTIONS_MAX ? r->connections
							   : CONNECTIONS_MAX;
	struct nbd_connect_options options = {
		.timeout_ms = CONNECT_TIMEOUT_MS,
		.silence_ms = REQUEST_TIMEOUT_S * 1000,
		.cancel_fd = -1,
	};
	struct nbd_address address;
	int status = nbd_address_resolve(r->address, &address, err);

	s->count = 0;
	while (!status && s->count < wanted) {
		status = nbd_connect(&address, r->export_name, &options,
				     &s->fd[s->count], &s->export, err);
		if (status < 0)
			break;
		s->count++;
		/* A flush on one connection must cover the others. */
		if (!(s->export.flags & NBD_TRANSMIT_CAN_MULTI_CONN))
			wanted = 1;
	}
	if (status < 0)
		sockets_close(s);
	return status;
}

static void fill_device(const struct attachment *a, const struct sockets *s,
			struct nbd_netlink_device *d)
{
	*d = (struct nbd_netlink_device){
		.size = a->record.size,
		.block_size = DEVICE_BLOCK_SIZE,
		.flags = s->export.flags,
		.timeout_s = REQUEST_TIMEOUT_S,
		.dead_timeout_s = (a->record.dead_timeout_ms + 999) / 1000,
		.backend = a->tag,
		.sockets = s->fd,
		.n_sockets = s->count,
	};
	if (a->record.read_only)
		d->flags |= NBD_TRANSMIT_HAS_FLAGS | NBD_TRANSMIT_READ_ONLY;
}

/* ---- devices ---- */

static int index_of(const char *device, unsigned *ret)
{
	return sscanf(device, "/dev/nbd%u", ret) == 1 ? 0 : -EINVAL;
}

/*
 * Find the connected device with our tag. One that was disconnected and is
 * still open has the process number 0. 0 or -ENOENT.
 */
static int find(const struct attachment *a, char *ret_device)
{
	DIR *dir = opendir("/sys/block");
	struct dirent *e;
	int r = -ENOENT;

	while (dir && r < 0 && (e = readdir(dir))) {
		char backend[64], pid[32];

		if (strncmp(e->d_name, "nbd", 3) != 0 ||
		    device_attribute(e->d_name, "backend", backend,
				     sizeof(backend)) < 0 ||
		    strcmp(backend, a->tag) != 0 ||
		    device_attribute(e->d_name, "pid", pid, sizeof(pid)) < 0 ||
		    strcmp(pid, "0") == 0)
			continue;
		(void)snprintf(ret_device, DEVICE_PATH_MAX, "/dev/%.24s",
			       e->d_name);
		r = 0;
	}
	if (dir)
		(void)closedir(dir);
	return r;
}

/* Is it the incarnation that the record knows? */
static bool same_incarnation(const struct record *r, const struct sockets *s)
{
	return r->incarnation[0] && s->export.has_description &&
	       strcmp(s->export.description, r->incarnation) == 0;
}

static int another_incarnation(struct error *err)
{
	return error_set(
		err, ESTALE,
		"the server is another incarnation now: unflushed writes may "
		"be lost; unmount, detach and attach again");
}

static int nbd_attach(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	auto_cleanup(sockets_close) struct sockets s = {.count = 0};
	struct nbd_netlink_device device;
	unsigned index;
	int status = sockets_open(r, &s, err);

	if (!status)
		status = nbd_export_check(&s.export, r->size, DEVICE_BLOCK_SIZE,
					  r->read_only, err);
	if (status < 0)
		return status;
	if (a->takes_place && !same_incarnation(r, &s))
		return another_incarnation(err);
	if (s.export.has_description &&
	    strlen(s.export.description) < sizeof(r->incarnation) &&
	    record_text_ok(s.export.description))
		memcpy(r->incarnation, s.export.description,
		       strlen(s.export.description) + 1);
	fill_device(a, &s, &device);
	status = nbd_netlink_connect(&device, &index, err);
	if (status < 0)
		return status;
	(void)snprintf(r->device, sizeof(r->device), "/dev/nbd%u", index);
	return 0;
}

static int nbd_detach(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	unsigned index;
	int fd, r;

	if (find(a, device) < 0 || index_of(device, &index) < 0)
		return 0;
	r = device_open_idle(device, &fd, err);
	if (r < 0)
		return r == -ENODEV ? 0 : r;
	/* As for a loop device: a lost server must not hold this up. */
	(void)fsync(fd);
	r = nbd_netlink_disconnect(index, err);
	fd_close(fd);
	if (r < 0)
		return r;
	if (!device_wait_gone(device + strlen("/dev/"), "pid", GONE_TIMEOUT_MS))
		return error_set(err, EBUSY,
				 "%s is open: it is removed once it is closed",
				 device);
	a->record.device[0] = 0;
	return 0;
}

static int nbd_fail(struct attachment *a, struct error *err)
{
	char device[DEVICE_PATH_MAX];
	unsigned index;

	if (find(a, device) < 0 || index_of(device, &index) < 0)
		return 0;
	return nbd_netlink_disconnect(index, err);
}

static int nbd_check(struct attachment *a, bool *ret_dead, struct error *err)
{
	*ret_dead = true;
	if (find(a, a->record.device) < 0)
		return error_set(err, ENODEV,
				 "its nbd device is gone: attach it again");
	*ret_dead = false;
	return 0;
}

/*
 * Hand the kernel new sockets in case the old ones are dead; harmless when they
 * are not. Without an incarnation nobody can tell whether data that the kernel
 * counts as written is still there. Then nothing is mended.
 */
static int mend(struct attachment *a, struct error *err)
{
	struct record *r = &a->record;
	auto_cleanup(sockets_close) struct sockets s = {.count = 0};
	struct nbd_netlink_device device;
	unsigned index;
	int status;

	if (!r->incarnation[0] || index_of(r->device, &index) < 0)
		return 0;
	status = sockets_open(r, &s, err);
	if (status < 0)
		return status;
	if (!same_incarnation(r, &s))
		return another_incarnation(err);
	if (s.export.size < r->size)
		return error_set(err, EINVAL,
				 "the server's export has %llu bytes, fewer "
				 "than the %llu of %s: it is left alone",
				 (unsigned long long)s.export.size,
				 (unsigned long long)r->size, r->device);
	fill_device(a, &s, &device);
	return nbd_netlink_reconnect(index, &device, err);
}

/* Read the last block, over the connection that is there. */
static int read_end(const char *device, uint64_t size)
{
	auto_close int fd = open(device, O_RDONLY | O_DIRECT | O_CLOEXEC);
	auto_free void *block = aligned_alloc(DEVICE_BLOCK_SIZE,
					      DEVICE_BLOCK_SIZE);

	if (fd < 0 || !block)
		return fd < 0 ? -errno : -ENOMEM;
	return pread(fd, block, DEVICE_BLOCK_SIZE,
		     (off_t)(size - DEVICE_BLOCK_SIZE)) == DEVICE_BLOCK_SIZE
		       ? 0
		       : -EIO;
}

/*
 * Resize the device; the kernel keeps its connections. Our server lets them
 * through to the new end; another may hold each to the size it began with. Then
 * the device goes back to that size: the end of a file system must not be where
 * no read comes through.
 */
static int resize_device(struct attachment *a, unsigned index, uint64_t size,
			 struct error *err)
{
	struct record *r = &a->record;
	int status = nbd_netlink_resize(index, a->tag, size, err);

	if (status < 0 || !read_end(r->device, size))
		return status;
	status = nbd_netlink_resize(index, a->tag, r->size, err);
	if (status < 0)
		return status;
	return error_set(err, EOPNOTSUPP,
			 "the server holds the connection of %s to its old "
			 "size: unmount, detach and attach again to grow",
			 r->device);
}

static int nbd_resize(struct attachment *a, uint64_t size, struct error *err)
{
	struct nbd_connect_options options = {
		.timeout_ms = CONNECT_TIMEOUT_MS,
		.silence_ms = REQUEST_TIMEOUT_S * 1000,
		.cancel_fd = -1,
	};
	struct record *r = &a->record;
	auto_free struct nbd_export *export = calloc(1, sizeof(*export));
	struct nbd_address address;
	unsigned index;
	int status;

	if (!export)
		return error_set(err, ENOMEM, "no memory");
	status = nbd_address_resolve(r->address, &address, err);
	if (!status)
		status = nbd_connect(&address, r->export_name, &options, NULL,
				     export, err);
	if (status < 0)
		return status;
	if (export->size < size)
		return error_set(err, EINVAL,
				 "the server's export has %llu bytes, not "
				 "%llu: grow the extent first",
				 (unsigned long long)export->size,
				 (unsigned long long)size);
	if (index_of(r->device, &index) < 0)
		return error_set(err, ENODEV, "'%s' is no nbd device",
				 r->device);
	return resize_device(a, index, size, err);
}

const struct transport transport_nbd = {
	.name = "nbd",
	.probe = nbd_probe,
	.attach = nbd_attach,
	.detach = nbd_detach,
	.check = nbd_check,
	.resize = nbd_resize,
	.fail = nbd_fail,
	.mend = mend,
};
