/* SPDX-License-Identifier: Apache-2.0 */
#include "target/nbd/nbd_proto.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/wire/cursor.h"

int nbd_request_decode(const struct nbd_wire_request *wire,
		       struct nbd_request *ret)
{
	if (be32_get(wire->magic) != NBD_REQUEST_MAGIC)
		return -EPROTO;
	ret->flags = be16_get(wire->flags);
	ret->type = be16_get(wire->type);
	ret->cookie = be64_get(wire->cookie);
	ret->offset = be64_get(wire->offset);
	ret->length = be32_get(wire->length);
	return 0;
}

int nbd_extended_request_decode(const struct nbd_wire_extended_request *wire,
				struct nbd_request *ret)
{
	if (be32_get(wire->magic) != NBD_EXTENDED_REQUEST_MAGIC)
		return -EPROTO;
	ret->flags = be16_get(wire->flags);
	ret->type = be16_get(wire->type);
	ret->cookie = be64_get(wire->cookie);
	ret->offset = be64_get(wire->offset);
	ret->length = be64_get(wire->length);
	return 0;
}

int nbd_status_payload_decode(const void *data, size_t length,
			      uint64_t *ret_length)
{
	struct cursor c = cursor_make(data, length);
	uint64_t wanted = cursor_be64(&c);
	uint32_t id = cursor_be32(&c);

	if (!cursor_ended(&c) || id != NBD_CONTEXT_ALLOCATION_ID)
		return -EINVAL;
	*ret_length = wanted;
	return 0;
}

int nbd_option_decode(const struct nbd_wire_option *wire,
		      struct nbd_option_header *ret)
{
	if (be64_get(wire->magic) != NBD_OPTION_MAGIC)
		return -EPROTO;
	ret->option = be32_get(wire->option);
	ret->length = be32_get(wire->length);
	return 0;
}

/* A 32-bit length and that many bytes. */
static int string_decode(struct cursor *c, struct nbd_string *ret)
{
	uint32_t length = cursor_be32(c);
	const char *text;

	if (!cursor_ok(c) || length > cursor_left(c))
		return -EINVAL;
	if (length > NBD_STRING_MAX)
		return -E2BIG;
	text = cursor_bytes(c, length);
	if (length > 0 && memchr(text, '\0', length))
		return -EINVAL;
	ret->text = text;
	ret->length = length;
	return 0;
}

int nbd_info_request_decode(const void *data, size_t length,
			    struct nbd_info_request *ret)
{
	struct cursor c = cursor_make(data, length);
	struct nbd_info_request request = {0};
	unsigned n;
	int r = string_decode(&c, &request.name);

	if (r < 0)
		return r;
	n = cursor_be16(&c);
	if (!cursor_ok(&c) || cursor_left(&c) != n * sizeof(be16))
		return -EINVAL;
	while (n-- > 0) {
		unsigned info = cursor_be16(&c); /* unknown ones are ignored */

		request.wants_name |= info == NBD_INFO_NAME;
		request.wants_description |= info == NBD_INFO_DESCRIPTION;
		request.wants_block_size |= info == NBD_INFO_BLOCK_SIZE;
	}
	*ret = request;
	return 0;
}

static bool string_is(const struct nbd_string *string, const char *text)
{
	return string->length == strlen(text) &&
	       memcmp(string->text, text, string->length) == 0;
}

int nbd_meta_request_decode(const void *data, size_t length,
			    struct nbd_meta_request *ret)
{
	struct cursor c = cursor_make(data, length);
	struct nbd_meta_request request = {0};
	int r = string_decode(&c, &request.name);

	if (r < 0)
		return r;
	request.n_queries = cursor_be32(&c);
	/* Ends with the data: each query takes at least its length. */
	for (uint32_t i = 0; i < request.n_queries; i++) {
		struct nbd_string query;

		r = string_decode(&c, &query);
		if (r < 0)
			return r;
		if (string_is(&query, "base:"))
			request.wants_base = true;
		else if (string_is(&query, NBD_CONTEXT_ALLOCATION))
			request.wants_allocation = true;
	}
	if (!cursor_ended(&c))
		return -EINVAL;
	*ret = request;
	return 0;
}

struct nbd_wire_greeting nbd_greeting_make(void)
{
	return (struct nbd_wire_greeting){
		.magic = be64_make(NBD_MAGIC),
		.option_magic = be64_make(NBD_OPTION_MAGIC),
		.flags = be16_make(NBD_FLAG_FIXED_NEWSTYLE |
				   NBD_FLAG_NO_ZEROES),
	};
}

struct nbd_wire_option_reply nbd_option_reply_make(uint32_t option,
						   uint32_t type,
						   uint32_t length)
{
	return (struct nbd_wire_option_reply){
		.magic = be64_make(NBD_OPTION_REPLY_MAGIC),
		.option = be32_make(option),
		.type = be32_make(type),
		.length = be32_make(length),
	};
}

struct nbd_wire_info_export nbd_info_export_make(uint64_t size, uint16_t flags)
{
	return (struct nbd_wire_info_export){
		.type = be16_make(NBD_INFO_EXPORT),
		.size = be64_make(size),
		.flags = be16_make(flags),
	};
}

struct nbd_wire_info_block_size nbd_info_block_size_make(uint32_t minimum,
							 uint32_t preferred)
{
	/* proto.md: preferred is at least 512 and at least the minimum. */
	if (preferred < 512)
		preferred = 512;
	if (preferred < minimum)
		preferred = minimum;
	if (preferred > NBD_PAYLOAD_MAX)
		preferred = NBD_PAYLOAD_MAX;
	return (struct nbd_wire_info_block_size){
		.type = be16_make(NBD_INFO_BLOCK_SIZE),
		.minimum = be32_make(minimum),
		.preferred = be32_make(preferred),
		.maximum = be32_make(NBD_PAYLOAD_MAX),
	};
}

size_t nbd_simple_reply_encode(void *to, uint64_t cookie, uint32_t error)
{
	struct nbd_wire_simple_reply reply = {
		.magic = be32_make(NBD_SIMPLE_REPLY_MAGIC),
		.error = be32_make(error),
		.cookie = be64_make(cookie),
	};

	memcpy(to, &reply, sizeof(reply));
	return sizeof(reply);
}

static uint8_t *chunk_encode(void *to, uint16_t flags, uint16_t type,
			     const struct nbd_reply *reply, uint32_t length)
{
	struct nbd_wire_chunk chunk = {
		.magic = be32_make(NBD_STRUCTURED_REPLY_MAGIC),
		.flags = be16_make(flags),
		.type = be16_make(type),
		.cookie = be64_make(reply->cookie),
		.length = be32_make(length),
	};
	struct nbd_wire_extended_chunk extended = {
		.magic = be32_make(NBD_EXTENDED_REPLY_MAGIC),
		.flags = be16_make(flags),
		.type = be16_make(type),
		.cookie = be64_make(reply->cookie),
		.offset = be64_make(reply->offset),
		.length = be64_make(length),
	};

	if (reply->extended) {
		memcpy(to, &extended, sizeof(extended));
		return (uint8_t *)to + sizeof(extended);
	}
	memcpy(to, &chunk, sizeof(chunk));
	return (uint8_t *)to + sizeof(chunk);
}

/* The chunk's head is written: what its payload begins with. */
static size_t payload_encode(void *to, uint8_t *rest, const void *payload,
			     size_t length)
{
	memcpy(rest, payload, length);
	return (size_t)(rest - (uint8_t *)to) + length;
}

size_t nbd_data_chunk_encode(void *to, const struct nbd_reply *reply,
			     uint64_t offset, uint32_t length, bool done)
{
	be64 at = be64_make(offset);
	uint8_t *rest = chunk_encode(to, done ? NBD_REPLY_FLAG_DONE : 0,
				     NBD_REPLY_TYPE_OFFSET_DATA, reply,
				     length + (uint32_t)sizeof(at));

	return payload_encode(to, rest, &at, sizeof(at));
}

size_t nbd_error_chunk_encode(void *to, const struct nbd_reply *reply,
			      uint32_t error, uint16_t text_length)
{
	struct {
		be32 error;
		be16 text_length;
	} payload = {be32_make(error), be16_make(text_length)};
	uint8_t *rest = chunk_encode(to, NBD_REPLY_FLAG_DONE,
				     NBD_REPLY_TYPE_ERROR, reply,
				     (uint32_t)sizeof(payload) + text_length);

	return payload_encode(to, rest, &payload, sizeof(payload));
}

size_t nbd_none_chunk_encode(void *to, const struct nbd_reply *reply)
{
	uint8_t *rest = chunk_encode(to, NBD_REPLY_FLAG_DONE,
				     NBD_REPLY_TYPE_NONE, reply, 0);

	return (size_t)(rest - (uint8_t *)to);
}

size_t nbd_status_chunk_encode(void *to, const struct nbd_reply *reply,
			       uint32_t length)
{
	uint8_t *rest = chunk_encode(to, NBD_REPLY_FLAG_DONE,
				     reply->extended
					     ? NBD_REPLY_TYPE_STATUS_EXT
					     : NBD_REPLY_TYPE_BLOCK_STATUS,
				     reply, length);

	return (size_t)(rest - (uint8_t *)to);
}

static uint32_t state_of(unsigned flags)
{
	return (flags & BLOCKDEV_HOLE ? NBD_STATE_HOLE : 0) |
	       (flags & BLOCKDEV_ZERO ? NBD_STATE_ZERO : 0);
}

static uint8_t *run_encode(uint8_t *to, bool extended, uint64_t length,
			   unsigned flags)
{
	struct {
		be32 length;
		be32 flags;
	} run = {be32_make((uint32_t)length), be32_make(state_of(flags))};
	struct {
		be64 length;
		be64 flags;
	} wide = {be64_make(length), be64_make(state_of(flags))};

	if (extended) {
		memcpy(to, &wide, sizeof(wide));
		return to + sizeof(wide);
	}
	assert(length <= UINT32_MAX);
	memcpy(to, &run, sizeof(run));
	return to + sizeof(run);
}

size_t nbd_status_encode(void *to, bool extended,
			 const struct blockdev_status *runs, unsigned n)
{
	be32 head[2] = {be32_make(NBD_CONTEXT_ALLOCATION_ID)};
	uint8_t *first = (uint8_t *)to + (extended ? 2 : 1) * sizeof(be32);
	uint8_t *at = first;
	uint32_t count = 0;

	for (unsigned i = 0; i < n; count++) {
		unsigned flags = runs[i].flags;
		uint64_t length = 0;

		while (i < n && runs[i].flags == flags)
			length += runs[i++].length;
		at = run_encode(at, extended, length, flags);
	}
	head[1] = be32_make(count);
	memcpy(to, head, (size_t)(first - (uint8_t *)to));
	return (size_t)(at - (uint8_t *)to);
}

uint32_t nbd_error_from_errno(int r)
{
	switch (-r) {
	case 0: return NBD_SUCCESS;
	case EPERM:
	case EACCES:
	case EROFS: return NBD_EPERM;
	case ENOMEM: return NBD_ENOMEM;
	case EINVAL: return NBD_EINVAL;
	case ENOSPC:
	case EDQUOT:
	case EFBIG: return NBD_ENOSPC;
	case EOVERFLOW: return NBD_EOVERFLOW;
	case EOPNOTSUPP: return NBD_ENOTSUP;
	case ESHUTDOWN: return NBD_ESHUTDOWN;
	default: return NBD_EIO;
	}
}
