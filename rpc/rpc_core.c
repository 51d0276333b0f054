/* SPDX-License-Identifier: Apache-2.0 */
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rpc/rpc_internal.h"

#if defined(__SANITIZE_THREAD__)
/*
 * Options for every program with rpc in it. The library is not instrumented,
 * and what happens between two functions of its own is not ours to judge. The
 * order of our own data is made visible below.
 */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "ignore_noninstrumented_modules=1";
}
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint order;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limit limit;
static _Thread_local bool quiet;

/*
 * Log the library's own messages. Its errors are mostly about one peer (a
 * failed handshake) and the call concerned fails by itself: a warning, limited.
 */
static void log_hook(gpr_log_func_args *args)
{
	bool error = args->severity == GPR_LOG_SEVERITY_ERROR && !quiet;
	const char *file = strrchr(args->file, '/');
	unsigned suppressed = 0;
	char text[RPC_TEXT_MAX];

	if (error) {
		pthread_mutex_lock(&limit_lock);
		error = log_limit_allow(&limit, &suppressed);
		pthread_mutex_unlock(&limit_lock);
		if (!error)
			return;
	}
	rpc_text_clean(text, sizeof(text), args->message,
		       strlen(args->message));
	if (suppressed)
		log_warning("grpc: %u messages not shown", suppressed);
	log_write(error ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG,
		  "grpc: %s:%d: %s", file ? file + 1 : args->file, args->line,
		  text);
}

void rpc_core_quiet(bool on)
{
	quiet = on;
}

static void start(void)
{
	sigset_t all, old;

	/*
	 * While no call runs, nobody moves a client's connection but the
	 * library's backup poll: every 5 s unless told otherwise, which is
	 * how long a restarted server would go unnoticed. Each poll wakes two
	 * threads twice.
	 */
	(void)setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "1000", 0);
	/* Names as the system sees them (nsswitch.conf(5)), not c-ares. */
	(void)setenv("GRPC_DNS_RESOLVER", "native", 0);
	gpr_set_log_function(log_hook);
	if (!getenv("GRPC_VERBOSITY"))
		gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	grpc_init();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void rpc_core_start(void)
{
	pthread_once(&once, start);
}

void rpc_core_publish(void)
{
	atomic_fetch_add_explicit(&order, 1, memory_order_acq_rel);
}

void rpc_core_observe(void)
{
	(void)atomic_load_explicit(&order, memory_order_acquire);
}

void rpc_core_batch(grpc_call *call, const grpc_op *ops, size_t n, void *tag)
{
	grpc_call_error r;

	rpc_core_publish();
	r = grpc_call_start_batch(call, ops, n, tag, NULL);
	if (r != GRPC_CALL_OK) {
		log_write(LOG_LEVEL_ERROR, "grpc refused a batch (%d)", (int)r);
		abort();
	}
}

grpc_byte_buffer *rpc_core_pack(const ProtobufCMessage *message)
{
	grpc_slice slice = grpc_slice_malloc(
		protobuf_c_message_get_packed_size(message));
	grpc_byte_buffer *bytes;

	protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
	bytes = grpc_raw_byte_buffer_create(&slice, 1);
	grpc_slice_unref(slice);
	return bytes;
}

ProtobufCMessage *rpc_core_unpack(grpc_byte_buffer *bytes,
				  const ProtobufCMessageDescriptor *type,
				  ProtobufCAllocator *allocator)
{
	grpc_byte_buffer_reader reader;
	ProtobufCMessage *message;
	grpc_slice slice;

	if (!grpc_byte_buffer_reader_init(&reader, bytes))
		return NULL;
	slice = grpc_byte_buffer_reader_readall(&reader);
	grpc_byte_buffer_reader_destroy(&reader);
	message = protobuf_c_message_unpack(type, allocator,
					    GRPC_SLICE_LENGTH(slice),
					    GRPC_SLICE_START_PTR(slice));
	grpc_slice_unref(slice);
	return message;
}

grpc_arg rpc_core_arg(const char *key, int value)
{
	/* The library copies both; its struct just isn't const. */
	return (grpc_arg){.type = GRPC_ARG_INTEGER,
			  .key = (char *)key,
			  .value.integer = value};
}

grpc_arg rpc_core_arg_string(const char *key, const char *value)
{
	return (grpc_arg){.type = GRPC_ARG_STRING,
			  .key = (char *)key,
			  .value.string = (char *)value};
}

gpr_timespec rpc_core_deadline(int64_t ms)
{
	return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
			    gpr_time_from_millis(ms, GPR_TIMESPAN));
}

void rpc_core_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int rpc_core_thread(pthread_t *ret, const char *name, void *(*run)(void *),
		    void *context)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r)
		return -r;
	(void)pthread_setname_np(*ret, name); /* for people only */
	return 0;
}
