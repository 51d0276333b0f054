/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NBD connection as a state machine: bytes in; answers, requests and
 * verdicts out. It has no descriptor and never waits.
 *
 * The owner keeps received bytes in one contiguous buffer and feeds it:
 *
 *	for (;;) {
 *		at += nbd_session_feed(s, at, end - at, &event);
 *		switch (event.type) ...
 *	}
 *
 * Bytes to send collect in @out; the owner sends and clears it. The session
 * only checks requests. The owner carries them out and encodes their replies
 * (nbd_proto.h), with @structured as it is when they are sent.
 */
#ifndef TARGET_NBD_SESSION_H
#define TARGET_NBD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "target/nbd/nbd_proto.h"

/*
 * Option data taken, bytes; more is refused and skipped. The largest useful
 * one is a name, and some short queries. Ours.
 */
#define NBD_OPTION_DATA_MAX (UINT32_C(64) << 10)

/* Larger option data is not even skipped: the connection is dropped. */
#define NBD_OPTION_SKIP_MAX (UINT32_C(1) << 20)

/* A refused WRITE of up to this is drained; after a larger one we drop. */
#define NBD_DRAIN_MAX (UINT32_C(64) << 20) /* bytes */

/* The session never asks for more contiguous bytes than this. */
#define NBD_SESSION_NEED_MAX \
	(sizeof(struct nbd_wire_option) + NBD_OPTION_DATA_MAX)

/* Properties of the device behind an export that a session must know. */
struct nbd_export {
	uint64_t size;           /* bytes */
	uint32_t block_size;     /* bytes */
	uint32_t preferred_size; /* bytes */
	uint16_t flags;          /* NBD_TRANSMIT_*, without SEND_DF */
	char name[NBD_STRING_MAX + 1];
	char description[256]; /* "": none */
};

struct nbd_session;

struct nbd_session_ops {
	/*
	 * Find the export that the peer asks for by @name.
	 *
	 * @keep  the export is going to be served: hold it
	 *
	 * -ENOENT: no such export; -EACCES: refused, @err says why to the peer;
	 * -ENOKEY: not without TLS; -ESHUTDOWN: try again; -EAGAIN (@keep
	 * only): ready in a while, NBD_EVENT_WAIT; anything else: the export
	 * can't be opened now.
	 */
	int (*open)(void *context, const char *name, bool keep,
		    struct nbd_export *ret, struct error *err);
	/* Call nbd_session_list_add() for each export the peer may see. */
	int (*list)(void *context, struct nbd_session *session);
};

/* Bytes to send. */
struct nbd_output {
	uint8_t *data; /* owned */
	size_t length; /* bytes */
	size_t size;   /* bytes allocated */
};

enum nbd_session_state {
	NBD_SESSION_CLIENT_FLAGS,
	NBD_SESSION_OPTION,       /* an option's header and data */
	NBD_SESSION_SKIP_OPTION,  /* data of an option that is too long */
	NBD_SESSION_TLS,          /* the owner's handshake */
	NBD_SESSION_REQUEST,      /* transmission: a request's header */
	NBD_SESSION_PAYLOAD,      /* data of a WRITE; the owner takes it */
	NBD_SESSION_SKIP_PAYLOAD, /* data of a WRITE that was refused */
	NBD_SESSION_CLOSED,
};

enum nbd_tls {
	NBD_TLS_OFF,
	NBD_TLS_OFFERED,
	NBD_TLS_REQUIRED, /* nothing without it */
	NBD_TLS_ON,
};

struct nbd_session {
	enum nbd_session_state state;
	enum nbd_tls tls; /* the owner may set it before the first byte */
	bool fixed;       /* the client speaks fixed newstyle */
	bool no_zeroes;   /* NBD_FLAG_C_NO_ZEROES */
	bool structured;  /* structured replies, or extended headers */
	bool extended;    /* extended headers */
	bool allocation;  /* base:allocation is selected */
	uint64_t left;    /* bytes of payload, or to skip */
	struct nbd_export export;
	struct nbd_output out;
	const struct nbd_session_ops *ops; /* borrowed */
	void *context;
	/* The export that the contexts were selected for. */
	char meta_name[NBD_STRING_MAX + 1];
	uint32_t option; /* the one being answered */
};

enum nbd_event_type {
	NBD_EVENT_MORE,    /* needs more bytes; or send @out, then go on */
	NBD_EVENT_WAIT,    /* feed the same again in a while */
	NBD_EVENT_TLS,     /* TLS begins, once @out is sent; nothing may be
			    * behind what was consumed */
	NBD_EVENT_START,   /* transmission begins, once @out is sent */
	NBD_EVENT_REQUEST, /* carry it out; a WRITE's payload comes next */
	NBD_EVENT_REFUSED, /* reply @error; the payload is skipped */
	NBD_EVENT_CLOSE,   /* the peer is done: finish, send, close */
	NBD_EVENT_DROP,    /* the peer broke the protocol: close at once */
};

struct nbd_event {
	enum nbd_event_type type;
	size_t need; /* MORE: contiguous bytes, up to NBD_SESSION_NEED_MAX */
	struct nbd_request request; /* REQUEST, REFUSED */
	uint32_t error;             /* REFUSED: enum nbd_error */
	const char *why;            /* REFUSED, DROP: static text */
};

/*
 * Puts the greeting into @out. -ENOMEM.
 *
 * @ops, @context  borrowed until nbd_session_done()
 */
int nbd_session_init(struct nbd_session *session,
		     const struct nbd_session_ops *ops, void *context);
void nbd_session_done(struct nbd_session *session);

/* After NBD_EVENT_TLS: it is on, the options begin anew. */
void nbd_session_tls_on(struct nbd_session *session);

/* Past the handshake, and not closed. */
bool nbd_session_transmits(const struct nbd_session *session);

/*
 * Give the export @size bytes from here on, if that is more than it had. The
 * protocol has no message for that, but requests up to the new end are let
 * through. Does nothing before or after the transmission phase.
 */
void nbd_session_grow(struct nbd_session *session, uint64_t size);

/*
 * Take the next whole element from @data, up to one event.
 *
 * Returns the bytes consumed. After NBD_EVENT_MORE, feed again when there are
 * at least @need bytes from there on. If some bytes were consumed and more are
 * there, feed again at once. Not in NBD_SESSION_PAYLOAD.
 */
size_t nbd_session_feed(struct nbd_session *session, const void *data,
			size_t length, struct nbd_event *ret);

/* The owner took @length bytes (up to @left) of the WRITE's payload. */
void nbd_session_payload_taken(struct nbd_session *session, uint32_t length);

/* The owner can't take the payload: the session lets it go by. */
void nbd_session_payload_skip(struct nbd_session *session);

/* For ops->list. -ENOMEM. */
int nbd_session_list_add(struct nbd_session *session, const char *name);

#endif
