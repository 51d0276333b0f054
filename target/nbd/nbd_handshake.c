/* SPDX-License-Identifier: Apache-2.0 */
#include "target/nbd/nbd_handshake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define OUTPUT_FIRST 1024u /* bytes; most handshakes need no more */

/* ---- what we say ---- */

static int output_add(struct nbd_output *out, const void *data, size_t length)
{
	if (out->size - out->length < length) {
		size_t size = out->size ? out->size : OUTPUT_FIRST;
		uint8_t *grown;

		while (size - out->length < length)
			size *= 2;
		grown = realloc(out->data, size);
		if (!grown)
			return -ENOMEM;
		out->data = grown;
		out->size = size;
	}
	memcpy(out->data + out->length, data, length);
	out->length += length;
	return 0;
}

/* A reply to the current option: a fixed part and then some text. */
static int reply(struct nbd_session *s, uint32_t type, const void *head,
		 size_t head_length, const char *text)
{
	size_t text_length = text ? strlen(text) : 0;
	struct nbd_wire_option_reply wire = nbd_option_reply_make(
		s->option, type, (uint32_t)(head_length + text_length));
	int r = output_add(&s->out, &wire, sizeof(wire));

	if (r == 0 && head_length > 0)
		r = output_add(&s->out, head, head_length);
	if (r == 0 && text_length > 0)
		r = output_add(&s->out, text, text_length);
	return r;
}

static int reply_ack(struct nbd_session *s)
{
	return reply(s, NBD_REP_ACK, NULL, 0, NULL);
}

static int reply_error(struct nbd_session *s, uint32_t type, const char *text)
{
	return reply(s, type, NULL, 0, text);
}

/* Answer an option that does not decode. */
static int reply_malformed(struct nbd_session *s, int r)
{
	if (r == -E2BIG)
		return reply_error(s, NBD_REP_ERR_TOO_BIG,
				   "an export name is at most 4096 bytes");
	return reply_error(s, NBD_REP_ERR_INVALID,
			   "the option's data is malformed");
}

/* Answer a request for an export that the peer can't use. */
static int reply_no_export(struct nbd_session *s, int r,
			   const struct error *err)
{
	switch (r) {
	case -ENOENT:
		return reply_error(s, NBD_REP_ERR_UNKNOWN, error_text(err));
	case -ENOKEY: /* where there is no TLS it is only a refusal */
		return reply_error(s,
				   s->tls == NBD_TLS_OFF ? NBD_REP_ERR_POLICY
							 : NBD_REP_ERR_TLS_REQD,
				   error_text(err));
	case -EACCES:
		return reply_error(s, NBD_REP_ERR_POLICY, error_text(err));
	case -ESHUTDOWN:
		return reply_error(s, NBD_REP_ERR_SHUTDOWN, error_text(err));
	default: return reply_error(s, NBD_REP_ERR_PLATFORM, error_text(err));
	}
}

int nbd_session_list_add(struct nbd_session *s, const char *name)
{
	be32 length = be32_make((uint32_t)strlen(name));

	return reply(s, NBD_REP_SERVER, &length, sizeof(length), name);
}

/* ---- exports ---- */

static void string_copy(char *to, const struct nbd_string *from)
{
	if (from->length > 0)
		memcpy(to, from->text, from->length);
	to[from->length] = '\0';
}

static int export_find(struct nbd_session *s, const struct nbd_string *name,
		       bool keep, struct nbd_export *ret, struct error *err)
{
	char text[NBD_STRING_MAX + 1];

	string_copy(text, name);
	*ret = (struct nbd_export){0};
	return s->ops->open(s->context, text, keep, ret, err);
}

static uint16_t transmission_flags(const struct nbd_session *s,
				   const struct nbd_export *export)
{
	uint16_t flags = export->flags | NBD_TRANSMIT_HAS_FLAGS;

	if (s->structured)
		flags |= NBD_TRANSMIT_SEND_DF;
	if (s->extended)
		flags |= NBD_TRANSMIT_STATUS_PAYLOAD;
	return flags;
}

/* Requests can come: contexts hold only for the export they were asked for. */
static void option_start(struct nbd_session *s, const struct nbd_string *name,
			 struct nbd_event *ret)
{
	if (strlen(s->meta_name) != name->length ||
	    memcmp(s->meta_name, name->text, name->length) != 0)
		s->allocation = false;
	s->state = NBD_SESSION_REQUEST;
	ret->type = NBD_EVENT_START;
}

static int info_text(struct nbd_session *s, uint16_t type, const char *text)
{
	be16 head = be16_make(type);

	return reply(s, NBD_REP_INFO, &head, sizeof(head), text);
}

static int info_reply(struct nbd_session *s,
		      const struct nbd_info_request *request,
		      const struct nbd_export *export)
{
	struct nbd_wire_info_export info = nbd_info_export_make(
		export->size, transmission_flags(s, export));
	struct nbd_wire_info_block_size sizes = nbd_info_block_size_make(
		export->block_size, export->preferred_size);
	int r = reply(s, NBD_REP_INFO, &info, sizeof(info), NULL);

	if (r == 0 && request->wants_name)
		r = info_text(s, NBD_INFO_NAME, export->name);
	if (r == 0 && request->wants_description && export->description[0])
		r = info_text(s, NBD_INFO_DESCRIPTION, export->description);
	/* Said without being asked too: it costs little and helps much. */
	if (r == 0)
		r = reply(s, NBD_REP_INFO, &sizes, sizeof(sizes), NULL);
	return r < 0 ? r : reply_ack(s);
}

/* ---- one handler for each option; each returns 0 or -ENOMEM or... ---- */

/* -ESHUTDOWN: close once the output is sent; -EPROTO: drop; -EAGAIN: wait. */
typedef int option_handler(struct nbd_session *s, const void *data,
			   size_t length, struct nbd_event *ret);

static int on_info_or_go(struct nbd_session *s, const void *data, size_t length,
			 struct nbd_event *ret)
{
	bool go = s->option == NBD_OPT_GO;
	struct nbd_info_request request;
	struct nbd_export export;
	struct error err = {0};
	int r = nbd_info_request_decode(data, length, &request);

	if (r < 0)
		return reply_malformed(s, r);
	r = export_find(s, &request.name, go, &export, &err);
	if (r == -EAGAIN)
		return r;
	if (r < 0)
		return reply_no_export(s, r, &err);
	r = info_reply(s, &request, &export);
	if (r == 0 && go) {
		s->export = export;
		option_start(s, &request.name, ret);
	}
	return r;
}

/* Handle EXPORT_NAME. An error has no answer here but to close. */
static int on_export_name(struct nbd_session *s, const void *data,
			  size_t length, struct nbd_event *ret)
{
	struct nbd_string name = {data, (uint32_t)length};
	struct nbd_wire_export_name wire = {0};
	struct error err = {0};
	int r;

	/* proto.md: not after extended headers. */
	if (s->extended || length > NBD_STRING_MAX ||
	    (length && memchr(data, '\0', length)))
		return -EPROTO;
	r = export_find(s, &name, true, &s->export, &err);
	if (r < 0)
		return r == -EAGAIN ? r : -ESHUTDOWN;
	wire.size = be64_make(s->export.size);
	wire.flags = be16_make(transmission_flags(s, &s->export));
	r = output_add(&s->out, &wire,
		       s->no_zeroes
			       ? offsetof(struct nbd_wire_export_name, zeroes)
			       : sizeof(wire));
	if (r == 0)
		option_start(s, &name, ret);
	return r;
}

static int on_abort(struct nbd_session *s, const void *data, size_t length,
		    struct nbd_event *ret)
{
	int r = reply_ack(s);

	(void)data;
	(void)length;
	(void)ret;
	return r < 0 ? r : -ESHUTDOWN;
}

static int on_list(struct nbd_session *s, const void *data, size_t length,
		   struct nbd_event *ret)
{
	int r;

	(void)data;
	(void)ret;
	if (length > 0)
		return reply_malformed(s, -EINVAL);
	r = s->ops->list(s->context, s);
	return r < 0 ? r : reply_ack(s);
}

static int on_starttls(struct nbd_session *s, const void *data, size_t length,
		       struct nbd_event *ret)
{
	int r;

	(void)data;
	if (length > 0)
		return reply_malformed(s, -EINVAL);
	if (s->tls == NBD_TLS_OFF)
		return reply_error(s, NBD_REP_ERR_POLICY,
				   "TLS is not set up on this server");
	if (s->tls == NBD_TLS_ON)
		return reply_error(s, NBD_REP_ERR_INVALID, "TLS is on already");
	r = reply_ack(s);
	if (r < 0)
		return r;
	/* Anybody may have asked for the features agreed on until now. */
	s->structured = s->extended = s->allocation = false;
	s->meta_name[0] = '\0';
	s->state = NBD_SESSION_TLS;
	ret->type = NBD_EVENT_TLS;
	return 0;
}

/* Everything else before TLS, where it must be. */
static int on_before_tls(struct nbd_session *s, const void *data, size_t length,
			 struct nbd_event *ret)
{
	(void)data;
	(void)length;
	(void)ret;
	if (s->option == NBD_OPT_EXPORT_NAME)
		return -ESHUTDOWN; /* it has no answer for that */
	return reply_error(s, NBD_REP_ERR_TLS_REQD,
			   "this server is only for TLS: start it first");
}

static int on_structured_reply(struct nbd_session *s, const void *data,
			       size_t length, struct nbd_event *ret)
{
	(void)data;
	(void)ret;
	if (length > 0)
		return reply_malformed(s, -EINVAL);
	if (s->extended)
		return reply_error(s, NBD_REP_ERR_EXT_HEADER_REQD,
				   "extended headers are agreed on already");
	s->structured = true;
	return reply_ack(s);
}

static int on_extended_headers(struct nbd_session *s, const void *data,
			       size_t length, struct nbd_event *ret)
{
	(void)data;
	(void)ret;
	if (length > 0)
		return reply_malformed(s, -EINVAL);
	s->extended = s->structured = true;
	return reply_ack(s);
}

static int context_reply(struct nbd_session *s, uint32_t id)
{
	be32 wire = be32_make(id);

	return reply(s, NBD_REP_META_CONTEXT, &wire, sizeof(wire),
		     NBD_CONTEXT_ALLOCATION);
}

static int on_meta_context(struct nbd_session *s, const void *data,
			   size_t length, struct nbd_event *ret)
{
	bool set = s->option == NBD_OPT_SET_META_CONTEXT;
	struct nbd_meta_request request;
	struct nbd_export export;
	struct error err = {0};
	bool has;
	int r;

	(void)ret;
	if (set) { /* whatever comes of it, the old selection is gone */
		s->allocation = false;
		s->meta_name[0] = '\0';
	}
	if (!s->structured)
		return reply_error(
			s, NBD_REP_ERR_INVALID,
			"structured replies must be asked for first");
	r = nbd_meta_request_decode(data, length, &request);
	if (r < 0)
		return reply_malformed(s, r);
	r = export_find(s, &request.name, false, &export, &err);
	if (r < 0)
		return reply_no_export(s, r, &err);
	if (set) {
		has = s->allocation = request.wants_allocation;
		string_copy(s->meta_name, &request.name);
	} else {
		has = request.n_queries == 0 || request.wants_base ||
		      request.wants_allocation;
	}
	r = has ? context_reply(s, set ? NBD_CONTEXT_ALLOCATION_ID : 0) : 0;
	return r < 0 ? r : reply_ack(s);
}

static int on_unknown(struct nbd_session *s, const void *data, size_t length,
		      struct nbd_event *ret)
{
	(void)data;
	(void)length;
	(void)ret;
	return reply_error(s, NBD_REP_ERR_UNSUP,
			   "this server does not have the option");
}

static option_handler *option_find(const struct nbd_session *s)
{
	if (s->tls == NBD_TLS_REQUIRED && s->option != NBD_OPT_STARTTLS &&
	    s->option != NBD_OPT_ABORT)
		return on_before_tls;
	switch (s->option) {
	case NBD_OPT_EXPORT_NAME: return on_export_name;
	case NBD_OPT_ABORT: return on_abort;
	case NBD_OPT_LIST: return on_list;
	case NBD_OPT_STARTTLS: return on_starttls;
	case NBD_OPT_INFO:
	case NBD_OPT_GO: return on_info_or_go;
	case NBD_OPT_STRUCTURED_REPLY: return on_structured_reply;
	case NBD_OPT_EXTENDED_HEADERS: return on_extended_headers;
	case NBD_OPT_LIST_META_CONTEXT:
	case NBD_OPT_SET_META_CONTEXT: return on_meta_context;
	default: return on_unknown;
	}
}

/* ---- the machine ---- */

static size_t handshake_drop(struct nbd_session *s, struct nbd_event *ret,
			     const char *why)
{
	s->state = NBD_SESSION_CLOSED;
	ret->type = NBD_EVENT_DROP;
	ret->why = why;
	return 0;
}

static size_t flags_feed(struct nbd_session *s, const void *data, size_t length,
			 struct nbd_event *ret)
{
	uint32_t flags;
	be32 wire;

	if (length < sizeof(wire))
		return nbd_event_more(ret, sizeof(wire));
	memcpy(&wire, data, sizeof(wire));
	flags = be32_get(wire);
	if (flags & ~(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES))
		return handshake_drop(s, ret, "unknown client flags");
	s->fixed = flags & NBD_FLAG_C_FIXED_NEWSTYLE;
	s->no_zeroes = flags & NBD_FLAG_C_NO_ZEROES;
	s->state = NBD_SESSION_OPTION;
	nbd_event_more(ret, sizeof(struct nbd_wire_option));
	return sizeof(wire);
}

/* Too long to be looked at: say so and let the data go by. */
static size_t option_too_big(struct nbd_session *s,
			     const struct nbd_option_header *header,
			     struct nbd_event *ret)
{
	if (header->length > NBD_OPTION_SKIP_MAX ||
	    header->option == NBD_OPT_EXPORT_NAME)
		return handshake_drop(s, ret, "an option far too long");
	if (reply_error(s, NBD_REP_ERR_TOO_BIG,
			"option data is at most 65536 bytes") < 0)
		return handshake_drop(s, ret, "no memory");
	s->state = NBD_SESSION_SKIP_OPTION;
	s->left = header->length;
	nbd_event_more(ret, 1);
	return sizeof(struct nbd_wire_option);
}

static size_t option_feed(struct nbd_session *s, const void *data,
			  size_t length, struct nbd_event *ret)
{
	struct nbd_option_header header;
	size_t whole;
	int r;

	if (length < sizeof(struct nbd_wire_option))
		return nbd_event_more(ret, sizeof(struct nbd_wire_option));
	if (nbd_option_decode(data, &header) < 0)
		return handshake_drop(s, ret, "bad option magic");
	if (!s->fixed && header.option != NBD_OPT_EXPORT_NAME)
		return handshake_drop(s, ret,
				      "an option that only fixed newstyle has");
	s->option = header.option;
	if (header.length > NBD_OPTION_DATA_MAX)
		return option_too_big(s, &header, ret);
	whole = sizeof(struct nbd_wire_option) + header.length;
	if (length < whole)
		return nbd_event_more(ret, whole);
	nbd_event_more(ret,
		       sizeof(struct nbd_wire_option)); /* unless it starts */
	r = option_find(s)(
		s, (const uint8_t *)data + sizeof(struct nbd_wire_option),
		header.length, ret);
	if (r == -EAGAIN) { /* nothing was taken */
		ret->type = NBD_EVENT_WAIT;
		return 0;
	}
	if (r == -ESHUTDOWN) {
		s->state = NBD_SESSION_CLOSED;
		ret->type = NBD_EVENT_CLOSE;
	} else if (r < 0) {
		handshake_drop(s, ret,
			       r == -EPROTO ? "a malformed option"
					    : "no memory");
	}
	return whole;
}

size_t nbd_handshake_feed(struct nbd_session *s, const void *data,
			  size_t length, struct nbd_event *ret)
{
	if (s->state == NBD_SESSION_CLIENT_FLAGS)
		return flags_feed(s, data, length, ret);
	return option_feed(s, data, length, ret);
}

int nbd_session_init(struct nbd_session *s, const struct nbd_session_ops *ops,
		     void *context)
{
	struct nbd_wire_greeting greeting = nbd_greeting_make();

	*s = (struct nbd_session){.ops = ops, .context = context};
	return output_add(&s->out, &greeting, sizeof(greeting));
}

void nbd_session_done(struct nbd_session *s)
{
	free(s->out.data);
	s->out = (struct nbd_output){0};
}
