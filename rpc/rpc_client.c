/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: one channel, and for each call a completion queue of its own
 * on which the caller's thread waits and does the I/O.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "rpc/rpc_cert.h"
#include "rpc/rpc_channel.h"
#include "rpc/rpc_internal.h"

#define ANSWER_HEAP_MAX (UINT32_C(128) << 20) /* bytes, unpacked */
#define BLOCK_OVERHEAD  16                    /* bytes: malloc's own, about */

#define WHY_MS 200 /* wait for the reason why there is no connection */

struct rpc_client {
	struct rpc_channel *channel;
	char name[RPC_TARGET_MAX]; /* the address, for people */
	struct rpc_address address;
};

/* ---- one exchange with the server ---- */

/* The request of the caller. */
struct request {
	struct rpc_client *client;
	const char *path;
	const ProtobufCMessage *in;
	const ProtobufCMessageDescriptor *out_type;
	int timeout_ms; /* for all */
	int64_t end_ms; /* clock_ms() then */
};

static struct request request_make(struct rpc_client *client, const char *path,
				   const ProtobufCMessage *in,
				   const ProtobufCMessageDescriptor *out_type,
				   int timeout_ms)
{
	return (struct request){client,   path,       in,
				out_type, timeout_ms, clock_ms() + timeout_ms};
}

struct exchange {
	struct rpc_client *client;
	grpc_completion_queue *cq;
	grpc_call *call;
	grpc_metadata_array initial, trailing;
	grpc_status_code status;
	grpc_slice details;
	bool answered; /* the server has said anything at all */
	bool broken;   /* the connection ended before the server's status */
};

static void exchange_begin(struct exchange *x, struct rpc_client *client,
			   const char *path, int64_t timeout_ms)
{
	*x = (struct exchange){.client = client, .details = grpc_empty_slice()};
	grpc_metadata_array_init(&x->initial);
	grpc_metadata_array_init(&x->trailing);
	x->cq = grpc_completion_queue_create_for_pluck(NULL);
	x->call = rpc_channel_call(client->channel, x->cq, path,
				   rpc_core_deadline(timeout_ms));
}

/* Wait; the call's own deadline ends this at the latest. */
static bool exchange_wait(struct exchange *x, void *tag)
{
	grpc_event event = grpc_completion_queue_pluck(
		x->cq, tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);

	rpc_core_observe();
	return event.success;
}

static void exchange_end(struct exchange *x)
{
	grpc_call_unref(x->call);
	grpc_completion_queue_shutdown(x->cq);
	while (grpc_completion_queue_pluck(
		       x->cq, NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL)
		       .type != GRPC_QUEUE_SHUTDOWN)
		;
	rpc_core_observe();
	grpc_completion_queue_destroy(x->cq);
	grpc_metadata_array_destroy(&x->initial);
	grpc_metadata_array_destroy(&x->trailing);
	grpc_slice_unref(x->details);
}

static grpc_op op_status(struct exchange *x)
{
	return (grpc_op){.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
			 .data.recv_status_on_client = {
				 .trailing_metadata = &x->trailing,
				 .status = &x->status,
				 .status_details = &x->details,
			 }};
}

static grpc_op op_recv(grpc_byte_buffer **ret)
{
	return (grpc_op){.op = GRPC_OP_RECV_MESSAGE,
			 .data.recv_message.recv_message = ret};
}

/* Send all there is to send; @flags: of the initial metadata. */
static size_t ops_request(struct exchange *x, grpc_op *ops, uint32_t flags,
			  grpc_byte_buffer *body)
{
	ops[0] = (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA, .flags = flags};
	ops[1] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE,
			   .data.send_message.send_message = body};
	ops[2] = (grpc_op){.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
	ops[3] = (grpc_op){.op = GRPC_OP_RECV_INITIAL_METADATA,
			   .data.recv_initial_metadata.recv_initial_metadata =
				   &x->initial};
	return 4;
}

#define WAIT_FLAGS                              \
	(GRPC_INITIAL_METADATA_WAIT_FOR_READY | \
	 GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET)

/* ---- what went wrong ---- */

static int trailer_errno(const struct exchange *x)
{
	for (size_t i = 0; i < x->trailing.count; i++) {
		const grpc_metadata *m = &x->trailing.metadata[i];

		if (grpc_slice_str_cmp(m->key, RPC_ERRNO_KEY) == 0)
			return rpc_errno_parse(
				(const char *)GRPC_SLICE_START_PTR(m->value),
				GRPC_SLICE_LENGTH(m->value));
	}
	return 0;
}

static void details_clean(const struct exchange *x, char *buf)
{
	rpc_text_clean(buf, ERROR_TEXT_MAX,
		       (const char *)GRPC_SLICE_START_PTR(x->details),
		       GRPC_SLICE_LENGTH(x->details));
}

/*
 * Find the reason why there is no connection. A call that waits for a server
 * ends with its deadline and without the reason. A call that does not wait, to
 * a method nobody has, tells it.
 */
static void connection_reason(struct rpc_client *client, char *ret_text)
{
	struct exchange x;
	grpc_byte_buffer *empty = grpc_raw_byte_buffer_create(NULL, 0);
	grpc_op ops[5];
	size_t n;

	exchange_begin(&x, client, "/tributary.v1.None/None", WHY_MS);
	n = ops_request(&x, ops, 0, empty);
	ops[n++] = op_status(&x);
	rpc_core_batch(x.call, ops, n, &x);
	(void)exchange_wait(&x, &x); /* the status is all we want */
	if (x.status == GRPC_STATUS_UNAVAILABLE)
		details_clean(&x, ret_text);
	else
		(void)snprintf(
			ret_text, ERROR_TEXT_MAX, "%s",
			x.status == GRPC_STATUS_DEADLINE_EXCEEDED
				? "nothing answers"
				: "it answers only now, repeat the call");
	grpc_byte_buffer_destroy(empty);
	exchange_end(&x);
}

/* Map the status to our errors: a negative errno, or 0 for OK. */
static int exchange_result(struct exchange *x, int timeout_ms,
			   struct error *err)
{
	int error = trailer_errno(x);
	const struct rpc_tls *tls = rpc_channel_tls(x->client->channel);
	char text[ERROR_TEXT_MAX];

	if (x->status == GRPC_STATUS_OK)
		return 0;
	details_clean(x, text);
	if (error)
		return error_set(err, error, "%s", text);
	if (x->status == GRPC_STATUS_DEADLINE_EXCEEDED && !x->answered &&
	    !rpc_channel_is_connected(x->client->channel)) {
		if (!tls || !rpc_cert_why_not(&x->client->address, tls, text))
			connection_reason(x->client, text);
		return error_set(err, EHOSTUNREACH,
				 "no connection to '%s' within %d ms: %s",
				 x->client->name, timeout_ms, text);
	}
	if (x->status == GRPC_STATUS_DEADLINE_EXCEEDED)
		return error_set(err, ETIMEDOUT,
				 "no answer from '%s' within %d ms",
				 x->client->name, timeout_ms);
	/* CANCELLED: not by us, so a server that is stopping. */
	x->broken = x->status == GRPC_STATUS_UNAVAILABLE ||
		    x->status == GRPC_STATUS_CANCELLED;
	if (x->broken)
		return error_set(err, EHOSTUNREACH,
				 "'%s' did not answer: %s; the call may have "
				 "been carried out, repeat it",
				 x->client->name, text);
	/* Without our trailer the status is the library's: a message too
	 * large. */
	if (x->status == GRPC_STATUS_RESOURCE_EXHAUSTED)
		return error_set(err, EMSGSIZE, "'%s': %s", x->client->name,
				 text);
	return error_set(err, rpc_code_to_errno((enum rpc_code)x->status), "%s",
			 text[0] ? text
				 : rpc_code_name((enum rpc_code)x->status));
}

/* ---- answers ---- */

/* malloc() with a bound; what it gave is freed by free(). */
struct bounded {
	ProtobufCAllocator allocator;
	size_t left; /* bytes */
};

static void *bounded_alloc(void *data, size_t size)
{
	struct bounded *b = data;

	if (b->left < BLOCK_OVERHEAD || size > b->left - BLOCK_OVERHEAD)
		return NULL;
	b->left -= size + BLOCK_OVERHEAD;
	return malloc(size ? size : 1);
}

static void bounded_free(void *data, void *pointer)
{
	(void)data; /* freed memory does not go back to the budget */
	free(pointer);
}

static int unpack(const struct request *q, grpc_byte_buffer *body,
		  ProtobufCMessage **ret, struct error *err)
{
	struct bounded b = {.allocator = {bounded_alloc, bounded_free, &b},
			    .left = ANSWER_HEAP_MAX};
	ProtobufCMessage *message;

	message = body ? rpc_core_unpack(body, q->out_type, &b.allocator)
		       : NULL;
	if (!message)
		return error_set(err, EPROTO,
				 "'%s' answered %s with no message of type %s",
				 q->client->name, q->path, q->out_type->name);
	*ret = message;
	return 0;
}

/* ---- one call ---- */

/*
 * Is the call worth a second attempt? A connection that died while nobody
 * looked is only found out by the next call on it. So a call whose connection
 * breaks is.
 */
static bool worth_repeating(const struct exchange *x, const struct request *q)
{
	return x->broken && clock_ms() < q->end_ms;
}

static void body_free(grpc_byte_buffer *body)
{
	if (body)
		grpc_byte_buffer_destroy(body);
}

static int call_once(const struct request *q, ProtobufCMessage **ret,
		     bool *ret_again, struct error *err)
{
	grpc_byte_buffer *body = rpc_core_pack(q->in), *answer = NULL;
	struct exchange x;
	grpc_op ops[6];
	size_t n;
	int r;

	rpc_channel_connect(q->client->channel);
	exchange_begin(&x, q->client, q->path, q->end_ms - clock_ms());
	n = ops_request(&x, ops, WAIT_FLAGS, body);
	ops[n++] = op_recv(&answer);
	ops[n++] = op_status(&x);
	rpc_core_batch(x.call, ops, n, &x);
	(void)exchange_wait(&x, &x); /* x.status says it all */
	x.answered = x.initial.count > 0;
	r = exchange_result(&x, q->timeout_ms, err);
	if (r == 0)
		r = unpack(q, answer, ret, err);
	*ret_again = r < 0 && worth_repeating(&x, q);
	exchange_end(&x);
	body_free(answer);
	body_free(body);
	return r;
}

int rpc_client_call(struct rpc_client *client, const char *path,
		    const ProtobufCMessage *in,
		    const ProtobufCMessageDescriptor *out_type, int timeout_ms,
		    ProtobufCMessage **ret, struct error *err)
{
	const struct request q = request_make(client, path, in, out_type,
					      timeout_ms);
	ProtobufCMessage *message = NULL;
	bool again;
	int r = call_once(&q, &message, &again, err);

	if (again)
		r = call_once(&q, &message, &again, err);
	if (r < 0)
		return r;
	if (ret)
		*ret = message;
	else
		protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}

/* ---- streams ---- */

struct listener {
	int (*each)(void *context, const ProtobufCMessage *m);
	void *context;
	bool got_any;
};

/* Handle the next message. 1: one was handled; 0: there are no more. */
static int stream_next(struct exchange *x, const struct request *q,
		       struct listener *listener, struct error *err)
{
	grpc_byte_buffer *body = NULL;
	const grpc_op op = op_recv(&body);
	ProtobufCMessage *message = NULL;
	int r;

	rpc_core_batch(x->call, &op, 1, &body);
	if (!exchange_wait(x, &body) || !body)
		return 0;
	x->answered = true;
	listener->got_any = true;
	r = unpack(q, body, &message, err);
	grpc_byte_buffer_destroy(body);
	if (r < 0)
		return r;
	r = listener->each(listener->context, message);
	protobuf_c_message_free_unpacked(message, NULL);
	if (r < 0)
		return error_set(err, -r, "the stream was ended here: %s",
				 strerror(-r));
	return 1;
}

static int stream_once(const struct request *q, struct listener *listener,
		       bool *ret_again, struct error *err)
{
	grpc_byte_buffer *body = rpc_core_pack(q->in);
	struct exchange x;
	grpc_op ops[4], status;
	int r;

	rpc_channel_connect(q->client->channel);
	exchange_begin(&x, q->client, q->path, q->end_ms - clock_ms());
	status = op_status(&x);
	rpc_core_batch(x.call, &status, 1, &x.status);
	rpc_core_batch(x.call, ops, ops_request(&x, ops, WAIT_FLAGS, body),
		       &x.initial);
	(void)exchange_wait(&x, &x.initial); /* x.status says it all */
	x.answered = x.initial.count > 0;
	do
		r = stream_next(&x, q, listener, err);
	while (r > 0);
	if (r < 0)
		grpc_call_cancel(x.call, NULL);
	(void)exchange_wait(&x, &x.status); /* always true */
	if (r == 0)
		r = exchange_result(&x, q->timeout_ms, err);
	*ret_again = r < 0 && !listener->got_any && worth_repeating(&x, q);
	exchange_end(&x);
	grpc_byte_buffer_destroy(body);
	return r;
}

int rpc_client_stream(struct rpc_client *client, const char *path,
		      const ProtobufCMessage *in,
		      const ProtobufCMessageDescriptor *out_type,
		      int timeout_ms,
		      int (*each)(void *context, const ProtobufCMessage *m),
		      void *context, struct error *err)
{
	const struct request q = request_make(client, path, in, out_type,
					      timeout_ms);
	struct listener listener = {each, context, false};
	bool again;
	int r = stream_once(&q, &listener, &again, err);

	return again ? stream_once(&q, &listener, &again, err) : r;
}

int rpc_client_new(const char *address, const struct rpc_tls *tls,
		   const char *server_name, struct rpc_client **ret,
		   struct error *err)
{
	struct rpc_client *client;
	struct rpc_address a;
	int r = rpc_address_parse(address, &a, err);

	if (r < 0)
		return r;
	if (!a.is_unix && !a.port)
		return error_set(err, EINVAL,
				 "address '%.200s': port 0 can't be connected "
				 "to",
				 address);
	rpc_core_start();
	client = gpr_zalloc(sizeof(*client));
	rpc_address_format(client->name, &a);
	client->address = a;
	r = rpc_channel_new(&a, tls, server_name, &client->channel, err);
	if (r < 0) {
		gpr_free(client);
		return r;
	}
	*ret = client;
	return 0;
}

void rpc_client_free(struct rpc_client *client)
{
	if (!client)
		return;
	rpc_channel_free(client->channel);
	gpr_free(client);
}
