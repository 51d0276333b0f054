/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: what there is. */
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/reply.h"
#include "csi/controller/controller.h"
#include "volume/flow/health_check.h"

#define PAGE_MAX 5000 /* volumes; under the 4 MiB a client takes */

/* ---- from the record alone ---- */

/*
 * As the observer of the leading controller left it (observer.h): nobody
 * waits here for a node that is silent.
 */
static Csi__V1__VolumeCondition *condition_of(
	struct csi_call *c, const struct volume_record *record)
{
	char problem[RECORD_TEXT_SIZE];

	return reply_condition(c, volume_record_problem(record, problem));
}

/* The nodes it is published to. Returns how many. */
static size_t nodes_of(struct csi_call *c, const struct volume_record *record,
		       char ***ret)
{
	size_t n = 0;

	*ret = rpc_alloc(c->rpc, (record->n_attachments + 1) * sizeof(char *));
	for (size_t i = 0; i < record->n_attachments; i++)
		if (record->attachments[i].published)
			(*ret)[n++] = rpc_strdup(c->rpc,
						 record->attachments[i].node);
	return n;
}

/* ---- ListVolumes ---- */

static Csi__V1__ListVolumesResponse__Entry *volume_entry_of(
	struct csi_call *c, const struct volume_record *record)
{
	Csi__V1__ListVolumesResponse__Entry *entry = reply_new(
		c, &csi__v1__list_volumes_response__entry__descriptor);

	entry->volume = reply_volume(c, record);
	entry->status = reply_new(
		c, &csi__v1__list_volumes_response__volume_status__descriptor);
	entry->status->n_published_node_ids = nodes_of(
		c, record, &entry->status->published_node_ids);
	entry->status->volume_condition = condition_of(c, record);
	return entry;
}

/* Fill a page with as many of the records as are wanted. */
static void volume_fill_page(struct csi_call *c, int32_t max_entries,
			     struct volume_record *const *records, size_t n,
			     Csi__V1__ListVolumesResponse *out)
{
	size_t most = max_entries > 0 && max_entries < PAGE_MAX
			      ? (size_t)max_entries
			      : PAGE_MAX;
	size_t count = n < most ? n : most;
	char token[CSI_TOKEN_SIZE];

	if (count == 0)
		return;
	out->entries = rpc_alloc(c->rpc, count * sizeof(void *));
	out->n_entries = count;
	for (size_t i = 0; i < count; i++)
		out->entries[i] = volume_entry_of(c, records[i]);
	if (count < n)
		out->next_token = rpc_strdup(
			c->rpc,
			csi_token_format(token, records[count - 1]->name));
}

/* Volumes of pods are not the controller's: move their records to the end. */
static size_t leave_out_inline(struct volume_record **records, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		struct volume_record *record = records[i];

		if (csi_record_is_inline(record))
			continue;
		records[i] = records[kept];
		records[kept++] = record;
	}
	return kept;
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
	size_t n = 0, listed, first = 0;
	int r;

	if (csi_token_parse(in->starting_token, after) < 0)
		return csi_fail(c, RPC_ABORTED,
				"starting_token is not one that ListVolumes "
				"gave; begin again without");
	r = volume_list(c->csi->volumes, &records, &n, NULL, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	listed = leave_out_inline(records, n);
	while (after[0] && first < listed &&
	       strcmp(records[first]->name, after) <= 0)
		first++;
	volume_fill_page(c, in->max_entries, records + first, listed - first,
			 out);
	volume_records_free(records, n);
	return 0;
}

/* ---- ControllerGetVolume ---- */

int csi_controller_get_volume(struct csi_call *c, const void *in_, void *out_)
{
	const Csi__V1__ControllerGetVolumeRequest *in = in_;
	Csi__V1__ControllerGetVolumeResponse *out = out_;
	struct volume_record *record = NULL;
	int r = csi_find(c, in->volume_id, &record);

	if (r < 0)
		return r;
	out->volume = reply_volume(c, record);
	out->status = reply_new(
		c,
		&csi__v1__controller_get_volume_response__volume_status__descriptor);
	out->status->n_published_node_ids = nodes_of(
		c, record, &out->status->published_node_ids);
	out->status->volume_condition = condition_of(c, record);
	volume_record_free(record);
	return 0;
}
