/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/copy_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/extent/extent_internal.h"

struct copy_job {
	struct node *node;
	struct pool *pool;
	size_t n;
	struct extent **from, **made;  /* owned, with references */
	struct pool_copy *copies;      /* owned */
	struct extent_record *records; /* owned; what they own is borrowed */
	atomic_bool stop;
	atomic_uint_least64_t done, total; /* bytes */
	LIST_ENTRY(copy_job) in_node;      /* guarded by node.tables */
};

static void copy_job_free(struct copy_job *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->n; i++) {
		extent_unref(c->from[i]);
		extent_unref(c->made[i]);
	}
	free(c->from);
	free(c->made);
	free(c->copies);
	free(c->records);
	free(c);
}

static struct copy_job *copy_job_new(struct extent *const *from,
				     struct extent *const *made, size_t n)
{
	struct copy_job *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->from = calloc(n, sizeof(struct extent *));
	c->made = calloc(n, sizeof(struct extent *));
	c->copies = calloc(n, sizeof(*c->copies));
	c->records = calloc(n, sizeof(*c->records));
	if (!c->from || !c->made || !c->copies || !c->records) {
		copy_job_free(c);
		return NULL;
	}
	c->n = n;
	c->node = made[0]->node;
	c->pool = made[0]->pool->pool;
	for (size_t i = 0; i < n; i++) {
		c->from[i] = extent_ref(from[i]);
		c->made[i] = extent_ref(made[i]);
		c->records[i] = made[i]->record;
		c->records[i].state = EXTENT_OK;
		c->copies[i] = (struct pool_copy){
			.from = from[i]->record.name,
			.record = &c->records[i],
		};
	}
	return c;
}

/* ---- byte by byte ---- */

static int progress(void *context, uint64_t done, uint64_t total)
{
	struct copy_job *c = context;

	atomic_store(&c->done, done);
	atomic_store(&c->total, total);
	return atomic_load(&c->stop) ? -ECANCELED : 0;
}

/*
 * Give the state EXTENT_OK to an extent that was made; take it out if @r is an
 * error.
 */
static void copy_job_settle(struct extent *extent, int r)
{
	pthread_mutex_lock(&extent->op);
	if (r == 0) {
		extent_set_state(extent, EXTENT_OK);
	} else {
		node_release(extent->node, extent->pool, extent->bytes);
		extent_take_out(extent);
	}
	pthread_mutex_unlock(&extent->op);
}

static void copy_job_log(const struct copy_job *c, int r,
			 const struct error *err)
{
	for (size_t i = 0; i < c->n; i++)
		if (r == 0)
			log_info("extent %s: copied from %s",
				 c->made[i]->record.name,
				 c->from[i]->record.name);
		else
			log_warning("extent %s: the copy of %s was given up, "
				    "it is not there any more: %s",
				    c->made[i]->record.name,
				    c->from[i]->record.name, error_text(err));
}

static void *copy_job_run_bytes(void *context)
{
	struct copy_job *c = context;
	struct node *node = c->node;
	struct error err = {0};
	int r = c->pool->ops->copy(c->pool, c->copies, c->n, progress, c, &err);

	copy_job_log(c, r, &err);
	for (size_t i = 0; i < c->n; i++) {
		copy_job_settle(c->made[i], r);
		atomic_fetch_sub(&c->from[i]->copied_from, 1);
	}
	/* Of a cut of several pools it may have been the last part. */
	if (c->made[0]->record.origin.cut[0])
		(void)cut_intent_settle(node, c->made[0]->record.origin.cut,
					NULL);
	/* The node may go once this is out of its list. */
	pthread_mutex_lock(&node->tables);
	for (size_t i = 0; i < c->n; i++)
		c->made[i]->copying = NULL;
	LIST_REMOVE(c, in_node);
	copy_job_free(c);
	pthread_cond_broadcast(&node->copied);
	pthread_mutex_unlock(&node->tables);
	return NULL;
}

static void copy_job_enlist(struct copy_job *c)
{
	pthread_mutex_lock(&c->node->tables);
	LIST_INSERT_HEAD(&c->node->copying, c, in_node);
	for (size_t i = 0; i < c->n; i++) {
		atomic_fetch_add(&c->from[i]->copied_from, 1);
		c->made[i]->record.state = EXTENT_COPYING;
		c->made[i]->copying = c;
	}
	pthread_mutex_unlock(&c->node->tables);
}

static void unlist(struct copy_job *c)
{
	pthread_mutex_lock(&c->node->tables);
	LIST_REMOVE(c, in_node);
	for (size_t i = 0; i < c->n; i++) {
		atomic_fetch_sub(&c->from[i]->copied_from, 1);
		c->made[i]->record.state = EXTENT_CREATING;
		c->made[i]->copying = NULL;
	}
	pthread_mutex_unlock(&c->node->tables);
}

/* Takes @c. */
static int copy_job_start(struct copy_job *c, struct error *err)
{
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	copy_job_enlist(c);
	(void)pthread_attr_init(&attributes); /* can't fail on Linux */
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, copy_job_run_bytes, c);
	(void)pthread_attr_destroy(&attributes);
	if (r == 0)
		return 0;
	unlist(c);
	copy_job_free(c);
	return error_set(err, r, "start a thread to copy: %s", strerror(r));
}

int copy_job_run(struct extent *const *from, struct extent *const *made,
		 size_t n, enum pool_copy_method method, struct error *err)
{
	struct copy_job *c = copy_job_new(from, made, n);
	int r;

	if (!c)
		return error_set(err, ENOMEM, "out of memory");
	if (method == POOL_COPY_BYTES)
		return copy_job_start(c, err);
	r = c->pool->ops->copy(c->pool, c->copies, n, NULL, NULL, err);
	copy_job_free(c);
	return r;
}

/* ---- for others ---- */

/* @size times @part / @whole, without an overflow. */
static uint64_t share(uint64_t size, uint64_t part, uint64_t whole)
{
	if (whole == 0 || part >= whole)
		return whole ? size : 0;
	return (uint64_t)((__uint128_t)size * part / whole);
}

uint64_t copy_job_done_bytes(struct extent *extent)
{
	struct copy_job *c;
	uint64_t bytes = 0;

	pthread_mutex_lock(&extent->node->tables);
	c = extent->copying;
	if (c)
		bytes = share(extent->record.size, atomic_load(&c->done),
			      atomic_load(&c->total));
	pthread_mutex_unlock(&extent->node->tables);
	return bytes;
}

void copy_job_stop(struct extent *extent)
{
	struct node *node = extent->node;

	pthread_mutex_lock(&node->tables);
	if (extent->copying)
		atomic_store(&extent->copying->stop, true);
	while (extent->copying)
		pthread_cond_wait(&node->copied, &node->tables);
	pthread_mutex_unlock(&node->tables);
}

void copy_job_stop_all(struct node *node)
{
	struct copy_job *c;

	pthread_mutex_lock(&node->tables);
	LIST_FOREACH (c, &node->copying, in_node)
		atomic_store(&c->stop, true);
	while (!LIST_EMPTY(&node->copying))
		pthread_cond_wait(&node->copied, &node->tables);
	pthread_mutex_unlock(&node->tables);
}
