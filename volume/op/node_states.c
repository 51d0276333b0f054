/* SPDX-License-Identifier: Apache-2.0 */
/* The state of nodes, and the calls of volume.h that list them. */
#include "volume/op/node_states.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/parallel.h"
#include "rpc/rpc_cert.h"

#define ASKED_AT_ONCE 32 /* nodes; each has a thread that waits */

/* ---- heartbeats ---- */

struct beats {
	struct store_beat *items; /* owned, by name */
	size_t count;
};

static int state_by_name(const void *a, const void *b)
{
	return strcmp(((const struct store_beat *)a)->name,
		      ((const struct store_beat *)b)->name);
}

static int beats_load(struct volume_context *ctx, struct beats *ret,
		      struct error *err)
{
	int r = ctx->store->ops->beats(ctx->store, &ret->items, &ret->count,
				       err);

	if (r == 0 && ret->count > 0)
		qsort(ret->items, ret->count, sizeof(*ret->items),
		      state_by_name);
	return r;
}

static void state_hear(struct node_state *state, const struct beats *beats)
{
	const struct node_report *report = state->record.report;
	struct store_beat wanted = {0}, *found;

	memcpy(wanted.name, state->record.name, sizeof(wanted.name));
	found = beats->count ? bsearch(&wanted, beats->items, beats->count,
				       sizeof(wanted), state_by_name)
			     : NULL;
	state->last_seen_s = found ? found->age_s : -1;
	if (found)
		state->lost = found->age_s < 0 ||
			      found->age_s > STORE_BEAT_LOST_S;
	else /* somebody took it away: a keeper that stops says so first */
		state->lost = report && report->ready != NODE_READY_FALSE;
	if (state->lost && found)
		(void)snprintf(state->problem, sizeof(state->problem),
			       "lost: no heartbeat for %" PRId64 " s",
			       found->age_s);
	else if (state->lost)
		(void)strcpy(state->problem, "lost: its heartbeat is gone");
}

/* ---- asking ---- */

void node_state_warn(struct node_state *state)
{
	const struct rpc_tls tls = {
		.ca_file = state->record.tls_ca_file,
		.cert_file = state->record.tls_cert_file,
	};

	if (!state->warning[0])
		(void)rpc_cert_warns_of(&tls, (int64_t)time(NULL),
					state->warning);
}

static void state_cordon(struct node_state *state)
{
	for (size_t i = 0; i < state->n_pools; i++)
		state->pools[i].cordoned = node_record_cordons(
			&state->record, state->pools[i].name);
}

/* Ask a node whose record is known; a problem goes into @state. */
static void node_ask(struct volume_context *ctx, struct node_state *state,
		     bool soon)
{
	struct node_client *client;
	struct error err = {0};
	int r;

	if (state->problem[0]) /* unreadable, or lost */
		return;
	if (!state->record.control_address[0])
		r = 0;
	else
		r = context_client_of(ctx, &state->record, &client, &err);
	if (r == 0 && state->record.control_address[0])
		r = soon ? node_client_get_soon(client, state, &err)
			 : node_client_get(client, state, &err);
	state->reachable = r == 0;
	state_cordon(state);
	node_state_warn(state);
	if (r < 0)
		(void)snprintf(state->problem, sizeof(state->problem), "%s",
			       error_text(&err));
}

int volume_node_get(struct volume_context *ctx, const char *name,
		    struct node_state **ret, struct error *err)
{
	struct beats beats = {0};
	struct node_state *state;
	int r = name_check("node", name, err);

	if (r < 0)
		return r;
	state = calloc(1, sizeof(*state));
	if (!state)
		return error_set(err, ENOMEM, "out of memory");
	r = context_node_load(ctx, name, &state->record, err);
	if (r == 0)
		r = beats_load(ctx, &beats, err);
	if (r < 0) {
		node_states_free(state, 1);
		return r;
	}
	state_hear(state, &beats);
	free(beats.items);
	node_ask(ctx, state, false);
	*ret = state;
	return 0;
}

struct ask {
	struct volume_context *ctx;
	struct node_state *states;
};

static void state_ask(void *ask_, size_t index)
{
	struct ask *ask = ask_;

	node_ask(ask->ctx, &ask->states[index], false);
}

/*
 * Load a node's record. A record that cannot be read leaves a name and a
 * problem, but no address.
 */
static void state_load(const struct store_object *object,
		       struct node_state *state)
{
	struct error why = {0};

	if (node_record_decode(object->json, object->length, &state->record,
			       &why) == 0) {
		memcpy(state->record.resource_version, object->version,
		       sizeof(object->version));
		return;
	}
	memcpy(state->record.name, object->name, sizeof(object->name));
	(void)snprintf(state->problem, sizeof(state->problem),
		       "its record cannot be read: %.300s", why.msg);
}

/* One page; @state is room for one. */
static int page_foreach(struct volume_context *ctx,
			const struct store_page *page, node_state_each each,
			void *context, struct node_state *state,
			struct error *err)
{
	struct beats beats = {0};
	/* After the records: who came back meanwhile is not called lost. */
	int r = page->count > 0 ? beats_load(ctx, &beats, err) : 0;

	for (size_t i = 0; r == 0 && i < page->count; i++) {
		*state = (struct node_state){0};
		state_load(&page->objects[i], state);
		state_hear(state, &beats);
		r = each(context, state, err);
		node_record_done(&state->record);
	}
	free(beats.items);
	return r;
}

int node_states_foreach(struct volume_context *ctx, node_state_each each,
			void *context, struct error *err)
{
	struct node_state *state = calloc(1, sizeof(*state));
	struct record_place place = {0};
	bool more = true;
	int r = state ? 0 : error_set(err, ENOMEM, "out of memory");

	while (r == 0 && more) {
		struct store_page page = {0};

		r = ctx->store->ops->list(ctx->store, RECORD_KIND_NODE, &place,
					  STORE_PAGE, &page, err);
		if (r == 0)
			r = page_foreach(ctx, &page, each, context, state, err);
		more = page.more;
		store_page_done(&page);
	}
	free(state);
	return r;
}

struct states {
	struct node_state *items;
	size_t count, room;
};

static int states_add(void *states_, struct node_state *state,
		      struct error *err)
{
	struct states *states = states_;

	if (states->count == states->room) {
		size_t room = states->room ? 2 * states->room : 4;
		struct node_state *items = reallocarray(states->items, room,
							sizeof(*items));

		if (!items)
			return error_set(err, ENOMEM, "out of memory");
		states->items = items;
		states->room = room;
	}
	states->items[states->count++] = *state;
	state->record = (struct node_record){0};
	return 0;
}

int node_states_load(struct volume_context *ctx, struct node_state **ret,
		     size_t *ret_count, struct error *err)
{
	struct states states = {0};
	int r = node_states_foreach(ctx, states_add, &states, err);

	if (r < 0) {
		node_states_free(states.items, states.count);
		return r;
	}
	*ret = states.items;
	*ret_count = states.count;
	return 0;
}

int volume_node_list(struct volume_context *ctx, struct node_state **ret,
		     size_t *ret_count, struct error *err)
{
	struct ask ask = {.ctx = ctx};
	size_t n = 0;
	int r = node_states_load(ctx, &ask.states, &n, err);

	if (r < 0)
		return r;
	parallel_run(n, ASKED_AT_ONCE, state_ask, &ask);
	*ret = ask.states;
	*ret_count = n;
	return 0;
}

/* ---- for placement ---- */

bool node_state_is_reported(const struct node_state *state)
{
	const struct node_report *report = state->record.report;

	return report && report->epoch && report->ready == NODE_READY_TRUE &&
	       state->last_seen_s >= 0 && !state->problem[0] &&
	       state->record.control_address[0];
}

void node_state_ask(struct volume_context *ctx, const char *name,
		    struct node_state *ret)
{
	struct error err = {0};

	*ret = (struct node_state){0};
	if (context_node_load(ctx, name, &ret->record, &err) == 0) {
		node_ask(ctx, ret, true);
		return;
	}
	(void)snprintf(ret->record.name, sizeof(ret->record.name), "%s", name);
	(void)snprintf(ret->problem, sizeof(ret->problem), "%s",
		       error_text(&err));
}
