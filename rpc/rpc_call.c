/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call on the server: it waits for a client, reads the body, runs the
 * handler on a worker and sends the status.
 *
 * Two references: the client's end (close_tag) and the handling (from
 * new_tag to status_tag). Everything with a done() runs on the poller.
 */
#include <assert.h>
#include <errno.h>
#include <grpc/support/string_util.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/rpc_internal.h"

/* A client that takes nothing of a stream for so long is given up. */
#define SEND_TIMEOUT_S 60

/*
 * A call whose body is not there after so long, or whose answer the client
 * has not taken, must go when there is no room for another: nobody can keep
 * all the others out by asking for nothing, or by taking nothing.
 */
#define CLIENT_GRACE_MS 5000

static void call_put(struct rpc_call *call)
{
	struct rpc_server *server = call->server;

	if (atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) > 1)
		return;
	pthread_mutex_lock(&server->lock);
	LIST_REMOVE(call, next);
	pthread_mutex_unlock(&server->lock);

	if (call->body)
		grpc_byte_buffer_destroy(call->body);
	if (call->call)
		grpc_call_unref(call->call);
	grpc_call_details_destroy(&call->details);
	grpc_metadata_array_destroy(&call->metadata);
	rpc_arena_done(&call->arena);
	fd_close(call->cancel_fd);
	pthread_cond_destroy(&call->sent_changed);
	pthread_mutex_destroy(&call->lock);
	gpr_free(call);

	/* The last: a server with no calls may go. */
	pthread_mutex_lock(&server->lock);
	server->n_calls--;
	pthread_cond_broadcast(&server->changed);
	pthread_mutex_unlock(&server->lock);
}

void rpc_call_cancel(struct rpc_call *call)
{
	pthread_mutex_lock(&call->lock);
	call->cancelled = true;
	if (call->cancel_fd >= 0) /* can't fail: the counter is far from full */
		(void)eventfd_write(call->cancel_fd, 1);
	pthread_mutex_unlock(&call->lock);
}

/* ---- the end ---- */

/* Note that from now on the client has to do something, or not any more. */
static void set_waits(struct rpc_call *call, bool waits)
{
	pthread_mutex_lock(&call->server->lock);
	call->waits_since_ms = waits ? clock_ms() : 0;
	pthread_mutex_unlock(&call->server->lock);
}

static void status_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_call *call = container_of(tag, struct rpc_call, status_tag);

	(void)ok; /* the client may have gone: nobody to tell */
	set_waits(call, false);
	call_put(call);
}

static grpc_op op_metadata(struct rpc_call *call)
{
	call->metadata_sent = true;
	return (grpc_op){.op = GRPC_OP_SEND_INITIAL_METADATA};
}

/*
 * Finish the call with its last batch. @error: for the trailer; 0 for none.
 * @answer: taken; NULL for none.
 */
static void call_finish(struct rpc_call *call, enum rpc_code code, int error,
			const char *text, grpc_byte_buffer *answer)
{
	const char *name = error ? strerrorname_np(error) : NULL;
	grpc_metadata trailer = {
		.key = grpc_slice_from_static_string(RPC_ERRNO_KEY),
		.value = grpc_slice_from_static_string(name ? name : ""),
	};
	char clean[RPC_TEXT_MAX];
	grpc_slice details;
	grpc_op ops[3];
	size_t n = 0;

	rpc_text_clean(clean, sizeof(clean), text, strlen(text));
	details = grpc_slice_from_copied_string(clean);
	if (!call->metadata_sent)
		ops[n++] = op_metadata(call);
	if (answer)
		ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE,
				     .data.send_message.send_message = answer};
	ops[n++] = (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
			     .data.send_status_from_server = {
				     .trailing_metadata_count = name ? 1 : 0,
				     .trailing_metadata = &trailer,
				     .status = (grpc_status_code)code,
				     .status_details = &details,
			     }};
	set_waits(call, true); /* to take the answer */
	rpc_core_batch(call->call, ops, n, &call->status_tag);
	grpc_slice_unref(details);
	if (answer)
		grpc_byte_buffer_destroy(answer);
}

static void finish_error(struct rpc_call *call, int error, const char *text)
{
	call_finish(call, rpc_code_from_errno(error), error, text, NULL);
}

/*
 * Finish a call that is too much at once: the client is to repeat it. Not
 * RESOURCE_EXHAUSTED, which tells some clients (Kubernetes' provisioner) that
 * the call is over and nothing is left of it.
 */
static void finish_busy(struct rpc_call *call, const char *text)
{
	call_finish(call, RPC_UNAVAILABLE, EAGAIN, text, NULL);
}

/* ---- on a worker ---- */

static void finish_over(struct rpc_call *call, const char *what)
{
	char text[128];

	(void)snprintf(text, sizeof(text),
		       "the %s needs more than the %zu bytes a call may use",
		       what, call->arena.max);
	call_finish(call, RPC_RESOURCE_EXHAUSTED, EMSGSIZE, text, NULL);
}

static void finish_failed(struct rpc_call *call, int error,
			  const struct error *err)
{
	bool stopping;

	pthread_mutex_lock(&call->server->lock);
	stopping = call->server->stopping;
	pthread_mutex_unlock(&call->server->lock);
	if (call->failed)
		call_finish(call, call->fail_code,
			    rpc_code_to_errno(call->fail_code), call->fail_text,
			    NULL);
	else if (error == ECANCELED && stopping)
		finish_error(call, EHOSTUNREACH, "the server is stopping");
	else
		finish_error(call, error,
			     err->msg[0] ? err->msg : strerror(error));
}

static void handle(struct rpc_call *call, const ProtobufCMessage *in)
{
	const struct rpc_method *method = call->method;
	struct error err = {0};
	ProtobufCMessage *out = rpc_arena_alloc(&call->arena,
						method->out->sizeof_message);
	int r;

	protobuf_c_message_init(method->out, out);
	r = method->handler(call, in, out, &err);
	if (r < 0 || call->failed)
		finish_failed(call, r < 0 ? -r : EIO, &err);
	else if (call->arena.over)
		finish_over(call, "answer");
	else
		call_finish(call, RPC_OK, 0, "",
			    method->server_streams ? NULL : rpc_core_pack(out));
}

static void call_run(struct rpc_job *job)
{
	struct rpc_call *call = container_of(job, struct rpc_call, job);
	ProtobufCMessage *in;

	if (rpc_cancelled(call)) {
		finish_failed(call, ECANCELED, &(struct error){0});
		return;
	}
	in = rpc_core_unpack(call->body, call->method->in,
			     &call->arena.allocator);
	grpc_byte_buffer_destroy(call->body);
	call->body = NULL;
	if (in)
		handle(call, in);
	else if (call->arena.over)
		finish_over(call, "request");
	else
		finish_error(call, EINVAL,
			     "the request is no message of this method's type");
}

/* ---- on the poller ---- */

static void body_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_call *call = container_of(tag, struct rpc_call, body_tag);

	set_waits(call, false);
	if (!ok || !call->body)
		finish_error(call, EINVAL, "the call has no request message");
	else if (!rpc_pool_push(&call->server->pool, &call->job))
		finish_busy(call, "the server is busy and its queue is full; "
				  "repeat the call later");
}

static void close_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_call *call = container_of(tag, struct rpc_call, close_tag);

	(void)ok; /* always true (grpc_types.h) */
	if (call->close_cancelled)
		rpc_call_cancel(call);
	call_put(call);
}

static void sent_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_call *call = container_of(tag, struct rpc_call, sent_tag);

	pthread_mutex_lock(&call->lock);
	call->sent = true;
	call->sent_ok = ok;
	pthread_cond_signal(&call->sent_changed);
	pthread_mutex_unlock(&call->lock);
}

static void finish_unknown(struct rpc_call *call)
{
	char path[128], text[192];

	rpc_text_clean(path, sizeof(path),
		       (const char *)GRPC_SLICE_START_PTR(call->details.method),
		       GRPC_SLICE_LENGTH(call->details.method));
	(void)snprintf(text, sizeof(text), "no method %s here", path);
	finish_error(call, EOPNOTSUPP, text);
}

/*
 * Choose the call to end for another; NULL: none may go. Under the server's
 * lock.
 */
static struct rpc_call *slowest(struct rpc_server *server)
{
	struct rpc_call *call, *found = NULL;

	LIST_FOREACH (call, &server->calls, next)
		if (call->waits_since_ms &&
		    (!found || call->waits_since_ms < found->waits_since_ms))
			found = call;
	return found && clock_ms() - found->waits_since_ms >= CLIENT_GRACE_MS
		       ? found
		       : NULL;
}

/* Is there no room for one more? Under the server's lock. */
static bool is_crowded(struct rpc_server *server, grpc_call **ret_end)
{
	struct rpc_call *slow;

	if (server->n_calls <= server->calls_max)
		return false;
	slow = slowest(server);
	if (!slow)
		return true;
	slow->waits_since_ms = 0; /* one goes for one that comes */
	grpc_call_ref(slow->call);
	*ret_end = slow->call;
	return false;
}

static void call_begin(struct rpc_call *call, bool crowded)
{
	const grpc_op close_op = {
		.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		.data.recv_close_on_server.cancelled = &call->close_cancelled};
	const grpc_op body_op = {.op = GRPC_OP_RECV_MESSAGE,
				 .data.recv_message.recv_message = &call->body};

	atomic_store_explicit(&call->refs, 2, memory_order_relaxed);
	rpc_core_batch(call->call, &close_op, 1, &call->close_tag);
	if (!call->method || !call->method->handler)
		finish_unknown(call);
	else if (crowded)
		finish_busy(call, "the server has too many calls open; "
				  "repeat the call later");
	else
		rpc_core_batch(call->call, &body_op, 1, &call->body_tag);
}

static void new_done(struct rpc_tag *tag, bool ok)
{
	struct rpc_call *call = container_of(tag, struct rpc_call, new_tag);
	struct rpc_server *server = call->server;
	const struct rpc_method *method;
	grpc_call *end = NULL;
	bool crowded;

	if (!ok) { /* the server is stopping */
		call_put(call);
		return;
	}
	method = rpc_methods_find(server->methods, server->n_methods,
				  GRPC_SLICE_START_PTR(call->details.method),
				  GRPC_SLICE_LENGTH(call->details.method));
	pthread_mutex_lock(&server->lock);
	call->method = method;
	if (server->stopping && method && method->server_streams)
		rpc_call_cancel(call);
	crowded = is_crowded(server, &end);
	if (method && method->handler && !crowded)
		call->waits_since_ms = clock_ms();
	pthread_mutex_unlock(&server->lock);
	if (end) {
		grpc_call_cancel(end, NULL);
		grpc_call_unref(end);
	}
	rpc_call_post(server);
	call_begin(call, crowded);
}

void rpc_call_post(struct rpc_server *server)
{
	struct rpc_call *call = gpr_zalloc(sizeof(*call));
	grpc_call_error r;

	call->server = server;
	call->cancel_fd = -1;
	atomic_init(&call->refs, 1);
	call->new_tag.done = new_done;
	call->close_tag.done = close_done;
	call->body_tag.done = body_done;
	call->sent_tag.done = sent_done;
	call->status_tag.done = status_done;
	call->job.run = call_run;
	grpc_call_details_init(&call->details);
	grpc_metadata_array_init(&call->metadata);
	rpc_arena_init(&call->arena, server->arena_max);
	pthread_mutex_init(&call->lock, NULL);
	rpc_core_cond_init(&call->sent_changed);

	pthread_mutex_lock(&server->lock);
	LIST_INSERT_HEAD(&server->calls, call, next);
	server->n_calls++;
	pthread_mutex_unlock(&server->lock);

	rpc_core_publish();
	r = grpc_server_request_call(server->server, &call->call,
				     &call->details, &call->metadata,
				     server->cq, server->cq, &call->new_tag);
	if (r != GRPC_CALL_OK) {
		log_write(LOG_LEVEL_ERROR, "grpc takes no call (%d)", (int)r);
		abort();
	}
}

/* ---- what a handler may ask ---- */

void *rpc_context(struct rpc_call *call)
{
	return call->server->context;
}

void *rpc_alloc(struct rpc_call *call, size_t size)
{
	return rpc_arena_alloc(&call->arena, size);
}

char *rpc_strdup(struct rpc_call *call, const char *text)
{
	size_t size = strlen(text) + 1;

	return memcpy(rpc_alloc(call, size), text, size);
}

static char *print(struct rpc_call *call, const char *fmt, va_list ap)
{
	va_list again;
	char *text;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0) /* a text that can't be printed */
		return rpc_strdup(call, fmt);
	text = rpc_alloc(call, (size_t)n + 1);
	(void)vsnprintf(text, (size_t)n + 1, fmt, ap);
	return text;
}

char *rpc_printf(struct rpc_call *call, const char *fmt, ...)
{
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = print(call, fmt, ap);
	va_end(ap);
	return text;
}

int rpc_fail(struct rpc_call *call, enum rpc_code code, const char *fmt, ...)
{
	va_list ap;

	if (code == RPC_OK) /* a failure with a code that says it is none */
		code = RPC_INTERNAL;
	va_start(ap, fmt);
	call->fail_text = print(call, fmt, ap);
	va_end(ap);
	call->fail_code = code;
	call->failed = true;
	return -rpc_code_to_errno(code);
}

bool rpc_cancelled(struct rpc_call *call)
{
	bool cancelled;

	pthread_mutex_lock(&call->lock);
	cancelled = call->cancelled;
	pthread_mutex_unlock(&call->lock);
	return cancelled;
}

int rpc_cancel_fd(struct rpc_call *call)
{
	int fd;

	pthread_mutex_lock(&call->lock);
	if (call->cancel_fd < 0)
		call->cancel_fd = eventfd(call->cancelled,
					  EFD_CLOEXEC | EFD_NONBLOCK);
	fd = call->cancel_fd;
	pthread_mutex_unlock(&call->lock);
	return fd;
}

/*
 * Wait until the library is about to let go of the message, one way or the
 * other.
 */
static bool wait_sent(struct rpc_call *call)
{
	struct timespec until;
	bool ok;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += SEND_TIMEOUT_S;
	pthread_mutex_lock(&call->lock);
	while (!call->sent) {
		if (pthread_cond_timedwait(&call->sent_changed, &call->lock,
					   &until) != ETIMEDOUT)
			continue;
		pthread_mutex_unlock(&call->lock);
		grpc_call_cancel(call->call, NULL);
		pthread_mutex_lock(&call->lock);
		while (!call->sent)
			pthread_cond_wait(&call->sent_changed, &call->lock);
	}
	ok = call->sent_ok;
	call->sent = false;
	pthread_mutex_unlock(&call->lock);
	return ok;
}

int rpc_send(struct rpc_call *call, const ProtobufCMessage *message)
{
	grpc_byte_buffer *bytes;
	grpc_op ops[2];
	size_t n = 0;

	assert(call->method->server_streams);
	if (rpc_cancelled(call))
		return -ECANCELED;
	bytes = rpc_core_pack(message);
	if (!call->metadata_sent)
		ops[n++] = op_metadata(call);
	ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE,
			     .data.send_message.send_message = bytes};
	rpc_core_batch(call->call, ops, n, &call->sent_tag);
	grpc_byte_buffer_destroy(bytes);
	return wait_sent(call) ? 0 : -ECANCELED;
}
