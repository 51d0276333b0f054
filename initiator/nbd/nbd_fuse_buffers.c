/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_fuse_buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGEST (NBD_FUSE_CLASSES - 1)

/*
 * 2 + 2 + 5 MiB. Depth matters for short writes; of 1 MiB ones, four in
 * flight fill a link.
 */
static const struct {
	size_t size; /* bytes; 0: the largest request */
	unsigned count;
} classes[NBD_FUSE_CLASSES] = {
	{16384, 128},
	{131072, 32},
	{0, 9},
};

static size_t size_of(unsigned class_, size_t largest)
{
	size_t size = classes[class_].size;

	return size ? size : (largest + 4095) & ~(size_t)4095;
}

int nbd_fuse_buffers_init(struct nbd_fuse_buffers *b, size_t largest,
			  struct error *err)
{
	unsigned count = 0;
	uint8_t *at;

	memset(b, 0, sizeof(*b));
	for (unsigned i = 0; i < NBD_FUSE_CLASSES; i++) {
		b->length += size_of(i, largest) * classes[i].count;
		count += classes[i].count;
	}
	b->all = calloc(count, sizeof(*b->all));
	b->memory = mmap(NULL, b->length, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!b->all || b->memory == MAP_FAILED) {
		if (b->memory == MAP_FAILED)
			b->memory = NULL;
		nbd_fuse_buffers_done(b);
		return error_set(err, ENOMEM, "no memory for buffers");
	}
	at = b->memory;
	count = 0;
	for (unsigned i = 0; i < NBD_FUSE_CLASSES; i++) {
		for (unsigned n = 0; n < classes[i].count; n++) {
			struct nbd_fuse_buffer *buffer = &b->all[count++];

			buffer->data = at;
			buffer->class_ = i;
			at += size_of(i, largest);
			nbd_fuse_buffers_put(b, buffer);
		}
	}
	b->staging = b->unused[LARGEST];
	b->unused[LARGEST] = b->staging->next;
	return 0;
}

void nbd_fuse_buffers_done(struct nbd_fuse_buffers *b)
{
	if (b->memory)
		(void)munmap(b->memory, b->length);
	free(b->all);
	memset(b, 0, sizeof(*b));
}

bool nbd_fuse_buffers_ready(const struct nbd_fuse_buffers *b)
{
	return b->unused[LARGEST];
}

/* Take the smallest unused buffer that holds @length bytes. */
static struct nbd_fuse_buffer *buffer_take(struct nbd_fuse_buffers *b,
					   size_t length)
{
	struct nbd_fuse_buffer *buffer;
	unsigned i;

	for (i = 0; i < LARGEST; i++)
		if (length <= classes[i].size && b->unused[i])
			break;
	buffer = b->unused[i];
	assert(buffer);
	b->unused[i] = buffer->next;
	return buffer;
}

struct nbd_fuse_buffer *nbd_fuse_buffers_get(struct nbd_fuse_buffers *b,
					     size_t length, void **ret_data)
{
	struct nbd_fuse_buffer *buffer = buffer_take(b, length);

	*ret_data = buffer->data;
	return buffer;
}

struct nbd_fuse_buffer *nbd_fuse_buffers_keep(struct nbd_fuse_buffers *b,
					      const void *data, size_t length,
					      const void **ret_data)
{
	struct nbd_fuse_buffer *buffer = buffer_take(b, length);

	if (buffer->class_ < LARGEST) {
		memcpy(buffer->data, data, length);
		*ret_data = buffer->data;
		return buffer;
	}
	*ret_data = data;
	/* The fresh buffer takes the place of the one that holds the data. */
	struct nbd_fuse_buffer *full = b->staging;
	b->staging = buffer;
	return full;
}

void nbd_fuse_buffers_put(struct nbd_fuse_buffers *b,
			  struct nbd_fuse_buffer *buffer)
{
	if (!buffer)
		return;
	buffer->next = b->unused[buffer->class_];
	b->unused[buffer->class_] = buffer;
}
