/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server is killed before and after each of its system calls, and another
 * goes on with the state memory. A socket stands for /dev/fuse; it takes all
 * replies, where the kernel takes the first.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/node/node_restore.h"
#include "union/open/open_file.h"
#include "union/open/open_restore.h"
#include "union/ops/ops.h"
#include "union/ops/reply.h"
#include "union/recover/handover.h"
#include "union/state/fd_store.h"
#include "union/state/request.h"
#include "union/state/state.h"
#include "union/view/state_note.h"

#include <cmocka.h>

#define UNIQUE     2
#define NODE       2
#define GENERATION 7
#define BACKING    5
#define NUMBER     ((UINT64_C(1) << OPEN_PLACE_BITS) | 1)

static struct state state;
static int device[2]; /* the kernel's end; the server's */

static int setup(void **unused)
{
	(void)unused;
	log_setup("handover_test", LOG_LEVEL_ERROR);
	if (state_create(&state) < 0)
		return -1;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, device);
}

static int done(void **unused)
{
	(void)unused;
	state_done(&state);
	fd_close(device[0]);
	fd_close(device[1]);
	return 0;
}

/* A process that serves */

static struct unionfs fs;

static void check(bool right)
{
	if (!right)
		_exit(3);
}

struct wire_request {
	struct fuse_in_header header;
	struct fuse_init_in init;
};

/* Begin as a server that the supervisor starts. */
static void begin(bool goes_on)
{
	struct union_options options = {.mountpoint = "/none"};
	struct error err = {0};
	int ends[2];

	check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	check(fd_store_send(ends[0], FD_STORE_ADD, FD_STORE_STATE, NULL,
			    state.fd) == 0);
	if (goes_on)
		check(fd_store_send(ends[0], FD_STORE_ADD, FD_STORE_FUSE, NULL,
				    device[1]) == 0);
	check(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1) == 0);
	options.supervisor_fd = ends[1];
	check(handover_begin(&fs, &options, &err) == 0);
}

static void start_session(void)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	char name[32];

	check(fuse_opt_add_arg(&args, "test") == 0);
	fs.session = fuse_session_new(&args, &unionfs_ops, sizeof(unionfs_ops),
				      &fs);
	(void)snprintf(name, sizeof(name), "/dev/fd/%d", device[1]);
	check(fs.session && fuse_session_mount(fs.session, name) == 0);
	check(reply_setup(&fs, handover_device(
				       &fs, fuse_session_fd(fs.session))) == 0);
}

/* From here on the server's steps are counted. */
static void let_trace(void)
{
	check(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	(void)raise(SIGSTOP);
}

static void serve(struct fuse_in_header *header)
{
	struct fuse_buf buf = {.mem = header, .size = header->len};
	struct request request = {0};

	request_decode(header, header->len, &request);
	state_note_init_request(&fs, header, header->len);
	request_serve(&request);
	fuse_session_process_buf(fs.session, &buf);
	request_serve(NULL);
}

static void fill_init(struct wire_request *request)
{
	*request = (struct wire_request){
		.header = {.len = sizeof(request->header) +
				  sizeof(request->init),
			   .opcode = FUSE_INIT,
			   .unique = UNIQUE},
		.init = {.major = FUSE_KERNEL_VERSION,
			 .minor = FUSE_KERNEL_MINOR_VERSION},
	};
}

static void serve_init(void)
{
	struct wire_request request;

	begin(false);
	start_session();
	fill_init(&request);
	let_trace();
	serve(&request.header);
}

static void go_on_after_init(void)
{
	begin(true);
	start_session();
	check(node_table_init(&fs.nodes, 1, fs.state) == 0);
	check(handover_replay_init(&fs) == 0);
}

static void restore(void)
{
	check(node_table_init(&fs.nodes, 1, fs.state) == 0);
	check(node_restore(&fs.nodes) == 0);
	open_table_init(&fs.opened, fs.state);
	check(open_restore(&fs) == 0);
}

/* Close the last open file, which is passed through. */
static void close_file(void)
{
	struct node *node;

	begin(true);
	start_session();
	restore();
	node = node_get(&fs.nodes, NODE);
	check(node && node_file(node)->opens == 1);
	let_trace();
	open_drop(&fs, NUMBER);
}

/* The process that kills the server */

static void run(void (*server)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		server();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void next_stop(pid_t pid, int *status)
{
	assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, status, 0), pid);
}

/*
 * Call @look at each stop and kill the server at the @kill_at'th (0: never).
 * False: it had ended before.
 */
static bool run_killed(void (*server)(void), unsigned kill_at,
		       void (*look)(pid_t pid))
{
	unsigned stops = 0;
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		server();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status)); /* or it failed to start */
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL,
				(void *)PTRACE_O_TRACESYSGOOD),
			 0);
	for (next_stop(pid, &status); WIFSTOPPED(status);
	     next_stop(pid, &status)) {
		if (look)
			look(pid);
		if (++stops != kill_at)
			continue;
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		return true;
	}
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	return false;
}

/* Count the replies to FUSE_INIT that the kernel was sent. */
static unsigned take_replies(void)
{
	_Alignas(8) char data[4096];
	const struct fuse_out_header *header = (void *)data;
	unsigned n = 0;

	while (recv(device[0], data, sizeof(data), MSG_DONTWAIT) > 0) {
		assert_int_equal(header->unique, UNIQUE);
		assert_int_equal(header->error, 0);
		n++;
	}
	return n;
}

/* FUSE_INIT comes again only where no reply was written. */
static void init_is_answered_wherever_it_is_killed(void **unused)
{
	unsigned at, first, second, saved = 0;
	bool killed = true;

	(void)unused;
	for (at = 1; killed; at++) {
		memset(state.header->init, 0, STATE_INIT_MAX);
		state.header->has_init = false;
		killed = run_killed(serve_init, at, NULL);
		first = take_replies();
		run(go_on_after_init);
		second = take_replies();
		assert_true(state.header->has_init ? first + second > 0
						   : first + second == 0);
		saved += !first && second;
	}
	assert_true(saved > 0);
}

static void note_file(void)
{
	struct state_open *open = &state.opens[open_place(NUMBER)];
	struct node *nodes = state.nodes;

	state.branches[0].used = STATE_BRANCH_USED;
	state.header->nodes_used = NODE + 1;
	state.header->opens_used = open_place(NUMBER) + 1;
	nodes[NODE_ROOT_ID].type = S_IFDIR;
	nodes[NODE_ROOT_ID].generation = 1;
	nodes[NODE].type = S_IFREG;
	nodes[NODE].lookups = 1;
	nodes[NODE].of.file.backing_id = BACKING;
	nodes[NODE].generation = GENERATION;
	open->node = NODE;
	open->generation = GENERATION;
	open->flags = STATE_OPEN_READS;
	open->number = NUMBER;
}

static unsigned closed; /* how often by the kernel's number */

/*
 * No file may be open by a backing id, from when that id may have been closed.
 */
static void look_at_close(pid_t pid)
{
	struct __ptrace_syscall_info info = {0};

	assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info),
			   &info) > 0);
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_ioctl)
		return;
	closed++;
	assert_int_equal(state.opens[open_place(NUMBER)].number, 0);
	/* But the next server is to know it, and close it. */
	assert_int_equal(state.nodes[NODE].of.file.backing_id, BACKING);
}

static void no_open_file_is_left_with_a_number_that_was_closed(void **unused)
{
	(void)unused;
	note_file();
	closed = 0;
	assert_false(run_killed(close_file, 0, look_at_close));
	assert_int_equal(closed, 1);
	assert_int_equal(state.nodes[NODE].of.file.backing_id, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			init_is_answered_wherever_it_is_killed, setup, done),
		cmocka_unit_test_setup_teardown(
			no_open_file_is_left_with_a_number_that_was_closed,
			setup, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
