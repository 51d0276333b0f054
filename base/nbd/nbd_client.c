/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nbd/nbd_client.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/wire/cursor.h"

#define QUOTE_SIZE 256 /* bytes of a server's text in an error */

static int fail(struct nbd_handshake *h, int r)
{
	h->state = NBD_HANDSHAKE_FAILED;
	h->want = 0;
	h->out_length = 0;
	return r;
}

int nbd_handshake_start(struct nbd_handshake *h, const char *export_name,
			enum nbd_handshake_goal goal, struct error *err)
{
	size_t length = strlen(export_name);

	if (!length || length > NBD_STRING_MAX)
		return error_set(err, EINVAL,
				 "an NBD export name has 1 to %d bytes",
				 NBD_STRING_MAX);
	memset(h, 0, sizeof(*h));
	h->goal = goal;
	h->export_name = export_name;
	h->export.min_block = 1;
	h->export.max_payload = NBD_PAYLOAD_DEFAULT;
	h->want = sizeof(struct nbd_wire_greeting);
	return 0;
}

static void put(struct nbd_handshake *h, const void *data, size_t length)
{
	memcpy(h->out + h->out_length, data, length);
	h->out_length += length;
}

static void put_be16(struct nbd_handshake *h, uint16_t value)
{
	be16 wire = be16_make(value);

	put(h, &wire, sizeof(wire));
}

static void put_be32(struct nbd_handshake *h, uint32_t value)
{
	be32 wire = be32_make(value);

	put(h, &wire, sizeof(wire));
}

/* Ask by NBD_OPT_GO or NBD_OPT_INFO for the information we want. */
static void put_option(struct nbd_handshake *h)
{
	static const uint16_t wanted[] = {NBD_INFO_DESCRIPTION,
					  NBD_INFO_BLOCK_SIZE};
	uint32_t name = (uint32_t)strlen(h->export_name);
	bool go = h->goal == NBD_HANDSHAKE_GO;
	struct nbd_wire_option option = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(go ? NBD_OPT_GO : NBD_OPT_INFO),
		.length = be32_make(4 + name + 2 + sizeof(wanted)),
	};

	put(h, &option, sizeof(option));
	put_be32(h, name);
	put(h, h->export_name, name);
	put_be16(h, sizeof(wanted) / sizeof(wanted[0]));
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		put_be16(h, wanted[i]);
}

static int step_greeting(struct nbd_handshake *h, struct error *err)
{
	struct nbd_wire_greeting greeting;
	uint16_t flags;
	uint32_t ours = NBD_FLAG_C_FIXED_NEWSTYLE;

	memcpy(&greeting, h->in, sizeof(greeting));
	flags = be16_get(greeting.flags);
	if (be64_get(greeting.magic) != NBD_MAGIC)
		return error_set(err, EPROTO, "it is not an NBD server");
	if (be64_get(greeting.option_magic) != NBD_OPTION_MAGIC ||
	    !(flags & NBD_FLAG_FIXED_NEWSTYLE))
		return error_set(err, EOPNOTSUPP,
				 "the NBD server is too old: it does not "
				 "speak the fixed newstyle protocol");
	if (flags & NBD_FLAG_NO_ZEROES)
		ours |= NBD_FLAG_C_NO_ZEROES;
	put_be32(h, ours);
	put_option(h);
	h->state = NBD_HANDSHAKE_REPLY;
	h->want = sizeof(struct nbd_wire_option_reply);
	return 0;
}

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

static int info_export(struct nbd_handshake *h, struct cursor *c,
		       struct error *err)
{
	h->export.size = cursor_be64(c);
	h->export.flags = cursor_be16(c);
	if (!cursor_ended(c))
		return error_set(err, EPROTO,
				 "the server's NBD_INFO_EXPORT has a wrong "
				 "length");
	if (h->export.size > INT64_MAX)
		return error_set(err, EPROTO,
				 "the server's export is impossibly large");
	h->has_export = true;
	return 0;
}

static int info_description(struct nbd_handshake *h, struct cursor *c,
			    struct error *err)
{
	size_t length = cursor_left(c);
	const void *text = cursor_bytes(c, length);

	if (length > NBD_STRING_MAX || !text || memchr(text, 0, length))
		return error_set(err, EPROTO,
				 "the server's description is not a string");
	memcpy(h->export.description, text, length);
	h->export.description[length] = 0;
	h->export.has_description = length > 0;
	return 0;
}

static int info_block_size(struct nbd_handshake *h, struct cursor *c,
			   struct error *err)
{
	uint32_t min = cursor_be32(c);
	uint32_t preferred = cursor_be32(c);
	uint32_t max = cursor_be32(c);

	if (!cursor_ended(c) || !is_power_of_two(min) || min > 65536 ||
	    !is_power_of_two(preferred) || max < min ||
	    (max != UINT32_MAX && max % min))
		return error_set(err, EPROTO,
				 "the server's block sizes make no sense");
	h->export.min_block = min;
	h->export.max_payload = max;
	return 0;
}

static int reply_info(struct nbd_handshake *h, size_t length, struct error *err)
{
	struct cursor c = cursor_make(h->in, length);
	uint16_t type = cursor_be16(&c);

	if (!cursor_ok(&c))
		return error_set(err, EPROTO,
				 "the server sent an empty NBD_REP_INFO");
	switch (type) {
	case NBD_INFO_EXPORT: return info_export(h, &c, err);
	case NBD_INFO_DESCRIPTION: return info_description(h, &c, err);
	case NBD_INFO_BLOCK_SIZE: return info_block_size(h, &c, err);
	default: return 0; /* not asked for; the spec lets it tell */
	}
}

static int reply_ack(struct nbd_handshake *h, struct error *err)
{
	if (!h->has_export)
		return error_set(err, EPROTO,
				 "the server acknowledged without saying the "
				 "export's size");
	h->state = NBD_HANDSHAKE_DONE;
	h->want = 0;
	return 1;
}

static int reply_error(struct nbd_handshake *h, size_t length,
		       struct error *err)
{
	char text[QUOTE_SIZE] = "no reason given";

	if (length)
		log_quote(text, sizeof(text), (const char *)h->in,
			  (unsigned)length);
	switch (h->reply_type) {
	case NBD_REP_ERR_POLICY:
		return error_set(err, EACCES, "the server refused: %s", text);
	case NBD_REP_ERR_TLS_REQD:
		return error_set(err, EACCES,
				 "the server wants TLS for this export, which "
				 "attachments do not speak (nbd-tls = offered "
				 "there lets them in; or use iSCSI): %s",
				 text);
	case NBD_REP_ERR_UNKNOWN:
		return error_set(err, ENOENT,
				 "the server has no such export: %s", text);
	case NBD_REP_ERR_SHUTDOWN:
		return error_set(err, EHOSTUNREACH,
				 "the server is shutting down: %s", text);
	case NBD_REP_ERR_UNSUP:
		return error_set(err, EOPNOTSUPP,
				 "the server lacks NBD_OPT_GO: %s", text);
	case NBD_REP_ERR_BLOCK_SIZE_REQD:
	case NBD_REP_ERR_EXT_HEADER_REQD:
	case NBD_REP_ERR_PLATFORM:
		return error_set(err, EOPNOTSUPP,
				 "the server cannot serve this client: %s",
				 text);
	default:
		return error_set(err, EPROTO,
				 "the server answered error %#x: %s",
				 (unsigned)h->reply_type, text);
	}
}

static int step_body(struct nbd_handshake *h, size_t length, struct error *err)
{
	int r;

	if (h->reply_type & (UINT32_C(1) << 31))
		return reply_error(h, length, err);
	switch (h->reply_type) {
	case NBD_REP_ACK: return reply_ack(h, err);
	case NBD_REP_INFO: r = reply_info(h, length, err); break;
	default:
		r = error_set(err, EPROTO,
			      "the server sent option reply %#x unasked",
			      (unsigned)h->reply_type);
		break;
	}
	if (r < 0)
		return r;
	h->state = NBD_HANDSHAKE_REPLY;
	h->want = sizeof(struct nbd_wire_option_reply);
	return 0;
}

static int step_reply(struct nbd_handshake *h, struct error *err)
{
	uint32_t option = h->goal == NBD_HANDSHAKE_GO ? NBD_OPT_GO
						      : NBD_OPT_INFO;
	struct nbd_wire_option_reply reply;
	uint32_t length;

	memcpy(&reply, h->in, sizeof(reply));
	length = be32_get(reply.length);
	if (be64_get(reply.magic) != NBD_OPTION_REPLY_MAGIC ||
	    be32_get(reply.option) != option)
		return error_set(err, EPROTO,
				 "the server's option reply makes no sense");
	if (length > NBD_OPTION_REPLY_MAX)
		return error_set(err, EPROTO,
				 "the server's option reply is too long: %u",
				 (unsigned)length);
	if (++h->replies > NBD_OPTION_REPLIES_MAX)
		return error_set(err, EPROTO,
				 "the server's option replies do not end");
	h->reply_type = be32_get(reply.type);
	if (!length)
		return step_body(h, 0, err);
	h->state = NBD_HANDSHAKE_REPLY_BODY;
	h->want = length;
	return 0;
}

int nbd_handshake_step(struct nbd_handshake *h, struct error *err)
{
	int r;

	h->out_length = 0;
	switch (h->state) {
	case NBD_HANDSHAKE_GREETING: r = step_greeting(h, err); break;
	case NBD_HANDSHAKE_REPLY: r = step_reply(h, err); break;
	case NBD_HANDSHAKE_REPLY_BODY: r = step_body(h, h->want, err); break;
	default: r = error_set(err, EPROTO, "the handshake is over"); break;
	}
	return r < 0 ? fail(h, r) : r;
}

void nbd_request_encode(struct nbd_wire_request *wire, uint16_t type,
			uint16_t flags, uint64_t cookie, uint64_t offset,
			uint32_t length)
{
	wire->magic = be32_make(NBD_REQUEST_MAGIC);
	wire->flags = be16_make(flags);
	wire->type = be16_make(type);
	wire->cookie = be64_make(cookie);
	wire->offset = be64_make(offset);
	wire->length = be32_make(length);
}

/*
 * Map an error (proto.md "Error values"); one we do not know is EINVAL, as
 * proto.md says.
 */
static int nbd_errno_of(uint32_t error)
{
	switch (error) {
	case NBD_SUCCESS: return 0;
	case NBD_EPERM: return -EPERM;
	case NBD_EIO: return -EIO;
	case NBD_ENOMEM: return -ENOMEM;
	case NBD_ENOSPC: return -ENOSPC;
	case NBD_EOVERFLOW: return -EOVERFLOW;
	case NBD_ENOTSUP: return -EOPNOTSUPP;
	case NBD_ESHUTDOWN: return -ESHUTDOWN;
	default: return -EINVAL;
	}
}

int nbd_reply_decode(const struct nbd_wire_simple_reply *wire,
		     struct nbd_reply *ret)
{
	if (be32_get(wire->magic) != NBD_SIMPLE_REPLY_MAGIC)
		return -EPROTO;
	ret->cookie = be64_get(wire->cookie);
	ret->error = nbd_errno_of(be32_get(wire->error));
	ret->leaving = ret->error == -ESHUTDOWN;
	return 0;
}

int nbd_export_may_resume(const struct nbd_export *first,
			  const struct nbd_export *now, bool dirty,
			  struct error *err)
{
	uint16_t lost = first->flags & ~now->flags;

	if (now->size < first->size || now->min_block > first->min_block ||
	    now->max_payload < first->max_payload ||
	    (lost & (NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_SEND_FUA |
		     NBD_TRANSMIT_SEND_WRITE_ZEROES)) ||
	    (now->flags & ~first->flags & NBD_TRANSMIT_READ_ONLY))
		return error_set(err, EINVAL,
				 "the export came back smaller or less able "
				 "than it was");
	if (first->has_description && now->has_description) {
		if (!strcmp(first->description, now->description))
			return 0;
		return error_set(
			err, ESTALE,
			"the server came back as another incarnation: unflushed "
			"writes may be lost");
	}
	if (!dirty)
		return 0;
	return error_set(err, ESTALE,
			 "the server states no incarnation, and writes that "
			 "it acknowledged were not flushed: they may be lost");
}

int nbd_export_check(const struct nbd_export *export, uint64_t size,
		     uint32_t block_size, bool read_only, struct error *err)
{
	if (export->size != size)
		return error_set(err, EINVAL,
				 "the export has %llu bytes, not %llu",
				 (unsigned long long)export->size,
				 (unsigned long long)size);
	if (export->min_block > block_size || export->max_payload < block_size)
		return error_set(err, EINVAL,
				 "the server cannot transfer blocks of %u "
				 "bytes (smallest %u, largest %u)",
				 (unsigned)block_size,
				 (unsigned)export->min_block,
				 (unsigned)export->max_payload);
	if (read_only)
		return 0;
	if (export->flags & NBD_TRANSMIT_READ_ONLY)
		return error_set(err, EROFS,
				 "the export is read-only: attach it so");
	if (!(export->flags & NBD_TRANSMIT_HAS_FLAGS) ||
	    !(export->flags & NBD_TRANSMIT_SEND_FLUSH))
		return error_set(
			err, EOPNOTSUPP,
			"the server offers no FLUSH, so no fsync would be durable: "
			"attach it read-only");
	return 0;
}
