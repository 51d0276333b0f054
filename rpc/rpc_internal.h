/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that the files of rpc/ share. No file elsewhere includes this.
 *
 * Lack of memory ends the process: gpr_malloc() and its kin abort.
 */
#ifndef RPC_INTERNAL_H
#define RPC_INTERNAL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "rpc/rpc.h"
#include "rpc/rpc_address.h"
#include "rpc/rpc_text.h"

#define RPC_KEEPALIVE_TIMEOUT_MS 5000
/* The client pings this often while it waits for an answer ... */
#define RPC_CLIENT_KEEPALIVE_MS 10000
/* ... so the server must not take that for abuse ("Too many pings"). */
#define RPC_SERVER_PING_MIN_MS  5000
#define RPC_SERVER_KEEPALIVE_MS 30000

#define RPC_ERRNO_KEY "trib-errno" /* the trailer that carries the errno */

/* ---- the library itself: rpc_core.c ---- */

/* Start gRPC, once; with every signal blocked in the threads it makes. */
void rpc_core_start(void);

/*
 * Log the library's messages on this thread for debugging only, while on: the
 * caller returns an error that says it better.
 */
void rpc_core_quiet(bool on);

/*
 * A tag of the server's completion queue. done() runs on the poller and
 * must not block.
 */
struct rpc_tag {
	void (*done)(struct rpc_tag *tag, bool ok);
};

/*
 * Show thread sanitizers the order that gRPC's own locks make, which they can't
 * see. Writes before rpc_core_publish() are visible after the
 * rpc_core_observe() that follows the event. On real machines both cost nothing
 * that counts.
 */
void rpc_core_publish(void);
void rpc_core_observe(void);

/* Do grpc_call_start_batch(), published; a refusal is a bug of ours. */
void rpc_core_batch(grpc_call *call, const grpc_op *ops, size_t n, void *tag);

/* Pack a message. Returned owned: grpc_byte_buffer_destroy(). */
grpc_byte_buffer *rpc_core_pack(const ProtobufCMessage *message);

/* Unpack a message. NULL: malformed, or @allocator refused. */
ProtobufCMessage *rpc_core_unpack(grpc_byte_buffer *bytes,
				  const ProtobufCMessageDescriptor *type,
				  ProtobufCAllocator *allocator);

grpc_arg rpc_core_arg(const char *key, int value);
grpc_arg rpc_core_arg_string(const char *key, const char *value);

/* Compute now plus @ms on the monotonic clock. */
gpr_timespec rpc_core_deadline(int64_t ms);

/* Make a condition whose timed waits are by the monotonic clock. */
void rpc_core_cond_init(pthread_cond_t *cond);

/*
 * Start a thread of ours, which takes no signals: pthread_create() with all
 * blocked.
 */
int rpc_core_thread(pthread_t *ret, const char *name, void *(*run)(void *),
		    void *context);

/* ---- memory of one call: rpc_arena.c ---- */

struct rpc_arena_chunk;

struct rpc_arena {
	/* Allocator for what a peer sent: refuses (NULL) what would pass the
	 * limit. */
	ProtobufCAllocator allocator;
	SLIST_HEAD(, rpc_arena_chunk) chunks;
	char *at, *end;
	size_t used; /* bytes taken from the heap */
	size_t max;  /* bytes */
	bool over;   /* the limit was passed or refused */
};

void rpc_arena_init(struct rpc_arena *arena, size_t max);
/*
 * Allocate memory, zeroed, aligned for anything; past the limit too, but then
 * @over is set.
 */
void *rpc_arena_alloc(struct rpc_arena *arena, size_t size);
void rpc_arena_done(struct rpc_arena *arena);

/* ---- TLS: rpc_tls.c ---- */

/* Copy the names of the files; all three must be there. Returned owned. */
int rpc_tls_copy(const struct rpc_tls *tls, struct rpc_tls **ret,
		 struct error *err);
void rpc_tls_free(struct rpc_tls *tls); /* NULL: nothing */

/* When the certificate's file was written; zero: there is none (@tls NULL). */
struct timespec rpc_tls_time(const struct rpc_tls *tls);

/*
 * Credentials of a server. The files are read again at each connection, so
 * @tls must live as long as the server. Files that do not fit each other
 * change nothing.
 */
int rpc_tls_server(const struct rpc_tls *tls, grpc_server_credentials **ret,
		   struct error *err);
int rpc_tls_channel(const struct rpc_tls *tls, grpc_channel_credentials **ret,
		    struct error *err);

/* ---- one server on a unix socket: rpc_lock.c ---- */

struct rpc_lock {
	char path[PATH_MAX];
	int fd; /* -1: not held */
};

/*
 * Lock the file PATH.lock, or one in @dir (NULL: none), until
 * rpc_lock_release(). -EADDRINUSE when a live process has it; the text says
 * which.
 */
int rpc_lock_take(const char *socket_path, const char *dir,
		  struct rpc_lock *ret, struct error *err);
void rpc_lock_release(struct rpc_lock *lock);

/* ---- workers: rpc_pool.c ---- */

struct rpc_job {
	STAILQ_ENTRY(rpc_job) next;
	void (*run)(struct rpc_job *job); /* on a worker */
};

struct rpc_pool {
	pthread_mutex_t lock; /* guards all below; innermost */
	pthread_cond_t work;
	STAILQ_HEAD(, rpc_job) jobs;
	unsigned waiting, waiting_max;
	unsigned idle;
	bool stop;
	pthread_t *threads;
	unsigned n_threads;
};

int rpc_pool_start(struct rpc_pool *pool, unsigned workers, unsigned queue,
		   struct error *err);
/* Push a job. False: the queue is full. Never blocks. */
bool rpc_pool_push(struct rpc_pool *pool, struct rpc_job *job);
/* Stop when all jobs are done. */
void rpc_pool_stop(struct rpc_pool *pool);

/* ---- methods: rpc_method.c ---- */

/* Check every row; @ret is a sorted copy, owned (gpr_free). */
int rpc_methods_sort(const struct rpc_method *methods, size_t n,
		     struct rpc_method **ret, struct error *err);
/* Find a method; NULL: no such method. */
const struct rpc_method *rpc_methods_find(const struct rpc_method *sorted,
					  size_t n, const void *path,
					  size_t length);

/* ---- server and call: rpc_server.c, rpc_call.c ---- */

struct rpc_listener {
	struct rpc_address address;
	struct rpc_lock lock;
	int port; /* tcp: what was bound */
};

struct rpc_server {
	grpc_server *server;
	grpc_completion_queue *cq;
	pthread_t poller;
	struct rpc_pool pool;
	struct rpc_method *methods; /* sorted */
	size_t n_methods;
	struct rpc_listener *listeners;
	size_t n_listeners;
	size_t message_max, arena_max;
	unsigned calls_max;
	struct rpc_tls *tls; /* owned; NULL: none */
	void *context;
	struct rpc_tag shutdown_tag;

	pthread_mutex_t lock; /* guards all below; before a call's own lock */
	pthread_cond_t changed;
	LIST_HEAD(, rpc_call) calls;
	unsigned n_calls; /* with the one that waits for a client */
	bool stopping;
	bool shut; /* the library has ended its part */
};

struct rpc_call {
	struct rpc_server *server;
	const struct rpc_method *method;
	LIST_ENTRY(rpc_call) next;
	/* Time since the call waits for the client's body, or for the client to
	 * take the answer; 0: not. */
	int64_t waits_since_ms; /* under the server's lock */
	grpc_call *call;        /* NULL: still waits for a client */
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *body;
	atomic_int refs; /* the client's end, and the handling */
	struct rpc_tag new_tag, close_tag, body_tag, sent_tag, status_tag;
	struct rpc_job job;
	int close_cancelled; /* written by the library */
	struct rpc_arena arena;
	/* the handler's own verdict, by rpc_fail() */
	bool failed;
	enum rpc_code fail_code;
	char *fail_text; /* in the arena */
	bool metadata_sent;

	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t sent_changed;
	bool cancelled;
	int cancel_fd; /* -1: nobody asked yet */
	bool sent, sent_ok;
};

/* Wait for the next client; the poller goes on in rpc_call.c. */
void rpc_call_post(struct rpc_server *server);
/* Tell the handler; the client is not touched. */
void rpc_call_cancel(struct rpc_call *call);

#endif
