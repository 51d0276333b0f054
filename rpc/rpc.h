/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC, server and client, for messages of protobuf-c. No other folder touches
 * grpc_*. (gRPC's C core API; the version is pinned by the package.)
 *
 * Addresses: "unix:/path/to.sock" or "tcp:HOST:PORT" (IPv6 in brackets). A unix
 * socket is made with mode 0600 and guarded by a lock on PATH.lock, or on a
 * file elsewhere (lock_dir). A second server on a live one's socket is refused,
 * a stale socket is replaced. TCP is refused without TLS unless allowed by
 * name.
 *
 * Running out of memory ends the process. A process with a server or client in
 * it never forks and goes on: base/process.h.
 */
#ifndef RPC_RPC_H
#define RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/error.h"

/* gRPC's codes (grpc/grpc doc/statuscodes.md). */
enum rpc_code {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_NOT_FOUND = 5,
	RPC_ALREADY_EXISTS = 6,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_ABORTED = 10,
	RPC_OUT_OF_RANGE = 11,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_DATA_LOSS = 15,
	RPC_UNAUTHENTICATED = 16,
};

const char *rpc_code_name(enum rpc_code code);

/*
 * Translate between our errno and gRPC's codes, by one table for both ways:
 *
 *	EINVAL          INVALID_ARGUMENT
 *	ENOENT          NOT_FOUND
 *	EEXIST          ALREADY_EXISTS
 *	ENOSPC          RESOURCE_EXHAUSTED
 *	EBUSY           FAILED_PRECONDITION
 *	ESTALE          FAILED_PRECONDITION
 *	EAGAIN          ABORTED
 *	ERANGE          OUT_OF_RANGE
 *	EPERM, EACCES   PERMISSION_DENIED
 *	EOPNOTSUPP      UNIMPLEMENTED
 *	ETIMEDOUT       DEADLINE_EXCEEDED
 *	ECANCELED       CANCELLED
 *	EHOSTUNREACH    UNAVAILABLE
 *	EIO, others     INTERNAL
 *
 * A server also sends the errno by name in a trailer ("trib-errno"). So our
 * client gets the very errno back, and any other client the code.
 *
 * Two are a server's own. Too busy is UNAVAILABLE with EAGAIN. Too large
 * (request, answer, or the memory they need) is RESOURCE_EXHAUSTED with
 * EMSGSIZE.
 */
enum rpc_code rpc_code_from_errno(int error);
int rpc_code_to_errno(enum rpc_code code); /* positive; 0 for OK */

/* mTLS: PEM files; the peer must present a certificate of @ca_file. */
struct rpc_tls {
	const char *ca_file;
	const char *cert_file;
	/*
	 * File whose mode is checked: no access for others. A process that is
	 * not root may read a key of root's as a member of its group.
	 */
	const char *key_file;
};

/* ---- server ---- */

struct rpc_call; /* one call, during its handler */

/*
 * Handle a call, on a worker thread; may block. @in is borrowed. Members of
 * @out are allocated with rpc_alloc() and friends and never freed by hand.
 *
 * Returns 0, or a negative errno with the text by error_set() on @err; a
 * handler that wants a gRPC code of its own calls rpc_fail(). The text reaches
 * the client as UTF-8 without control characters, at most 1023 bytes.
 */
typedef int (*rpc_handler)(struct rpc_call *call, const ProtobufCMessage *in,
			   ProtobufCMessage *out, struct error *err);

struct rpc_method {
	const char *path; /* "/tributary.v1.Blockd/GetNode" */
	const ProtobufCMessageDescriptor *in;
	const ProtobufCMessageDescriptor *out;
	rpc_handler handler; /* NULL: UNIMPLEMENTED */
	bool server_streams; /* messages go by rpc_send(), @out is unused */
};

struct rpc_server;

struct rpc_server_options {
	const char *const *addresses; /* at least one */
	size_t n_addresses;
	/*
	 * An existing directory for the locks of unix sockets, for a place
	 * where nothing else may be beside the socket. NULL: beside it. Servers
	 * of one socket have to name the same directory.
	 */
	const char *lock_dir;
	const struct rpc_tls *tls; /* for tcp; NULL: tcp needs allow_plain */
	bool allow_plain_tcp;      /* say so in the log */
	unsigned workers;          /* 0: 8 */
	unsigned queue;            /* calls waiting for a worker; 0: 64 */
	size_t message_max;        /* bytes of a request; 0: 1 MiB */
	size_t arena_max;          /* bytes a call may use; 0: 16 MiB */
	const struct rpc_method *methods; /* borrowed for ever */
	size_t n_methods;
	void *context; /* rpc_context() */
};

/*
 * Start a server, which listens when this returns 0. -EINVAL: an option, an
 * address or a row of the methods is wrong. -EADDRINUSE names the address, or
 * the server of the socket. -EPERM: TCP without TLS, or a key that others can
 * read. The umask is changed for a moment, so start servers before the threads
 * that make files. Threads made here take no signals.
 */
int rpc_server_start(const struct rpc_server_options *options,
		     struct rpc_server **ret, struct error *err);

/* Get the port of a tcp address given as port 0; index into addresses. */
int rpc_server_port(const struct rpc_server *server, size_t index);

/*
 * Stop: refuse new calls, let running ones finish for @grace_ms, then cancel
 * them. Returns when all handlers have. Streams are cancelled at once: an
 * endless one would use the grace up. Frees the server. NULL is fine. Not from
 * a handler.
 */
void rpc_server_stop(struct rpc_server *server, int grace_ms);

void *rpc_context(struct rpc_call *call);
/*
 * Allocate memory, zeroed, never NULL; freed with the call. Past arena_max it
 * still gives memory, but the call then fails with EMSGSIZE instead of its
 * answer.
 */
void *rpc_alloc(struct rpc_call *call, size_t size);
char *rpc_strdup(struct rpc_call *call, const char *text);
char *rpc_printf(struct rpc_call *call, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Set a gRPC code and text; returns a value for the handler to return. */
int rpc_fail(struct rpc_call *call, enum rpc_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Has the client gone or its deadline passed? */
bool rpc_cancelled(struct rpc_call *call);
/*
 * Get a descriptor, readable once the call is cancelled; for poll() and
 * process_run(), don't read it. Borrowed. -1 when there are no descriptors
 * left, which both ignore.
 */
int rpc_cancel_fd(struct rpc_call *call);
/*
 * Send one message of a stream; waits until the client's window has room for
 * it. -ECANCELED when the client has gone, took nothing for 60 s, or the server
 * stops: return it. One thread at a time.
 */
int rpc_send(struct rpc_call *call, const ProtobufCMessage *message);

/* ---- client ---- */

struct rpc_client; /* one channel; any thread */

/*
 * Make a client, which does not connect yet. @server_name: the name the peer's
 * certificate must carry; NULL for the host part of the address.
 */
int rpc_client_new(const char *address, const struct rpc_tls *tls,
		   const char *server_name, struct rpc_client **ret,
		   struct error *err);
void rpc_client_free(struct rpc_client *client);

/*
 * Make one unary call. Waits for the server, up to @timeout_ms (> 0) in all.
 * Finding the reason of a failure takes 200 ms more at most.
 *
 * @ret  owned; free with protobuf_c_message_free_unpacked(m, NULL).
 *       Set only on 0. NULL when the answer does not matter.
 *
 * A call whose connection breaks is sent once more in what is left of the
 * time: methods must be idempotent.
 *
 * A failure returns the server's errno and text. -EHOSTUNREACH: nobody
 * answered at the address (the text names it); whether the call was carried
 * out is then unknown, so repeat it. -ETIMEDOUT: it has the call, but no
 * answer came. -EPROTO: the answer is no @out_type.
 */
int rpc_client_call(struct rpc_client *client, const char *path,
		    const ProtobufCMessage *in,
		    const ProtobufCMessageDescriptor *out_type, int timeout_ms,
		    ProtobufCMessage **ret, struct error *err);

/*
 * Read one server stream: @each gets every message (borrowed). A negative
 * return from @each cancels the call and is returned. Otherwise as
 * rpc_client_call(); once a message came, the stream is not asked for again.
 */
int rpc_client_stream(struct rpc_client *client, const char *path,
		      const ProtobufCMessage *in,
		      const ProtobufCMessageDescriptor *out_type,
		      int timeout_ms,
		      int (*each)(void *context, const ProtobufCMessage *m),
		      void *context, struct error *err);

#endif
