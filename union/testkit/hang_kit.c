/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/hang_kit.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/sys/handle.h"
#include "union/sys/task_blocked.h"

#define GIVE_UP_S   60         /* then waiting callers are killed */
#define REQUEST_MAX (1u << 16) /* bytes; FUSE_MIN_READ_BUFFER and more */

struct hang_shared {
	atomic_uint taken; /* requests that are not answered */
	atomic_int thread; /* that hangs */
};

bool hang_fs_can(void)
{
	return geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0;
}

/* Answer the kernel's first request, which has to be answered. */
static int answer_init(int fd)
{
	static char request[REQUEST_MAX];
	const struct fuse_in_header *in = (const void *)request;
	struct {
		struct fuse_out_header header;
		struct fuse_init_out init;
	} out = {0};

	if (read(fd, request, sizeof(request)) < (ssize_t)sizeof(*in) ||
	    in->opcode != FUSE_INIT)
		return -1;
	out.header.len = sizeof(out);
	out.header.unique = in->unique;
	out.init.major = FUSE_KERNEL_VERSION;
	out.init.minor = FUSE_KERNEL_MINOR_VERSION;
	out.init.max_write = 4096;
	return write(fd, &out, sizeof(out)) == sizeof(out) ? 0 : -1;
}

static void read_for_ever(const struct hang_fs *fs)
{
	static char request[REQUEST_MAX];
	const struct fuse_in_header *in = (const void *)request;

	while (read(fs->fuse_fd, request, sizeof(request)) > 0)
		if (in->opcode != FUSE_INTERRUPT && in->opcode != FUSE_FORGET)
			atomic_fetch_add(&fs->shared->taken, 1);
	_exit(0);
}

static pid_t fork_with_us(void)
{
	pid_t pid = fork();

	if (!pid)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static int serve(struct hang_fs *fs)
{
	char data[64];

	fs->fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (fs->fuse_fd < 0)
		return -1;
	(void)snprintf(data, sizeof(data),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0",
		       fs->fuse_fd);
	if (mount("hang_kit", fs->path, "fuse", 0, data) < 0)
		return -1;
	fs->reader = answer_init(fs->fuse_fd) == 0 ? fork_with_us() : -1;
	if (!fs->reader)
		read_for_ever(fs);
	return fs->reader < 0 ? -1 : 0;
}

static char give_up_path[sizeof(((struct hang_fs *)NULL)->path)];

/*
 * End all calls that hang, then this process. Without the first it would stay
 * for ever: a thread that hangs keeps what the process has open, so the
 * connection, too.
 */
static void give_up(int signal)
{
	(void)umount2(give_up_path, MNT_FORCE | MNT_DETACH);
	(void)raise(signal); /* its default by now */
}

static void give_up_later(const char *path)
{
	const struct sigaction action = {.sa_handler = give_up,
					 .sa_flags = (int)SA_RESETHAND};

	strcpy(give_up_path, path);
	(void)sigaction(SIGALRM, &action, NULL);
	(void)alarm(GIVE_UP_S);
}

int hang_fs_start(struct hang_fs *ret)
{
	struct handle handle;

	*ret = (struct hang_fs){.fuse_fd = -1, .root_fd = -1, .reader = -1};
	(void)snprintf(ret->path, sizeof(ret->path), "/tmp/trib-hang-XXXXXX");
	ret->shared = mmap(NULL, sizeof(*ret->shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret->shared == MAP_FAILED || !mkdtemp(ret->path))
		return -1;
	give_up_later(ret->path);
	if (serve(ret) < 0)
		return -1;
	ret->root_fd = open(ret->path, O_PATH | O_CLOEXEC);
	return ret->root_fd < 0 ? -1
				: handle_get_on(ret->root_fd, "", &handle,
						&ret->mount_id);
}

void hang_fs_end(struct hang_fs *fs)
{
	(void)alarm(0);
	fd_close(take_fd(&fs->root_fd));
	(void)umount2(fs->path, MNT_FORCE | MNT_DETACH);
	if (fs->reader > 0)
		(void)kill(fs->reader, SIGKILL);
	fd_close(take_fd(&fs->fuse_fd));
	while (waitpid(-1, NULL, 0) > 0)
		;
	(void)munmap(fs->shared, sizeof(*fs->shared));
	(void)rmdir(fs->path);
}

static void pause_shortly(void)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void hang_fs_wait(const struct hang_fs *fs, unsigned calls)
{
	while (atomic_load(&fs->shared->taken) < calls)
		pause_shortly();
}

struct task_blocked_call {
	const struct hang_fs *fs;
	void (*call)(const struct hang_fs *fs);
};

static void *thread_main(void *context)
{
	const struct task_blocked_call *it = context;

	atomic_store(&it->fs->shared->thread, gettid());
	it->call(it->fs);
	return NULL;
}

pid_t hang_process(const struct hang_fs *fs,
		   void (*call)(const struct hang_fs *fs), pid_t *ret_thread)
{
	struct task_blocked_call it = {fs, call};
	unsigned taken = atomic_load(&fs->shared->taken);
	pthread_t thread;
	pid_t pid = fork_with_us();

	if (!pid) {
		if (pthread_create(&thread, NULL, thread_main, &it) != 0)
			_exit(1);
		for (;;)
			(void)pause();
	}
	hang_fs_wait(fs, taken + 1);
	*ret_thread = atomic_load(&fs->shared->thread);
	(void)kill(pid, SIGKILL);
	while (!task_is_blocked(pid, *ret_thread, 50))
		pause_shortly();
	return pid;
}
