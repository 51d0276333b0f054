/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_fuse_buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static unsigned count_all(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NBD_FUSE_CLASSES; i++)
		count += classes[i].count;
	return count;
}

size_t nbd_fuse_buffers_length(size_t largest)
{
	size_t length = 0;

	for (unsigned i = 0; i < NBD_FUSE_CLASSES; i++)
		length += size_of(i, largest) * classes[i].count;
	return length;
}

int nbd_fuse_buffers_init(struct nbd_fuse_buffers *b, size_t largest,
			  uint8_t *memory, struct error *err)
{
	unsigned count = 0;

	memset(b, 0, sizeof(*b));
	b->all = calloc(count_all(), sizeof(*b->all));
	if (!b->all)
		return error_set(err, ENOMEM, "no memory for buffers");
	for (unsigned i = 0; i < NBD_FUSE_CLASSES; i++) {
		for (unsigned n = 0; n < classes[i].count; n++) {
			struct nbd_fuse_buffer *buffer = &b->all[count++];

			buffer->data = memory;
			buffer->class_ = i;
			memory += size_of(i, largest);
			nbd_fuse_buffers_put(b, buffer);
		}
	}
	return 0;
}

void nbd_fuse_buffers_done(struct nbd_fuse_buffers *b)
{
	free(b->all);
	memset(b, 0, sizeof(*b));
}

unsigned nbd_fuse_buffers_number(const struct nbd_fuse_buffers *b,
				 const struct nbd_fuse_buffer *buffer)
{
	return (unsigned)(buffer - b->all);
}

struct nbd_fuse_buffer *nbd_fuse_buffers_at(const struct nbd_fuse_buffers *b,
					    unsigned number)
{
	return number < count_all() ? &b->all[number] : NULL;
}

void nbd_fuse_buffers_adopt(struct nbd_fuse_buffers *b,
			    struct nbd_fuse_buffer *buffer)
{
	struct nbd_fuse_buffer **at = &b->unused[buffer->class_];

	while (*at != buffer)
		at = &(*at)->next;
	*at = buffer->next;
	buffer->taken = true;
}

void nbd_fuse_buffers_stage(struct nbd_fuse_buffers *b,
			    struct nbd_fuse_buffer *buffer)
{
	if (!buffer)
		buffer = b->unused[LARGEST];
	nbd_fuse_buffers_adopt(b, buffer);
	b->staging = buffer;
}

bool nbd_fuse_buffers_ready(const struct nbd_fuse_buffers *b)
{
	return b->unused[LARGEST];
}

/* Take the smallest unused buffer that holds @length bytes. */
struct nbd_fuse_buffer *nbd_fuse_buffers_get(struct nbd_fuse_buffers *b,
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
	buffer->taken = true;
	return buffer;
}

struct nbd_fuse_buffer *nbd_fuse_buffers_keep(struct nbd_fuse_buffers *b,
					      const void *data, size_t length,
					      const void **ret_data)
{
	struct nbd_fuse_buffer *buffer = nbd_fuse_buffers_get(b, length);

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
	buffer->taken = false;
	buffer->next = b->unused[buffer->class_];
	b->unused[buffer->class_] = buffer;
}
