/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service: what there is. */
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/reply.h"
#include "csi/controller/controller.h"
#include "volume/flow/health_check.h"
#include "volume/op/volume_walk.h"

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

#define PAGE_FULL 1 /* volume_page_add() ends the walk */

struct volume_page {
	struct csi_call *c;
	size_t max;
	Csi__V1__ListVolumesResponse *out;
};

static int volume_page_add(void *page_, const struct volume_record *record,
			   struct error *err)
{
	struct volume_page *page = page_;
	Csi__V1__ListVolumesResponse *out = page->out;

	(void)err;
	if (csi_record_is_inline(record)) /* not the controller's */
		return 0;
	if (out->n_entries == page->max)
		return PAGE_FULL;
	out->entries[out->n_entries++] = volume_entry_of(page->c, record);
	return 0;
}

/*
 * List by name. A volume that stays is in exactly one page, whatever comes and
 * goes between two.
 */
int csi_list_volumes(struct csi_call *c, const void *in_, void *out_)
{
	const Csi__V1__ListVolumesRequest *in = in_;
	Csi__V1__ListVolumesResponse *out = out_;
	struct volume_page page = {
		.c = c, .max = csi_page_size(in->max_entries), .out = out};
	struct record_place place;
	int r;

	if (csi_token_parse(in->starting_token, &place) < 0)
		return csi_fail(c, RPC_ABORTED,
				"starting_token is not one that ListVolumes "
				"gave; begin again without");
	out->entries = rpc_alloc(c->rpc, page.max * sizeof(void *));
	r = volume_walk(c->csi->volumes, &place, volume_page_add, &page, NULL,
			c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	if (r == PAGE_FULL)
		out->next_token = reply_token(c, &place);
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
