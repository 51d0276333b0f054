/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each request is served by a process that is killed at each of its system
 * calls, before it and after it, and then comes again to another process; which
 * is killed in turn, or is not. The reply and the branches are to be as if
 * nobody had been killed. The processes share nothing but the branches and the
 * memory of reply_cache.h; a socket stands for /dev/fuse. Needs root (file
 * handles).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/testkit/every.h"
#include "union/branch/dir_fd.h"
#include "union/branch/intent.h"
#include "union/change/act_as.h"
#include "union/change/clone_dir.h"
#include "union/change/rename_parts.h"
#include "union/ops/ops.h"
#include "union/ops/reply.h"
#include "union/recover/handover.h"
#include "union/recover/unionfs_life.h"
#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/testkit/replay_acts.h"
#include "union/testkit/replay_tree.h"

#include <cmocka.h>

#define UNIQUE      500
#define REQUEST_MAX 4096
#define MEMORY_SIZE (64u << 10)

/* State of all processes of one act. */
struct shared {
	unsigned bad; /* wrong counts were given back */
	unsigned drops;
	const atomic_bool
		*uncapped; /* in the process that serves; see act.uncaps */
	bool forgot;       /* it was not, when that was killed */
};

static char top[64];
static struct shared *shared;
static void *memory;

/* A process that serves */

static struct unionfs *fs;
static int kernel = -1, device = -1; /* the two ends of /dev/fuse */

static void forget(void *context, uint64_t node)
{
	(void)context;
	if (node < 2 || node > 8)
		shared->bad++;
}

static void drop(void *context, uint64_t file)
{
	(void)context;
	shared->drops++;
	shared->bad += !file;
}

static void check(bool right)
{
	if (!right)
		_exit(3);
}

static void branch_paths(char paths[2][80])
{
	int i;

	for (i = 0; i < 2; i++)
		(void)snprintf(paths[i], sizeof(paths[i]), "%s/%d", top, i);
}

/* Serve a request as fuse_threads.c does. */
static void serve(void *data, size_t length)
{
	struct fuse_buf buf = {.mem = data, .size = length};
	struct request request = {0};

	request_decode(data, length, &request);
	dir_fd_changes_begin();
	request_serve(&request);
	if (reply_cache_begin(fs->reply_cache, &request,
			      fuse_session_fd(fs->session)))
		fuse_session_process_buf(fs->session, &buf);
	request_serve(NULL);
	reply_cache_end(&request);
	dir_fd_changes_end();
}

/* Serve one that is done by the time it is needed, and take its reply. */
static ssize_t serve_before(struct fuse_in_header *header, void *reply,
			    size_t size)
{
	static uint64_t unique = UNIQUE;

	header->unique = unique += 2;
	serve(header, header->len);
	return recv(kernel, reply, size, MSG_DONTWAIT);
}

static void make_known(const char *const *names)
{
	_Alignas(8) char data[REQUEST_MAX] = {0}, reply[REQUEST_MAX];
	struct fuse_in_header *header = (void *)data;
	const struct fuse_out_header *out = (void *)reply;
	uint64_t want = 2, got;

	for (; *names; names++) {
		act_body(header, FUSE_LOOKUP, FUSE_ROOT_ID, 0);
		act_add_text(header, *names);
		/* A file that is gone was done before: nobody needs its number.
		 */
		if (serve_before(header, reply, sizeof(reply)) <
			    (ssize_t)sizeof(*out) ||
		    out->error)
			continue;
		memcpy(&got, out + 1, sizeof(got));
		check(!got || got == want++);
	}
}

static void open_root(void)
{
	_Alignas(8) char data[REQUEST_MAX] = {0}, reply[REQUEST_MAX];
	struct fuse_in_header *header = (void *)data;

	act_body(header, FUSE_OPENDIR, FUSE_ROOT_ID,
		 sizeof(struct fuse_open_in));
	check(serve_before(header, reply, sizeof(reply)) ==
	      sizeof(struct fuse_out_header) + sizeof(struct fuse_open_out));
	memcpy(&act_file, reply + sizeof(struct fuse_out_header),
	       sizeof(act_file));
}

/*
 * Open and remove the capability, as a write through a descriptor of root
 * begins. The server, or its successor, remembers that until a setattr comes.
 */
static void open_and_uncap(void)
{
	static const uint8_t none[20] = {0, 0, 0, 2}; /* linux/capability.h */
	_Alignas(8) char data[REQUEST_MAX] = {0}, reply[REQUEST_MAX];
	struct fuse_in_header *header = (void *)data;
	struct fuse_setxattr_in *set;
	struct fuse_open_in *open_in;

	open_in = act_body(header, FUSE_OPEN, 2, sizeof(*open_in));
	open_in->flags = O_RDWR;
	check(serve_before(header, reply, sizeof(reply)) > 0);
	shared->uncapped = &node_get(&fs->nodes, 2)->uncapped;
	if (shared->forgot)
		return;
	set = act_body(header, FUSE_SETXATTR, 2, FUSE_COMPAT_SETXATTR_IN_SIZE);
	set->size = sizeof(none);
	act_add_text(header, ACT_CAPABILITY);
	act_add_bytes(header, none, sizeof(none));
	check(serve_before(header, reply, sizeof(reply)) > 0);
	act_body(header, FUSE_REMOVEXATTR, 2, 0);
	act_add_text(header, ACT_CAPABILITY);
	check(serve_before(header, reply, sizeof(reply)) > 0);
}

static void start_session(void)
{
	struct fuse_args args = FUSE_ARGS_INIT(0, NULL);
	_Alignas(8) char data[REQUEST_MAX] = {0}, reply[REQUEST_MAX];
	struct fuse_in_header *header = (void *)data;
	struct fuse_init_in *in;
	char name[32];

	check(fuse_opt_add_arg(&args, "test") == 0);
	fs->session = fuse_session_new(&args, &unionfs_ops, sizeof(unionfs_ops),
				       fs);
	(void)snprintf(name, sizeof(name), "/dev/fd/%d", device);
	check(fs->session && fuse_session_mount(fs->session, name) == 0);
	check(reply_setup(fs, handover_device(
				      fs, fuse_session_fd(fs->session))) == 0);
	in = act_body(header, FUSE_INIT, 0, sizeof(*in));
	in->major = FUSE_KERNEL_VERSION;
	in->minor = FUSE_KERNEL_MINOR_VERSION;
	in->flags = FUSE_DO_READDIRPLUS;
	check(serve_before(header, reply, sizeof(reply)) > 0);
}

static void start_server(const struct act *act)
{
	static const struct reply_cache_server server = {.forget = forget,
							 .drop = drop};
	struct error err = {0};
	char paths[2][80];
	int i;

	fs = calloc(1, sizeof(*fs));
	check(fs);
	branch_paths(paths);
	for (i = 0; i < 2; i++)
		check(branch_add(&fs->branches, paths[i], 0, &err) == 0);
	check(intent_recover(&fs->branches, &err) >= 0);
	for (i = 0; i < 2; i++) {
		clone_dir_sweep(fs->branches.items[i]);
		rename_parts_sweep(fs->branches.items[i]);
	}
	policy_set_init(&fs->policies);
	check(policy_set_apply(&fs->policies, "category.create", "ff", &err) ==
	      0);
	fs->shared = act->shared;
	check(unionfs_init(fs, &err) == 0);
	check(reply_cache_open(memory, MEMORY_SIZE, &server,
			       &fs->reply_cache) == 0);
	check(act_as_thread_setup() == 0);
	start_session();
	if (act->lists)
		open_root();
	else
		make_known(act->known);
	if (act->uncaps)
		open_and_uncap();
}

/* Serve one request, traced from when the process stops itself. */
static void serve_one(const struct act *act, bool again)
{
	static _Alignas(8) char data[REQUEST_MAX];
	struct fuse_in_header *header = (void *)data;

	start_server(act);
	act->fill(header);
	header->unique = UNIQUE | (again ? REPLY_CACHE_RESENT : 0);
	check(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
	(void)raise(SIGSTOP);
	serve(data, header->len);
}

/* The kernel */

struct reply {
	struct fuse_out_header header;
	struct fuse_entry_out entry;
	uint8_t rest[REQUEST_MAX];
};

static void next_stop(pid_t pid, int *status)
{
	assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, status, 0), pid);
}

static bool peek(pid_t pid, const atomic_bool *at)
{
	long word;
	bool is;

	errno = 0;
	word = ptrace(PTRACE_PEEKDATA, pid, at, NULL);
	assert_int_equal(errno, 0);
	memcpy(&is, &word, sizeof(is)); /* the bytes at its lowest address */
	return is;
}

/*
 * Kill it at its @kill_at'th stop; 0: never. Returns the stops it made, and
 * true in @ret_killed.
 */
static unsigned trace(pid_t pid, unsigned kill_at, bool *ret_killed)
{
	unsigned stops = 0;
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSTOPPED(status)); /* or it failed to start */
	for (next_stop(pid, &status); WIFSTOPPED(status);
	     next_stop(pid, &status)) {
		assert_int_equal(WSTOPSIG(status), SIGTRAP);
		if (++stops != kill_at)
			continue;
		if (shared->uncapped)
			shared->forgot |= !peek(pid, shared->uncapped);
		assert_int_equal(kill(pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		break;
	}
	*ret_killed = WIFSIGNALED(status);
	if (!*ret_killed)
		assert_int_equal(WEXITSTATUS(status), 0);
	return stops;
}

/* Take the answer to the request; notifications are passed over. */
static bool take_reply(struct reply *ret)
{
	memset(ret, 0, sizeof(*ret));
	while (recv(kernel, ret, sizeof(*ret), MSG_DONTWAIT) > 0)
		if (ret->header.unique)
			return true;
	return false;
}

static bool run_server(const struct act *act, bool again, unsigned kill_at,
		       struct reply *ret, unsigned *ret_stops)
{
	bool killed;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		serve_one(act, again);
		_exit(0);
	}
	*ret_stops = trace(pid, kill_at, &killed);
	if (take_reply(ret)) {
		assert_int_equal(ret->header.unique & ~REPLY_CACHE_RESENT,
				 UNIQUE);
		assert_true(again ==
			    !!(ret->header.unique & REPLY_CACHE_RESENT));
		return true;
	}
	assert_true(killed); /* or it did not answer */
	return false;
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int remove_branches(void)
{
	return nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Fresh branches for @act. */
static void prepare(const struct act *act)
{
	char paths[2][80];
	int roots[2], i;

	assert_int_equal(remove_branches(), 0);
	assert_int_equal(mkdir(top, 0700), 0);
	branch_paths(paths);
	for (i = 0; i < 2; i++) {
		assert_int_equal(mkdir(paths[i], 0755), 0);
		roots[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(roots[i] >= 0);
	}
	act->prepare(roots);
	(void)close(roots[0]);
	(void)close(roots[1]);
	memset(memory, 0, MEMORY_SIZE);
	memset(shared, 0, sizeof(*shared));
}

static void compare(const struct act *act, const struct reply *want,
		    const struct replay_tree *tree, const struct reply *got)
{
	static struct replay_tree now;

	assert_int_equal(got->header.error, act->error);
	assert_int_equal(got->header.len, want->header.len);
	if (act->makes_entry && !act->error) {
		assert_int_equal(got->entry.attr.mode, want->entry.attr.mode);
		assert_int_equal(got->entry.attr.nlink, want->entry.attr.nlink);
	}
	replay_tree_describe(top, &now);
	assert_string_equal(now.data, tree->data);
	assert_int_equal(shared->bad, 0);
}

/*
 * Killed at @first, and the next at @second (0: not), and so on until it is
 * answered. Returns the stops of the first.
 */
static unsigned run_killed(const struct act *act, unsigned first,
			   unsigned second, struct reply *ret)
{
	unsigned stops, more;

	prepare(act);
	if (run_server(act, false, first, ret, &stops))
		return stops;
	if (second && run_server(act, true, second, ret, &more))
		return stops;
	assert_true(run_server(act, true, 0, ret, &more));
	return stops;
}

static void kill_everywhere(const struct act *act)
{
	static struct replay_tree tree;
	struct reply want, got;
	unsigned at, stops, turn = 1;

	stops = run_killed(act, 0, 0, &want);
	replay_tree_describe(top, &tree);
	assert_true(stops >= 2);
	compare(act, &want, &tree, &want);
	for (at = 1 + every_first(); at <= stops; at += every(), turn++) {
		(void)run_killed(act, at, 0, &got);
		compare(act, &want, &tree, &got);
		if (turn % 2)
			continue;
		/* Every step of the second is some step's turn. */
		(void)run_killed(act, at, 1 + at * 7 % stops, &got);
		compare(act, &want, &tree, &got);
	}
}

static bool can_be_done(void)
{
	struct branch_table table = {0};
	struct error err = {0};
	char paths[2][80];
	bool can;

	prepare(&replay_acts[0]);
	branch_paths(paths);
	can = branch_add(&table, paths[0], 0, &err) == 0;
	if (!can)
		print_message("%s\n", err.msg);
	branch_table_done(&table);
	return can && geteuid() == 0;
}

static int setup(void **state)
{
	int ends[2];

	(void)state;
	log_setup("replay_test", LOG_LEVEL_ERROR);
	(void)snprintf(top, sizeof(top), "/tmp/trib-again-XXXXXX");
	memory = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!mkdtemp(top) || memory == MAP_FAILED || shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -1;
	kernel = ends[0];
	device = ends[1];
	return 0;
}

static int done(void **state)
{
	(void)state;
	(void)close(kernel);
	(void)close(device);
	(void)munmap(memory, MEMORY_SIZE);
	(void)munmap(shared, sizeof(*shared));
	return remove_branches();
}

static void is_done_once_wherever_it_is_killed(void **state)
{
	const struct act *act = *state;

	if (!can_be_done())
		skip();
	kill_everywhere(act);
}

int main(void)
{
	static struct CMUnitTest tests[AGAIN_ACTS_MAX];
	size_t i;

	assert(replay_act_count <= AGAIN_ACTS_MAX);
	for (i = 0; i < replay_act_count; i++)
		tests[i] = (struct CMUnitTest){
			.name = replay_acts[i].name,
			.test_func = is_done_once_wherever_it_is_killed,
			.initial_state = (void *)&replay_acts[i],
		};
	return _cmocka_run_group_tests("again", tests, replay_act_count, setup,
				       done);
}
