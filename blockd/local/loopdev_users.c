/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/local/loopdev_users.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define SYS_BLOCK "/sys/block"
#define LEFT_MAX  256 /* with so many that do not end no more are asked */

/* A loop device that is bound, or was. */
struct device {
	LIST_ENTRY(device) entry;
	char name[LOCAL_NAME_MAX];
	uint64_t binding; /* its diskseq; 0: the kernel has none */
	struct local_answer answer;
	struct local_ask ask;
	bool asking;
	bool silent; /* asked for longer than we wait */
	bool seen;   /* bound, by the scan that is under way */
};

static LIST_HEAD(, device) devices = LIST_HEAD_INITIALIZER(devices);
/* Askers that nobody hears any more and that have not ended, or not yet. */
static struct local_ask left[LEFT_MAX];
static unsigned n_left;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards these */

/* ---- what sysfs says; never waits ---- */

/* Bound devices have a directory of attributes. */
static bool is_bound(const char *name)
{
	char path[sizeof(SYS_BLOCK) + NAME_MAX + sizeof("//loop")];

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%s/loop", name);
	return access(path, F_OK) == 0;
}

/* Another number each time it is bound (since Linux 5.15); 0: not known. */
static uint64_t binding_of(const char *name)
{
	char path[sizeof(SYS_BLOCK) + NAME_MAX + sizeof("//diskseq")];
	uint64_t number = 0;

	(void)snprintf(path, sizeof(path), SYS_BLOCK "/%s/diskseq", name);
	auto_fclose FILE *file = fopen(path, "re");
	if (file && fscanf(file, "%" SCNu64, &number) != 1)
		number = 0;
	return number;
}

/* ---- asking ---- */

static void helpers_reap(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_left; i++) {
		if (!local_ask_ended(&left[i]))
			left[n++] = left[i];
	}
	n_left = n;
}

/* Its answer is here, or not wanted. device_ask() keeps room for it. */
static void device_ask_end(struct device *d)
{
	local_ask_stop(&d->ask);
	left[n_left++] = d->ask;
	d->asking = false;
	d->silent = false;
}

static void answered(struct device *d, const struct local_answer *answer)
{
	uint64_t binding = binding_of(d->name);

	if (d->silent)
		log_info("/dev/%s answers again", d->name);
	device_ask_end(d);
	d->answer = *answer;
	/* Bound anew meanwhile: of which one it spoke can't be told. */
	if (binding != d->binding)
		d->answer = (struct local_answer){.error = ESTALE};
}

static void fell_silent(struct device *d)
{
	if (!d->silent)
		log_warning(
			"/dev/%s does not answer which file it holds (see " SYS_BLOCK
			"/%s/loop/backing_file): its server may "
			"be silent; the extents of this node are checked "
			"one by one meanwhile",
			d->name, d->name);
	d->silent = true;
}

static unsigned asking(void)
{
	const struct device *d;
	unsigned n = 0;

	LIST_FOREACH (d, &devices, entry)
		n += d->asking;
	return n;
}

static void device_ask(struct device *d, uint64_t binding)
{
	struct error err = {0};

	d->binding = binding;
	d->answer = (struct local_answer){.error = EAGAIN};
	if (n_left + asking() >= LEFT_MAX)
		return;
	if (local_ask_start(d->name, &d->ask, &err) < 0) {
		d->answer.error = err.code;
		log_write(LOG_LEVEL_ERROR,
			  "ask /dev/%s which file it holds: %s", d->name,
			  error_text(&err));
		return;
	}
	d->asking = true;
}

/*
 * Ask a bound device which file it users, unless that is known, or asked
 * already.
 */
static void device_look(struct device *d)
{
	uint64_t binding = binding_of(d->name);
	bool same = binding && binding == d->binding;

	d->seen = true;
	if (d->asking && binding != d->binding)
		device_ask_end(d);
	if (!d->asking && (!same || d->answer.error))
		device_ask(d, binding);
}

static struct device *device_of(const char *name)
{
	struct device *d;

	LIST_FOREACH (d, &devices, entry) {
		if (strcmp(d->name, name) == 0)
			return d;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	(void)snprintf(d->name, sizeof(d->name), "%.*s", LOCAL_NAME_MAX - 1,
		       name);
	d->ask.fd = -1;
	d->answer.error = EAGAIN;
	LIST_INSERT_HEAD(&devices, d, entry);
	return d;
}

static int devices_look(struct error *err)
{
	DIR *dir = opendir(SYS_BLOCK);
	const struct dirent *entry;
	struct device *d = NULL;
	int r = 0;

	if (!dir)
		return error_set(err, errno, "read '%s': %s", SYS_BLOCK,
				 strerror(errno));
	LIST_FOREACH (d, &devices, entry)
		d->seen = false;
	while (r == 0 && (entry = readdir(dir))) {
		if (strncmp(entry->d_name, "loop", 4) != 0 ||
		    !is_bound(entry->d_name))
			continue;
		d = device_of(entry->d_name);
		if (d)
			device_look(d);
		else
			r = error_set(err, ENOMEM, "out of memory");
	}
	(void)closedir(dir); /* was only read */
	return r;
}

/* New ones are waited for, those that were silent before are not. */
static void hear_all(void)
{
	int64_t now = clock_ms(), end_ms = now + LOOPDEV_USER_WAIT_MS;
	struct local_answer answer;
	struct device *d;

	LIST_FOREACH (d, &devices, entry) {
		if (!d->asking)
			continue;
		if (local_ask_take(&d->ask, d->silent ? now : end_ms,
				   &answer) == 0)
			answered(d, &answer);
		else
			fell_silent(d);
	}
}

/* Forget the devices that are not bound any more. */
static void forget_gone(void)
{
	struct device *d = LIST_FIRST(&devices), *next;

	for (; d; d = next) {
		next = LIST_NEXT(d, entry);
		if (d->seen)
			continue;
		if (d->asking)
			device_ask_end(d);
		LIST_REMOVE(d, entry);
		free(d);
	}
}

/* ---- the list ---- */

static int loopdev_users_fill(struct loopdev_users *users, struct error *err)
{
	const struct device *d;
	size_t n = 0;

	LIST_FOREACH (d, &devices, entry)
		n++;
	users->items = calloc(n + 1, sizeof(*users->items));
	if (!users->items)
		return error_set(err, ENOMEM, "out of memory");
	LIST_FOREACH (d, &devices, entry) {
		struct loopdev_user *user = &users->items[users->count];

		if (!d->seen || !(d->answer.error || d->answer.bound))
			continue;
		memcpy(user->name, d->name, sizeof(user->name));
		user->silent = d->answer.error;
		user->device = d->answer.device;
		user->inode = d->answer.inode;
		user->read_only = d->answer.read_only;
		users->count++;
	}
	return 0;
}

int loopdev_users_scan(struct loopdev_users *ret, struct error *err)
{
	struct loopdev_users users = {0};
	int r;

	(void)pthread_mutex_lock(&lock);
	helpers_reap();
	r = devices_look(err);
	if (r == 0) {
		hear_all();
		r = loopdev_users_fill(&users, err);
		forget_gone();
		helpers_reap();
	}
	(void)pthread_mutex_unlock(&lock);
	if (r == 0)
		*ret = users;
	return r;
}

void loopdev_users_done(struct loopdev_users *users)
{
	free(users->items);
	*users = (struct loopdev_users){0};
}

const char *loopdev_users_find(const struct loopdev_users *users,
			       uint64_t device, uint64_t inode, bool writers)
{
	for (size_t i = 0; i < users->count; i++) {
		const struct loopdev_user *user = &users->items[i];

		if (!user->silent && user->device == device &&
		    user->inode == inode && !(writers && user->read_only))
			return user->name;
	}
	return NULL;
}

int loopdev_user_lease(int fd, int type)
{
	if (fcntl(fd, F_SETLEASE, type) < 0)
		return -errno;
	/* A process that opened the file meanwhile waits for this. */
	(void)fcntl(fd, F_SETLEASE, F_UNLCK); /* it is there */
	return 0;
}

/*
 * Nobody has the file open but @fd: only then the kernel gives a lease. A
 * device that holds a file has it open. Where the file system has no leases
 * nobody can tell.
 */
static bool is_open_here_only(int fd, bool writers)
{
	return loopdev_user_lease(fd, writers ? F_RDLCK : F_WRLCK) == 0;
}

int loopdev_users_check(const struct loopdev_users *users, int fd, bool writers,
			const char **ret_holder)
{
	const struct loopdev_user *silent = NULL;
	const char *holder;
	struct stat st;

	*ret_holder = "?";
	if (fstat(fd, &st) < 0)
		return -EAGAIN;
	holder = loopdev_users_find(users, st.st_dev, st.st_ino, writers);
	if (holder) {
		*ret_holder = holder;
		return -EBUSY;
	}
	for (size_t i = 0; i < users->count && !silent; i++)
		silent = users->items[i].silent ? &users->items[i] : NULL;
	if (!silent || is_open_here_only(fd, writers))
		return 0;
	*ret_holder = silent->name;
	return -EAGAIN;
}

int loopdev_users_refuse(int found, const char *extent, const char *holder,
			 const char *what, struct error *err)
{
	if (found == -EBUSY)
		return error_set(err, EBUSY,
				 "extent '%s' is held by /dev/%s on this node: "
				 "detach it there before %s",
				 extent, holder, what);
	return error_set(err, EBUSY,
			 "extent '%s' is open on this node, and /dev/%s does "
			 "not say which file it holds: detach that, or bring "
			 "back the server of its file, before %s",
			 extent, holder, what);
}
