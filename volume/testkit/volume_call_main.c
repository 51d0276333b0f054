/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: call the flows of volume.h from a shell, and die at a chosen
 * step.
 *
 *	volume_call_main STORE NODE RUN_DIR BIN_DIR COMMAND KEY=VALUE...
 *
 * Commands: node-add node-give-up create resize publish unpublish attach
 * device detach delete recover status orphans, snapshot unsnapshot revert,
 * clone (name= from=), ranges (name= from= the older one, lines "OFFSET
 * LENGTH"), move (to= a node, its pool "main"; split=) unmove, forget-lost,
 * group ungroup (name= of=...), limit. Keys are the members of the request
 * structs; kill=N kills this process at the N-th call of the progress callback,
 * pause=N stops it there. Progress is one line a step on standard error; a
 * failure is "ERRNO: TEXT" there and exit 1.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/cluster/node_remove.h"
#include "volume/flow/forget_lost.h"
#include "volume/move/move.h"
#include "volume/snapshot/snapshot.h"
#include "volume/volume.h"

struct arguments {
	const char *name;
	const char *path;
	const char *transport;
	const char *launcher;
	const char *iscsi_secrets;
	const char *control;
	const char *data;
	struct volume_spec spec;
	const char *to;
	const char *note;
	const char *split;
	const char *options;
	const char *from;
	const char *of[SNAPSHOT_MEMBERS_MAX];
	size_t n_of;
	bool force;
	bool asks_elsewhere;
	bool read_only;
	bool shared;
	unsigned kill_at;
	unsigned pause_at;
	unsigned calls;
};

static int set_text(char *ret, size_t size, const char *value)
{
	return snprintf(ret, size, "%s", value) < (int)size ? 0 : -EINVAL;
}

static int set_source(struct arguments *a, enum volume_source_kind kind,
		      const char *value)
{
	a->spec.source.kind = kind;
	return set_text(a->spec.source.name, sizeof(a->spec.source.name),
			value);
}

static int parse(struct arguments *a, char *word, struct error *err)
{
	char *value = strchr(word, '=');

	if (!value)
		return error_set(err, EINVAL, "'%s' is not KEY=VALUE", word);
	*value++ = '\0';
	if (strcmp(word, "name") == 0)
		a->name = value;
	else if (strcmp(word, "path") == 0)
		a->path = value;
	else if (strcmp(word, "transport") == 0)
		a->transport = value;
	else if (strcmp(word, "to") == 0)
		a->to = value;
	else if (strcmp(word, "split") == 0)
		a->split = value;
	else if (strcmp(word, "note") == 0)
		a->note = value;
	else if (strcmp(word, "options") == 0)
		a->options = value;
	else if (strcmp(word, "from") == 0)
		a->from = value;
	else if (strcmp(word, "of") == 0)
		a->of[a->n_of++ % SNAPSHOT_MEMBERS_MAX] = value;
	else if (strcmp(word, "snapshot") == 0)
		return set_source(a, VOLUME_SOURCE_SNAPSHOT, value);
	else if (strcmp(word, "volume") == 0)
		return set_source(a, VOLUME_SOURCE_VOLUME, value);
	else if (strcmp(word, "iops") == 0)
		a->spec.limits.iops = strtoull(value, NULL, 10);
	else if (strcmp(word, "launcher") == 0)
		a->launcher = value;
	else if (strcmp(word, "iscsi-secrets") == 0)
		a->iscsi_secrets = value;
	else if (strcmp(word, "control") == 0)
		a->control = value;
	else if (strcmp(word, "data") == 0)
		a->data = value;
	else if (strcmp(word, "size") == 0)
		return size_parse(value, &a->spec.capacity, err);
	else if (strcmp(word, "fs") == 0)
		return set_text(a->spec.fs_type, sizeof(a->spec.fs_type),
				value);
	else if (strcmp(word, "layout") == 0)
		return set_text(a->spec.layout, sizeof(a->spec.layout), value);
	else if (strcmp(word, "width") == 0)
		a->spec.stripe_width = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(word, "unit") == 0)
		return size_parse(value, &a->spec.stripe_unit, err);
	else if (strcmp(word, "max_extent") == 0)
		return size_parse(value, &a->spec.max_extent, err);
	else if (strcmp(word, "policy") == 0)
		return set_text(a->spec.policy, sizeof(a->spec.policy), value);
	else if (strcmp(word, "min") == 0)
		a->spec.min_splits = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(word, "node") == 0)
		return name_list_add(&a->spec.nodes, value, err);
	else if (strcmp(word, "force") == 0)
		a->force = *value == '1';
	else if (strcmp(word, "asks_elsewhere") == 0)
		a->asks_elsewhere = *value == '1';
	else if (strcmp(word, "read_only") == 0)
		a->read_only = *value == '1';
	else if (strcmp(word, "shared") == 0)
		a->shared = *value == '1';
	else if (strcmp(word, "kill") == 0)
		a->kill_at = (unsigned)strtoul(value, NULL, 10);
	else if (strcmp(word, "pause") == 0)
		a->pause_at = (unsigned)strtoul(value, NULL, 10);
	else
		return error_set(err, EINVAL, "no key '%s'", word);
	return 0;
}

static void progress(void *arguments_, const char *step, unsigned done,
		     unsigned total, const char *text)
{
	struct arguments *a = arguments_;

	a->calls++;
	(void)fprintf(stderr, "%u/%u %s: %s\n", done, total, step, text);
	if (a->calls == a->kill_at)
		(void)raise(SIGKILL);
	if (a->calls == a->pause_at)
		(void)raise(SIGSTOP);
}

static int node_add(struct volume_context *ctx, struct arguments *a,
		    struct error *err)
{
	struct node_record node = {0};

	if (set_text(node.name, sizeof(node.name), a->name) < 0 ||
	    set_text(node.control_address, sizeof(node.control_address),
		     a->control) < 0 ||
	    set_text(node.data_address, sizeof(node.data_address), a->data) < 0)
		return error_set(err, EINVAL, "too long");
	return volume_node_add(ctx, &node, NULL, err);
}

/* At once, whenever it was heard of. */
static int node_give_up(struct volume_context *ctx, struct arguments *a,
			struct error *err)
{
	struct volume_node_lost lost = {0};
	int r = volume_node_give_up(ctx, a->name, 0, &lost, err);

	if (r == 0)
		printf("volumes=%zu splits=%zu snapshots=%zu\n", lost.volumes,
		       lost.splits, lost.snapshots);
	return r;
}

static int create(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	const struct volume_create_request request = {.name = a->name,
						      .spec = &a->spec};
	struct volume_record *record = NULL;
	int r = volume_create(ctx, &request, &record, err);

	for (size_t i = 0; r == 0 && i < record->n_splits; i++)
		printf("split=%zu node=%s pool=%s extent=%s size=%llu\n", i,
		       record->splits[i].node, record->splits[i].pool,
		       record->splits[i].extent,
		       (unsigned long long)record->splits[i].size);
	volume_record_free(record);
	return r;
}

/* Of a volume, as it is. */
static int clone_volume(struct volume_context *ctx, struct arguments *a,
			struct error *err)
{
	a->spec.source.kind = VOLUME_SOURCE_VOLUME;
	(void)snprintf(a->spec.source.name, sizeof(a->spec.source.name), "%s",
		       a->from);
	return create(ctx, a, err);
}

static int resize(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	struct volume_record *record = NULL;
	int r = volume_resize(ctx, a->name, a->spec.capacity, &record, err);

	if (r == 0)
		printf("capacity=%llu behind=%d\n",
		       (unsigned long long)record->spec.capacity,
		       volume_record_fs_behind(record));
	volume_record_free(record);
	return r;
}

static int publish(struct volume_context *ctx, struct arguments *a,
		   struct error *err)
{
	const struct volume_publish_request request = {
		.name = a->name,
		.node = a->to,
		.read_only = a->read_only,
		.shared = a->shared,
		.note = a->note,
	};
	bool no_node;
	int r = volume_publish(ctx, &request, &no_node, err);

	if (no_node)
		printf("no node\n");
	return r;
}

static int unpublish(struct volume_context *ctx, struct arguments *a,
		     struct error *err)
{
	return volume_unpublish(ctx, a->name, a->to, err);
}

static int device(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	char path[INITIATOR_TEXT_MAX];
	int r = volume_device(ctx, a->name, path, err);

	if (r == 0)
		printf("%s\n", path);
	return r;
}

static int attach(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	const struct volume_attach_request request = {
		.name = a->name,
		.mount_point = a->path,
		.transport = a->transport,
		.mount_options = a->options,
		.read_only = a->read_only,
		.force = a->force,
	};

	return volume_attach(ctx, &request, err);
}

static int detach(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	const struct volume_detach_request request = {
		.name = a->name,
		.force = a->force,
		.asks_elsewhere = a->asks_elsewhere,
	};

	return volume_detach(ctx, &request, err);
}

static int delete (struct volume_context *ctx, struct arguments *a,
		   struct error *err)
{
	return volume_delete(ctx, a->name, err);
}

static int status(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	struct volume_status *s;
	int r = volume_status_get(ctx, a->name, &s, err);

	if (r < 0)
		return r;
	printf("phase=%s epoch=%llu here=%d mounted=%d pid=%d attachments=%zu "
	       "capacity=%llu\n",
	       volume_phase_name(s->record->phase),
	       (unsigned long long)s->record->epoch, s->attached_here,
	       s->mounted, s->union_pid, s->record->n_attachments,
	       (unsigned long long)s->record->spec.capacity);
	for (size_t i = 0; i < s->record->n_attachments; i++) {
		const struct volume_attachment *at = &s->record->attachments[i];

		printf("on=%s %s @%llu%s%s%s note=%s\n", at->node,
		       attachment_state_name(at->state),
		       (unsigned long long)at->epoch,
		       at->published ? " published" : "",
		       at->read_only ? " read-only" : "",
		       at->shared ? " shared" : "", at->note);
	}
	for (size_t i = 0; i < s->record->n_splits; i++)
		printf("split=%zu node=%s state=%s record=%s transport=%s "
		       "device=%s mounted=%d %s\n",
		       i, s->splits[i].split.node, s->splits[i].state,
		       split_state_name(s->splits[i].split.state),
		       s->splits[i].transport, s->splits[i].device,
		       s->splits[i].mounted, s->splits[i].problem);
	for (size_t i = 0; i < s->n_conditions; i++)
		printf("condition=%s reason=%s %s\n", s->conditions[i].type,
		       s->conditions[i].reason, s->conditions[i].message);
	volume_status_free(s);
	return 0;
}

static int recover(struct volume_context *ctx, struct arguments *a,
		   struct error *err)
{
	return volume_recover(ctx, a->name, NULL, err);
}

static int orphans(struct volume_context *ctx, struct arguments *a,
		   struct error *err)
{
	struct orphan *found;
	size_t n, unreachable;
	int r = volume_orphans(ctx, &found, &n, &unreachable, err);

	(void)a;
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		printf("orphan=%d node=%s volume=%s name=%s %s\n",
		       found[i].kind, found[i].node, found[i].volume,
		       found[i].name, found[i].message);
	printf("orphans=%zu unreachable=%zu\n", n, unreachable);
	free(found);
	return 0;
}

static int snapshot(struct volume_context *ctx, struct arguments *a,
		    struct error *err)
{
	const struct snapshot_create_request request = {.name = a->name,
							.volume = a->from};
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_create(ctx, &request, &record, err);

	if (r == 0)
		printf("phase=%s cut=%s capacity=%llu\n",
		       snapshot_phase_name(record->phase), record->cut,
		       (unsigned long long)record->spec.capacity);
	snapshot_record_free(record);
	return r;
}

static int unsnapshot(struct volume_context *ctx, struct arguments *a,
		      struct error *err)
{
	return volume_snapshot_delete(ctx, a->name, err);
}

static int print_ranges(void *context, uint64_t size,
			const struct snapshot_range *ranges, size_t n)
{
	(void)context;
	(void)size;
	for (size_t i = 0; i < n; i++)
		printf("%llu %llu\n", (unsigned long long)ranges[i].offset,
		       (unsigned long long)ranges[i].length);
	return 0;
}

static int ranges(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	const struct snapshot_ranges_request request = {.snapshot = a->name,
							.older = a->from};

	return volume_snapshot_ranges(ctx, &request, print_ranges, NULL, err);
}

static int group(struct volume_context *ctx, struct arguments *a,
		 struct error *err)
{
	const struct group_create_request request = {
		.name = a->name, .volumes = a->of, .n_volumes = a->n_of};

	return volume_group_create(ctx, &request, NULL, err);
}

static int ungroup(struct volume_context *ctx, struct arguments *a,
		   struct error *err)
{
	return volume_group_delete(ctx, a->name, err);
}

static int revert(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	return volume_revert(ctx, a->name, a->from, err);
}

static int limit(struct volume_context *ctx, struct arguments *a,
		 struct error *err)
{
	return volume_limit(ctx, a->name, &a->spec.limits, NULL, err);
}

static int move(struct volume_context *ctx, struct arguments *a,
		struct error *err)
{
	struct volume_move_request request = {
		.name = a->name,
		.split = a->split ? strtoul(a->split, NULL, 10)
				  : MOVE_ANY_SPLIT,
	};
	struct volume_split split;
	int r;

	if (a->to)
		request.to = (struct volume_place){a->to, "main"};
	r = volume_move(ctx, &request, &split, err);
	if (r == 0)
		printf("split=%u node=%s pool=%s extent=%s\n", split.index,
		       split.node, split.pool, split.extent);
	return r;
}

static int unmove(struct volume_context *ctx, struct arguments *a,
		  struct error *err)
{
	return volume_move_cancel(ctx, a->name, err);
}

static int forget_lost(struct volume_context *ctx, struct arguments *a,
		       struct error *err)
{
	struct volume_forgotten sum = {0};
	int r = volume_forget_lost(ctx, a->name, &sum, err);

	if (r == 0)
		printf("splits=%zu size=%llu\n", sum.splits,
		       (unsigned long long)sum.size);
	return r;
}

static const struct {
	const char *name;
	int (*call)(struct volume_context *ctx, struct arguments *a,
		    struct error *err);
} commands[] = {
	{"node-add", node_add},     {"node-give-up", node_give_up},
	{"create", create},         {"resize", resize},
	{"publish", publish},       {"unpublish", unpublish},
	{"attach", attach},         {"device", device},
	{"detach", detach},         {"delete", delete},
	{"status", status},         {"recover", recover},
	{"orphans", orphans},       {"snapshot", snapshot},
	{"unsnapshot", unsnapshot}, {"group", group},
	{"ungroup", ungroup},       {"revert", revert},
	{"limit", limit},           {"clone", clone_volume},
	{"ranges", ranges},         {"move", move},
	{"unmove", unmove},         {"forget-lost", forget_lost},
};

static int run(struct arguments *a, char **argv, struct error *err)
{
	/* Nobody wants to wait half a minute for each lost server of a test. */
	const char *dead_timeout = getenv("TRIB_TEST_DEAD_TIMEOUT_MS");
	const char *call_timeout = getenv("TRIB_TEST_CALL_TIMEOUT_MS");
	const struct volume_config config = {
		.store = argv[1],
		.node = argv[2],
		.run_dir = argv[3],
		.bin_dir = argv[4],
		.launcher = a->launcher,
		.iscsi_secrets = a->iscsi_secrets,
		.call_timeout_ms = call_timeout ? atoi(call_timeout) : 0,
		.dead_timeout_ms = dead_timeout ? (unsigned)atoi(dead_timeout)
						: 0,
		.progress = progress,
		.progress_context = a,
	};
	struct volume_context *ctx;
	int r = volume_context_open(&config, &ctx, err);

	if (r < 0)
		return r;
	r = error_set(err, EINVAL, "no command '%s'", argv[5]);
	for (size_t i = 0; i < array_size(commands); i++) {
		if (strcmp(argv[5], commands[i].name) == 0)
			r = commands[i].call(ctx, a, err);
	}
	volume_context_close(ctx);
	return r;
}

int main(int argc, char **argv)
{
	struct arguments a = {.name = "", .control = "", .data = ""};
	struct error err = {0};
	int r = 0;

	if (argc < 6) {
		(void)fprintf(stderr, "see volume_call_main.c\n");
		return 2;
	}
	for (int i = 6; r == 0 && i < argc; i++)
		r = parse(&a, argv[i], &err);
	if (r == 0)
		r = run(&a, argv, &err);
	volume_spec_done(&a.spec);
	if (r < 0)
		(void)fprintf(stderr, "%s: %s\n", strerrorname_np(-r),
			      error_text(&err));
	return r < 0;
}
