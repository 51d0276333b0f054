/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/node_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "csi/call/capability.h"
#include "csi/call/csi_check.h"

#define FILE_NAME_SIZE 96

/* ---- files ---- */

static void file_name(char *ret, const char *volume)
{
	(void)snprintf(ret, FILE_NAME_SIZE, "%.64s.volume", volume);
}

/* Check the saved requests: they were good when they were saved. */
static int state_check(const node_state *state)
{
	enum rpc_code code;
	int r = state->stage ? csi_check(&state->stage->base, &code, NULL) : 0;

	for (size_t i = 0; r == 0 && i < state->n_published; i++)
		r = csi_check(&state->published[i]->base, &code, NULL);
	return r;
}

static int state_unpack(const char *path, const char *data, size_t length,
			node_state **ret, struct error *err)
{
	node_state *state = tributary__csi__v1__node_volume__unpack(
		NULL, length, (const void *)data);

	if (state && state_check(state) == 0) {
		*ret = state;
		return 0;
	}
	node_state_free(state);
	return error_set(
		err, EBADMSG,
		"'%s' cannot be read; unmount its volume by hand, then "
		"remove the file",
		path);
}

int node_state_load(const char *dir, const char *volume, node_state **ret,
		    struct error *err)
{
	auto_close int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[FILE_NAME_SIZE];
	auto_free char *data = NULL;
	size_t length = 0;
	int r = fd < 0 ? -errno : 0;

	file_name(name, volume);
	if (fd >= 0)
		r = file_read(fd, name, NODE_STATE_MAX, &data, &length, err);
	else if (errno != ENOENT)
		(void)error_set(err, errno, "open '%s': %s", dir,
				strerror(errno));
	if (r < 0 && r != -ENOENT)
		return r;
	return state_unpack(name, data ? data : "", length, ret, err);
}

int node_state_save(const char *dir, const char *volume,
		    const node_state *state, struct error *err)
{
	auto_close int fd = -1;
	auto_free uint8_t *data = NULL;
	char name[FILE_NAME_SIZE];
	size_t length;
	int r = dir_make(dir, 0700, err);

	if (r < 0)
		return r;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", dir,
				 strerror(errno));
	file_name(name, volume);
	if (!state->stage && state->n_published == 0)
		return file_remove(fd, name, err);
	length = tributary__csi__v1__node_volume__get_packed_size(state);
	data = malloc(length);
	if (!data)
		return error_set(err, ENOMEM, "out of memory");
	(void)tributary__csi__v1__node_volume__pack(state, data);
	return file_replace(fd, name, data, length, 0600, err);
}

void node_state_free(node_state *state)
{
	if (state)
		tributary__csi__v1__node_volume__free_unpacked(state, NULL);
}

/* ---- copies ---- */

/* Through its bytes. */
static ProtobufCMessage *copy(const ProtobufCMessage *m)
{
	size_t length = protobuf_c_message_get_packed_size(m);
	auto_free uint8_t *data = malloc(length + 1);

	if (!data)
		return NULL;
	(void)protobuf_c_message_pack(m, data);
	return protobuf_c_message_unpack(m->descriptor, NULL, length, data);
}

static stage_request *stage_copy(const stage_request *from)
{
	stage_request plain = *from;

	plain.n_secrets = 0;
	plain.secrets = NULL;
	plain.base.n_unknown_fields = 0;
	return (stage_request *)copy(&plain.base);
}

static publish_request *publish_copy(const publish_request *from)
{
	publish_request plain = *from;

	plain.n_secrets = 0;
	plain.secrets = NULL;
	plain.base.n_unknown_fields = 0;
	return (publish_request *)copy(&plain.base);
}

int node_state_set_stage(node_state *state, const stage_request *request,
			 struct error *err)
{
	stage_request *stage = stage_copy(request);

	if (!stage)
		return error_set(err, ENOMEM, "out of memory");
	node_state_clear_stage(state);
	state->stage = stage;
	return 0;
}

void node_state_clear_stage(node_state *state)
{
	if (state->stage)
		csi__v1__node_stage_volume_request__free_unpacked(state->stage,
								  NULL);
	state->stage = NULL;
	state->revived = false;
}

int node_state_add(node_state *state, const publish_request *request,
		   struct error *err)
{
	publish_request **list;
	publish_request *one;

	node_state_remove(state, request->target_path);
	if (state->n_published >= NODE_PUBLISHED_MAX)
		return error_set(
			err, E2BIG,
			"the volume is published %d times here already",
			NODE_PUBLISHED_MAX);
	one = publish_copy(request);
	list = reallocarray(state->published, state->n_published + 1,
			    sizeof(*list));
	if (list)
		state->published = list;
	if (!list || !one) {
		if (one)
			csi__v1__node_publish_volume_request__free_unpacked(
				one, NULL);
		return error_set(err, ENOMEM, "out of memory");
	}
	list[state->n_published++] = one;
	return 0;
}

void node_state_remove(node_state *state, const char *target_path)
{
	for (size_t i = 0; i < state->n_published; i++) {
		publish_request *p = state->published[i];

		if (strcmp(p->target_path, target_path) != 0)
			continue;
		csi__v1__node_publish_volume_request__free_unpacked(p, NULL);
		state->published[i] = state->published[--state->n_published];
		return;
	}
}

const publish_request *node_state_find(const node_state *state,
				       const char *target_path)
{
	for (size_t i = 0; i < state->n_published; i++)
		if (strcmp(state->published[i]->target_path, target_path) == 0)
			return state->published[i];
	return NULL;
}

/* ---- the same? ---- */

static const char *map_get(ProtobufCMessage *const *entries, size_t n,
			   const char *key)
{
	for (size_t i = 0; i < n; i++) {
		const struct csi_entry *e =
			(const struct csi_entry *)entries[i];

		if (strcmp(e->key, key) == 0)
			return e->value;
	}
	return NULL;
}

/* In any order; keys are unique (csi_check.c). */
static bool map_equal(void *a_, size_t n_a, void *b_, size_t n_b)
{
	ProtobufCMessage *const *a = a_, *const *b = b_;

	if (n_a != n_b)
		return false;
	for (size_t i = 0; i < n_a; i++) {
		const struct csi_entry *e = (const struct csi_entry *)a[i];
		const char *other = map_get(b, n_b, e->key);

		if (!other || strcmp(other, e->value) != 0)
			return false;
	}
	return true;
}

#define MAP_EQUAL(a, b, field) \
	map_equal((a)->field, (a)->n_##field, (b)->field, (b)->n_##field)

bool stage_request_equal(const stage_request *a, const stage_request *b)
{
	return strcmp(a->volume_id, b->volume_id) == 0 &&
	       strcmp(a->staging_target_path, b->staging_target_path) == 0 &&
	       capability_equal(a->volume_capability, b->volume_capability) &&
	       MAP_EQUAL(a, b, publish_context) &&
	       MAP_EQUAL(a, b, volume_context);
}

bool publish_request_equal(const publish_request *a, const publish_request *b)
{
	return strcmp(a->volume_id, b->volume_id) == 0 &&
	       strcmp(a->staging_target_path, b->staging_target_path) == 0 &&
	       a->readonly == b->readonly &&
	       capability_equal(a->volume_capability, b->volume_capability) &&
	       MAP_EQUAL(a, b, publish_context) &&
	       MAP_EQUAL(a, b, volume_context);
}
