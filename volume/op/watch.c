/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"
#include "volume/op/context.h"

#define TOGETHER_MS 200 /* changes that are one */

struct watch;

/* A kind of records, followed by a thread of its own. */
struct follower {
	struct watch *watch;
	const char *kind;
	pthread_t thread;
	bool started;
	bool synced; /* guarded by the watch's lock, as is all below */
	bool cut;
	bool ended;
	int r;
	struct error err;
};

struct watch {
	struct volume_context *ctx;
	int stop_fd; /* of the followers */
	int news_fd;
	pthread_mutex_t lock;
	struct follower followers[2];
	char problem[ERROR_TEXT_MAX];
};

static void news(struct watch *watch)
{
	(void)eventfd_write(watch->news_fd, 1); /* never full */
}

static int records_heard(void *follower_, enum store_change change,
			 const char *name, const struct store_object *object,
			 const char *text)
{
	struct follower *follower = follower_;
	struct watch *watch = follower->watch;
	bool tell;

	(void)name;
	(void)object;
	(void)pthread_mutex_lock(&watch->lock);
	/* Before all is known, what there is is no news. */
	tell = change == STORE_CHANGE_CUT || follower->synced;
	if (change == STORE_CHANGE_SYNCED) {
		tell = !follower->synced || follower->cut;
		follower->synced = true;
		follower->cut = false;
	} else if (change == STORE_CHANGE_CUT) {
		follower->cut = true;
		(void)snprintf(watch->problem, sizeof(watch->problem), "%s",
			       text);
	}
	(void)pthread_mutex_unlock(&watch->lock);
	if (tell)
		news(watch);
	return 0;
}

static void *records_follow(void *follower_)
{
	struct follower *follower = follower_;
	struct watch *watch = follower->watch;
	struct store *store = watch->ctx->store;
	struct error err = {0};
	int r = store->ops->watch(store, follower->kind, watch->stop_fd,
				  records_heard, follower, &err);

	(void)pthread_mutex_lock(&watch->lock);
	follower->r = r;
	follower->err = err;
	follower->ended = true;
	(void)pthread_mutex_unlock(&watch->lock);
	news(watch);
	return NULL;
}

/* 1: all is known; 0: not yet; or why one has ended. */
static int state_of(struct watch *watch, char *ret_problem, struct error *err)
{
	bool cut = false;
	int r = 1;

	(void)pthread_mutex_lock(&watch->lock);
	for (size_t i = 0; i < array_size(watch->followers); i++) {
		const struct follower *follower = &watch->followers[i];

		cut |= follower->cut;
		if (follower->ended && follower->r < 0 && r >= 0)
			r = error_set(err, -follower->r, "%s",
				      error_text(&follower->err));
		else if (!follower->synced && !follower->cut && r > 0)
			r = 0;
	}
	(void)strcpy(ret_problem, cut ? watch->problem : "");
	(void)pthread_mutex_unlock(&watch->lock);
	return r;
}

static int tell_until_stopped(struct watch *watch, int stop_fd, int every_ms,
			      volume_changed changed, void *context,
			      struct error *err)
{
	struct pollfd fds[] = {{.fd = stop_fd, .events = POLLIN},
			       {.fd = watch->news_fd, .events = POLLIN}};
	char problem[ERROR_TEXT_MAX];
	eventfd_t count;
	int r;

	for (;;) {
		(void)poll(fds, 2, every_ms);
		if (fds[0].revents || poll(fds, 1, TOGETHER_MS) > 0)
			return 0;
		if (fds[1].revents)
			(void)eventfd_read(watch->news_fd, &count);
		r = state_of(watch, problem, err);
		if (r > 0)
			r = changed(context, problem, err);
		if (r != 0)
			return r;
	}
}

static int followers_start(struct watch *watch, struct error *err)
{
	static const char *const kinds[] = {RECORD_KIND_NODE,
					    RECORD_KIND_VOLUME};

	for (size_t i = 0; i < array_size(watch->followers); i++) {
		struct follower *follower = &watch->followers[i];
		int code;

		follower->watch = watch;
		follower->kind = kinds[i];
		code = pthread_create(&follower->thread, NULL, records_follow,
				      follower);
		if (code)
			return error_set(err, code, "starting a thread: %s",
					 strerror(code));
		follower->started = true;
	}
	return 0;
}

int volume_watch(struct volume_context *ctx, int stop_fd, int every_ms,
		 volume_changed changed, void *context, struct error *err)
{
	auto_close int followers_stop = eventfd(0, EFD_CLOEXEC);
	auto_close int news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct watch watch = {
		.ctx = ctx, .stop_fd = followers_stop, .news_fd = news_fd};
	int r;

	if (followers_stop < 0 || news_fd < 0)
		return error_set(err, errno, "eventfd: %s", strerror(errno));
	(void)pthread_mutex_init(&watch.lock, NULL);
	r = followers_start(&watch, err);
	if (r == 0)
		r = tell_until_stopped(&watch, stop_fd, every_ms, changed,
				       context, err);
	(void)eventfd_write(followers_stop, 1); /* never full */
	for (size_t i = 0; i < array_size(watch.followers); i++) {
		if (watch.followers[i].started)
			(void)pthread_join(watch.followers[i].thread, NULL);
	}
	(void)pthread_mutex_destroy(&watch.lock);
	return r;
}
