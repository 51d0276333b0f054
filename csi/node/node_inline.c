/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Node service: the inline volume of a pod, made when it is published and
 * deleted when it is unpublished.
 *
 * The state on this node is written first, then the record, then anything else.
 * They are removed in the other order. So remains of a crash are found by the
 * id that the kubelet repeats, and by `trib volume list`: the record has the
 * pod and its node as labels.
 *
 * In between it is a volume like any other, staged at a path of our own.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/size.h"
#include "csi/call/capability.h"
#include "csi/call/csi_error.h"
#include "csi/node/inline.h"
#include "csi/node/node_ensure_staged.h"
#include "csi/node/node_group.h"
#include "csi/node/node_service.h"
#include "csi/node/publish_mount.h"

/* Beside the state, in RUN_DIR: mounts made there are seen by all of us. */
static void staging_dir(const struct csi *csi, char *ret, size_t size)
{
	(void)snprintf(ret, size, "%.*s/inline",
		       (int)(strlen(csi->state_dir) - strlen("/csi")),
		       csi->state_dir);
}

static void staging_path(const struct csi_call *c, char *ret, size_t size)
{
	char dir[PATH_MAX];

	staging_dir(c->csi, dir, sizeof(dir));
	(void)snprintf(ret, size, "%.4000s/%s", dir, c->id.name);
}

static int staging_make(struct csi_call *c, const char *path)
{
	char dir[PATH_MAX];
	int r;

	staging_dir(c->csi, dir, sizeof(dir));
	r = dir_make(dir, 0700, c->err);
	if (r == 0)
		r = dir_make(path, 0700, c->err);
	return r;
}

/* ---- taking it away ---- */

/* -ENOENT: there is none; -EBUSY: it is not this pod's, or not here. */
static int inline_find(struct csi_call *c, struct volume_record **ret)
{
	struct volume_record *record = NULL;
	const char *node;
	int r = volume_get(c->csi->volumes, c->id.name, &record, c->err);

	if (r < 0)
		return r;
	node = labels_get(&record->labels, CSI_LABEL_INLINE);
	if (csi_id_matches(&c->id, record) && node &&
	    strcmp(node, volume_context_node(c->csi->volumes)) == 0) {
		*ret = record;
		return 0;
	}
	volume_record_free(record);
	return error_set(c->err, EBUSY,
			 "there is a volume '%s', which is not the inline "
			 "volume of this pod on this node",
			 c->id.name);
}

/*
 * Take down all of the volume, here and on other nodes; each step may be
 * repeated.
 */
static int take_down(struct csi_call *c)
{
	const char *node = volume_context_node(c->csi->volumes);
	const struct volume_detach_request detach = {.name = c->id.name};
	int r = volume_detach(c->csi->volumes, &detach, c->err);

	if (r == 0)
		r = volume_unpublish(c->csi->volumes, c->id.name, node, c->err);
	if (r == 0)
		r = volume_delete(c->csi->volumes, c->id.name, c->err);
	return r;
}

/* Nothing remembers it any more. */
static int inline_forget(struct csi_call *c, node_state *state)
{
	char path[PATH_MAX];

	staging_path(c, path, sizeof(path));
	if (rmdir(path) < 0 && errno != ENOENT)
		return error_set(c->err, errno, "rmdir '%s': %s", path,
				 strerror(errno));
	node_state_clear_stage(state);
	return node_state_save(c->csi->state_dir, c->id.name, state, c->err);
}

static int remove_all(struct csi_call *c, node_state *state)
{
	struct volume_record *record = NULL;
	int r = inline_find(c, &record);

	volume_record_free(record);
	if (r == 0 || r == -ENOENT)
		r = take_down(c);
	return r < 0 ? r : inline_forget(c, state);
}

/* ---- NodePublishVolume ---- */

/* The text stays; after it, why it could not be undone. */
static int inline_undo(struct csi_call *c, const char *target,
		       node_state *state, int r)
{
	enum rpc_code code = csi_code(c->method, r);
	struct error first = *c->err;
	int e;

	/* The same call goes on with it. Another volume is left alone. */
	if (code == RPC_ABORTED || code == RPC_UNAVAILABLE || r == -EEXIST)
		return csi_fail_errno(c, r);
	e = publish_unmount(c->csi, c->id.name, target, c->err);
	if (e == 0) {
		node_state_remove(state, target);
		e = remove_all(c, state);
	}
	if (e < 0) {
		struct error why = *c->err;

		return csi_fail(c, RPC_UNAVAILABLE,
				"%s; and to undo it failed: %s",
				error_text(&first), error_text(&why));
	}
	*c->err = first;
	return csi_fail_errno(c, r);
}

/*
 * Check the limit only now, so that a running pod keeps its volume when the
 * limit falls.
 */
static int inline_check_limit(struct csi_call *c, const struct request *request)
{
	char text[2][SIZE_TEXT_MAX];

	if (c->csi->inline_limit == 0)
		return error_set(c->err, EOPNOTSUPP,
				 "inline volumes are not allowed on this node; "
				 "the driver's option --ephemeral-limit says "
				 "how large they may be");
	if (request->spec.capacity <= c->csi->inline_limit)
		return 0;
	return error_set(c->err, ERANGE,
			 "an inline volume of %s is more than the %s that one "
			 "may have here",
			 size_format(text[0], request->spec.capacity),
			 size_format(text[1], c->csi->inline_limit));
}

/* Check the record. Remains of a deletion that was cut short go first. */
static int check_record(struct csi_call *c, const struct request *request,
			node_state *state)
{
	struct volume_record *record = NULL;
	int r = inline_find(c, &record);
	bool deleting = r == 0 && record->phase == VOLUME_DELETING;

	volume_record_free(record);
	if (deleting)
		r = remove_all(c, state);
	if (deleting && r == 0)
		r = -ENOENT;
	return r == -ENOENT ? inline_check_limit(c, request) : r;
}

static void stage_of(const publish_request *in, stage_request *ret)
{
	csi__v1__node_stage_volume_request__init(ret);
	ret->volume_id = in->volume_id;
	ret->staging_target_path = in->staging_target_path;
	ret->volume_capability = in->volume_capability;
}

static int inline_remember(struct csi_call *c, const publish_request *in,
			   node_state *state)
{
	stage_request stage;
	int r;

	stage_of(in, &stage);
	r = state->stage ? 0 : node_state_set_stage(state, &stage, c->err);
	if (r == 0)
		r = node_state_add(state, in, c->err);
	if (r == 0)
		r = node_state_save(c->csi->state_dir, c->id.name, state,
				    c->err);
	return r;
}

static int inline_make(struct csi_call *c, const struct request *request,
		       struct volume_record **ret)
{
	const struct volume_create_request create = {
		.name = c->id.name,
		.spec = &request->spec,
		.labels = &request->labels,
	};
	const struct volume_publish_request publish = {
		.name = c->id.name,
		.node = volume_context_node(c->csi->volumes),
	};
	int r = volume_create(c->csi->volumes, &create, NULL, c->err);

	if (r == 0)
		r = volume_publish(c->csi->volumes, &publish, NULL, c->err);
	if (r == 0)
		r = volume_get(c->csi->volumes, c->id.name, ret, c->err);
	return r;
}

static int inline_give_group(struct csi_call *c,
			     const struct volume_record *record,
			     const publish_request *in)
{
	gid_t group;

	/* The runtime takes care of a guest's file system. */
	if (in->readonly || volume_spec_direct(&record->spec) ||
	    !capability_group(in->volume_capability, &group))
		return 0;
	return node_group_apply(in->staging_target_path, group,
				c->csi->cancel_fd, c->err);
}

/* Every step finds what an earlier call did of it. */
static int bring_up(struct csi_call *c, const publish_request *in,
		    const struct request *request, node_state *state)
{
	struct volume_record *record = NULL;
	int r = inline_make(c, request, &record);

	if (r == 0)
		r = staging_make(c, in->staging_target_path);
	if (r == 0)
		r = node_ensure_staged(c->csi, record, state, true, c->err);
	if (r == 0)
		r = inline_give_group(c, record, in);
	if (r == 0)
		r = publish_mount(c->csi, record, in, c->err);
	volume_record_free(record);
	return r;
}

/* Clear a volume that an earlier call began in another way, and nobody uses. */
static int clear_other(struct csi_call *c, const publish_request *in,
		       node_state *state)
{
	stage_request stage;

	stage_of(in, &stage);
	if (!state->stage || stage_request_equal(state->stage, &stage))
		return 0;
	return remove_all(c, state);
}

static int publish_first(struct csi_call *c, const publish_request *in,
			 const struct request *request, node_state *state)
{
	int r = clear_other(c, in, state);

	if (r == 0)
		r = check_record(c, request, state);
	if (r == 0)
		r = inline_remember(c, in, state);
	if (r < 0)
		return csi_fail_errno(c, r);
	r = bring_up(c, in, request, state);
	return r < 0 ? inline_undo(c, in->target_path, state, r) : 0;
}

/* Publish the volume where it is already, or at another path of the pod. */
static int publish_again(struct csi_call *c, const publish_request *in,
			 const struct request *request, node_state *state)
{
	bool there = node_state_find(state, in->target_path);
	int r = there ? 0 : inline_remember(c, in, state);

	if (r == 0)
		r = bring_up(c, in, request, state);
	if (r < 0 && !there) {
		node_state_remove(state, in->target_path);
		/* If it stays, it is pruned: nothing is mounted there. */
		(void)node_state_save(c->csi->state_dir, c->id.name, state,
				      NULL);
	}
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

static int inline_publish(struct csi_call *c, const publish_request *in,
			  const struct request *request)
{
	node_state *state = NULL;
	int r = csi_state_load(c, &state);

	if (r < 0)
		return r;
	csi_state_prune(c->csi, state);
	r = csi_check_second(c, state, in);
	if (r == 0)
		r = state->n_published == 0
			    ? publish_first(c, in, request, state)
			    : publish_again(c, in, request, state);
	node_state_free(state);
	return r;
}

int csi_inline_publish(struct csi_call *c, const publish_request *in)
{
	publish_request staged = *in;
	struct request request = {0};
	char path[PATH_MAX];
	int r;

	if (csi_inline_id_parse(in->volume_id, &c->id) < 0)
		return csi_fail(c, RPC_INVALID_ARGUMENT,
				"volume_id: the id of an inline volume is "
				"\"csi-\" and 64 hexadecimal digits");
	if (in->staging_target_path[0])
		return csi_fail(c, RPC_INVALID_ARGUMENT,
				"staging_target_path: an inline volume is not "
				"staged");
	r = inline_read(&request, in, volume_context_node(c->csi->volumes),
			c->err);
	if (r < 0) {
		r = csi_fail_errno(c, r);
	} else {
		staging_path(c, path, sizeof(path));
		staged.staging_target_path = path;
		r = csi_lock(c, c->id.name);
		if (r == 0)
			r = inline_publish(c, &staged, &request);
	}
	request_done(&request);
	return r;
}

/* ---- NodeUnpublishVolume ---- */

static int inline_unpublish(struct csi_call *c, const char *target,
			    node_state *state)
{
	struct volume_record *record = NULL;
	int r = publish_unmount(c->csi, c->id.name, target, c->err);

	if (r < 0)
		return r;
	node_state_remove(state, target);
	csi_state_prune(c->csi, state);
	if (state->stage || state->n_published > 0)
		r = node_state_save(c->csi->state_dir, c->id.name, state,
				    c->err);
	if (r < 0 || state->n_published > 0)
		return r;
	r = inline_find(c, &record);
	volume_record_free(record);
	/* A volume that is not this pod's is not ours to delete. */
	return r == -EBUSY ? inline_forget(c, state) : remove_all(c, state);
}

/* A repeat goes on where the one before it stopped. */
int csi_inline_unpublish(struct csi_call *c,
			 const Csi__V1__NodeUnpublishVolumeRequest *in)
{
	node_state *state = NULL;
	int r = csi_lock(c, c->id.name);

	if (r == 0)
		r = csi_state_load(c, &state);
	if (r < 0)
		return r;
	assert(state);
	r = inline_unpublish(c, in->target_path, state);
	node_state_free(state);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}
