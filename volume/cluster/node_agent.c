/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/cluster/node_agent.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "initiator/initiator.h"
#include "volume/op/context.h"

#define ASK_MS    3000 /* for blockd, on the same machine */
#define RETRY_MS  2000 /* after something failed */
#define REFRESH   6    /* beats between looks at the record, if all is well */
#define TRIES_MAX 5    /* somebody else writes the record meanwhile */

struct keeper {
	struct volume_context *ctx;
	const struct node_agent_request *request;
	struct node_client *blockd;  /* owned; NULL: there is none to ask */
	struct node_report *report;  /* owned: as it is now */
	struct node_report *written; /* owned: as last written; NULL: unknown */
	unsigned fresh;              /* beats since the record was looked at */
	int told;                    /* the error last told; 1: nothing yet */
};

static int no_memory(struct error *err)
{
	return error_set(err, ENOMEM, "out of memory");
}

static void agent_report(struct keeper *keeper, int r, const char *text)
{
	if (r != keeper->told && keeper->request->told)
		keeper->request->told(keeper->request->context, r < 0, text);
	keeper->told = r;
}

/* ---- asking blockd ---- */

static int blockd_open(struct keeper *keeper, struct error *err)
{
	struct node_record local = *keeper->request->node;
	const char *control = keeper->request->local_control;

	if (control && strlen(control) >= sizeof(local.control_address))
		return error_set(err, EINVAL,
				 "the control address is too "
				 "long");
	if (control)
		(void)strcpy(local.control_address, control);
	if (!local.control_address[0])
		return 0;
	return node_client_new(&local, ASK_MS, &keeper->blockd, err);
}

/* The transports that this machine can attach by. */
static void transports_report(struct node_report *report)
{
	struct initiator_capability found[NODE_REPORT_TRANSPORTS_MAX];
	size_t n = initiator_probe(found, array_size(found));

	for (size_t i = 0; i < n; i++) {
		if (!found[i].usable)
			continue;
		(void)snprintf(report->transports[report->n_transports++],
			       sizeof(report->transports[0]), "%s",
			       found[i].transport);
	}
}

static int blockd_ask(struct keeper *keeper, struct node_report **ret,
		      struct error *err)
{
	struct node_state state = {.record = *keeper->request->node};
	int r = keeper->blockd ? node_client_get(keeper->blockd, &state, err)
			       : 0;

	if (r < 0)
		return r;
	if (!keeper->blockd) {
		(void)snprintf(state.version, sizeof(state.version), "%s",
			       TRIBUTARY_VERSION);
		(void)boot_id_read(state.boot_id); /* or "" */
	}
	*ret = node_report_of(&state);
	free(state.pools);
	if (!*ret)
		return no_memory(err);
	transports_report(*ret);
	return 0;
}

/* Make the report of now: as blockd answers, or that it does not. */
static int report_make(struct keeper *keeper, struct error *err)
{
	static const struct node_report nothing;
	struct node_report *next = NULL;
	struct error why = {0};
	int r = blockd_ask(keeper, &next, &why);

	if (r < 0)
		next = node_report_with(keeper->report ?: &nothing,
					NODE_READY_FALSE, NODE_REASON_SILENT,
					why.msg);
	if (!next)
		return no_memory(err);
	node_report_free(keeper->report);
	keeper->report = next;
	return r < 0 ? error_set(err, -r, "%s", why.msg) : 0;
}

/* ---- the record ---- */

/* Number @report as the one after @old (NULL: the first). */
static void report_follow(struct node_report *report,
			  const struct node_report *old)
{
	bool equal = old && old->epoch && node_report_equal(old, report);

	report->epoch = (old ? old->epoch : 0) + !equal;
	if (old && old->ready == report->ready)
		report->since_s = old->since_s;
}

/* @old as it shall be; its report is left out, and goes on living. */
static int record_next(struct keeper *keeper, const struct node_record *old,
		       const struct node_report *report,
		       struct node_report **ret_report, char **ret_json,
		       struct error *err)
{
	struct node_record next = *keeper->request->node;
	struct node_report *merged = NULL;
	int r;

	node_record_inherit(&next, old);
	if (next.labels.count == 0)
		next.labels = old->labels; /* both borrowed here */
	next.report = old->report;
	if (report) {
		merged = node_report_with(report, report->ready, report->reason,
					  report->message);
		if (!merged)
			return no_memory(err);
		report_follow(merged, old->report);
		next.report = merged;
	}
	r = node_record_encode(&next, ret_json, err);
	if (r < 0)
		node_report_free(merged);
	else
		*ret_report = merged;
	return r;
}

static int record_swap(struct keeper *keeper, struct node_record *old,
		       const char *json, struct error *err)
{
	const struct store_ops *ops = keeper->ctx->store->ops;
	auto_free char *now = NULL;
	int r;

	assert(json); /* record_next() made it */
	if (!old->resource_version[0])
		return ops->create(keeper->ctx->store, RECORD_KIND_NODE,
				   old->name, json, NULL, err);
	r = node_record_encode(old, &now, err);
	if (r < 0 || strcmp(now, json) == 0)
		return r;
	return ops->compare_and_swap(keeper->ctx->store, RECORD_KIND_NODE,
				     old->name, old->resource_version, json,
				     NULL, err);
}

/* The record says it, too: an event that cannot be written is no matter. */
static void tell_returned(struct keeper *keeper, const char *name)
{
	(void)store_tell(keeper->ctx->store, RECORD_KIND_NODE, name, false,
			 "NodeReturned", NULL,
			 "its keeper is heard again; volumes that lost a split "
			 "there are repaired by mounting them again");
}

/* Write the record once. @report NULL: the record's report stays. */
static int record_write_once(struct keeper *keeper,
			     const struct node_report *report,
			     struct error *err)
{
	const char *name = keeper->request->node->name;
	struct node_report *merged = NULL;
	struct node_record old = {0};
	auto_free char *json = NULL;
	int r = context_node_load(keeper->ctx, name, &old, err);

	if (r == -ENOENT) {
		(void)strcpy(old.name, name); /* it was checked */
		(void)uuid_make(old.uid);
		old.created_s = clock_wall_s();
		r = 0;
	}
	if (r == 0)
		r = record_next(keeper, &old, report, &merged, &json, err);
	if (r == 0)
		r = record_swap(keeper, &old, json, err);
	if (r == 0 && report && report->ready == NODE_READY_TRUE &&
	    old.report && strcmp(old.report->reason, NODE_REASON_LOST) == 0)
		tell_returned(keeper, name);
	if (r == 0 && report) {
		node_report_free(keeper->written);
		keeper->written = merged;
	} else {
		node_report_free(merged);
	}
	node_record_done(&old);
	return r;
}

static int record_write(struct keeper *keeper, const struct node_report *report,
			struct error *err)
{
	int r = -ESTALE;

	for (int i = 0; i < TRIES_MAX; i++) {
		if (r != -ESTALE && r != -ENOENT && r != -EEXIST)
			break;
		r = record_write_once(keeper, report, err);
	}
	return r;
}

/* ---- the loop ---- */

/* Do one turn. Returns 0, or the error of the report or the heartbeat. */
static int agent_turn(struct keeper *keeper, struct error *err)
{
	struct store *store = keeper->ctx->store;
	struct error why = {0};
	int r = report_make(keeper, err), w;

	if (r == 0)
		r = store->ops->beat(store, keeper->request->node->name, err);
	if (r == -EBUSY)
		return r; /* another's record is none of ours */
	/* After trouble it may say that we were lost. */
	if (r < 0 || keeper->told < 0)
		keeper->fresh = REFRESH;
	if (!node_report_weighs(keeper->written, keeper->report) &&
	    ++keeper->fresh < REFRESH)
		return r;
	w = record_write(keeper, keeper->report, &why);
	if (w == 0 && r == 0)
		keeper->fresh = 0;
	return w < 0 ? error_set(err, -w, "%s", why.msg) : r;
}

/* True: it shall stop. */
static bool agent_wait_ms(const struct keeper *keeper, int64_t ms)
{
	struct pollfd stop = {.fd = keeper->request->stop_fd, .events = POLLIN};

	return poll(&stop, 1, ms > 0 ? (int)ms : 0) > 0;
}

static int say_stopped(struct keeper *keeper, struct error *err)
{
	const char *name = keeper->request->node->name;
	struct node_report *last;
	int r;

	if (!keeper->report)
		return 0;
	last = node_report_with(keeper->report, NODE_READY_FALSE,
				NODE_REASON_STOPPED,
				"it was stopped in good order");
	if (!last)
		return no_memory(err);
	r = record_write(keeper, last, err);
	node_report_free(last);
	return r < 0 ? r
		     : keeper->ctx->store->ops->beat_end(keeper->ctx->store,
							 name, err);
}

static int keeper_open(struct keeper *keeper, struct volume_context *ctx,
		       const struct node_agent_request *request,
		       struct error *err)
{
	int r = node_record_check(request->node, err);

	*keeper = (struct keeper){.ctx = ctx, .request = request, .told = 1};
	return r < 0 ? r : blockd_open(keeper, err);
}

static void keeper_done(struct keeper *keeper)
{
	node_client_free(keeper->blockd);
	node_report_free(keeper->report);
	node_report_free(keeper->written);
}

int volume_node_register(struct volume_context *ctx,
			 const struct node_agent_request *request,
			 struct error *err)
{
	struct keeper keeper;
	int r = keeper_open(&keeper, ctx, request, err);

	if (r < 0)
		return r;
	r = report_make(&keeper, err);
	if (r == 0)
		r = record_write(&keeper, NULL, err);
	keeper_done(&keeper);
	return r;
}

int volume_node_agent_run(struct volume_context *ctx,
			  const struct node_agent_request *request,
			  struct error *err)
{
	struct keeper keeper;
	int64_t start_ms, wait;
	int r = keeper_open(&keeper, ctx, request, err);

	if (r < 0)
		return r;
	do {
		struct error why = {0};

		start_ms = clock_ms();
		r = agent_turn(&keeper, &why);
		agent_report(&keeper, r,
			     r < 0 ? error_text(&why) : "known and ready");
		wait = r < 0 ? RETRY_MS
			     : STORE_BEAT_S * 1000 - (clock_ms() - start_ms);
	} while (!agent_wait_ms(&keeper, wait));
	/* A node that another machine claims to be has not stopped. */
	r = keeper.told == -EBUSY ? 0 : say_stopped(&keeper, err);
	keeper_done(&keeper);
	return r;
}
