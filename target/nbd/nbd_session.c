/* SPDX-License-Identifier: Apache-2.0 */
/* The transmission phase; nbd_handshake.c has the phase before. */
#include "target/nbd/nbd_session.h"

#include <assert.h>
#include <string.h>

#include "target/nbd/nbd_handshake.h"

static void request_refuse(struct nbd_event *ret, uint32_t error,
			   const char *why)
{
	ret->type = NBD_EVENT_REFUSED;
	ret->error = error;
	ret->why = why;
}

static void session_drop(struct nbd_session *s, struct nbd_event *ret,
			 const char *why)
{
	s->state = NBD_SESSION_CLOSED;
	ret->type = NBD_EVENT_DROP;
	ret->why = why;
}

/* The flags that each command may carry; FUA is fine with all. */
static bool flags_ok(const struct nbd_session *s,
		     const struct nbd_request *request)
{
	uint16_t allowed = NBD_CMD_FLAG_FUA;

	switch (request->type) {
	case NBD_CMD_READ:
		if (s->structured)
			allowed |= NBD_CMD_FLAG_DF;
		break;
	case NBD_CMD_WRITE_ZEROES:
		allowed |= NBD_CMD_FLAG_NO_HOLE;
		if (s->export.flags & NBD_TRANSMIT_SEND_FAST_ZERO)
			allowed |= NBD_CMD_FLAG_FAST_ZERO;
		break;
	case NBD_CMD_WRITE:
		if (s->extended)
			allowed |= NBD_CMD_FLAG_PAYLOAD;
		break;
	case NBD_CMD_BLOCK_STATUS: allowed |= NBD_CMD_FLAG_REQ_ONE; break;
	default: break;
	}
	return !(request->flags & ~allowed);
}

/* The command is one that this export takes. */
static bool command_ok(const struct nbd_session *s, uint16_t type)
{
	switch (type) {
	case NBD_CMD_READ:
	case NBD_CMD_WRITE:
	case NBD_CMD_FLUSH:
	case NBD_CMD_WRITE_ZEROES: return true;
	case NBD_CMD_TRIM:
		return s->export.flags &
		       (NBD_TRANSMIT_SEND_TRIM | NBD_TRANSMIT_READ_ONLY);
	case NBD_CMD_CACHE: return s->export.flags & NBD_TRANSMIT_SEND_CACHE;
	case NBD_CMD_BLOCK_STATUS: return s->structured && s->allocation;
	default: return false;
	}
}

static bool modifies(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_TRIM ||
	       type == NBD_CMD_WRITE_ZEROES;
}

static bool grows(uint16_t type)
{
	return type == NBD_CMD_WRITE || type == NBD_CMD_WRITE_ZEROES;
}

static void range_check(const struct nbd_session *s,
			const struct nbd_request *request,
			struct nbd_event *ret)
{
	uint64_t end;

	if (request->length == 0) {
		request_refuse(ret, NBD_EINVAL, "the length is 0");
		return;
	}
	if (__builtin_add_overflow(request->offset, request->length, &end) ||
	    end > s->export.size) {
		request_refuse(ret,
			       grows(request->type) ? NBD_ENOSPC : NBD_EINVAL,
			       "past the end of the export");
		return;
	}
	if ((request->offset | request->length) & (s->export.block_size - 1)) {
		request_refuse(ret, NBD_EINVAL,
			       "not a multiple of the minimum block size");
		return;
	}
	if ((request->type == NBD_CMD_READ || request->type == NBD_CMD_WRITE) &&
	    request->length > NBD_PAYLOAD_MAX)
		request_refuse(ret, NBD_EINVAL,
			       "longer than the maximum block size");
}

static void request_check(const struct nbd_session *s, struct nbd_event *ret)
{
	const struct nbd_request *request = &ret->request;

	if (!command_ok(s, request->type))
		request_refuse(ret, NBD_EINVAL, "the command was not offered");
	else if (modifies(request->type) &&
		 s->export.flags & NBD_TRANSMIT_READ_ONLY)
		request_refuse(ret, NBD_EPERM, "the export is read-only");
	else if (!flags_ok(s, request))
		request_refuse(ret, NBD_EINVAL,
			       "a flag that the command does not have");
	else if (request->type != NBD_CMD_FLUSH)
		range_check(s, request, ret);
}

static size_t event_more(struct nbd_event *ret, size_t need)
{
	ret->type = NBD_EVENT_MORE;
	ret->need = need;
	return 0;
}

static size_t header_size(const struct nbd_session *s)
{
	return s->extended ? sizeof(struct nbd_wire_extended_request)
			   : sizeof(struct nbd_wire_request);
}

/* Bytes behind the header, which are not the next one. */
static uint64_t payload_length(const struct nbd_session *s,
			       const struct nbd_request *request)
{
	bool said = s->extended && request->flags & NBD_CMD_FLAG_PAYLOAD;

	/* A WRITE without the flag is a client's mistake, and clear. */
	return request->type == NBD_CMD_WRITE || said ? request->length : 0;
}

/*
 * Take a BLOCK_STATUS together with its payload, which names the contexts, so
 * that it goes on like one without. Returns the bytes consumed.
 */
static size_t status_payload_feed(const struct nbd_session *s,
				  const uint8_t *payload, size_t length,
				  struct nbd_event *ret)
{
	struct nbd_request *request = &ret->request;
	size_t size = (size_t)request->length;

	if (length < size)
		return event_more(ret, header_size(s) + size);
	request->flags &= (uint16_t)~NBD_CMD_FLAG_PAYLOAD;
	if (nbd_status_payload_decode(payload, size, &request->length) < 0)
		request_refuse(
			ret, NBD_EINVAL,
			"the payload does not name base:allocation exactly once");
	else
		request_check(s, ret);
	return header_size(s) + size;
}

/* The request is decided on; its payload is still to come. */
static void payload_expect(struct nbd_session *s, uint64_t length,
			   struct nbd_event *ret)
{
	if (length == 0)
		return;
	s->left = length;
	s->state = NBD_SESSION_PAYLOAD;
	if (ret->type == NBD_EVENT_REQUEST)
		return;
	s->state = NBD_SESSION_SKIP_PAYLOAD;
	if (length > NBD_DRAIN_MAX)
		session_drop(s, ret, "a payload far too long");
}

static int header_decode(const struct nbd_session *s, const void *data,
			 struct nbd_request *ret)
{
	return s->extended ? nbd_extended_request_decode(data, ret)
			   : nbd_request_decode(data, ret);
}

static size_t request_feed(struct nbd_session *s, const void *data,
			   size_t length, struct nbd_event *ret)
{
	struct nbd_request *request = &ret->request;
	size_t head = header_size(s);

	if (length < head)
		return event_more(ret, head);
	if (header_decode(s, data, request) < 0) {
		session_drop(s, ret, "bad request magic");
		return 0;
	}
	if (request->type == NBD_CMD_DISC) {
		s->state = NBD_SESSION_CLOSED;
		ret->type = NBD_EVENT_CLOSE;
		return head;
	}
	ret->type = NBD_EVENT_REQUEST;
	if (s->extended && s->allocation &&
	    request->type == NBD_CMD_BLOCK_STATUS &&
	    request->flags & NBD_CMD_FLAG_PAYLOAD &&
	    request->length <= NBD_STATUS_PAYLOAD_MAX)
		return status_payload_feed(s, (const uint8_t *)data + head,
					   length - head, ret);
	request_check(s, ret);
	payload_expect(s, payload_length(s, request), ret);
	return head;
}

/* Let go of bytes that nobody wants, then be in state @next. */
static size_t skip_feed(struct nbd_session *s, size_t length,
			enum nbd_session_state next, struct nbd_event *ret)
{
	size_t taken = length < s->left ? length : (size_t)s->left;

	s->left -= taken;
	if (s->left == 0)
		s->state = next;
	ret->type = NBD_EVENT_MORE;
	ret->need = 1;
	return taken;
}

size_t nbd_session_feed(struct nbd_session *s, const void *data, size_t length,
			struct nbd_event *ret)
{
	switch (s->state) {
	case NBD_SESSION_REQUEST: return request_feed(s, data, length, ret);
	case NBD_SESSION_SKIP_PAYLOAD:
		return skip_feed(s, length, NBD_SESSION_REQUEST, ret);
	case NBD_SESSION_SKIP_OPTION:
		return skip_feed(s, length, NBD_SESSION_OPTION, ret);
	case NBD_SESSION_CLIENT_FLAGS:
	case NBD_SESSION_OPTION:
		return nbd_handshake_feed(s, data, length, ret);
	case NBD_SESSION_TLS:
	case NBD_SESSION_PAYLOAD: /* the owner's own mistake */
		assert(s->state == NBD_SESSION_REQUEST);
		break;
	case NBD_SESSION_CLOSED: break;
	}
	ret->type = NBD_EVENT_CLOSE;
	return 0;
}

void nbd_session_payload_taken(struct nbd_session *s, uint32_t length)
{
	assert(s->state == NBD_SESSION_PAYLOAD && length <= s->left);
	s->left -= length;
	if (s->left == 0)
		s->state = NBD_SESSION_REQUEST;
}

void nbd_session_payload_skip(struct nbd_session *s)
{
	assert(s->state == NBD_SESSION_PAYLOAD);
	s->state = NBD_SESSION_SKIP_PAYLOAD;
}

void nbd_session_tls_on(struct nbd_session *s)
{
	assert(s->state == NBD_SESSION_TLS);
	s->tls = NBD_TLS_ON;
	s->state = NBD_SESSION_OPTION;
}

bool nbd_session_transmits(const struct nbd_session *s)
{
	return s->state == NBD_SESSION_REQUEST ||
	       s->state == NBD_SESSION_PAYLOAD ||
	       s->state == NBD_SESSION_SKIP_PAYLOAD;
}

void nbd_session_grow(struct nbd_session *s, uint64_t size)
{
	if (nbd_session_transmits(s) && size > s->export.size)
		s->export.size = size;
}
