/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/low_space.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/extent/extent.h"

struct low_space {
	struct node *node;
	struct target *target;
	unsigned percent;
	int stop; /* eventfd */
	pthread_t thread;
};

static void low_space_post(void *context, const char *pool)
{
	struct low_space *low = context;
	struct extent **list;
	size_t n;

	log_warning("pool %s: less than %u %% of it is left", pool,
		    low->percent);
	if (node_list_extents(low->node, pool, &list, &n, NULL) < 0)
		return; /* no memory, or it is gone: it is logged */
	for (size_t i = 0; i < n; i++)
		target_export_low_space(low->target, list[i]->record.name);
	node_put_list(list, n);
}

static void *low_space_run(void *context)
{
	struct low_space *low = context;
	struct pollfd fd = {.fd = low->stop, .events = POLLIN};

	do
		node_note_low_space(low->node, low->percent, low_space_post,
				    low);
	while (poll(&fd, 1, LOW_SPACE_LOOK_MS) <= 0);
	return NULL;
}

int low_space_start(struct node *node, struct target *target, unsigned percent,
		    struct low_space **ret, struct error *err)
{
	struct low_space *low = calloc(1, sizeof(*low));
	int r;

	if (!low)
		return error_set(err, ENOMEM, "out of memory");
	low->node = node;
	low->target = target;
	low->percent = percent;
	low->stop = eventfd(0, EFD_CLOEXEC);
	r = low->stop < 0
		    ? errno
		    : pthread_create(&low->thread, NULL, low_space_run, low);
	if (r != 0) {
		fd_close(low->stop);
		free(low);
		return error_set(err, r, "start a thread: %s", strerror(r));
	}
	*ret = low;
	return 0;
}

void low_space_stop(struct low_space *low)
{
	if (!low)
		return;
	(void)eventfd_write(low->stop, 1); /* a fresh one has room */
	pthread_join(low->thread, NULL);
	fd_close(low->stop);
	free(low);
}
