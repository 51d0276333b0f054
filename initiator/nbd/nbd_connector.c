/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_connector.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/cleanup.h"

#define TRY_TIMEOUT_MS 5000 /* for one connection and its handshake */

/*
 * All of it is locked memory, so no more than needed; a resolved name and a
 * handshake fit many times.
 */
#define STACK_SIZE (256 * 1024)

enum phase { IDLE, START, RUNNING, FINISHED, QUIT };

struct nbd_connector {
	const struct nbd_address *address;
	const char *export_name;
	unsigned silence_ms;
	int done_fd;   /* eventfd: a result is there */
	int cancel_fd; /* eventfd: give up */
	pthread_t thread;
	pthread_mutex_t lock; /* guards phase */
	pthread_cond_t changed;
	enum phase phase;
	struct nbd_connector_result result; /* the thread's while RUNNING */
};

static void raise_event(int fd)
{
	uint64_t one = 1;

	/* An eventfd takes eight bytes always. */
	(void)!write(fd, &one, sizeof(one));
}

static void work(struct nbd_connector *c)
{
	struct nbd_connect_options options = {
		.timeout_ms = TRY_TIMEOUT_MS,
		.silence_ms = c->silence_ms,
		.cancel_fd = c->cancel_fd,
	};

	c->result.fd = -1;
	c->result.err.code = 0;
	c->result.error = nbd_connect(c->address, c->export_name, &options,
				      &c->result.fd, &c->result.export,
				      &c->result.err);
}

static void *run(void *arg)
{
	struct nbd_connector *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->phase != QUIT) {
		if (c->phase != START) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		c->phase = RUNNING;
		pthread_mutex_unlock(&c->lock);
		work(c);
		pthread_mutex_lock(&c->lock);
		if (c->phase == RUNNING)
			c->phase = FINISHED;
		raise_event(c->done_fd);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

static int start_thread(struct nbd_connector *c)
{
	pthread_attr_t attr;
	int r = pthread_attr_init(&attr);

	if (r)
		return -r;
	r = pthread_attr_setstacksize(&attr, STACK_SIZE);
	if (!r)
		r = pthread_create(&c->thread, &attr, run, c);
	(void)pthread_attr_destroy(&attr);
	return -r;
}

unsigned nbd_connector_silence_ms(unsigned dead_timeout_ms)
{
	unsigned third = dead_timeout_ms / 3;

	return third < 1000 ? 1000 : third > 10000 ? 10000 : third;
}

int nbd_connector_new(const struct nbd_address *address,
		      const char *export_name, unsigned silence_ms,
		      struct nbd_connector **ret, struct error *err)
{
	struct nbd_connector *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(err, ENOMEM, "no memory for a connector");
	c->address = address;
	c->export_name = export_name;
	c->silence_ms = silence_ms;
	c->result.fd = -1;
	c->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	r = c->done_fd < 0 || c->cancel_fd < 0 ? -errno : start_thread(c);
	if (r < 0) {
		fd_close(c->done_fd);
		fd_close(c->cancel_fd);
		free(c);
		return error_set(err, -r, "connector: %s", strerror(-r));
	}
	*ret = c;
	return 0;
}

void nbd_connector_free(struct nbd_connector *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->phase = QUIT;
	raise_event(c->cancel_fd);
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	(void)pthread_join(c->thread, NULL);
	fd_close(c->result.fd);
	fd_close(c->done_fd);
	fd_close(c->cancel_fd);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
	free(c);
}

static enum phase phase_of(const struct nbd_connector *connector)
{
	/* The lock is no part of what the owner sees as const. */
	struct nbd_connector *c = (struct nbd_connector *)connector;
	enum phase phase;

	pthread_mutex_lock(&c->lock);
	phase = c->phase;
	pthread_mutex_unlock(&c->lock);
	return phase;
}

bool nbd_connector_is_busy(const struct nbd_connector *c)
{
	return phase_of(c) != IDLE;
}

void nbd_connector_start(struct nbd_connector *c)
{
	pthread_mutex_lock(&c->lock);
	assert(c->phase == IDLE);
	c->phase = START;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

int nbd_connector_fd(const struct nbd_connector *c)
{
	return c->done_fd;
}

struct nbd_connector_result *nbd_connector_take(struct nbd_connector *c)
{
	uint64_t events;

	(void)!read(c->done_fd, &events, sizeof(events)); /* EAGAIN is fine */
	if (phase_of(c) != FINISHED)
		return NULL;
	pthread_mutex_lock(&c->lock);
	c->phase = IDLE;
	pthread_mutex_unlock(&c->lock);
	return &c->result;
}
