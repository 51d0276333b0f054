/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "initiator/device/device.h"

#define GROW_TIMEOUT_MS 10000               /* for the servers of new parts */
#define DATA_ALL        (UINT32_C(8) << 20) /* bytes of receive buffers, about */
#define ZEROES_MAX      (UINT32_C(1) << 30) /* bytes of one WRITE_ZEROES */

/*
 * Pieces in flight. A link takes them all, so a lost part holds up no other
 * before they are used up.
 */
#define PIECES_MAX NBD_LINK_REQUESTS

struct piece {
	struct nbd_link_request link; /* first: done() finds the piece */
	struct nbd_parts *parts;
	struct nbd_parts_request *request;
	uint64_t at; /* bytes, in the request's data */
	struct piece *next;
};

/* A link borrows both for ever. */
struct place {
	struct nbd_address address;
	char export_name[PARTS_EXPORT_SIZE];
	struct nbd_link *link; /* owned */
};

TAILQ_HEAD(parts_requests, nbd_parts_request);

struct nbd_parts {
	struct parts *list; /* owned; as it is now */
	struct segments segments;
	struct place *places[SEGMENTS_PARTS_MAX]; /* owned */
	unsigned n_places; /* those of @list, and new ones while it grows */
	struct nbd_export common; /* what all parts can */
	unsigned dead_timeout_ms;
	uint32_t data_max;  /* bytes of one read or write */
	uint32_t piece_max; /* bytes of data */

	struct piece pieces[PIECES_MAX];
	struct piece *unused;
	struct parts_requests
		waiting; /* for pieces; the first has some perhaps */

	struct parts *grown; /* owned; becomes @list; NULL: it does not grow */
	bool asked;          /* the last part is asked for its size */
	int64_t grow_end_ms;
	void (*grow_done)(void *context, int error);
	void *grow_context;

	char state[ERROR_TEXT_MAX];
};

/* ---- pieces ---- */

static struct piece *piece_get(struct nbd_parts *p,
			       struct nbd_parts_request *request)
{
	struct piece *piece = p->unused;

	p->unused = piece->next;
	piece->request = request;
	piece->link.type = request->type;
	piece->link.flags = request->flags;
	piece->link.offset = 0;
	piece->link.length = 0;
	piece->link.data = NULL;
	request->in_flight++;
	return piece;
}

static void request_finish(struct nbd_parts_request *request, const void *data)
{
	if (request->issuing || request->in_flight)
		return;
	request->done(request, request->error, data);
}

static void piece_done(struct nbd_link_request *r, int error, const void *data)
{
	struct piece *piece = container_of(r, struct piece, link);
	struct nbd_parts_request *request = piece->request;
	struct nbd_parts *p = piece->parts;

	if (error && !request->error)
		request->error = error;
	if (r->type == NBD_CMD_READ && !error && request->into) {
		memcpy((uint8_t *)request->into + piece->at, data, r->length);
		data = request->into;
	}
	request->in_flight--;
	piece->next = p->unused;
	p->unused = piece;
	request_finish(request, data);
}

static void piece_submit(struct nbd_parts *p, struct piece *piece,
			 unsigned part)
{
	piece->link.done = piece_done;
	nbd_link_submit(p->places[part]->link, &piece->link);
}

/* The next part that a flush has to ask. False: there is none. */
static bool issue_flush(struct nbd_parts *p, struct nbd_parts_request *request)
{
	unsigned part = request->next_flush;

	/* Of one export, its server decides what there is to flush. */
	while (part < p->list->n && p->list->n > 1 &&
	       nbd_link_is_durable(p->places[part]->link))
		part++;
	if (part >= p->list->n)
		return false;
	request->next_flush = part + 1;
	piece_submit(p, piece_get(p, request), part);
	return true;
}

static bool issue_piece(struct nbd_parts *p, struct nbd_parts_request *request)
{
	struct segment_piece at;
	struct piece *piece;

	if (request->type == NBD_CMD_FLUSH)
		return issue_flush(p, request);
	/* After an error, more of it would be of no use. */
	if (request->error || !segments_next(&p->segments, &request->walk, &at))
		return false;
	piece = piece_get(p, request);
	piece->at = at.at;
	piece->link.offset = at.offset;
	piece->link.length = (uint32_t)at.length;
	if (request->data)
		piece->link.data = (const uint8_t *)request->data + at.at;
	piece_submit(p, piece, at.part);
	return true;
}

/* Issue pieces, of the oldest request first, as long as there are any. */
static void pump(struct nbd_parts *p)
{
	struct nbd_parts_request *request;

	while (p->unused && (request = TAILQ_FIRST(&p->waiting))) {
		if (issue_piece(p, request))
			continue;
		TAILQ_REMOVE(&p->waiting, request, entry);
		request->issuing = false;
		/* Else the last piece ends it. */
		request_finish(request, request->into);
	}
}

void nbd_parts_submit(struct nbd_parts *p, struct nbd_parts_request *request)
{
	bool zeroes = request->type == NBD_CMD_WRITE_ZEROES;

	request->walk = (struct segment_walk){
		.offset = request->offset,
		.length = request->length,
		.no_data = zeroes,
		.piece_max = zeroes ? ZEROES_MAX : p->piece_max,
	};
	request->next_flush = 0;
	request->in_flight = 0;
	request->error = 0;
	request->issuing = true;
	TAILQ_INSERT_TAIL(&p->waiting, request, entry);
	pump(p);
}

bool nbd_parts_is_whole(const struct nbd_parts *p, uint64_t offset,
			uint64_t length)
{
	struct segment_walk walk = {
		.offset = offset, .length = length, .piece_max = p->piece_max};
	struct segment_piece at;

	return segments_next(&p->segments, &walk, &at) && at.length == length;
}

void nbd_parts_send(struct nbd_parts *p)
{
	for (unsigned i = 0; i < p->n_places; i++)
		nbd_link_send(p->places[i]->link);
}

/* "failed: " before "timed out: " before "waiting: ". */
static int badness(const char *state)
{
	return strncmp(state, NBD_LINK_FAILED, strlen(NBD_LINK_FAILED)) == 0 ? 2
	       : strncmp(state, "timed out: ", 11) == 0                      ? 1
							: 0;
}

/* ---- growth ---- */

static void place_free(struct place *place)
{
	if (!place)
		return;
	nbd_link_free(place->link);
	free(place);
}

/* Take the new parts in, or leave all as it was. */
static void grow_finish(struct nbd_parts *p, int error)
{
	struct parts *grown = take_ptr(p->grown);
	struct segments segments = {.n = 0};

	if (!error)
		error = parts_segments(grown, &segments, NULL);
	if (!error) {
		free(p->list);
		p->list = grown;
		p->segments = segments;
	} else {
		while (p->n_places > p->list->n)
			place_free(p->places[--p->n_places]);
		free(grown);
	}
	p->grow_done(p->grow_context, error);
}

static void grow_answered(void *context, int error, uint64_t size)
{
	struct nbd_parts *p = context;

	p->asked = false;
	if (p->grown && !error && size < p->grown->items[p->list->n - 1].size)
		error = -EFBIG; /* the extent has not grown so far */
	if (p->grown && error)
		grow_finish(p, error);
}

/* Look how far it is. */
static void grow_look(struct nbd_parts *p)
{
	if (!p->grown || p->asked)
		return;
	for (unsigned i = p->list->n; i < p->n_places; i++) {
		const struct place *place = p->places[i];
		const char *state = nbd_link_state(place->link);

		if (strcmp(state, NBD_LINK_CONNECTED) == 0)
			continue;
		if (badness(state) == 2 || clock_ms() >= p->grow_end_ms) {
			(void)log_error(0, "part %u, '%s' of %s: %s", i,
					place->export_name, place->address.text,
					state);
			grow_finish(p, -EIO);
		}
		return;
	}
	grow_finish(p, 0);
}

/* @fd: connected, taken; -1: the link connects by itself */
static int place_new(struct nbd_parts *p, const struct part *part, int fd,
		     const struct nbd_export *export, bool goes_on,
		     struct error *err)
{
	struct place *place = calloc(1, sizeof(*place));
	struct nbd_link_options options = {
		.dead_timeout_ms = p->dead_timeout_ms,
		.data_max = p->piece_max < NBD_LINK_DATA_MIN ? NBD_LINK_DATA_MIN
							     : p->piece_max,
		.fd = fd,
		.export = export,
		.goes_on = goes_on,
	};
	int r;

	if (!place) {
		fd_close(fd);
		return error_set(err, ENOMEM, "no memory for a connection");
	}
	(void)strcpy(place->export_name, part->export_name);
	r = nbd_address_resolve(part->address, &place->address, err);
	options.address = &place->address;
	options.export_name = place->export_name;
	if (r < 0)
		fd_close(fd);
	else
		r = nbd_link_new(&options, &place->link, err);
	if (r < 0) {
		free(place);
		return r;
	}
	p->places[p->n_places++] = place;
	return 0;
}

static int grow_begin(struct nbd_parts *p, const struct parts *now)
{
	int r = 0;

	for (unsigned i = p->list->n; r == 0 && i < now->n; i++) {
		struct nbd_export wanted = p->common;

		wanted.size = now->items[i].size;
		r = place_new(p, &now->items[i], -1, &wanted, false, NULL);
	}
	if (r == 0 && now->items[p->list->n - 1].size >
			      p->list->items[p->list->n - 1].size) {
		p->asked = true;
		r = nbd_link_ask_size(p->places[p->list->n - 1]->link,
				      grow_answered, p);
		p->asked = r == 0;
	}
	return r;
}

int nbd_parts_grow(struct nbd_parts *p, const struct parts *now,
		   void (*done)(void *context, int error), void *context)
{
	struct segments segments;
	int r = p->grown || p->asked ? -EBUSY
				     : parts_check_grown(p->list, now, NULL);

	if (r == 0)
		r = parts_segments(now, &segments, NULL);
	if (r < 0)
		return r;
	p->grown = malloc(sizeof(*p->grown));
	if (!p->grown)
		return -ENOMEM;
	*p->grown = *now;
	p->grow_end_ms = clock_ms() + GROW_TIMEOUT_MS;
	p->grow_done = done;
	p->grow_context = context;
	r = grow_begin(p, now);
	if (r == 0)
		return 0;
	while (p->n_places > p->list->n)
		place_free(p->places[--p->n_places]);
	free(take_ptr(p->grown));
	return r;
}

/* ---- waiting ---- */

unsigned nbd_parts_prepare(struct nbd_parts *p, struct pollfd *fds,
			   int *ret_timeout_ms)
{
	int least = -1;

	for (unsigned i = 0; i < p->n_places; i++) {
		int ms = nbd_link_prepare(p->places[i]->link,
					  fds + i * NBD_LINK_POLLFDS);

		if (ms >= 0 && (least < 0 || ms < least))
			least = ms;
	}
	if (p->grown && !p->asked) {
		int64_t left = p->grow_end_ms - clock_ms();

		if (least < 0 || left < least)
			least = left > 0 ? (int)left : 0;
	}
	*ret_timeout_ms = least;
	return p->n_places * NBD_LINK_POLLFDS;
}

void nbd_parts_run(struct nbd_parts *p, const struct pollfd *fds)
{
	unsigned n = p->n_places;

	for (unsigned i = 0; i < n && i < p->n_places; i++)
		nbd_link_run(p->places[i]->link, fds + i * NBD_LINK_POLLFDS);
	grow_look(p);
	if (!TAILQ_EMPTY(&p->waiting)) {
		pump(p);
		nbd_parts_send(p);
	}
}

/* ---- how it is ---- */

const struct parts *nbd_parts_list(const struct nbd_parts *p)
{
	return p->list;
}

const struct nbd_export *nbd_parts_export(const struct nbd_parts *p,
					  unsigned index)
{
	return nbd_link_export(p->places[index]->link);
}

uint64_t nbd_parts_size(const struct nbd_parts *p)
{
	return p->segments.size;
}

uint16_t nbd_parts_flags(const struct nbd_parts *p)
{
	return p->common.flags;
}

uint32_t nbd_parts_data_max(const struct nbd_parts *p)
{
	return p->data_max;
}

const char *nbd_parts_state(struct nbd_parts *p)
{
	static const char *const prefixes[] = {
		"waiting: ", "timed out: ", NBD_LINK_FAILED};
	char text[ERROR_TEXT_MAX - 16] = "";
	size_t length = 0;
	int worst = 0;

	if (p->list->n == 1)
		return nbd_link_state(p->places[0]->link);
	for (unsigned i = 0; i < p->list->n; i++) {
		const struct place *place = p->places[i];
		const char *state = nbd_link_state(place->link), *why;

		if (strcmp(state, NBD_LINK_CONNECTED) == 0)
			continue;
		if (badness(state) > worst)
			worst = badness(state);
		why = strstr(state, ": ");
		if (length < sizeof(text)) /* else the last are left out */
			length += (size_t)snprintf(
				text + length, sizeof(text) - length,
				"%spart %u of %u, '%s' of %s: %.120s",
				length ? "; " : "", i, p->list->n,
				place->export_name, place->address.text,
				why ? why + 2 : state);
	}
	if (!length)
		return NBD_LINK_CONNECTED;
	(void)snprintf(p->state, sizeof(p->state), "%s%s", prefixes[worst],
		       text);
	return p->state;
}

/* ---- life ---- */

/* What all parts can, and the least of their limits. */
static void add_export(struct nbd_parts *p, const struct nbd_export *export,
		       unsigned index)
{
	struct nbd_export *common = &p->common;
	uint16_t read_only = (common->flags | export->flags) &
			     NBD_TRANSMIT_READ_ONLY;

	/* The size may have been left open. */
	p->list->items[index].size = export->size;
	if (index == 0) {
		*common = *export;
		common->has_description = false;
		return;
	}
	common->flags = (common->flags & export->flags) | read_only;
	if (export->max_payload < common->max_payload)
		common->max_payload = export->max_payload;
	if (export->min_block > common->min_block)
		common->min_block = export->min_block;
}

static int place_connect(struct nbd_parts *p,
			 const struct nbd_parts_options *options,
			 int timeout_ms, unsigned index, int *ret_fd,
			 struct nbd_export *ret, struct error *err)
{
	const struct part *part = &options->parts->items[index];
	const struct nbd_connect_options connect = {
		.timeout_ms = timeout_ms,
		.silence_ms = (unsigned)timeout_ms,
		.cancel_fd = -1,
	};
	struct nbd_address address;
	int r = nbd_address_resolve(part->address, &address, err);

	if (r == 0)
		r = nbd_connect(&address, part->export_name, &connect, ret_fd,
				ret, err);
	if (r < 0)
		return r;
	r = nbd_export_check(ret, part->size ? part->size : ret->size,
			     DEVICE_BLOCK_SIZE, options->read_only, err);
	if (r == 0)
		r = parts_keep_incarnation(
			&p->list->items[index],
			ret->has_description ? ret->description : "", err);
	if (r < 0) {
		fd_close(*ret_fd);
		return error_prefix(err, r, "NBD server %s, export '%s': ",
				    part->address, part->export_name);
	}
	add_export(p, ret, index);
	return 0;
}

/* As place_connect(), for a part that another process had. Its link connects.
 */
static int place_resume(struct nbd_parts *p,
			const struct nbd_parts_options *options, unsigned index,
			int *ret_fd, struct nbd_export *ret)
{
	*ret = options->before[index];
	*ret_fd = -1;
	add_export(p, ret, index);
	return 0;
}

static void limits_set(struct nbd_parts *p)
{
	uint32_t piece = DATA_ALL / p->list->n;

	if (piece > NBD_LINK_DATA_MAX)
		piece = NBD_LINK_DATA_MAX;
	if (piece < NBD_LINK_DATA_MIN)
		piece = NBD_LINK_DATA_MIN;
	if (piece > p->common.max_payload)
		piece = p->common.max_payload;
	p->piece_max = piece & ~(uint32_t)4095;
	p->data_max = p->list->n > 1 ? NBD_LINK_DATA_MAX : p->piece_max;
}

static int parts_connect(struct nbd_parts *p,
			 const struct nbd_parts_options *options,
			 int timeout_ms, struct error *err)
{
	const unsigned n = options->parts->n;
	auto_free struct nbd_export *exports = calloc(n, sizeof(*exports));
	int fds[SEGMENTS_PARTS_MAX];
	unsigned connected = 0, taken = 0;
	int r = exports ? 0 : error_set(err, ENOMEM, "no memory");

	for (; r == 0 && connected < n; connected += r == 0)
		r = options->before
			    ? place_resume(p, options, connected,
					   &fds[connected], &exports[connected])
			    : place_connect(p, options, timeout_ms, connected,
					    &fds[connected],
					    &exports[connected], err);
	if (r == 0)
		r = parts_segments(p->list, &p->segments, err);
	if (r == 0)
		limits_set(p);
	for (; r == 0 && taken < n; taken++)
		r = place_new(p, &p->list->items[taken], fds[taken],
			      &exports[taken], options->before, err);
	for (; taken < connected; taken++)
		fd_close(fds[taken]);
	return r;
}

int nbd_parts_new(const struct nbd_parts_options *options, int timeout_ms,
		  struct nbd_parts **ret, struct error *err)
{
	struct nbd_parts *p = calloc(1, sizeof(*p));
	int r;

	if (p)
		p->list = malloc(sizeof(*p->list));
	if (!p || !p->list) {
		free(p);
		return error_set(err, ENOMEM, "no memory for a device");
	}
	*p->list = *options->parts;
	p->dead_timeout_ms = options->dead_timeout_ms;
	TAILQ_INIT(&p->waiting);
	for (unsigned i = 0; i < PIECES_MAX; i++) {
		p->pieces[i].parts = p;
		p->pieces[i].next = p->unused;
		p->unused = &p->pieces[i];
	}
	r = parts_connect(p, options, timeout_ms, err);
	if (r < 0) {
		nbd_parts_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void nbd_parts_free(struct nbd_parts *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->n_places; i++)
		place_free(p->places[i]);
	free(p->grown);
	free(p->list);
	free(p);
}
