/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "blockd/copy/copy_job.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/copy/pull_job.h"
#include "blockd/copy/quiesce.h"
#include "blockd/node/node_internal.h"
#include "blockd/node/node_watch.h"
#include "blockd/pool/lock_file.h"

/* ---- life ---- */

static int open_state(struct node *node, const char *state_dir,
		      struct error *err)
{
	char pools[PATH_MAX], what[PATH_MAX + 32];
	auto_close int fd = -1;
	int r;

	if ((size_t)snprintf(pools, sizeof(pools), "%s/pools", state_dir) >=
	    sizeof(pools))
		return error_set(err, ENAMETOOLONG, "'%.256s...' is too long",
				 state_dir);
	r = dir_make(pools, 0700, err);
	if (r < 0)
		return r;
	fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	node->state_fd = open(pools, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || node->state_fd < 0)
		return error_set(err, errno, "open '%s': %s", pools,
				 strerror(errno));
	(void)snprintf(what, sizeof(what), "state directory '%s'", state_dir);
	return lock_file_take(fd, "lock", what, &node->lock_fd, err);
}

int node_new(const struct node_options *options, struct node **ret,
	     struct error *err)
{
	struct node *node = calloc(1, sizeof(*node));
	int r;

	if (!node)
		return error_set(err, ENOMEM, "out of memory");
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&node->pools, NULL);
	(void)pthread_mutex_init(&node->space, NULL);
	(void)pthread_mutex_init(&node->tables, NULL);
	(void)pthread_cond_init(&node->copied, NULL);
	LIST_INIT(&node->copying);
	LIST_INIT(&node->pulling);
	node->state_fd = node->lock_fd = -1;
	node->floor = options->floor;
	node->look_again = node_look_again;
	TAILQ_INIT(&node->list);
	r = open_state(node, options->state_dir, err);
	if (r == 0)
		r = quiesces_new(options->state_dir, &node->quiesces, err);
	if (r == 0)
		r = cut_intents_new(options->state_dir, &node->cut_intents,
				    err);
	if (r < 0) {
		node_free(node);
		return r;
	}
	*ret = node;
	return 0;
}

void node_free(struct node *node)
{
	struct node_pool *entry;
	struct extent *extent;
	bool all = true;

	if (!node)
		return;
	quiesces_free(node->quiesces);
	copy_job_stop_all(node);
	pull_job_stop_all(node);
	for (size_t i = 0; i < NODE_BUCKETS; i++)
		while ((extent = LIST_FIRST(&node->buckets[i])))
			node_remove_extent(node, extent);
	while ((entry = TAILQ_FIRST(&node->list)))
		all = node_pool_drop(node, entry) && all;
	if (!all)
		return; /* a thread hangs in it until the process ends */
	node_watch_free(node->watch);
	cut_intents_free(node->cut_intents);
	fd_close(node->state_fd);
	fd_close(node->lock_fd);
	(void)pthread_mutex_destroy(&node->pools);
	(void)pthread_mutex_destroy(&node->space);
	(void)pthread_cond_destroy(&node->copied);
	(void)pthread_mutex_destroy(&node->tables);
	free(node);
}
