/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/pull_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/nbd/nbd_connect.h"
#include "blockd/extent/extent_dev.h"
#include "blockd/extent/extent_internal.h"

#define PIECE_MAX  (UINT32_C(1) << 20)  /* bytes of one request */
#define ROUND_MAX  (UINT64_C(64) << 20) /* bytes from one flush to the next */
#define AHEAD      4                    /* requests that the server has */
#define CONNECT_MS 10000
#define SILENCE_MS 30000 /* a server that acknowledges nothing is gone */

struct pull_piece {
	uint64_t offset; /* bytes */
	uint32_t length; /* bytes; 0: a free place */
};

/* How the last pull of an extent ended; in one piece of memory. */
struct pull_end {
	uint64_t position; /* bytes */
	int result;
	struct error err;
	char export[]; /* its name */
};

struct pull_job {
	struct node *node;
	struct extent *extent;       /* a reference */
	char *address, *export;      /* owned */
	struct extent_range *ranges; /* owned */
	size_t n_ranges;
	int stop_fd; /* readable: stop */
	atomic_uint_least64_t position;
	int fd;    /* the socket, or -1; changed with node.tables held */
	bool stop; /* guarded by node.tables */
	LIST_ENTRY(pull_job) in_node; /* the same */

	/* The thread's own. */
	struct gate gate; /* without limits: those are for users */
	struct loop *loop;
	struct blockdev *dev;
	uint8_t *data; /* owned; PIECE_MAX bytes */
	uint32_t piece_max;
	struct op op;
	struct loop_message end;
	struct pull_piece asked[AHEAD];
	unsigned n_asked;
	size_t range;       /* the next to be asked for ... */
	uint64_t in_range;  /* ... and how much of it was; bytes */
	uint64_t round;     /* bytes that may be asked before a flush */
	uint64_t round_end; /* where that ends in the extent, so far */
	struct nbd_wire_simple_reply reply;
	struct pull_piece *piece; /* whose data comes */
	uint8_t *into;            /* what is received now, */
	size_t left;              /* and how much is missing; bytes */
	int result;
	struct error err;
};

static void pull_free(struct pull_job *job)
{
	if (!job)
		return;
	extent_unref(job->extent);
	free(job->address);
	free(job->export);
	free(job->ranges);
	fd_close(job->stop_fd);
	free(job->data);
	gate_done(&job->gate);
	free(job);
}

static struct pull_job *pull_new(struct extent *extent,
				 const struct pull_request *request)
{
	struct pull_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	gate_init(&job->gate);
	job->node = extent->node;
	job->extent = extent_ref(extent);
	job->fd = -1;
	job->n_ranges = request->n_ranges;
	job->address = strdup(request->address);
	job->export = strdup(request->export);
	job->ranges = calloc(request->n_ranges + 1, sizeof(*job->ranges));
	job->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (posix_memalign((void **)&job->data, PULL_BLOCK, PIECE_MAX) != 0)
		job->data = NULL;
	if (!job->address || !job->export || !job->ranges || !job->data ||
	    job->stop_fd < 0) {
		pull_free(job);
		return NULL;
	}
	memcpy(job->ranges, request->ranges,
	       request->n_ranges * sizeof(*job->ranges));
	return job;
}

/* ---- on the loop ---- */

static void pull_ended(struct loop_message *message)
{
	struct pull_job *job = container_of(message, struct pull_job, end);

	blockdev_close(job->dev);
	loop_stop(job->loop);
}

/* Nothing is in flight on the loop. */
static void pull_finish(struct pull_job *job, int result)
{
	job->result = result;
	job->end.run = pull_ended;
	loop_post(job->loop, &job->end);
}

static void pull_lost(struct pull_job *job, int error)
{
	pull_finish(job, error_set(&job->err, EHOSTUNREACH, "NBD server %s: %s",
				   job->address,
				   error ? strerror(error)
					 : "it closed the connection"));
}

static bool piece_next(struct pull_job *job, struct pull_piece *ret)
{
	const struct extent_range *range = &job->ranges[job->range];
	uint64_t length;

	if (job->range == job->n_ranges || job->round == 0)
		return false;
	length = range->length - job->in_range;
	if (length > job->piece_max)
		length = job->piece_max;
	if (length > job->round)
		length = job->round;
	*ret = (struct pull_piece){
		.offset = range->offset + job->in_range,
		.length = (uint32_t)length,
	};
	job->round -= length;
	job->round_end = ret->offset + length;
	job->in_range += length;
	if (job->in_range == range->length) {
		job->range++;
		job->in_range = 0;
	}
	return true;
}

/* Have the server work ahead. 0 or an errno of the socket. */
static int pieces_ask(struct pull_job *job)
{
	for (unsigned i = 0; i < AHEAD; i++) {
		struct pull_piece *piece = &job->asked[i];
		struct nbd_wire_request wire;

		if (piece->length)
			continue;
		if (!piece_next(job, piece))
			break;
		job->n_asked++;
		nbd_request_encode(&wire, NBD_CMD_READ, 0, i, piece->offset,
				   piece->length);
		/* So few bytes always fit into the socket. */
		if (send(job->fd, &wire, sizeof(wire), MSG_NOSIGNAL) !=
		    sizeof(wire))
			return errno;
	}
	return 0;
}

static void pull_go_on(struct pull_job *job);

static void flushed(struct op *op, int res)
{
	struct pull_job *job = container_of(op, struct pull_job, op);

	if (res < 0) {
		pull_finish(job, error_set(&job->err, -res, "flush: %s",
					   strerror(-res)));
		return;
	}
	atomic_store(&job->position, job->round_end);
	job->round = ROUND_MAX;
	if (job->range == job->n_ranges)
		pull_finish(job, 0);
	else
		pull_go_on(job);
}

static void piece_written(struct op *op, int res)
{
	struct pull_job *job = container_of(op, struct pull_job, op);

	if (res < 0) {
		pull_finish(job, error_set(&job->err, -res,
					   "write at byte %" PRIu64 ": %s",
					   job->piece->offset, strerror(-res)));
		return;
	}
	job->piece->length = 0;
	job->n_asked--;
	pull_go_on(job);
}

/* 0: the data follows; else the pull is over. */
static int reply_take(struct pull_job *job)
{
	struct nbd_reply reply;
	int r = nbd_reply_decode(&job->reply, &reply);

	if (r < 0 || reply.cookie >= AHEAD || !job->asked[reply.cookie].length)
		return error_set(&job->err, EPROTO,
				 "NBD server %s: an answer that was not asked "
				 "for",
				 job->address);
	job->piece = &job->asked[reply.cookie];
	if (reply.leaving)
		return error_set(&job->err, EHOSTUNREACH,
				 "NBD server %s: it is shutting down",
				 job->address);
	if (reply.error < 0)
		return error_set(&job->err, -reply.error,
				 "NBD server %s, export '%s': read at byte "
				 "%" PRIu64 ": %s",
				 job->address, job->export, job->piece->offset,
				 strerror(-reply.error));
	return 0;
}

/* All of it came. */
static void received_all(struct pull_job *job)
{
	int r;

	if (job->piece) {
		job->op.done = piece_written;
		blockdev_write(job->dev, &job->op, job->data,
			       job->piece->length, job->piece->offset, 0);
		return;
	}
	r = reply_take(job);
	if (r < 0) {
		pull_finish(job, r);
		return;
	}
	job->into = job->data;
	job->left = job->piece->length;
	loop_recv(job->loop, &job->op, job->fd, job->into, job->left, 0);
}

static void received(struct op *op, int res)
{
	struct pull_job *job = container_of(op, struct pull_job, op);

	if (res == -EINTR || res == -EAGAIN)
		res = 0;
	else if (res <= 0) {
		pull_lost(job, -res);
		return;
	}
	job->into += res;
	job->left -= (size_t)res;
	if (job->left == 0)
		received_all(job);
	else
		loop_recv(job->loop, op, job->fd, job->into, job->left, 0);
}

static void pull_go_on(struct pull_job *job)
{
	int error = pieces_ask(job);

	if (error) {
		pull_lost(job, error);
	} else if (job->n_asked == 0) {
		job->op.done = flushed;
		blockdev_flush(job->dev, &job->op);
	} else {
		job->piece = NULL;
		job->into = (uint8_t *)&job->reply;
		job->left = sizeof(job->reply);
		job->op.done = received;
		loop_recv(job->loop, &job->op, job->fd, job->into, job->left,
			  0);
	}
}

/* ---- the thread ---- */

static int pull_connect(struct pull_job *job, struct nbd_export *ret)
{
	const struct nbd_connect_options options = {
		.timeout_ms = CONNECT_MS,
		.silence_ms = SILENCE_MS,
		.cancel_fd = job->stop_fd,
	};
	const struct extent_range *last = &job->ranges[job->n_ranges - 1];
	struct nbd_address address;
	int fd = -1;
	int r = nbd_address_resolve(job->address, &address, &job->err);

	if (r == 0)
		r = nbd_connect(&address, job->export, &options, &fd, ret,
				&job->err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&job->node->tables);
	job->fd = fd;
	if (job->stop)
		r = error_set(&job->err, ECANCELED, "it was stopped");
	pthread_mutex_unlock(&job->node->tables);
	if (r == 0)
		r = nbd_export_check(ret, ret->size, PULL_BLOCK, true,
				     &job->err);
	if (r == 0 && last->offset + last->length > ret->size)
		r = error_set(&job->err, EINVAL,
			      "export '%s' has %" PRIu64
			      " bytes, and a range ends at %" PRIu64,
			      job->export, ret->size,
			      last->offset + last->length);
	return r;
}

static int pull_all(struct pull_job *job)
{
	const struct loop_options options = {.name = "pull", .entries = 16};
	struct extent *extent = job->extent;
	struct nbd_export export;
	int r = pull_connect(job, &export);

	if (r < 0)
		return r;
	job->piece_max = export.max_payload < PIECE_MAX
				 ? export.max_payload -
					   export.max_payload % PULL_BLOCK
				 : PIECE_MAX;
	job->round = ROUND_MAX;
	r = loop_new(&options, &job->loop, &job->err);
	if (r == 0)
		r = extent_dev_open(&job->gate, extent->pool->pool,
				    extent->record.name, extent->record.size, 0,
				    job->loop, &job->dev, &job->err);
	if (r == 0) {
		pull_go_on(job);
		r = loop_run(job->loop);
		if (r == 0)
			r = job->result;
		else
			(void)error_set(&job->err, -r, "io_uring: %s",
					strerror(-r));
	}
	loop_free(job->loop);
	return r;
}

static struct pull_end *pull_end_new(const struct pull_job *job, int result)
{
	size_t length = strlen(job->export) + 1;
	struct pull_end *end = malloc(sizeof(*end) + length);

	if (!end)
		return NULL; /* the caller begins again at its position */
	end->position = atomic_load(&job->position);
	end->result = result;
	end->err = job->err;
	memcpy(end->export, job->export, length);
	return end;
}

static void pull_log(const struct pull_job *job, int r)
{
	const char *name = job->extent->record.name;

	if (r == 0)
		log_info("extent %s: has pulled %s from %s", name, job->export,
			 job->address);
	else
		log_warning("extent %s: pulled %s from %s up to byte %" PRIu64
			    ", and stopped: %s",
			    name, job->export, job->address,
			    atomic_load(&job->position), error_text(&job->err));
}

static void *pull_thread(void *context)
{
	struct pull_job *job = context;
	struct extent *extent = job->extent;
	struct node *node = job->node;
	struct pull_end *end;
	int r = pull_all(job);

	pull_log(job, r);
	end = pull_end_new(job, r);
	/* The node may go once this is out of its list. */
	pthread_mutex_lock(&node->tables);
	fd_close(job->fd);
	LIST_REMOVE(job, in_node);
	extent->pulling = NULL;
	free(extent->pulled);
	extent->pulled = end;
	pull_free(job);
	pthread_cond_broadcast(&node->copied);
	pthread_mutex_unlock(&node->tables);
	return NULL;
}

/* Takes @job. */
static int pull_start(struct pull_job *job, struct error *err)
{
	struct extent *extent = job->extent;
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	pthread_mutex_lock(&job->node->tables);
	free(extent->pulled);
	extent->pulled = NULL;
	extent->pulling = job;
	LIST_INSERT_HEAD(&job->node->pulling, job, in_node);
	pthread_mutex_unlock(&job->node->tables);
	(void)pthread_attr_init(&attributes); /* can't fail on Linux */
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attributes, pull_thread, job);
	(void)pthread_attr_destroy(&attributes);
	if (r == 0)
		return 0;
	pthread_mutex_lock(&job->node->tables);
	LIST_REMOVE(job, in_node);
	extent->pulling = NULL;
	pthread_mutex_unlock(&job->node->tables);
	pull_free(job);
	return error_set(err, r, "start a thread to pull: %s", strerror(r));
}

/* ---- the call ---- */

/* 1: @ret or @err tells of a pull of that export. */
static int pull_look(struct extent *extent, const char *export,
		     struct pull_answer *ret, struct error *err)
{
	struct pull_end *end;
	int r = 0;

	pthread_mutex_lock(&extent->node->tables);
	end = extent->pulled;
	if (extent->pulling && strcmp(extent->pulling->export, export) == 0) {
		ret->runs = true;
		ret->position = atomic_load(&extent->pulling->position);
		r = 1;
	} else if (end && strcmp(end->export, export) == 0) {
		ret->position = end->position;
		r = end->result < 0 ? end->result : 1;
		if (r < 0 && err)
			*err = end->err;
	}
	if (r < 0) { /* told once */
		free(end);
		extent->pulled = NULL;
	}
	pthread_mutex_unlock(&extent->node->tables);
	return r;
}

static int ranges_check(const struct extent *extent,
			const struct pull_request *request, struct error *err)
{
	uint64_t end = 0;

	if (request->n_ranges > PULL_RANGES_MAX)
		return error_set(err, EINVAL, "a pull has at most %d ranges",
				 PULL_RANGES_MAX);
	for (size_t i = 0; i < request->n_ranges; i++) {
		const struct extent_range *range = &request->ranges[i];
		uint64_t begin = range->offset;

		if (begin < end || !range->length ||
		    (begin | range->length) % PULL_BLOCK ||
		    __builtin_add_overflow(begin, range->length, &end) ||
		    end > extent->record.size)
			return error_set(
				err, EINVAL,
				"range %zu: %" PRIu64 " bytes at byte %" PRIu64
				": not in order, not in blocks of %d, or not in "
				"the extent, which has %" PRIu64,
				i, range->length, begin, PULL_BLOCK,
				extent->record.size);
	}
	return 0;
}

static int pull_check_extent(const struct extent *extent,
			     const struct pull_request *request,
			     struct error *err)
{
	const struct extent_record *record = &extent->record;
	int r = extent_check_id(extent, request->id, err);

	if (r < 0)
		return r;
	if (record->kind == EXTENT_KIND_SNAPSHOT)
		return error_set(err, EINVAL,
				 "'%s' is a snapshot, which is never written",
				 record->name);
	if (record->export.active && !record->export.read_only)
		return error_set(err, EBUSY,
				 "extent '%s' is exported to a writer",
				 record->name);
	return ranges_check(extent, request, err);
}

/* Say durably that it is written to. */
static int pull_mark(struct extent *extent, struct error *err)
{
	struct extent_record record;

	if (!extent->record.blank)
		return 0;
	if (extent_record_copy(&record, &extent->record) < 0)
		return error_set(err, ENOMEM, "out of memory");
	record.blank = false;
	return extent_save(extent, &record, err);
}

static int pull_begin(struct extent *extent, const struct pull_request *request,
		      struct pull_answer *ret, struct error *err)
{
	struct pull_job *job;
	int r;

	pull_job_stop(extent); /* of another export, if any */
	r = extent_check_not_copied(extent, "it pulls", err);
	if (r == 0)
		r = pull_mark(extent, err);
	if (r < 0)
		return r;
	job = pull_new(extent, request);
	if (!job)
		return error_set(err, ENOMEM, "out of memory");
	r = pull_start(job, err);
	if (r == 0)
		ret->runs = true;
	return r;
}

int pull_job_run(struct extent *extent, const struct pull_request *request,
		 struct pull_answer *ret, struct error *err)
{
	struct pull_answer answer = {0};
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	r = pull_check_extent(extent, request, err);
	if (r == 0)
		r = pull_look(extent, request->export, &answer, err);
	if (r == 0 || (r == 1 && !answer.runs))
		r = request->n_ranges
			    ? pull_begin(extent, request, &answer, err)
			    : 0;
	extent_end(extent);
	if (r < 0)
		return r;
	*ret = answer;
	return 0;
}

/* Tables held. */
static void pull_tell_stop(struct pull_job *job)
{
	job->stop = true;
	(void)eventfd_write(job->stop_fd, 1); /* a first one always fits */
	if (job->fd >= 0)
		(void)shutdown(job->fd, SHUT_RDWR);
}

void pull_job_stop(struct extent *extent)
{
	struct node *node = extent->node;

	pthread_mutex_lock(&node->tables);
	if (extent->pulling)
		pull_tell_stop(extent->pulling);
	while (extent->pulling)
		pthread_cond_wait(&node->copied, &node->tables);
	pthread_mutex_unlock(&node->tables);
}

void pull_job_stop_all(struct node *node)
{
	struct pull_job *job;

	pthread_mutex_lock(&node->tables);
	LIST_FOREACH (job, &node->pulling, in_node)
		pull_tell_stop(job);
	while (!LIST_EMPTY(&node->pulling))
		pthread_cond_wait(&node->copied, &node->tables);
	pthread_mutex_unlock(&node->tables);
}
