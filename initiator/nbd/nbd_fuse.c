/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "base/kernel/fusectl.h"
#include "base/log.h"
#include "initiator/nbd/nbd_fuse_state.h"

#define FDS_OWN 3 /* that nbd_fuse_run() polls, beside those of the parts */

/* ---- the session ---- */

static ssize_t device_read(int fd, void *data, size_t length, void *context)
{
	struct nbd_fuse *f = context;

	/* libfuse may think in larger pieces than our buffers are. */
	return read(fd, data,
		    length < f->memory->receive_max ? length
						    : f->memory->receive_max);
}

static ssize_t device_writev(int fd, struct iovec *iov, int count,
			     void *context)
{
	const struct nbd_fuse *f = context;
	ssize_t length = 0;

	if (!f->silent)
		return writev(fd, iov, count);
	for (int i = 0; i < count; i++)
		length += (ssize_t)iov[i].iov_len;
	return length;
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
	f->memory->shared->connection = fusectl_number(f->mount_point);
	return 0;
}

/* Is the mount of the process before still there? */
static int check_mount(const struct nbd_fuse *f, struct error *err)
{
	const unsigned number = fusectl_number(f->mount_point);

	return number == f->memory->shared->connection
		       ? 0
		       : error_set(err, ENOTCONN, "'%s' is unmounted",
				   f->mount_point);
}

/* @fd: taken, and opened if it is -1. */
static int start_session(struct nbd_fuse *f, const char *name, int fuse_fd,
			 struct error *err)
{
	static const struct fuse_custom_io io = {
		.writev = device_writev,
		.read = device_read,
	};
	char max_read[32]; /* libfuse wants to be told what mount() was */
	char *argv[] = {"trib-nbd", "-o", max_read, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	auto_close int fd = fuse_fd;
	int r;

	(void)snprintf(max_read, sizeof(max_read), "max_read=%u", f->max_data);
	if (fd < 0)
		fd = open("/dev/fuse", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, ENODEV, "no FUSE here (/dev/fuse: %s)",
				 strerror(errno));
	f->session = fuse_session_new(&args, &nbd_fuse_operations,
				      sizeof(nbd_fuse_operations), f);
	fuse_opt_free_args(&args);
	if (!f->session)
		return error_set(err, EIO, "libfuse: no session");
	r = fuse_fd < 0 ? mount_it(f, name, fd, err) : check_mount(f, err);
	if (r < 0)
		return r;
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

	if (!f) {
		fd_close(options->fuse_fd);
		return error_set(err, ENOMEM, "no memory for a mount");
	}
	f->parts = options->parts;
	f->parts_file = options->parts_file;
	f->kept = options->kept;
	f->stored = options->stored;
	f->memory = options->memory;
	f->flags = nbd_parts_flags(f->parts);
	f->size = nbd_parts_size(f->parts);
	f->read_only = options->read_only;
	f->max_data = f->memory->shared->max_data;
	(void)snprintf(f->mount_point, sizeof(f->mount_point), "%s",
		       options->mount_point);
	for (unsigned i = 0; i < NBD_FUSE_SLOTS; i++) {
		f->slots[i].fuse = f;
		f->slots[i].record = &f->memory->shared->records[i];
		f->slots[i].next = f->unused;
		f->unused = &f->slots[i];
	}
	r = nbd_parts_data_max(f->parts) < f->max_data
		    ? error_set(&local, EPROTO, "requests are too large now")
		    : nbd_fuse_buffers_init(&f->buffers, f->memory->receive_max,
					    f->memory->buffers, &local);
	if (r < 0)
		fd_close(options->fuse_fd);
	else
		r = start_session(f, options->name, options->fuse_fd, &local);
	if (r < 0) {
		nbd_fuse_free(f);
		return error_set(err, local.code, "%s", local.msg);
	}
	*ret = f;
	return 0;
}

int nbd_fuse_fd(const struct nbd_fuse *f)
{
	return fuse_session_fd(f->session);
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

/* ---- receiving ---- */

static struct fuse_in_header *head_of(const struct nbd_fuse_buffer *buffer)
{
	return (struct fuse_in_header *)(void *)buffer->data;
}

/* Do what the kernel asks, @length bytes at @head, as they came. */
static void take_message(struct nbd_fuse *f, void *head, size_t length)
{
	const struct fuse_buf buf = {.mem = head, .size = length};

	f->head = head;
	fuse_session_process_buf(f->session, &buf);
}

/* Do what was received into @in. */
static void take_received(struct nbd_fuse *f, struct nbd_fuse_buffer *in)
{
	struct nbd_fuse_shared *shared = f->memory->shared;
	struct fuse_in_header *head = head_of(in);

	if (head->opcode == FUSE_INIT && head->len <= sizeof(shared->init)) {
		memcpy(shared->init, head, head->len);
		nbd_fuse_in_order();
		shared->init_length = head->len;
		nbd_fuse_in_order();
	}
	take_message(f, head, head->len);
	nbd_fuse_in_order();
	head->len = 0; /* a write may keep the buffer, but not its head */
}

/* Take every request that waits, as long as there is room for one more. */
static int take_requests(struct nbd_fuse *f)
{
	while (f->unused && nbd_fuse_buffers_ready(&f->buffers)) {
		struct nbd_fuse_buffer *in = f->buffers.staging;
		struct fuse_buf buf = {.mem = in->data};
		int n;

		head_of(in)->len = 0;
		nbd_fuse_in_order();
		f->memory->shared->staging = nbd_fuse_buffers_number(
			&f->buffers, in);
		nbd_fuse_in_order();
		n = fuse_session_receive_buf(f->session, &buf);
		if (n == -EAGAIN)
			return 0;
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n;
		take_received(f, in);
	}
	return 0;
}

/* ---- going on for a killed process ---- */

/* Take out of the list of unused slots those with a record, and its buffer. */
static int adopt_slots(struct nbd_fuse *f)
{
	f->unused = NULL;
	for (unsigned i = 0; i < NBD_FUSE_SLOTS; i++) {
		struct nbd_fuse_slot *s = &f->slots[i];
		struct nbd_fuse_buffer *buffer;

		if (!s->record->unique) {
			s->next = f->unused;
			f->unused = s;
			continue;
		}
		if (!s->record->buffer)
			continue;
		buffer = nbd_fuse_buffers_at(&f->buffers,
					     s->record->buffer - 1);
		if (!buffer || buffer->taken)
			return -EPROTO;
		nbd_fuse_buffers_adopt(&f->buffers, buffer);
		s->buffer = buffer;
	}
	return 0;
}

/* The buffer in which a request was left that no record has; NULL: none. */
static struct nbd_fuse_buffer *find_left(struct nbd_fuse *f)
{
	struct nbd_fuse_buffer *in = nbd_fuse_buffers_at(
		&f->buffers, f->memory->shared->staging);
	const uint64_t unique = in ? head_of(in)->unique : 0;

	if (!in || in->taken || !head_of(in)->len)
		return NULL;
	for (unsigned i = 0; i < NBD_FUSE_SLOTS; i++)
		if (f->slots[i].record->unique == unique)
			return NULL;
	return in;
}

/*
 * Tell libfuse what the kernel told the process before. The kernel has its
 * answer.
 */
static void tell_init(struct nbd_fuse *f)
{
	struct nbd_fuse_shared *shared = f->memory->shared;
	uint8_t init[NBD_FUSE_HEAD_MAX];

	memcpy(init, shared->init, sizeof(init));
	f->silent = true;
	take_message(f, init, shared->init_length);
	f->silent = false;
}

/* Go on with what the process before had not answered. */
static int resume_requests(struct nbd_fuse *f)
{
	struct nbd_fuse_buffer *left;
	unsigned count = 0;
	int r = adopt_slots(f);

	if (r < 0)
		return r;
	left = find_left(f);
	nbd_fuse_buffers_stage(&f->buffers, left);
	if (f->memory->shared->init_length &&
	    (!left || head_of(left)->opcode != FUSE_INIT))
		tell_init(f);
	for (unsigned i = 0; i < NBD_FUSE_SLOTS; i++) {
		if (!f->slots[i].record->unique)
			continue;
		f->again = &f->slots[i];
		f->again->req = NULL;
		take_message(f, f->again->record->head,
			     sizeof(f->again->record->head));
		if (!f->again->req) /* answered at once this time */
			nbd_fuse_slot_put(f->again);
		count++;
	}
	f->again = NULL;
	if (left)
		take_received(f, left);
	log_info("goes on for a killed process, with %u requests",
		 count + (left ? 1 : 0));
	return 0;
}

/* The kernel has ended the connection: who waited has an error. */
static bool is_disconnected(const struct nbd_fuse *f)
{
	struct pollfd fd = {.fd = fuse_session_fd(f->session)};

	return poll(&fd, 1, 0) > 0 && (fd.revents & POLLERR);
}

/* Returns 1, or as nbd_fuse_run(). */
static int serve_first(struct nbd_fuse *f)
{
	int r;

	if (!f->memory->goes_on) {
		nbd_fuse_buffers_stage(&f->buffers, NULL);
		return 1;
	}
	if (is_disconnected(f))
		return 0;
	r = resume_requests(f);
	return r < 0 ? r : 1;
}

int nbd_fuse_run(struct nbd_fuse *f, struct nbd_ublk *ublk)
{
	struct pollfd fds[FDS_OWN + NBD_PARTS_POLLFDS];
	int timeout_ms, stored_ms, r = serve_first(f);
	unsigned n;

	if (r <= 0)
		return r;
	nbd_stored_serve(f->stored);
	nbd_parts_send(f->parts);
	while (!fuse_session_exited(f->session)) {
		bool room = f->unused && nbd_fuse_buffers_ready(&f->buffers);

		fds[0].fd = fuse_session_fd(f->session);
		fds[0].events = room ? POLLIN : 0;
		fds[1].fd = ublk ? nbd_ublk_fd(ublk) : -1;
		fds[1].events = POLLIN;
		stored_ms = nbd_stored_poll(f->stored, &fds[2]);
		n = nbd_parts_prepare(f->parts, fds + FDS_OWN, &timeout_ms);
		if (timeout_ms < 0 ||
		    (stored_ms >= 0 && stored_ms < timeout_ms))
			timeout_ms = stored_ms;
		if (ublk && nbd_ublk_is_due(ublk))
			timeout_ms = 0;
		r = poll(fds, FDS_OWN + n, timeout_ms);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r < 0)
			continue;
		nbd_stored_run(f->stored, &fds[2]);
		nbd_parts_run(f->parts, fds + FDS_OWN);
		r = fds[0].revents ? take_requests(f) : 0;
		if (r == 0 && ublk)
			r = nbd_ublk_run(ublk);
		if (r < 0)
			return r;
		nbd_parts_send(f->parts);
	}
	return 0;
}
