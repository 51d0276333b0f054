/* SPDX-License-Identifier: Apache-2.0 */
#include "union/kick.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "union/unionfs.h"

#define LOOKS 65536 /* at nodes */
#define TRIES 64    /* of regular files; the kernel may have forgotten one */

/*
 * Even, as the kernel's own are (FUSE_REQ_ID_STEP, FUSE_INT_REQ_BIT), and
 * above all of those, but without the bit of FUSE_UNIQUE_RESEND. From a clock
 * on: that of a killed server may still be on its way.
 */
static uint64_t new_unique(void)
{
	static _Atomic uint64_t last;
	uint64_t none = 0;
	struct timespec now;

	if (!atomic_load(&last)) {
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		(void)atomic_compare_exchange_strong(
			&last, &none,
			UINT64_C(1) << 62 | (uint64_t)now.tv_sec << 31 |
				(uint64_t)now.tv_nsec << 1);
	}
	return atomic_fetch_add(&last, 2) + 2;
}

static int retrieve_nothing(int fd, uint64_t id)
{
	const struct {
		struct fuse_out_header header;
		struct fuse_notify_retrieve_out body;
	} notice = {
		.header = {.len = sizeof(notice),
			   .error = FUSE_NOTIFY_RETRIEVE},
		.body = {.notify_unique = new_unique(), .nodeid = id},
	};

	return write(fd, &notice, sizeof(notice)) < 0 ? -errno : 0;
}

/* It may be another one by now, which is as good. */
static bool may_be_known(const struct node *node)
{
	return node && S_ISREG(node->type) && atomic_load(&node->lookups);
}

static void *ask_main(void *context)
{
	const struct unionfs *fs = context;
	struct statx stx;

	/* The asking counts. */
	(void)statx(AT_FDCWD, fs->mountpoint,
		    AT_STATX_FORCE_SYNC | AT_NO_AUTOMOUNT, STATX_MODE, &stx);
	return NULL;
}

/* On this CPU: it is its maker's. */
static int ask_by_path(struct unionfs *fs)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, ask_main, fs);
	pthread_attr_destroy(&attr);
	return -r;
}

static int ask_of_a_file(struct unionfs *fs)
{
	int fd = fuse_session_fd(fs->session), r = -ENOENT;
	uint64_t ids = node_ids(&fs->nodes), id, looks = 0;
	unsigned tries = 0;

	/* The latest are the least likely to be forgotten. */
	for (id = ids; id > NODE_ROOT_ID && r == -ENOENT && looks < LOOKS &&
		       tries < TRIES;
	     looks++) {
		id--;
		if (!may_be_known(node_get(&fs->nodes, id)))
			continue;
		r = retrieve_nothing(fd, id);
		tries++;
	}
	return r;
}

int kick(struct unionfs *fs)
{
	int r = ask_of_a_file(fs);

	return r == -ENOENT ? ask_by_path(fs) : r;
}
