/* SPDX-License-Identifier: Apache-2.0 */
#define FUSE_USE_VERSION 314

#include "initiator/nbd/nbd_fuse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "initiator/device/device.h"
#include "initiator/nbd/nbd_fuse_buffers.h"

#define INO_EXTENT 2
#define INO_STATE  3

/* Nobody but us changes a name or a size, and a new size is told. */
#define CACHE_S 86400.0

/*
 * Requests of the kernel at once: the loop device's queue is 128 deep, and
 * opens and fsyncs come beside it.
 */
#define BACKGROUND 128
#define SLOTS      160

#define HEADERS_MAX 4096 /* bytes before the data; FUSE_BUFFER_HEADER_SIZE */

struct slot {
	struct nbd_parts_request request; /* first: done() finds the slot */
	struct nbd_fuse *fuse;
	fuse_req_t req;
	/* Data of a write, or of a read that comes from several parts. */
	struct nbd_fuse_buffer *buffer;
	struct slot *next;
};

struct nbd_fuse {
	struct fuse_session *session;
	struct nbd_parts *parts;
	const char *parts_file; /* NULL: none */
	struct nbd_kept *kept;  /* NULL: none */
	struct nbd_fuse_buffers buffers;
	uint16_t flags; /* NBD_TRANSMIT_... */
	bool read_only;
	uint64_t size;     /* bytes, as it is now */
	uint32_t max_data; /* bytes of one read or write */
	size_t receive_max;
	char mount_point[1024];
	bool mounted;
	struct slot slots[SLOTS];
	struct slot *unused;
	fuse_req_t resize_req; /* waits for the servers' word */
};

static struct nbd_fuse *fuse_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- slots ---- */

static struct slot *slot_get(fuse_req_t req)
{
	struct nbd_fuse *f = fuse_of(req);
	struct slot *s = f->unused;

	assert(s); /* a request is only received while one is unused */
	f->unused = s->next;
	s->req = req;
	s->buffer = NULL;
	s->request.flags = 0;
	s->request.offset = 0;
	s->request.length = 0;
	s->request.data = NULL;
	s->request.into = NULL;
	return s;
}

static void slot_put(struct slot *s)
{
	struct nbd_fuse *f = s->fuse;

	nbd_fuse_buffers_put(&f->buffers, s->buffer);
	s->next = f->unused;
	f->unused = s;
}

static void submit(struct slot *s, uint16_t type,
		   void (*done)(struct nbd_parts_request *, int, const void *))
{
	s->request.type = type;
	s->request.done = done;
	nbd_parts_submit(s->fuse->parts, &s->request);
}

static void done_plain(struct nbd_parts_request *r, int error, const void *data)
{
	struct slot *s = container_of(r, struct slot, request);
	fuse_req_t req = s->req;

	(void)data;
	slot_put(s);
	/* A reply that the kernel no longer wants (interrupted): nothing. */
	(void)fuse_reply_err(req, -error);
}

static void done_read(struct nbd_parts_request *r, int error, const void *data)
{
	struct slot *s = container_of(r, struct slot, request);

	if (error)
		(void)fuse_reply_err(s->req, -error);
	else
		(void)fuse_reply_buf(s->req, data, r->length);
	slot_put(s);
}

static void done_write(struct nbd_parts_request *r, int error, const void *data)
{
	struct slot *s = container_of(r, struct slot, request);
	fuse_req_t req = s->req;
	uint64_t length = r->length;

	(void)data;
	slot_put(s);
	if (error)
		(void)fuse_reply_err(req, -error);
	else
		(void)fuse_reply_write(req, length);
}

/* ---- names and attributes ---- */

static bool stat_of(struct nbd_fuse *f, fuse_ino_t ino, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_nlink = 1;
	st->st_blksize = DEVICE_BLOCK_SIZE;
	switch (ino) {
	case FUSE_ROOT_ID:
		st->st_mode = S_IFDIR | 0500;
		st->st_nlink = 2;
		return true;
	case INO_EXTENT:
		st->st_mode = S_IFREG | (f->read_only ? 0400 : 0600);
		st->st_size = (off_t)f->size;
		st->st_blocks = (blkcnt_t)(f->size / 512);
		return true;
	case INO_STATE: st->st_mode = S_IFREG | 0400; return true;
	default: return false;
	}
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {
		.attr_timeout = CACHE_S,
		.entry_timeout = CACHE_S,
	};

	if (parent == FUSE_ROOT_ID &&
	    (!strcmp(name, NBD_FUSE_EXTENT) ||
	     !strncmp(name, NBD_FUSE_ALIAS, strlen(NBD_FUSE_ALIAS))))
		e.ino = INO_EXTENT;
	if (parent == FUSE_ROOT_ID && !strcmp(name, NBD_FUSE_STATE))
		e.ino = INO_STATE;
	if (!stat_of(fuse_of(req), e.ino, &e.attr))
		(void)fuse_reply_err(req, ENOENT);
	else
		(void)fuse_reply_entry(req, &e);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	if (stat_of(fuse_of(req), ino, &st))
		(void)fuse_reply_attr(req, &st, CACHE_S);
	else
		(void)fuse_reply_err(req, ENOENT);
}

static void reply_size(struct nbd_fuse *f, fuse_req_t req)
{
	struct stat st;

	(void)stat_of(f, INO_EXTENT, &st);
	(void)fuse_reply_attr(req, &st, CACHE_S);
}

static void fuse_grown(void *context, int error)
{
	struct nbd_fuse *f = context;
	fuse_req_t req = f->resize_req;

	f->resize_req = NULL;
	if (error) {
		(void)fuse_reply_err(req, -error);
		return;
	}
	f->size = nbd_parts_size(f->parts);
	if (f->kept)
		nbd_kept_note(f->kept, f->parts);
	log_info("the device has %llu bytes now", (unsigned long long)f->size);
	reply_size(f, req);
}

/* The parts of a device of @size bytes. Returned owned. */
static int grown_parts(const struct nbd_fuse *f, uint64_t size,
		       struct parts **ret)
{
	auto_free struct parts *now = NULL;
	struct segments segments;
	struct error err = {0};
	int r;

	if (f->parts_file) {
		r = parts_load(AT_FDCWD, f->parts_file, &now, &err);
	} else {
		now = malloc(sizeof(*now));
		if (!now)
			return -ENOMEM;
		*now = *nbd_parts_list(f->parts);
		now->items[0].size = size;
		r = 0;
	}
	if (r == 0)
		r = parts_segments(now, &segments, &err);
	if (r == 0 && segments.size != size)
		r = error_set(&err, EINVAL, "its parts have %llu bytes",
			      (unsigned long long)segments.size);
	if (r < 0)
		return log_error(r, "grow to %llu bytes: %s",
				 (unsigned long long)size, error_text(&err));
	*ret = take_ptr(now);
	return 0;
}

/*
 * Grow the file. A truncation to its new, larger size tells that the extent
 * grew; the server is asked whether it has.
 */
static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);
	auto_free struct parts *now = NULL;
	uint64_t size = (uint64_t)attr->st_size;
	int other = to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID |
			      FUSE_SET_ATTR_GID);
	int r;

	(void)fi;
	if (ino != INO_EXTENT || other || !(to_set & FUSE_SET_ATTR_SIZE)) {
		(void)fuse_reply_err(req, EPERM);
		return;
	}
	if (size == f->size) {
		reply_size(f, req);
		return;
	}
	if (size < f->size || f->resize_req) {
		(void)fuse_reply_err(req, f->resize_req ? EBUSY : EINVAL);
		return;
	}
	r = grown_parts(f, size, &now);
	f->resize_req = req;
	if (r == 0)
		r = nbd_parts_grow(f->parts, now, fuse_grown, f);
	if (r < 0) {
		f->resize_req = NULL;
		(void)fuse_reply_err(req, -r);
	}
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	bool writes = (fi->flags & O_ACCMODE) != O_RDONLY;

	if (writes && (ino == INO_STATE || fuse_of(req)->read_only)) {
		(void)fuse_reply_err(req, EROFS);
		return;
	}
	fi->direct_io = 1;
	(void)fuse_reply_open(req, fi);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	static const struct {
		const char *name;
		fuse_ino_t ino;
	} names[] = {
		{".", FUSE_ROOT_ID},
		{"..", FUSE_ROOT_ID},
		{NBD_FUSE_EXTENT, INO_EXTENT},
		{NBD_FUSE_STATE, INO_STATE},
	};
	char out[256];
	size_t used = 0;

	(void)ino;
	(void)fi;
	if (size > sizeof(out))
		size = sizeof(out);
	for (size_t i = (size_t)off; i < array_size(names); i++) {
		struct stat st = {.st_ino = names[i].ino};
		size_t n;

		n = fuse_add_direntry(req, out + used, size - used,
				      names[i].name, &st, (off_t)(i + 1));
		if (n > size - used)
			break;
		used += n;
	}
	(void)fuse_reply_buf(req, out, used);
}

/* Tell no blocks, as /proc does: df shows it neither unasked nor full. */
static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct statvfs st = {
		.f_bsize = DEVICE_BLOCK_SIZE, /* the loop's discard unit */
		.f_frsize = DEVICE_BLOCK_SIZE,
		.f_namemax = 255,
	};

	(void)ino;
	(void)fuse_reply_statfs(req, &st);
}

/* ---- data ---- */

static void read_state(fuse_req_t req, size_t size, off_t off)
{
	const char *state = nbd_parts_state(fuse_of(req)->parts);
	size_t length = strlen(state);

	if (off < 0 || (size_t)off >= length)
		length = off = 0;
	length -= (size_t)off;
	(void)fuse_reply_buf(req, state + off, length < size ? length : size);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		    struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);
	uint64_t left = (uint64_t)off < f->size ? f->size - (uint64_t)off : 0;
	struct slot *s;

	(void)fi;
	if (ino == INO_STATE) {
		read_state(req, size, off);
		return;
	}
	if (size > left)
		size = left;
	if (!size || size > f->max_data) {
		if (size)
			(void)fuse_reply_err(req, EINVAL);
		else
			(void)fuse_reply_buf(req, NULL, 0);
		return;
	}
	s = slot_get(req);
	s->request.offset = (uint64_t)off;
	s->request.length = size;
	if (!nbd_parts_is_whole(f->parts, (uint64_t)off, size))
		s->buffer = nbd_fuse_buffers_get(&f->buffers, size,
						 &s->request.into);
	submit(s, NBD_CMD_READ, done_read);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data,
		     size_t size, off_t off, struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);
	struct slot *s;

	if (ino != INO_EXTENT || f->read_only) {
		(void)fuse_reply_err(req, EROFS);
		return;
	}
	if (!size || size > f->max_data || (uint64_t)off > f->size ||
	    size > f->size - (uint64_t)off) {
		(void)fuse_reply_err(req, size ? EFBIG : EINVAL);
		return;
	}
	s = slot_get(req);
	s->request.offset = (uint64_t)off;
	s->request.length = size;
	s->buffer = nbd_fuse_buffers_keep(&f->buffers, data, size,
					  &s->request.data);
	if ((fi->flags & O_DSYNC) && (f->flags & NBD_TRANSMIT_SEND_FUA))
		s->request.flags = NBD_CMD_FLAG_FUA;
	submit(s, NBD_CMD_WRITE, done_write);
}

/* Serve the loop device's REQ_OP_FLUSH, and any fsync of the file. */
static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);

	(void)datasync;
	(void)fi;
	if (ino != INO_EXTENT || f->read_only) {
		(void)fuse_reply_err(req, 0);
		return;
	}
	submit(slot_get(req), NBD_CMD_FLUSH, done_plain);
}

/*
 * Serve punched holes. The loop device punches a hole for REQ_OP_DISCARD and
 * also for REQ_OP_WRITE_ZEROES, and the hole must read as zeroes afterwards.
 * NBD's TRIM promises nothing, so both become WRITE_ZEROES, which may leave a
 * hole.
 */
static void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			 off_t length, struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);
	int kind = mode & ~FALLOC_FL_KEEP_SIZE;
	uint64_t end;
	struct slot *s;

	(void)fi;
	if (ino != INO_EXTENT || f->read_only) {
		(void)fuse_reply_err(req, EROFS);
		return;
	}
	if ((kind != FALLOC_FL_PUNCH_HOLE && kind != FALLOC_FL_ZERO_RANGE) ||
	    !(f->flags & NBD_TRANSMIT_SEND_WRITE_ZEROES)) {
		(void)fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	if (off < 0 || length <= 0 ||
	    __builtin_add_overflow((uint64_t)off, (uint64_t)length, &end) ||
	    end > f->size) {
		(void)fuse_reply_err(req, EINVAL);
		return;
	}
	s = slot_get(req);
	s->request.offset = (uint64_t)off;
	if (kind == FALLOC_FL_ZERO_RANGE)
		s->request.flags = NBD_CMD_FLAG_NO_HOLE;
	s->request.length = (uint64_t)length;
	submit(s, NBD_CMD_WRITE_ZEROES, done_plain);
}

static void op_init(void *context, struct fuse_conn_info *conn)
{
	struct nbd_fuse *f = context;

	/* Data stays in our buffers; a pipe would only be in the way. */
	conn->want &= ~(unsigned)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
				  FUSE_CAP_SPLICE_MOVE);
	conn->want |= conn->capable &
		      (FUSE_CAP_ASYNC_DIO | FUSE_CAP_ASYNC_READ);
	conn->max_write = f->max_data;
	conn->max_read = f->max_data;
	conn->max_background = BACKGROUND;
	conn->congestion_threshold = BACKGROUND;
}

static const struct fuse_lowlevel_ops operations = {
	.init = op_init,
	.lookup = op_lookup,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.open = op_open,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.fallocate = op_fallocate,
	.readdir = op_readdir,
	.statfs = op_statfs,
};

/* ---- the session ---- */

static ssize_t device_read(int fd, void *data, size_t length, void *context)
{
	struct nbd_fuse *f = context;

	/* libfuse may think in larger pieces than our buffers are. */
	return read(fd, data,
		    length < f->receive_max ? length : f->receive_max);
}

static ssize_t device_writev(int fd, struct iovec *iov, int count,
			     void *context)
{
	(void)context;
	return writev(fd, iov, count);
}

static int mount_it(struct nbd_fuse *f, const char *name, int fd,
		    struct error *err)
{
	char options[128];

	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0,max_read=%u",
		       fd, f->max_data);
	if (mount(name, f->mount_point, "fuse.trib-nbd",
		  MS_NOSUID | MS_NODEV | MS_NOEXEC, options) < 0)
		return error_set(err, errno, "mount '%s': %s", f->mount_point,
				 strerror(errno));
	f->mounted = true;
	return 0;
}

static int start_session(struct nbd_fuse *f, const char *name,
			 struct error *err)
{
	static const struct fuse_custom_io io = {
		.writev = device_writev,
		.read = device_read,
	};
	char max_read[32]; /* libfuse wants to be told what mount() was */
	char *argv[] = {"trib-nbd", "-o", max_read, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);

	(void)snprintf(max_read, sizeof(max_read), "max_read=%u", f->max_data);
	auto_close int fd = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ENODEV, "no FUSE here (/dev/fuse: %s)",
				 strerror(errno));
	f->session = fuse_session_new(&args, &operations, sizeof(operations),
				      f);
	fuse_opt_free_args(&args);
	if (!f->session || mount_it(f, name, fd, err) < 0)
		return f->session ? -err->code
				  : error_set(err, EIO, "libfuse: no session");
	if (fuse_session_custom_io(f->session, &io, fd) < 0)
		return error_set(err, EIO, "libfuse refused its descriptor");
	(void)take_fd(&fd); /* the session's now */
	return 0;
}

int nbd_fuse_new(const struct nbd_fuse_options *options, struct nbd_fuse **ret,
		 struct error *err)
{
	struct nbd_fuse *f = calloc(1, sizeof(*f));
	struct error local = {.code = 0};
	int r;

	if (!f)
		return error_set(err, ENOMEM, "no memory for a mount");
	f->parts = options->parts;
	f->parts_file = options->parts_file;
	f->kept = options->kept;
	f->flags = nbd_parts_flags(f->parts);
	f->size = nbd_parts_size(f->parts);
	f->read_only = options->read_only;
	f->max_data = nbd_parts_data_max(f->parts);
	f->receive_max = f->max_data + HEADERS_MAX;
	if (f->receive_max < 2 * HEADERS_MAX) /* FUSE_MIN_READ_BUFFER */
		f->receive_max = 2 * HEADERS_MAX;
	(void)snprintf(f->mount_point, sizeof(f->mount_point), "%s",
		       options->mount_point);
	for (unsigned i = 0; i < SLOTS; i++) {
		f->slots[i].fuse = f;
		f->slots[i].next = f->unused;
		f->unused = &f->slots[i];
	}
	r = nbd_fuse_buffers_init(&f->buffers, f->receive_max, &local);
	if (!r)
		r = start_session(f, options->name, &local);
	if (r < 0) {
		nbd_fuse_free(f);
		return error_set(err, local.code, "%s", local.msg);
	}
	*ret = f;
	return 0;
}

void nbd_fuse_free(struct nbd_fuse *f)
{
	if (!f)
		return;
	if (f->session)
		fuse_session_destroy(f->session);
	if (f->mounted) /* gone already when we were told to end */
		(void)umount2(f->mount_point, MNT_DETACH);
	nbd_fuse_buffers_done(&f->buffers);
	free(f);
}

/* Take every request that waits, as long as there is room for one more. */
static int take_requests(struct nbd_fuse *f)
{
	while (f->unused && nbd_fuse_buffers_ready(&f->buffers)) {
		struct fuse_buf buf = {.mem = f->buffers.staging->data};
		int n = fuse_session_receive_buf(f->session, &buf);

		if (n == -EAGAIN)
			return 0;
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n;
		fuse_session_process_buf(f->session, &buf);
	}
	return 0;
}

int nbd_fuse_run(struct nbd_fuse *f, struct nbd_ublk *ublk)
{
	struct pollfd fds[2 + NBD_PARTS_POLLFDS];
	int r, timeout_ms;
	unsigned n;

	while (!fuse_session_exited(f->session)) {
		bool room = f->unused && nbd_fuse_buffers_ready(&f->buffers);

		fds[0].fd = fuse_session_fd(f->session);
		fds[0].events = room ? POLLIN : 0;
		fds[1].fd = ublk ? nbd_ublk_fd(ublk) : -1;
		fds[1].events = POLLIN;
		n = nbd_parts_prepare(f->parts, fds + 2, &timeout_ms);
		if (ublk && nbd_ublk_is_due(ublk))
			timeout_ms = 0;
		r = poll(fds, 2 + n, timeout_ms);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r < 0)
			continue;
		nbd_parts_run(f->parts, fds + 2);
		r = fds[0].revents ? take_requests(f) : 0;
		if (r == 0 && ublk)
			r = nbd_ublk_run(ublk);
		if (r < 0)
			return r;
		nbd_parts_send(f->parts);
	}
	return 0;
}
