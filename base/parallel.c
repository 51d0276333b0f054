/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS_MAX 64

struct work {
	void (*each)(void *context, size_t index);
	void *context;
	size_t count;
	atomic_size_t next;
};

static void *take_items(void *work_)
{
	struct work *work = work_;
	size_t i;

	while ((i = atomic_fetch_add(&work->next, 1)) < work->count)
		work->each(work->context, i);
	return NULL;
}

void parallel_run(size_t count, unsigned threads,
		  void (*each)(void *context, size_t index), void *context)
{
	struct work work = {.each = each, .context = context, .count = count};
	pthread_t ids[THREADS_MAX];
	unsigned n = 0;

	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	if (threads > count)
		threads = (unsigned)count;
	/* With fewer threads than wished it takes longer, that is all. */
	while (n + 1 < threads &&
	       pthread_create(&ids[n], NULL, take_items, &work) == 0)
		n++;
	(void)take_items(&work);
	while (n > 0)
		(void)pthread_join(ids[--n], NULL);
}
