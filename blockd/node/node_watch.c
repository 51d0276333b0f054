/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/node_watch.h"

#include <errno.h>
#include <fcntl.h>
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
#include "blockd/copy/cut_intent.h"
#include "blockd/extent/extent_internal.h"
#include "blockd/node/node_health.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/pool_proxy.h"

#define UEVENT_GROUP 1    /* the kernel's own */
#define UEVENT_MAX   8192 /* bytes; UEVENT_BUFFER_SIZE is 2048 */

struct node_watch {
	struct node *node;
	int wake;    /* eventfd: a medium failed, or stop */
	int uevents; /* netlink; -1: none */
	int mounts;  /* the table of mounts, which tells of changes */
	atomic_bool stopping;
	pthread_t thread;
	bool runs; /* the thread; of who starts and stops */
};

/* ---- going ---- */

/* Its connections end, and nobody finds it any more. */
static void extent_let_go(struct extent *extent)
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

/* Not open any more: its extents go with it. */
static void close_it(struct node *node, struct node_pool *entry)
{
	struct extent **list = NULL;
	size_t n = 0;

	/* Without memory they stay, and say -ENODEV for all that is asked. */
	if (node_list_extents(node, entry->known.name, &list, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			extent_let_go(list[i]);
	node_put_list(list, n);
	pool_proxy_clear(entry->pool);
}

/* node.pools is held. No try is under way, here and below. */
static void lose(struct node *node, struct node_pool *entry,
		 enum node_pool_state state, const struct error *why)
{
	entry->lost = true;
	pthread_mutex_lock(&node->space);
	pthread_mutex_lock(&node->tables);
	entry->state = state;
	entry->served = false;
	(void)snprintf(entry->message, sizeof(entry->message), "%s",
		       error_text(why));
	pthread_mutex_unlock(&node->tables);
	pthread_mutex_unlock(&node->space);
	close_it(node, entry);
}

/* ---- coming back ---- */

static bool may_be_back(const struct node_pool *entry)
{
	/* While it comes it may look damaged, or be somebody's. */
	return !entry->served && !entry->known.deleting &&
	       (entry->lost || entry->state == NODE_POOL_FOREIGN);
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
		cut_intents_settle(node);
	else if (entry->state != before)
		log_write(LOG_LEVEL_ERROR, "%s; it is not served",
			  error_text(&err));
}

/* ---- looking ---- */

static void gone(struct node *node, struct node_pool *entry,
		 const struct error *why)
{
	log_write(LOG_LEVEL_ERROR, "pool %s at %s: missing: %s",
		  entry->known.name, entry->known.path, error_text(why));
	lose(node, entry, NODE_POOL_MISSING, why);
}

/*
 * Open a pool anew that works again. Writes that failed may have been
 * acknowledged, though not as durable, so their clients have to be told.
 */
static void open_anew(struct node *node, struct node_pool *entry,
		      const struct error *why)
{
	log_warning("pool %s at %s: it works again and is opened anew: %s",
		    entry->known.name, entry->known.path, error_text(why));
	lose(node, entry, NODE_POOL_FAILING, why);
	try_again(node, entry);
}

/* Act on the result of a try. */
static void look_at_try(struct node *node, struct node_pool *entry, int wait_ms)
{
	struct error why = {0};

	switch (node_health_look(entry, wait_ms, &why)) {
	case NODE_HEALTH_AS_IT_WAS: break;
	case NODE_HEALTH_GONE: gone(node, entry, &why); break;
	case NODE_HEALTH_ANEW: open_anew(node, entry, &why); break;
	}
}

/* The kernel said something, or somebody asks. */
static void node_pool_look(struct node *node, struct node_pool *entry)
{
	const struct pool_ops *ops = entry->served ? entry->pool->ops : NULL;
	struct error why;

	if (may_be_back(entry))
		try_again(node, entry);
	else if (ops && !entry->health.trial && ops->lost &&
		 ops->lost(entry->pool, &why) == -ENODEV)
		gone(node, entry, &why);
}

void node_look_again(struct node *node)
{
	const int64_t now_ms = clock_ms();
	struct node_pool *entry;

	if (pthread_mutex_trylock(&node->pools) != 0)
		return;
	TAILQ_FOREACH (entry, &node->list, in_node) {
		node_pool_look(node, entry);
		if (entry->served)
			node_health_begin(entry, now_ms, true);
	}
	TAILQ_FOREACH (entry, &node->list, in_node) {
		/* A pool that is silent already is waited for by others. */
		int wait_ms = atomic_load(&entry->health.silent)
				      ? 0
				      : NODE_HEALTH_ANSWER_MS;

		if (entry->served)
			look_at_try(node, entry, wait_ms);
	}
	pthread_mutex_unlock(&node->pools);
}

/* Look at a pool that is not well, when its time has come. */
static void look_by_clock(struct node *node, struct node_pool *entry)
{
	const int64_t now_ms = clock_ms();

	if (entry->served) {
		look_at_try(node, entry, 0);
	} else if (node_pool_retries(entry) && may_be_back(entry) &&
		   node_health_due(entry, now_ms)) {
		try_again(node, entry);
	}
	if (entry->served)
		node_health_begin(entry, now_ms, false);
}

/* When a pool has to be looked at if nothing happens; INT64_MAX: never. */
static int64_t next_ms(const struct node_pool *entry)
{
	if (entry->served)
		return node_health_next_ms(entry);
	return node_pool_retries(entry) && may_be_back(entry)
		       ? entry->health.again_ms
		       : INT64_MAX;
}

/* ---- the thread ---- */

void node_watch_wake(const struct node *node)
{
	const struct node_watch *watch = atomic_load(&node->watch);

	if (watch)
		(void)eventfd_write(watch->wake, 1);
}

void node_medium_failed(void *pool_)
{
	struct node_pool *pool = pool_;

	if (!atomic_exchange(&pool->health.suspect, true))
		node_watch_wake(pool->node);
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
			block = true; /* some were lost: maybe of one */
			continue;
		}
		if (n <= 0)
			return block;
		block = block || is_block(message, (size_t)n);
	}
}

/*
 * Go round the pools. @looks: the kernel has said something, so look at all of
 * them first. Returns when the next one is due, in milliseconds, -1: never.
 */
static int round_of(struct node *node, bool looks)
{
	int64_t next = INT64_MAX, left;
	struct node_pool *entry;

	pthread_mutex_lock(&node->pools);
	TAILQ_FOREACH (entry, &node->list, in_node) {
		if (looks)
			node_pool_look(node, entry);
		look_by_clock(node, entry);
		if (next_ms(entry) < next)
			next = next_ms(entry);
	}
	pthread_mutex_unlock(&node->pools);
	if (next == INT64_MAX)
		return -1;
	left = next - clock_ms();
	return left > 0 ? (int)left : 0;
}

static void *watch_run(void *context)
{
	struct node_watch *watch = context;
	struct pollfd fds[] = {
		{.fd = watch->wake, .events = POLLIN},
		{.fd = watch->uevents, .events = POLLIN},
		{.fd = watch->mounts, .events = POLLPRI},
	};
	int wait_ms = round_of(watch->node, false);

	while (!watch->stopping) {
		eventfd_t count;
		bool looks;

		if (poll(fds, array_size(fds), wait_ms) < 0)
			continue; /* a signal */
		if (fds[0].revents)
			(void)eventfd_read(watch->wake, &count);
		looks = fds[2].revents & POLLPRI;
		if (fds[1].revents)
			looks = read_uevents(watch) || looks;
		if (!watch->stopping)
			wait_ms = round_of(watch->node, looks);
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
	fd_close(watch->mounts);
	free(watch);
}

int node_watch_start(struct node *node, struct error *err)
{
	struct node_watch *watch = calloc(1, sizeof(*watch));
	int r;

	if (!watch)
		return error_set(err, ENOMEM, "out of memory");
	watch->node = node;
	watch->uevents = open_uevents();
	watch->mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	watch->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (watch->wake < 0) {
		r = errno;
		node_watch_free(watch);
		return error_set(err, r, "watch media: %s", strerror(r));
	}
	/* First: a thread that ends at once is heard of, too. */
	atomic_store(&node->watch, watch);
	r = pthread_create(&watch->thread, NULL, watch_run, watch);
	watch->runs = r == 0;
	return r ? error_set(err, r, "watch media: %s", strerror(r)) : 0;
}

void node_watch_stop(struct node *node)
{
	struct node_watch *watch = node ? atomic_load(&node->watch) : NULL;

	if (!watch || !watch->runs)
		return;
	watch->stopping = true;
	(void)eventfd_write(watch->wake, 1);
	(void)pthread_join(watch->thread, NULL);
}
