/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_fuse_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "initiator/nbd/nbd_fuse_buffers.h"

#define HEADERS_MAX 4096 /* bytes before the data; FUSE_BUFFER_HEADER_SIZE */
#define BUFFERS_AT  ((sizeof(struct nbd_fuse_shared) + 4095) & ~(size_t)4095)

static size_t receive_max_of(uint32_t max_data)
{
	size_t length = (size_t)max_data + HEADERS_MAX;

	return length < 2 * HEADERS_MAX /* FUSE_MIN_READ_BUFFER */
		       ? 2 * HEADERS_MAX
		       : length;
}

/* Map it, all of its pages at once: none may have to be found later. */
static int map(struct nbd_fuse_memory *m, struct error *err)
{
	void *at = mmap(NULL, m->length, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_POPULATE, m->fd, 0);

	if (at == MAP_FAILED)
		return error_set(err, ENOMEM, "no memory for requests");
	m->shared = at;
	m->buffers = (uint8_t *)at + BUFFERS_AT;
	return 0;
}

int nbd_fuse_memory_new(struct nbd_fuse_memory *m, uint32_t max_data,
			struct error *err)
{
	const size_t receive_max = receive_max_of(max_data);
	int r;

	*m = (struct nbd_fuse_memory){
		.fd = file_memfd("requests"),
		.length = BUFFERS_AT + nbd_fuse_buffers_length(receive_max),
		.receive_max = receive_max,
	};
	if (m->fd < 0 || ftruncate(m->fd, (off_t)m->length) < 0)
		r = error_set(err, errno, "memory for requests: %s",
			      strerror(errno));
	else
		r = map(m, err);
	if (r < 0) {
		nbd_fuse_memory_done(m);
		return r;
	}
	m->shared->max_data = max_data;
	m->shared->kept.id = -1;
	m->shared->layout = NBD_FUSE_LAYOUT;
	return 0;
}

int nbd_fuse_memory_open(struct nbd_fuse_memory *m, int fd, struct error *err)
{
	struct stat st = {.st_size = 0};
	int r;

	*m = (struct nbd_fuse_memory){.fd = fd, .goes_on = true};
	if (fstat(fd, &st) < 0 || (size_t)st.st_size < BUFFERS_AT)
		r = error_set(err, EPROTO, "no memory of a trib-nbd");
	else {
		m->length = (size_t)st.st_size;
		r = map(m, err);
	}
	if (r == 0) {
		m->receive_max = receive_max_of(m->shared->max_data);
		if (m->shared->layout != NBD_FUSE_LAYOUT ||
		    m->length != BUFFERS_AT + nbd_fuse_buffers_length(
						      m->receive_max))
			r = error_set(err, EPROTO,
				      "another version of trib-nbd had it");
	}
	if (r < 0)
		nbd_fuse_memory_done(m);
	return r;
}

void nbd_fuse_memory_done(struct nbd_fuse_memory *m)
{
	if (m->shared)
		(void)munmap(m->shared, m->length);
	fd_close(m->fd);
	*m = (struct nbd_fuse_memory){.fd = -1};
}
