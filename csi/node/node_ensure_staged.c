/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/node_ensure_staged.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "csi/call/capability.h"
#include "csi/node/bind_mount.h"
#include "csi/node/publish_mount.h"
#include "csi/node/timeout_call.h"
#include "volume/mount/union_process.h"

/* ---- how it is ---- */

enum node_health node_health(const char *path, struct statvfs *vfs)
{
	struct mount_info info;
	struct statvfs unused;
	int r = bind_mount_find(path, &info, NULL);

	if (r == -ENOENT)
		return NODE_GONE;
	if (r == 0)
		r = timeout_statvfs(info.target, NODE_ANSWER_MS,
				    vfs ? vfs : &unused);
	if (r == 0)
		return NODE_WELL;
	return r == -ETIMEDOUT || r == -EAGAIN ? NODE_SILENT : NODE_DEAD;
}

const char *node_health_text(enum node_health health, const char *path,
			     char *ret, size_t size)
{
	switch (health) {
	case NODE_WELL: ret[0] = '\0'; break;
	case NODE_GONE:
		(void)snprintf(ret, size,
			       "nothing is mounted at '%s'; publish the volume "
			       "again",
			       path);
		break;
	case NODE_DEAD:
		(void)snprintf(
			ret, size,
			"the mount at '%s' does not answer; stage and publish the "
			"volume again",
			path);
		break;
	case NODE_SILENT:
		(void)snprintf(
			ret, size,
			"the mount at '%s' does not answer in time; it may wait "
			"for a silent node",
			path);
		break;
	}
	return ret;
}

/* ---- staged_attach ---- */

static int staged_attach(struct csi *csi, const struct volume_record *record,
			 const stage_request *stage, struct error *err)
{
	const struct volume_attachment *a = volume_record_attachment(
		record, volume_context_node(csi->volumes));
	auto_free char *options = capability_mount_options(
		stage->volume_capability, false);
	bool block = !volume_spec_is_tree(&record->spec);
	const struct volume_attach_request request = {
		.name = record->name,
		.mount_point = block ? NULL : stage->staging_target_path,
		.mount_options = block ? NULL : options,
		.read_only = a && a->read_only,
	};

	if (!options)
		return error_set(err, ENOMEM, "out of memory");
	return volume_attach(csi->volumes, &request, err);
}

/* ---- publications ---- */

static bool is_unmounted(const publish_request *p)
{
	struct mount_info info;

	return bind_mount_find(p->target_path, &info, NULL) == -ENOENT;
}

/* Tell whether a mount is dead, or of an earlier tree than the staged one. */
static bool tree_is_left_over(const struct csi *csi, const publish_request *p,
			      const char *volume)
{
	struct mount_info staged, shown;

	if (capability_is_block(p->volume_capability))
		return bind_mount_find(p->target_path, &shown, NULL) == 0;
	return bind_mount_find(p->target_path, &shown, NULL) == 0 &&
	       publish_mount_is_ours(csi, &shown, volume) &&
	       bind_mount_find(p->staging_target_path, &staged, NULL) == 0 &&
	       staged.device != shown.device;
}

/*
 * Make publications again that show a tree of before.
 *
 * @shown  those that were mounted before the volume was attached
 */
static int show_again(struct csi *csi, const struct volume_record *record,
		      node_state *state, const bool *shown, struct error *err)
{
	const char *volume = record->name;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < state->n_published; i++) {
		const publish_request *p = state->published[i];

		if (!tree_is_left_over(csi, p, volume) &&
		    !(shown[i] && is_unmounted(p)))
			continue;
		r = publish_mount(csi, record, p, err);
		n += !capability_is_block(p->volume_capability);
	}
	if (n == 0)
		return r;
	log_warning("volume=%s had died here; of it %zu publications are made "
		    "again. A container that was running keeps the dead one "
		    "until it is started again",
		    volume, n);
	if (r < 0 || state->revived)
		return r;
	state->revived = true;
	return node_state_save(csi->state_dir, volume, state, err);
}

/*
 * The staging mount is gone, a publication has its union still: so has the
 * staging path again, and nobody notices.
 */
static void stage_from_publication(const struct csi *csi, const char *volume,
				   const node_state *state)
{
	for (size_t i = 0; i < state->n_published; i++) {
		const publish_request *p = state->published[i];
		struct mount_info info;

		if (bind_mount_find(p->target_path, &info, NULL) == 0 &&
		    publish_mount_is_ours(csi, &info, volume) &&
		    node_health(p->target_path, NULL) == NODE_WELL &&
		    publish_mount_restore(p, NULL) == 0)
			return;
	}
}

static int staged_check(const struct csi *csi,
			const struct volume_record *record,
			const node_state *state, bool asked, struct error *err)
{
	const char *path = state->stage->staging_target_path;
	char text[ERROR_TEXT_MAX], real[PATH_MAX];
	enum node_health health = node_health(path, NULL);

	if (health == NODE_SILENT)
		return error_set(err, EHOSTUNREACH, "%s",
				 node_health_text(NODE_SILENT, path, text,
						  sizeof(text)));
	if (health != NODE_GONE)
		return 0;
	stage_from_publication(csi, record->name, state);
	if (!asked && node_health(path, NULL) == NODE_GONE &&
	    mounts_canonical(path, real, NULL) == 0 && union_find(real) > 0)
		return error_set(
			err, EBUSY,
			"'%s' was unmounted, but its union still runs and may be "
			"in use",
			path);
	return 0;
}

int node_ensure_staged(struct csi *csi, const struct volume_record *record,
		       node_state *state, bool asked, struct error *err)
{
	auto_free bool *shown = calloc(state->n_published + 1, sizeof(*shown));
	int r = 0;

	if (!shown)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < state->n_published; i++)
		shown[i] = volume_spec_is_tree(&record->spec) &&
			   !is_unmounted(state->published[i]);
	if (volume_spec_is_tree(&record->spec))
		r = staged_check(csi, record, state, asked, err);
	if (r == 0)
		r = staged_attach(csi, record, state->stage, err);
	return r < 0 ? r : show_again(csi, record, state, shown, err);
}
