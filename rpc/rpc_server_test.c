/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file_lock.h"
#include "base/process.h"
#include "rpc/rpc_test_kit.h"

static void carries_a_message_there_and_back(void **state)
{
	struct kit *kit = *state;
	Tributary__V1__Extent *extent;

	kit_start(kit);
	assert_int_equal(kit_get(kit, "echo:Grüße", 30000, &extent), 0);
	assert_string_equal(extent->name, "Grüße");
	kit_free(extent);
	/* and for one who does not want the answer */
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void brings_errno_and_text_back_exactly(void **state)
{
	static const int errors[] = {ENOSPC, ESTALE,  EBUSY, EIO,   ENOENT,
				     EPERM,  ENOTDIR, EDOM,  EAGAIN};
	struct kit *kit = *state;
	char name[64];

	kit_start(kit);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		(void)snprintf(name, sizeof(name), "error:%d:pool 'ä' 100%%",
			       errors[i]);
		assert_int_equal(kit_get(kit, name, 30000, NULL), -errors[i]);
		assert_int_equal(kit->err.code, errors[i]);
		assert_string_equal(kit->err.msg, "pool 'ä' 100%");
	}
}

/* ---- calls beside the test's own ---- */

struct background {
	struct kit *kit;
	const char *name;
	int timeout_ms;
	pthread_t thread;
	int result;
	int64_t took_ms;
	struct error err;
};

static void *background_run(void *context)
{
	struct background *b = context;
	Tributary__V1__GetExtentRequest in =
		TRIBUTARY__V1__GET_EXTENT_REQUEST__INIT;
	int64_t start = clock_ms();

	in.name = (char *)b->name;
	b->result = rpc_client_call(b->kit->client, kit_methods[0].path,
				    &in.base, kit_methods[0].out, b->timeout_ms,
				    NULL, &b->err);
	b->took_ms = clock_ms() - start;
	return NULL;
}

static void background_start(struct background *b, struct kit *kit,
			     const char *name, int timeout_ms)
{
	*b = (struct background){
		.kit = kit, .name = name, .timeout_ms = timeout_ms};
	assert_int_equal(pthread_create(&b->thread, NULL, background_run, b),
			 0);
}

static void background_join(struct background *b)
{
	assert_int_equal(pthread_join(b->thread, NULL), 0);
}

/* ---- what is refused ---- */

static int raw_call(struct kit *kit, const char *path,
		    const ProtobufCMessage *in)
{
	return rpc_client_call(kit->client, path, in,
			       &tributary__v1__extent__descriptor, 5000, NULL,
			       &kit->err);
}

static void refuses_a_method_it_does_not_have(void **state)
{
	struct kit *kit = *state;
	Tributary__V1__Empty in = TRIBUTARY__V1__EMPTY__INIT;

	kit_start(kit);
	assert_int_equal(raw_call(kit, "/tributary.v1.Blockd/Ge", &in.base),
			 -EOPNOTSUPP);
	assert_string_equal(kit->err.msg,
			    "no method /tributary.v1.Blockd/Ge here");
	assert_int_equal(raw_call(kit, kit_methods[3].path, &in.base),
			 -EOPNOTSUPP);
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
}

static void refuses_a_body_that_is_no_message(void **state)
{
	struct kit *kit = *state;
	Tributary__V1__Export in = TRIBUTARY__V1__EXPORT__INIT;

	kit_start(kit);
	in.epoch = 7; /* field 1 is a number here, and a string there */
	assert_int_equal(raw_call(kit, kit_methods[0].path, &in.base), -EINVAL);
	assert_non_null(strstr(kit->err.msg, "no message of this method"));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
	assert_int_equal(kit_get(kit, "echo:after", 30000, NULL), 0);
}

static void refuses_a_message_that_is_too_large(void **state)
{
	struct kit *kit = *state;
	char *name = malloc(2 << 20);

	memset(name, 'x', 2 << 20);
	name[(2 << 20) - 1] = '\0';
	kit_start(kit);
	assert_int_equal(kit_get(kit, name, 30000, NULL), -EMSGSIZE);
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
	assert_int_equal(kit_get(kit, "echo:after", 30000, NULL), 0);
	free(name);
}

static void refuses_a_small_body_that_needs_much_memory(void **state)
{
	static Tributary__V1__Pool *pools[100000];
	Tributary__V1__Pool pool = TRIBUTARY__V1__POOL__INIT;
	Tributary__V1__ListPoolsReply in =
		TRIBUTARY__V1__LIST_POOLS_REPLY__INIT;
	struct kit *kit = *state;

	for (size_t i = 0; i < 100000; i++)
		pools[i] = &pool;
	in.pools = pools;
	in.n_pools = 100000; /* two bytes each */
	kit->options.arena_max = 4 << 20;
	kit_start(kit);
	assert_int_equal(raw_call(kit, kit_methods[2].path, &in.base),
			 -EMSGSIZE);
	assert_non_null(strstr(kit->err.msg, "the request needs more than"));
	assert_int_equal(atomic_load(&kit->seen.calls), 0);
	in.n_pools = 1000;
	assert_int_equal(raw_call(kit, kit_methods[2].path, &in.base), 0);
}

static void tells_when_an_answer_needs_too_much_memory(void **state)
{
	struct kit *kit = *state;

	kit->options.arena_max = 1 << 20;
	kit_start(kit);
	assert_int_equal(kit_get(kit, "alloc:1000000", 30000, NULL), 0);
	assert_int_equal(kit_get(kit, "alloc:1100000", 30000, NULL), -EMSGSIZE);
	assert_non_null(strstr(kit->err.msg, "the answer needs more than"));
}

static void tells_when_an_answer_is_too_large(void **state)
{
	struct kit *kit = *state;
	Tributary__V1__Extent *extent;

	kit->options.arena_max = 64 << 20;
	kit_start(kit);
	assert_int_equal(kit_get(kit, "long:10000000", 30000, &extent), 0);
	assert_int_equal(strlen(extent->message), 10000000);
	kit_free(extent);
	assert_int_equal(kit_get(kit, "long:17000000", 30000, NULL), -EMSGSIZE);
}

static void refuses_calls_past_its_queue(void **state)
{
	struct kit *kit = *state;
	struct background running, more[3];
	int done = 0, refused = 0;

	kit->options.workers = 1;
	kit->options.queue = 1;
	kit_start(kit);
	background_start(&running, kit, "wait:2000", 9000);
	assert_true(kit_eventually(&kit->seen.calls, 1));
	for (int i = 0; i < 3; i++)
		background_start(&more[i], kit, "wait:1", 9000);
	for (int i = 0; i < 3; i++) {
		background_join(&more[i]);
		done += more[i].result == 0;
		if (more[i].result != -EAGAIN)
			continue;
		refused++;
		assert_true(more[i].took_ms < 1500); /* at once */
		assert_non_null(strstr(more[i].err.msg, "queue is full"));
	}
	background_join(&running);
	assert_int_equal(running.result, 0);
	assert_int_equal(done, 1);
	assert_int_equal(refused, 2);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void lets_a_handler_choose_its_code(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	/* UNAUTHENTICATED has no errno of its own */
	assert_int_equal(kit_get(kit, "fail:16:who are you?", 30000, NULL),
			 -EACCES);
	assert_string_equal(kit->err.msg, "who are you?");
	/* a failure can't claim to be none */
	assert_int_equal(kit_get(kit, "fail:0:what", 30000, NULL), -EIO);
}

static void sends_only_clean_text(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	assert_int_equal(kit_get(kit, "error:5:a\xff\n\x1b[1mb", 30000, NULL),
			 -EIO);
	assert_string_equal(kit->err.msg, "a?  [1mb");
}

/* ---- time ---- */

static void ends_a_call_at_its_deadline_on_both_sides(void **state)
{
	struct kit *kit = *state;
	int64_t start = clock_ms(), took;

	kit_start(kit);
	assert_int_equal(kit_get(kit, "wait:20000", 1500, NULL), -ETIMEDOUT);
	took = clock_ms() - start;
	assert_in_range(took, 1400, 18000);
	assert_non_null(strstr(kit->err.msg, kit->address));
	assert_true(kit_eventually(&kit->seen.cancelled, 1));
}

static void cancels_the_handler_when_the_client_is_killed(void **state)
{
	struct kit *kit = *state;
	const char *const argv[] = {"/proc/self/exe", "--call", kit->address,
				    "wait:60000", NULL};
	pid_t pid;

	kit_start(kit);
	assert_int_equal(process_start(argv, -1, -1, &pid, NULL), 0);
	assert_true(kit_eventually(&kit->seen.calls, 1));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_true(kit_eventually(&kit->seen.cancelled, 1));
	(void)waitpid(pid, NULL, 0);
}

static void holds_no_fast_call_up_behind_a_slow_one(void **state)
{
	struct kit *kit = *state;
	const char *const argv[] = {"/proc/self/exe", "--call", kit->address,
				    "wait:60000", NULL};
	pid_t pid;

	kit->options.workers = 2;
	kit_start(kit);
	assert_int_equal(process_start(argv, -1, -1, &pid, NULL), 0);
	assert_true(kit_eventually(&kit->seen.calls, 1));
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
	assert_int_equal(atomic_load(&kit->seen.cancelled), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	(void)waitpid(pid, NULL, 0);
}

static void says_where_nobody_answers(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(
		rpc_client_new(kit->address, NULL, NULL, &kit->client, NULL),
		0);
	assert_true(kit_unreachable(kit, "No such file"));
}

static void waits_for_a_server_that_comes_later(void **state)
{
	struct kit *kit = *state;
	struct background early;

	assert_int_equal(
		rpc_client_new(kit->address, NULL, NULL, &kit->client, NULL),
		0);
	background_start(&early, kit, "echo:x", 60000);
	(void)usleep(300000);
	kit_start(kit);
	background_join(&early);
	assert_int_equal(early.result, 0);
	assert_true(early.took_ms < 30000);
}

/* ---- the end, and the next ---- */

static void lets_a_running_call_end_before_it_stops(void **state)
{
	struct kit *kit = *state;
	struct background b;

	kit_start(kit);
	background_start(&b, kit, "wait:500", 30000);
	assert_true(kit_eventually(&kit->seen.calls, 1));
	rpc_server_stop(kit->server, 30000);
	kit->server = NULL;
	background_join(&b);
	assert_int_equal(b.result, 0);
	assert_int_equal(atomic_load(&kit->seen.cancelled), 0);
	assert_int_equal(access(kit->address + 5, F_OK), -1);
}

static void cancels_what_runs_past_the_grace(void **state)
{
	struct kit *kit = *state;
	struct background b;
	int64_t start;

	kit_start(kit);
	background_start(&b, kit, "wait:60000", 5000);
	assert_true(kit_eventually(&kit->seen.calls, 1));
	start = clock_ms();
	rpc_server_stop(kit->server, 200);
	kit->server = NULL;
	assert_in_range(clock_ms() - start, 190, 30000);
	background_join(&b);
	assert_int_equal(b.result, -EHOSTUNREACH);
	assert_int_equal(atomic_load(&kit->seen.cancelled), 1);
}

static void goes_on_with_a_restarted_server(void **state)
{
	struct kit *kit = *state;

	kit_start(kit);
	for (int i = 0; i < 5; i++) {
		int64_t start;

		assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
		kit_stop(kit);
		kit_start(kit);
		start = clock_ms();
		if (kit_get(kit, "echo:x", 30000, NULL) < 0)
			fail_msg("round %d: %s", i, kit->err.msg);
		assert_true(clock_ms() - start < 20000);
	}
}

/* ---- sockets ---- */

static void refuses_a_second_server_on_a_live_socket(void **state)
{
	struct kit *kit = *state;
	struct rpc_server *second;
	char who[64];
	int64_t start;

	kit_start(kit);
	start = clock_ms();
	assert_int_equal(rpc_server_start(&kit->options, &second, &kit->err),
			 -EADDRINUSE);
	assert_true(clock_ms() - start < FILE_LOCK_MS / 2);
	(void)snprintf(who, sizeof(who),
		       "is served by rpc_server_test (pid %d); ",
		       (int)getpid());
	assert_non_null(strstr(kit->err.msg, who));
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
	/* and once that has ended there is room */
	kit_stop(kit);
	kit_start(kit);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void closes_what_it_opened_when_a_later_address_fails(void **state)
{
	struct kit *kit = *state;
	char other[sizeof(kit->address) + 8];
	const char *const two[] = {other, kit->address};
	struct rpc_server_options options;
	struct rpc_server *second;

	(void)snprintf(other, sizeof(other), "%s-other", kit->address);
	kit_start(kit);
	options = kit->options;
	options.addresses = two;
	options.n_addresses = 2;
	assert_int_equal(rpc_server_start(&options, &second, &kit->err),
			 -EADDRINUSE);
	assert_int_equal(access(other + 5, F_OK), -1);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void replaces_a_stale_socket(void **state)
{
	struct kit *kit = *state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char lock[160];
	struct stat st;

	/* As a killed server leaves it. */
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s/sock", kit->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	(void)close(fd);
	(void)snprintf(lock, sizeof(lock), "%s/sock.lock", kit->dir);
	fd = open(lock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "1\n", 2), 2);
	(void)close(fd);

	kit_start(kit);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
	assert_int_equal(stat(un.sun_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	kit_stop(kit);
	assert_int_equal(access(un.sun_path, F_OK), -1);
	assert_int_equal(access(lock, F_OK), -1);
}

/* Such a child may be between its fork and its execve(2). */
static void waits_for_a_child_of_a_killed_server(void **state)
{
	struct kit *kit = *state;
	char script[256];
	const char *const argv[] = {"sh", "-c", script, NULL};
	struct process_result result;

	(void)snprintf(script, sizeof(script),
		       "exec 9<>%s/sock.lock; flock 9; echo $$ >&9; "
		       "sleep 1 & kill -9 $$",
		       kit->dir);
	assert_int_equal(process_run(argv, NULL, -1, -1, &result, NULL), 0);
	assert_int_equal(result.exit_code, 128 + SIGKILL);
	process_result_done(&result);
	kit_start(kit);
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void refuses_a_socket_of_another_program(void **state)
{
	struct kit *kit = *state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char lock[160];

	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s/sock", kit->dir);
	(void)snprintf(lock, sizeof(lock), "%s/sock.lock", kit->dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EADDRINUSE);
	assert_non_null(strstr(kit->err.msg, "another program listens"));
	/* it is still there, and nothing of ours */
	assert_int_equal(connect(client, (struct sockaddr *)&un, sizeof(un)),
			 0);
	assert_int_equal(access(lock, F_OK), -1);
	(void)close(client);
	(void)close(fd);
}

static void keeps_its_lock_elsewhere_when_told(void **state)
{
	struct kit *kit = *state;
	char sockets[128], address[160], lock[256], name[128] = "";
	const char *const addresses[] = {address};
	struct rpc_server_options options = kit->options;
	struct rpc_server *first = NULL, *second = NULL;

	(void)snprintf(sockets, sizeof(sockets), "%s/csi", kit->dir);
	(void)snprintf(address, sizeof(address), "unix:%s/a.sock", sockets);
	for (const char *s = address + strlen("unix:"); *s; s++)
		(void)snprintf(name + strlen(name), sizeof(name) - strlen(name),
			       *s == '/' ? "%%2f" : "%c", *s);
	(void)snprintf(lock, sizeof(lock), "%s/%s.lock", kit->dir, name);
	assert_int_equal(mkdir(sockets, 0700), 0);
	options.addresses = addresses;
	options.lock_dir = kit->dir;
	assert_int_equal(rpc_server_start(&options, &first, &kit->err), 0);
	assert_int_equal(access(lock, F_OK), 0);
	assert_int_equal(rpc_server_start(&options, &second, &kit->err),
			 -EADDRINUSE);
	assert_non_null(strstr(kit->err.msg, "is served by "));
	rpc_server_stop(first, 1000);
	assert_int_equal(access(lock, F_OK), -1);
	/* Nothing was beside the socket: the directory is empty. */
	assert_int_equal(rmdir(sockets), 0);
	options.lock_dir = "/nowhere";
	assert_int_equal(rpc_server_start(&options, &first, &kit->err),
			 -ENOENT);
	assert_non_null(strstr(kit->err.msg, "/nowhere"));
}

static void leaves_a_file_alone_that_is_no_socket(void **state)
{
	struct kit *kit = *state;
	int fd = open(kit->address + 5, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

	assert_int_equal(write(fd, "mine", 4), 4);
	(void)close(fd);
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EADDRINUSE);
	assert_non_null(strstr(kit->err.msg, kit->address));
	assert_int_equal(access(kit->address + 5, F_OK), 0);
}

static void says_why_it_can_not_listen(void **state)
{
	struct kit *kit = *state;

	(void)snprintf(kit->address, sizeof(kit->address), "unix:%s/none/sock",
		       kit->dir);
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-ENOENT);
	assert_non_null(strstr(kit->err.msg, "none/sock"));
	kit->addresses[0] = "unix:relative";
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EINVAL);
}

static void shrugs_garbage_off(void **state)
{
	struct kit *kit = *state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char garbage[4096];

	kit_start(kit);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s/sock", kit->dir);
	for (unsigned i = 0; i < 50; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		for (size_t n = 0; n < sizeof(garbage); n++)
			garbage[n] = (char)(n * 31 + i * 7);
		if (i % 2) /* the right greeting, then nonsense */
			memcpy(garbage, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
		assert_int_equal(
			connect(fd, (struct sockaddr *)&un, sizeof(un)), 0);
		(void)send(fd, garbage, sizeof(garbage), MSG_NOSIGNAL);
		(void)close(fd);
	}
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

/* ---- the table ---- */

static void refuses_a_table_that_makes_no_sense(void **state)
{
	static const char *const paths[] = {NULL,  "",    "x",     "/x",
					    "/x/", "//x", "/x/y/z"};
	struct kit *kit = *state;
	struct rpc_method rows[2] = {kit_methods[0], kit_methods[0]};

	kit->options.methods = rows;
	kit->options.n_methods = 2;
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EINVAL);
	assert_string_equal(kit->err.msg,
			    "method '/tributary.v1.Blockd/GetExtent' is there "
			    "twice");
	kit->options.n_methods = 0;
	assert_int_equal(rpc_server_start(&kit->options, &kit->server, NULL),
			 -EINVAL);
	kit->options.n_methods = 1;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		rows[0].path = paths[i];
		assert_int_equal(
			rpc_server_start(&kit->options, &kit->server, NULL),
			-EINVAL);
	}
	rows[0] = kit_methods[0];
	rows[0].out = NULL;
	assert_int_equal(
		rpc_server_start(&kit->options, &kit->server, &kit->err),
		-EINVAL);
	assert_non_null(strstr(kit->err.msg, "out is no message type"));
}

static void asks_for_an_address(void **state)
{
	struct kit *kit = *state;

	kit->options.n_addresses = 0;
	assert_int_equal(rpc_server_start(&kit->options, &kit->server, NULL),
			 -EINVAL);
}

/* ---- many ---- */

#define THREADS 8
#define ROUNDS  200

static void *many_run(void *context)
{
	struct background *b = context;

	for (int i = 0; i < ROUNDS; i++) {
		Tributary__V1__GetExtentRequest in =
			TRIBUTARY__V1__GET_EXTENT_REQUEST__INIT;
		ProtobufCMessage *out;
		char name[32];

		(void)snprintf(name, sizeof(name), "echo:%p-%d", context, i);
		in.name = name;
		if (rpc_client_call(b->kit->client, kit_methods[0].path,
				    &in.base, kit_methods[0].out, 20000, &out,
				    &b->err) < 0)
			break;
		b->result += strcmp(((Tributary__V1__Extent *)out)->name,
				    name + 5) == 0;
		protobuf_c_message_free_unpacked(out, NULL);
	}
	return NULL;
}

static void serves_many_threads_of_one_client(void **state)
{
	struct kit *kit = *state;
	struct background b[THREADS];

	kit_start(kit);
	for (size_t i = 0; i < THREADS; i++) {
		b[i] = (struct background){.kit = kit};
		assert_int_equal(
			pthread_create(&b[i].thread, NULL, many_run, &b[i]), 0);
	}
	for (size_t i = 0; i < THREADS; i++) {
		background_join(&b[i]);
		if (b[i].result != ROUNDS)
			fail_msg("%d answers: %s", b[i].result, b[i].err.msg);
	}
	assert_int_equal(atomic_load(&kit->seen.calls), THREADS * ROUNDS);
}

static size_t descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void keeps_no_descriptors_of_its_calls(void **state)
{
	struct kit *kit = *state;
	size_t before;

	kit_start(kit);
	assert_int_equal(kit_get(kit, "wait:0", 30000, NULL), 0);
	(void)usleep(50000);
	before = descriptors();
	for (int i = 0; i < 100; i++)
		assert_int_equal(kit_get(kit, "wait:0", 30000, NULL), 0);
	kit_stop(kit); /* the last call's may still be open until here */
	assert_true(descriptors() <= before);
}

/* The client that a test kills. */
static int call_main(const char *address, const char *name)
{
	struct kit kit = {0};

	if (rpc_client_new(address, NULL, NULL, &kit.client, &kit.err) < 0)
		return 1;
	return kit_get(&kit, name, 60000, NULL) < 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
		T(carries_a_message_there_and_back),
		T(brings_errno_and_text_back_exactly),
		T(refuses_a_method_it_does_not_have),
		T(refuses_a_body_that_is_no_message),
		T(refuses_a_message_that_is_too_large),
		T(refuses_a_small_body_that_needs_much_memory),
		T(tells_when_an_answer_needs_too_much_memory),
		T(tells_when_an_answer_is_too_large),
		T(refuses_calls_past_its_queue),
		T(lets_a_handler_choose_its_code),
		T(sends_only_clean_text),
		T(ends_a_call_at_its_deadline_on_both_sides),
		T(cancels_the_handler_when_the_client_is_killed),
		T(holds_no_fast_call_up_behind_a_slow_one),
		T(says_where_nobody_answers),
		T(waits_for_a_server_that_comes_later),
		T(lets_a_running_call_end_before_it_stops),
		T(cancels_what_runs_past_the_grace),
		T(goes_on_with_a_restarted_server),
		T(refuses_a_second_server_on_a_live_socket),
		T(closes_what_it_opened_when_a_later_address_fails),
		T(replaces_a_stale_socket),
		T(waits_for_a_child_of_a_killed_server),
		T(refuses_a_socket_of_another_program),
		T(keeps_its_lock_elsewhere_when_told),
		T(leaves_a_file_alone_that_is_no_socket),
		T(says_why_it_can_not_listen),
		T(shrugs_garbage_off),
		T(refuses_a_table_that_makes_no_sense),
		T(asks_for_an_address),
		T(serves_many_threads_of_one_client),
		T(keeps_no_descriptors_of_its_calls),
	};

	if (argc == 4 && strcmp(argv[1], "--call") == 0)
		return call_main(argv[2], argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
