/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "initiator/device/device.h"
#include "initiator/nbd/nbd_fuse.h"
#include "initiator/nbd/nbd_fuse_state.h"

#define INO_EXTENT 2
#define INO_STATE  3

/* Nobody but us changes a name or a size, and a new size is told. */
#define CACHE_S 86400.0

#define BACKGROUND 128 /* requests of the loop device: NBD_FUSE_SLOTS */

static struct nbd_fuse *fuse_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* ---- slots ---- */

static struct nbd_fuse_slot *slot_get(fuse_req_t req)
{
	struct nbd_fuse *f = fuse_of(req);
	struct nbd_fuse_slot *s = f->again ? f->again : f->unused;

	assert(s); /* a request is only received while one is unused */
	if (!f->again) {
		f->unused = s->next;
		s->buffer = NULL;
	}
	s->req = req;
	s->request.flags = 0;
	s->request.offset = 0;
	s->request.length = 0;
	s->request.data = NULL;
	s->request.into = NULL;
	return s;
}

void nbd_fuse_slot_put(struct nbd_fuse_slot *s)
{
	struct nbd_fuse *f = s->fuse;

	nbd_fuse_in_order();
	s->record->unique = 0;
	nbd_fuse_in_order();
	nbd_fuse_buffers_put(&f->buffers, s->buffer);
	s->next = f->unused;
	f->unused = s;
}

/* Put the request in its record. */
static void slot_record(struct nbd_fuse_slot *s, const void *data)
{
	const struct nbd_fuse *f = s->fuse;
	struct nbd_fuse_record *record = s->record;
	const struct fuse_in_header *head = f->head;
	size_t length = head->len;

	if (f->again)
		return;
	memcpy(record->head, head,
	       length < sizeof(record->head) ? length : sizeof(record->head));
	record->buffer = s->buffer ? 1 + nbd_fuse_buffers_number(&f->buffers,
								 s->buffer)
				   : 0;
	record->data_at = s->buffer && data ? (uint32_t)((const uint8_t *)data -
							 s->buffer->data)
					    : 0;
	record->answered = false;
	nbd_fuse_in_order();
	record->unique = head->unique;
	nbd_fuse_in_order();
}

/* Note the answer, before it is sent. */
static void slot_answer(struct nbd_fuse_slot *s, int error)
{
	s->record->error = error;
	nbd_fuse_in_order();
	s->record->answered = true;
	nbd_fuse_in_order();
}

static void submit(struct nbd_fuse_slot *s, uint16_t type,
		   void (*done)(struct nbd_parts_request *, int, const void *))
{
	slot_record(s, s->request.data);
	s->request.type = type;
	s->request.done = done;
	if (s->record->answered)
		done(&s->request, s->record->error, NULL);
	else
		nbd_parts_submit(s->fuse->parts, &s->request);
}

static void done_plain(struct nbd_parts_request *r, int error, const void *data)
{
	struct nbd_fuse_slot *s = container_of(r, struct nbd_fuse_slot,
					       request);

	(void)data;
	slot_answer(s, error);
	/* A reply that the kernel no longer wants (interrupted): nothing. */
	(void)fuse_reply_err(s->req, -error);
	nbd_fuse_slot_put(s);
}

static void done_read(struct nbd_parts_request *r, int error, const void *data)
{
	struct nbd_fuse_slot *s = container_of(r, struct nbd_fuse_slot,
					       request);

	if (error)
		(void)fuse_reply_err(s->req, -error);
	else
		(void)fuse_reply_buf(s->req, data, r->length);
	nbd_fuse_slot_put(s);
}

static void done_write(struct nbd_parts_request *r, int error, const void *data)
{
	struct nbd_fuse_slot *s = container_of(r, struct nbd_fuse_slot,
					       request);

	(void)data;
	slot_answer(s, error);
	if (error)
		(void)fuse_reply_err(s->req, -error);
	else
		(void)fuse_reply_write(s->req, r->length);
	nbd_fuse_slot_put(s);
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
	    (!strcmp(name, NBD_PROGRAM_EXTENT) ||
	     !strncmp(name, NBD_PROGRAM_ALIAS, strlen(NBD_PROGRAM_ALIAS))))
		e.ino = INO_EXTENT;
	if (parent == FUSE_ROOT_ID && !strcmp(name, NBD_PROGRAM_STATE))
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
	struct nbd_fuse_slot *s = f->resize;

	f->resize = NULL;
	if (error) {
		(void)fuse_reply_err(s->req, -error);
	} else {
		f->size = nbd_parts_size(f->parts);
		nbd_kept_note(f->kept, f->parts);
		log_info("the device has %llu bytes now",
			 (unsigned long long)f->size);
		reply_size(f, s->req);
	}
	nbd_fuse_slot_put(s);
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
	if (size < f->size || f->resize) {
		(void)fuse_reply_err(req, f->resize ? EBUSY : EINVAL);
		return;
	}
	f->resize = slot_get(req);
	slot_record(f->resize, NULL);
	r = grown_parts(f, size, &now);
	if (r == 0)
		r = nbd_parts_grow(f->parts, now, fuse_grown, f);
	if (r < 0)
		fuse_grown(f, r);
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
		{NBD_PROGRAM_EXTENT, INO_EXTENT},
		{NBD_PROGRAM_STATE, INO_STATE},
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
	struct nbd_fuse_slot *s;

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
	if (!nbd_parts_is_whole(f->parts, (uint64_t)off, size)) {
		if (!s->buffer)
			s->buffer = nbd_fuse_buffers_get(&f->buffers, size);
		s->request.into = s->buffer->data;
	}
	submit(s, NBD_CMD_READ, done_read);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data,
		     size_t size, off_t off, struct fuse_file_info *fi)
{
	struct nbd_fuse *f = fuse_of(req);
	struct nbd_fuse_slot *s;

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
	if (f->again) {
		assert(s->buffer); /* each write has one */
		s->request.data = s->buffer->data + s->record->data_at;
	} else {
		s->buffer = nbd_fuse_buffers_keep(&f->buffers, data, size,
						  &s->request.data);
	}
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
	struct nbd_fuse_slot *s;

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

const struct fuse_lowlevel_ops nbd_fuse_operations = {
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
