/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: what there is, and what there is room for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/controller.h"
#include "csi/reply.h"
#include "csi/request.h"
#include "volume/placement.h"

#define PAGE_MAX     5000 /* volumes; under the 4 MiB a client takes */
#define PROBLEM_SIZE 512  /* bytes with NUL */

/* ---- is something wrong? ---- */

struct nodes {
	struct node_state *states;
	size_t n;
};

/* A problem of the node that has a split, or NULL. */
static const char *node_problem(const struct nodes *nodes, const char *name)
{
	for (size_t i = 0; i < nodes->n; i++) {
		const struct node_state *state = &nodes->states[i];

		if (strcmp(state->record.name, name) == 0)
			return state->reachable ? NULL : state->problem;
	}
	return "it is not known any more";
}

/* The first thing a person should know of, worst first; else "". */
static void find_problem(const struct volume_record *record,
			 const struct nodes *nodes, char *ret)
{
	ret[0] = '\0';
	if (record->phase != VOLUME_READY) {
		(void)snprintf(ret, PROBLEM_SIZE, "the volume is %s",
			       record->phase == VOLUME_CREATING
				       ? "not finished"
				       : "being deleted");
		return;
	}
	for (size_t i = 0; i < record->n_splits && !ret[0]; i++) {
		const char *problem = node_problem(nodes,
						   record->splits[i].node);

		if (problem)
			(void)snprintf(ret, PROBLEM_SIZE,
				       "split %zu is on node %s: %.300s", i,
				       record->splits[i].node, problem);
	}
	for (size_t i = 0; i < record->n_conditions && !ret[0]; i++)
		if (!record->conditions[i].status)
			(void)snprintf(ret, PROBLEM_SIZE, "%s",
				       record->conditions[i].message);
}

/* ---- ListVolumes ---- */

static Csi__V1__ListVolumesResponse__Entry *entry_of(
	struct csi_call *c, const struct volume_record *record,
	const struct nodes *nodes)
{
	Csi__V1__ListVolumesResponse__Entry *entry = reply_new(
		c, &csi__v1__list_volumes_response__entry__descriptor);
	char problem[PROBLEM_SIZE];

	find_problem(record, nodes, problem);
	entry->volume = reply_volume(c, record);
	entry->status = reply_new(
		c, &csi__v1__list_volumes_response__volume_status__descriptor);
	entry->status->volume_condition = reply_condition(c, problem);
	return entry;
}

/* Those from @first on, as many as are wanted. */
static int fill_page(struct csi_call *c, int32_t max_entries,
		     struct volume_record *const *records, size_t n,
		     Csi__V1__ListVolumesResponse *out)
{
	size_t most = max_entries > 0 && max_entries < PAGE_MAX
			      ? (size_t)max_entries
			      : PAGE_MAX;
	size_t count = n < most ? n : most;
	struct nodes nodes = {0};
	char token[CSI_TOKEN_SIZE];
	int r;

	if (count == 0)
		return 0;
	r = volume_node_list(c->csi->volumes, &nodes.states, &nodes.n, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	out->entries = rpc_alloc(c->rpc, count * sizeof(void *));
	out->n_entries = count;
	for (size_t i = 0; i < count; i++)
		out->entries[i] = entry_of(c, records[i], &nodes);
	if (count < n)
		out->next_token = rpc_strdup(
			c->rpc,
			csi_token_format(token, records[count - 1]->name));
	node_states_free(nodes.states, nodes.n);
	return 0;
}

/*
 * By name, and a token is a name: a volume that stays is seen exactly once,
 * whatever comes and goes between two pages.
 */
int csi_list_volumes(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__ListVolumesRequest *in = in_;
	struct volume_record **records = NULL;
	char after[RECORD_NAME_SIZE];
	size_t n = 0, first = 0;
	int r;

	if (csi_token_parse(in->starting_token, after) < 0)
		return csi_fail(c, RPC_ABORTED,
				"starting_token is not one that ListVolumes "
				"gave; begin again without");
	r = volume_list(c->csi->volumes, &records, &n, NULL, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	while (after[0] && first < n &&
	       strcmp(records[first]->name, after) <= 0)
		first++;
	r = fill_page(c, in->max_entries, records + first, n - first, out);
	volume_records_free(records, n);
	return r;
}

/* ---- ControllerGetVolume ---- */

int csi_controller_get_volume(struct csi_call *c, const void *in_, void *out_)
{
	const Csi__V1__ControllerGetVolumeRequest *in = in_;
	Csi__V1__ControllerGetVolumeResponse *out = out_;
	struct volume_record *record = NULL;
	struct volume_status *status = NULL;
	int r = csi_find(c, in->volume_id, &record);

	if (r < 0)
		return r;
	r = volume_status_get(c->csi->volumes, record->name, &status, c->err);
	if (r < 0) {
		volume_record_free(record);
		return csi_fail_errno(c, r);
	}
	out->volume = reply_volume(c, record);
	out->status = reply_new(
		c,
		&csi__v1__controller_get_volume_response__volume_status__descriptor);
	out->status->volume_condition = reply_condition(
		c, status->n_conditions ? status->conditions[0].message : "");
	volume_status_free(status);
	volume_record_free(record);
	return 0;
}

/* ---- GetCapacity ---- */

static Google__Protobuf__Int64Value *number(struct csi_call *c, uint64_t value)
{
	Google__Protobuf__Int64Value *number = reply_new(
		c, &google__protobuf__int64_value__descriptor);

	number->value = (int64_t)value;
	return number;
}

static int tell_room(struct csi_call *c, const struct request *request,
		     Csi__V1__GetCapacityResponse *out)
{
	struct volume_room room;
	int r = volume_room_get(c->csi->volumes, &request->spec, &room, c->err);

	if (r < 0)
		return csi_fail_errno(c, r);
	out->available_capacity = room.available > INT64_MAX
					  ? INT64_MAX
					  : (int64_t)room.available;
	out->maximum_volume_size = number(c, room.maximum);
	out->minimum_volume_size = number(c, request_minimum(&request->spec));
	return 0;
}

int csi_get_capacity(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__GetCapacityRequest *in = in_;
	struct request request = {0};
	struct error why = {0};
	int here = 1, r = 0;

	/* A wrong parameter is an error; what cannot be used has no room. */
	if (request_read(&request, (ProtobufCMessage *const *)in->parameters,
			 in->n_parameters, NULL, 0, c->err) < 0)
		r = csi_fail_errno(c, -EINVAL);
	request_done(&request);
	if (r == 0 && in->accessible_topology) {
		here = request_place_known(c->csi, in->accessible_topology,
					   c->err);
		if (here < 0)
			r = csi_fail_errno(c, here);
	}
	if (r < 0 || !here)
		return r;
	if (request_read(&request, (ProtobufCMessage *const *)in->parameters,
			 in->n_parameters, in->volume_capabilities,
			 in->n_volume_capabilities, &why) == 0)
		r = tell_room(c, &request, out);
	request_done(&request);
	return r;
}
