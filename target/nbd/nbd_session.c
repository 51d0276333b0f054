/* SPDX-License-Identifier: Apache-2.0 */
/* The transmission phase; nbd_handshake.c has the phase before. */
#include "target/nbd/nbd_session.h"

#include <assert.h>
#include <string.h>

#include "target/nbd/nbd_handshake.h"

static void nbd_session_drop(struct nbd_session *s, struct nbd_event *ret,
			     const char *why)
{
	s->state = NBD_SESSION_CLOSED;
	ret->type = NBD_EVENT_DROP;
	ret->why = why;
}

/* The commands that requests may have. */
static const struct command {
	bool known;
	bool changes;     /* the export */
	bool takes_space; /* of the medium */
	bool moves_data;  /* NBD_PAYLOAD_MAX at most */
	bool has_range;
	uint16_t offered; /* NBD_TRANSMIT_*, with one of these; 0: always */
	uint16_t flags;   /* NBD_CMD_FLAG_*, besides FUA, if agreed on */
} commands[] = {
	[NBD_CMD_READ] =
		{
			.known = true,
			.moves_data = true,
			.has_range = true,
			.flags = NBD_CMD_FLAG_DF,
		},
	[NBD_CMD_WRITE] =
		{
			.known = true,
			.changes = true,
			.takes_space = true,
			.moves_data = true,
			.has_range = true,
			.flags = NBD_CMD_FLAG_PAYLOAD,
		},
	[NBD_CMD_FLUSH] = {.known = true},
	[NBD_CMD_TRIM] =
		{
			.known = true,
			.changes = true,
			.has_range = true,
			.offered = NBD_TRANSMIT_SEND_TRIM |
				   NBD_TRANSMIT_READ_ONLY,
		},
	[NBD_CMD_CACHE] =
		{
			.known = true,
			.has_range = true,
			.offered = NBD_TRANSMIT_SEND_CACHE,
		},
	[NBD_CMD_WRITE_ZEROES] =
		{
			.known = true,
			.changes = true,
			.takes_space = true,
			.has_range = true,
			.flags = NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
		},
	[NBD_CMD_BLOCK_STATUS] =
		{
			.known = true,
			.has_range = true,
			.flags = NBD_CMD_FLAG_REQ_ONE,
		},
	[NBD_CMD_RESIZE] = {.known = false}, /* and all others */
};

/* The flags that requests of this session may carry. */
static uint16_t flags_agreed(const struct nbd_session *s)
{
	return NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_REQ_ONE |
	       (s->structured ? NBD_CMD_FLAG_DF : 0) |
	       (s->extended ? NBD_CMD_FLAG_PAYLOAD : 0) |
	       (s->export.flags & NBD_TRANSMIT_SEND_FAST_ZERO
			? NBD_CMD_FLAG_FAST_ZERO
			: 0);
}

/* Why a request is refused. */
static const struct refusal {
	enum nbd_error error;
	const char *why;
} not_offered = {NBD_EINVAL, "the command was not offered"},
  read_only = {NBD_EPERM, "the export is read-only"},
  wrong_flag = {NBD_EINVAL, "a flag that the command does not have"},
  no_length = {NBD_EINVAL, "the length is 0"},
  past_end = {NBD_EINVAL, "past the end of the export"},
  no_space = {NBD_ENOSPC, "past the end of the export"},
  not_aligned = {NBD_EINVAL, "not a multiple of the minimum block size"},
  too_long = {NBD_EINVAL, "longer than the maximum block size"},
  wrong_context = {NBD_EINVAL, "the payload does not name base:allocation "
			       "exactly once"};

/* Decide on a request. NULL: it may be carried out. */
static const struct refusal *request_check(const struct nbd_session *s,
					   const struct nbd_request *request)
{
	const struct nbd_export *export = &s->export;
	const struct command *command =
		&commands[request->type < NBD_CMD_RESIZE ? request->type
							 : NBD_CMD_RESIZE];
	uint64_t end;

	if (!command->known ||
	    (command->offered && !(export->flags & command->offered)) ||
	    (request->type == NBD_CMD_BLOCK_STATUS &&
	     !(s->structured && s->allocation)))
		return &not_offered;
	if (command->changes && export->flags & NBD_TRANSMIT_READ_ONLY)
		return &read_only;
	if (request->flags &&
	    request->flags & ~(unsigned)NBD_CMD_FLAG_FUA &
		    ~(unsigned)(command->flags & flags_agreed(s)))
		return &wrong_flag;
	if (!command->has_range)
		return NULL;
	if (request->length == 0)
		return &no_length;
	if (__builtin_add_overflow(request->offset, request->length, &end) ||
	    end > export->size)
		return command->takes_space ? &no_space : &past_end;
	if ((request->offset | request->length) & (export->block_size - 1))
		return &not_aligned;
	return command->moves_data && request->length > NBD_PAYLOAD_MAX
		       ? &too_long
		       : NULL;
}

size_t nbd_event_more(struct nbd_event *ret, size_t need)
{
	ret->type = NBD_EVENT_MORE;
	ret->need = need;
	return 0;
}

/* The request is decided on; its payload is still to come. */
static void payload_expect(struct nbd_session *s, uint64_t length,
			   struct nbd_event *ret)
{
	s->left = length;
	s->state = NBD_SESSION_PAYLOAD;
	if (ret->type == NBD_EVENT_REQUEST)
		return;
	s->state = NBD_SESSION_SKIP_PAYLOAD;
	if (length > NBD_DRAIN_MAX)
		nbd_session_drop(s, ret, "a payload far too long");
}

/*
 * Take the payload of a BLOCK_STATUS, which names the contexts, so that the
 * request goes on like one without.
 */
static const struct refusal *status_payload_take(const struct nbd_session *s,
						 struct nbd_request *request,
						 const void *payload)
{
	request->flags &= (uint16_t)~NBD_CMD_FLAG_PAYLOAD;
	if (nbd_status_payload_decode(payload, (size_t)request->length,
				      &request->length) < 0)
		return &wrong_context;
	return request_check(s, request);
}

/* Bytes behind the header, which are not the next one. */
static uint64_t payload_length(const struct nbd_session *s,
			       const struct nbd_request *request)
{
	if (request->type == NBD_CMD_WRITE)
		return request->length; /* without the flag it is clear, too */
	return s->extended && request->flags & NBD_CMD_FLAG_PAYLOAD
		       ? request->length
		       : 0;
}

/* Take a request's header, and the payload of a BLOCK_STATUS with it. */
static size_t request_feed(struct nbd_session *s, const void *data,
			   size_t length, struct nbd_event *ret)
{
	struct nbd_request *request = &ret->request;
	size_t head = s->extended ? sizeof(struct nbd_wire_extended_request)
				  : sizeof(struct nbd_wire_request);
	const struct refusal *refusal;
	uint64_t payload;

	if (length < head)
		return nbd_event_more(ret, head);
	if ((s->extended ? nbd_extended_request_decode(data, request)
			 : nbd_request_decode(data, request)) < 0) {
		nbd_session_drop(s, ret, "bad request magic");
		return 0;
	}
	if (request->type == NBD_CMD_DISC) {
		s->state = NBD_SESSION_CLOSED;
		ret->type = NBD_EVENT_CLOSE;
		return head;
	}
	payload = payload_length(s, request);
	if (payload > 0 && request->type == NBD_CMD_BLOCK_STATUS &&
	    s->allocation && payload <= NBD_STATUS_PAYLOAD_MAX) {
		if (length - head < payload)
			return nbd_event_more(ret, head + (size_t)payload);
		refusal = status_payload_take(s, request,
					      (const uint8_t *)data + head);
		head += (size_t)payload;
		payload = 0;
	} else {
		refusal = request_check(s, request);
	}
	ret->type = refusal ? NBD_EVENT_REFUSED : NBD_EVENT_REQUEST;
	if (refusal) {
		ret->error = refusal->error;
		ret->why = refusal->why;
	}
	if (payload > 0)
		payload_expect(s, payload, ret);
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
