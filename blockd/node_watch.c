/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "blockd/cut_note.h"
#include "blockd/extent_internal.h"
#include "blockd/node_internal.h"
#include "blockd/pool_at.h"
#include "blockd/pool_raw.h"
#include "blockd/pool_seat.h"

#define UEVENT_GROUP 1    /* the kernel's own */
#define UEVENT_MAX   8192 /* bytes; UEVENT_BUFFER_SIZE is 2048 */

#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 60000

struct node_watch {
	struct node *node;
	int wake;    /* eventfd: a medium failed, or stop */
	int uevents; /* netlink; -1: none */
	atomic_bool stopping;
	pthread_t thread;
	/* Of the thread: when what failed is tried again. */
	int64_t retry_at_ms; /* clock_ms() */
	int64_t delay_ms;    /* from one time to the next */
	bool failing;        /* something does */
};

/* ---- going ---- */

/* Its connections end, and nobody finds it any more. */
static void let_go(struct extent *extent)
{
	const struct extent_users *users = &extent->node->users;
	struct error err;

	pthread_mutex_lock(&extent->op);
	if (!extent->gone) {
		if (users->drop &&
		    users->drop(users->context, extent, &err) < 0)
			log_warning("extent %s: %s", extent->record.name,
				    error_text(&err));
		node_release(extent->node, extent->pool, extent->bytes);
		extent_take_out(extent);
	}
	pthread_mutex_unlock(&extent->op);
}

/* node.pools is held. */
static void lose(struct node *node, struct node_pool *entry,
		 const struct error *why)
{
	struct extent **list = NULL;
	size_t n = 0;

	entry->lost = true;
	log_write(LOG_LEVEL_ERROR, "pool %s at %s: missing: %s",
		  entry->known.name, entry->known.path, error_text(why));
	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	entry->state = NODE_POOL_MISSING;
	(void)snprintf(entry->message, sizeof(entry->message), "%s",
		       error_text(why));
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	/* Without memory they stay, and say -ENODEV for all that is asked. */
	if (node_list_extents(node, entry->known.name, &list, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			let_go(list[i]);
	node_put_list(list, n);
	pool_seat_clear(entry->pool);
}

/* ---- coming back ---- */

static bool may_be_back(const struct node_pool *entry)
{
	const char *kind;

	/* While it comes it may look damaged, or be somebody's. */
	return (entry->lost || entry->state == NODE_POOL_FOREIGN) &&
	       !entry->known.deleting &&
	       pool_at_kind(entry->known.path, &kind, NULL) == 0 &&
	       strcmp(kind, POOL_RAW_KIND) == 0;
}

/* node.pools is held. */
static void try_again(struct node *node, struct node_pool *entry)
{
	const struct extent_users *users = &node->users;
	enum node_pool_state before = entry->state;
	struct error err;
	int r = node_pool_open(node, entry, &err);

	if (r == 0 && users->back)
		users->back(users->context, entry->known.name);
	if (r == 0)
		cut_notes_settle(node);
	else if (entry->state != before)
		log_write(LOG_LEVEL_ERROR, "%s; it is not served",
			  error_text(&err));
}

static void look_at(struct node *node, struct node_pool *entry)
{
	struct pool *pool = node_pool_online(entry) ? entry->pool : NULL;
	struct error why;

	if (pool && pool->ops->lost && pool->ops->lost(pool, &why) == -ENODEV)
		lose(node, entry, &why);
	else if (!pool && may_be_back(entry))
		try_again(node, entry);
}

/* node.pools is held. */
static void look_at_all(struct node *node)
{
	struct node_pool *entry;

	TAILQ_FOREACH (entry, &node->list, in_node)
		look_at(node, entry);
}

void node_look_again(struct node *node)
{
	if (pthread_mutex_trylock(&node->pools) != 0)
		return;
	look_at_all(node);
	pthread_mutex_unlock(&node->pools);
}

/* ---- trying again ---- */

/* Its metadata could not be written, or read. 1: it is closed, and may be
 * opened. */
static int retry_online(struct node *node, struct node_pool *entry)
{
	struct pool *pool = entry->pool;
	struct error err = {0};
	int r = pool->ops->retry ? pool->ops->retry(pool, &err) : 0;

	if (r != 1)
		return r;
	(void)error_set(&err, EIO,
			"its metadata could not be read or written for "
			"a while; it is opened again");
	lose(node, entry, &err);
	return 1;
}

/* True: it has to be tried again later. */
static bool retry(struct node *node, struct node_pool *entry)
{
	int r = node_pool_online(entry) ? retry_online(node, entry) : 1;

	if (r < 1)
		return r < 0;
	if (!may_be_back(entry))
		return false;
	try_again(node, entry);
	/* One that is not there is looked for when the kernel says so. */
	return entry->lost && entry->state == NODE_POOL_DAMAGED;
}

/* node.pools is held. */
static bool retry_all(struct node *node)
{
	struct node_pool *entry;
	bool later = false;

	TAILQ_FOREACH (entry, &node->list, in_node)
		later = retry(node, entry) || later;
	return later;
}

/* When it is time. What fails again soon is given more time. */
static void retry_if_due(struct node_watch *watch)
{
	int64_t now = clock_ms();

	if (now < watch->retry_at_ms)
		return;
	if (now > watch->retry_at_ms + 2 * RETRY_MAX_MS)
		watch->delay_ms = RETRY_MIN_MS;
	watch->retry_at_ms = now + watch->delay_ms;
	watch->failing = retry_all(watch->node);
	watch->delay_ms *= 2;
	if (watch->delay_ms > RETRY_MAX_MS)
		watch->delay_ms = RETRY_MAX_MS;
}

static int retry_in_ms(const struct node_watch *watch)
{
	int64_t left = watch->retry_at_ms - clock_ms();

	if (!watch->failing)
		return -1;
	return left > 0 ? (int)left : 0;
}

/* ---- the thread ---- */

void node_medium_failed(void *context)
{
	const struct node *node = context;

	if (node->watch)
		(void)eventfd_write(node->watch->wake, 1);
}

/* "add@/devices/...\0ACTION=add\0SUBSYSTEM=block\0..." */
static bool is_block(const char *message, size_t length)
{
	static const char wanted[] = "SUBSYSTEM=block";

	return memmem(message, length, wanted, sizeof(wanted)) != NULL;
}

/* All that has come: whether any is about a block device. */
static bool read_uevents(struct node_watch *watch)
{
	char message[UEVENT_MAX];
	bool block = false;

	for (;;) {
		ssize_t n = recv(watch->uevents, message, sizeof(message),
				 MSG_DONTWAIT);

		if (n < 0 && errno == ENOBUFS) {
			block = true; /* some were lost: who knows */
			continue;
		}
		if (n <= 0)
			return block;
		block = block || is_block(message, (size_t)n);
	}
}

static void *watch_run(void *context)
{
	struct node_watch *watch = context;
	struct pollfd fds[] = {
		{.fd = watch->wake, .events = POLLIN},
		{.fd = watch->uevents, .events = POLLIN},
	};

	while (!watch->stopping) {
		eventfd_t count;
		bool look = false;

		if (poll(fds, array_size(fds), retry_in_ms(watch)) < 0)
			continue; /* a signal */
		if (fds[0].revents)
			look = eventfd_read(watch->wake, &count) == 0;
		if (fds[1].revents)
			look = read_uevents(watch) || look;
		watch->failing = watch->failing || look;
		if (!watch->failing || watch->stopping)
			continue;
		pthread_mutex_lock(&watch->node->pools);
		if (look)
			look_at_all(watch->node);
		retry_if_due(watch);
		pthread_mutex_unlock(&watch->node->pools);
	}
	return NULL;
}

static int open_uevents(void)
{
	const struct sockaddr_nl address = {
		.nl_family = AF_NETLINK,
		.nl_groups = UEVENT_GROUP,
	};
	auto_close int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				   NETLINK_KOBJECT_UEVENT);

	if (fd < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0)
		return -1;
	return take_fd(&fd);
}

void node_watch_free(struct node_watch *watch)
{
	if (!watch)
		return;
	fd_close(watch->wake);
	fd_close(watch->uevents);
	free(watch);
}

int node_watch_start(struct node *node, struct error *err)
{
	struct node_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return error_set(err, ENOMEM, "out of memory");
	watch->node = node;
	watch->failing = true; /* maybe since it was opened */
	watch->uevents = open_uevents();
	watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = watch->wake < 0
		    ? errno
		    : pthread_create(&watch->thread, NULL, watch_run, watch);
	if (r) {
		node_watch_free(watch);
		return error_set(err, r, "watch media: %s", strerror(r));
	}
	node->watch = watch;
	return 0;
}

void node_watch_stop(struct node *node)
{
	struct node_watch *watch = node ? node->watch : NULL;

	if (!watch)
		return;
	watch->stopping = true;
	(void)eventfd_write(watch->wake, 1);
	(void)pthread_join(watch->thread, NULL);
}
