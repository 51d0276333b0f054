/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: store_conformance.h, one who watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "volume/op/store_open.h"
#include "volume/testkit/store_conformance.h"

#define PATIENCE_MS 30000
#define SEEN_MAX    64

struct seen {
	char name[RECORD_NAME_SIZE];
	char version[RECORD_VERSION_SIZE]; /* "": removed */
};

struct watching {
	struct store *store;
	int stop_fd;
	pthread_t thread;
	int r;
	pthread_mutex_t lock; /* guards what follows */
	struct seen seen[SEEN_MAX];
	size_t n_seen;
	unsigned cuts, synced;
	const char *wrong; /* what it should not have been told */
};

static struct seen *find(struct watching *w, const char *name)
{
	for (size_t i = 0; i < w->n_seen; i++) {
		if (strcmp(w->seen[i].name, name) == 0)
			return &w->seen[i];
	}
	(void)snprintf(w->seen[w->n_seen].name, RECORD_NAME_SIZE, "%s", name);
	return &w->seen[w->n_seen++];
}

static void set(struct watching *w, const struct store_object *object)
{
	struct seen *seen = find(w, object->name);

	if (strcmp(seen->version, object->version) == 0)
		w->wrong = "a version was told twice";
	if (strlen(object->json) != object->length)
		w->wrong = "an object is not whole";
	memcpy(seen->version, object->version, sizeof(seen->version));
}

static int watcher(void *w_, enum store_change change, const char *name,
		   const struct store_object *object, const char *text)
{
	struct watching *w = w_;

	(void)pthread_mutex_lock(&w->lock);
	switch (change) {
	case STORE_CHANGE_SET: set(w, object); break;
	case STORE_CHANGE_REMOVED:
		if (!find(w, name)->version[0])
			w->wrong = "what was not there was removed";
		find(w, name)->version[0] = '\0';
		break;
	case STORE_CHANGE_SYNCED: w->synced++; break;
	case STORE_CHANGE_CUT:
		if (!text[0])
			w->wrong = "cut, and no reason";
		w->cuts++;
		break;
	}
	(void)pthread_mutex_unlock(&w->lock);
	return 0;
}

static void *run(void *w_)
{
	struct watching *w = w_;

	w->r = w->store->ops->watch(w->store, RECORD_KIND_VOLUME, w->stop_fd,
				    watcher, w, NULL);
	return NULL;
}

struct watching *watching_start(const char *location)
{
	struct watching *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(store_open(location, &w->store, NULL), 0);
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	(void)pthread_mutex_init(&w->lock, NULL);
	assert_int_equal(pthread_create(&w->thread, NULL, run, w), 0);
	return w;
}

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct seen *)a)->name,
		      ((const struct seen *)b)->name);
}

static bool has(struct watching *w, const char *words)
{
	char text[4096] = "";
	size_t used = 0;

	(void)pthread_mutex_lock(&w->lock);
	qsort(w->seen, w->n_seen, sizeof(w->seen[0]), compare);
	for (size_t i = 0; i < w->n_seen; i++) {
		if (w->seen[i].version[0])
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%s=%s",
				used ? " " : "", w->seen[i].name,
				w->seen[i].version);
	}
	(void)pthread_mutex_unlock(&w->lock);
	return strcmp(text, words) == 0;
}

void watching_wait(struct watching *w, const char *words)
{
	for (int ms = 0; !has(w, words); ms += 20) {
		if (ms >= PATIENCE_MS)
			fail_msg("was never told '%s'", words);
		(void)poll(NULL, 0, 20);
	}
}

unsigned watching_cuts(struct watching *w)
{
	unsigned cuts;

	(void)pthread_mutex_lock(&w->lock);
	cuts = w->cuts;
	(void)pthread_mutex_unlock(&w->lock);
	return cuts;
}

void watching_wait_synced(struct watching *w)
{
	unsigned synced = 0;

	for (int ms = 0; synced == 0; ms += 20) {
		assert_true(ms < PATIENCE_MS);
		(void)pthread_mutex_lock(&w->lock);
		synced = w->synced;
		w->synced = 0;
		(void)pthread_mutex_unlock(&w->lock);
		(void)poll(NULL, 0, 20);
	}
}

void watching_stop(struct watching *w)
{
	assert_int_equal(eventfd_write(w->stop_fd, 1), 0);
	assert_int_equal(pthread_join(w->thread, NULL), 0);
	assert_int_equal(w->r, 0);
	if (w->wrong)
		fail_msg("%s", w->wrong);
	(void)close(w->stop_fd);
	(void)pthread_mutex_destroy(&w->lock);
	store_close(w->store);
	free(w);
}
