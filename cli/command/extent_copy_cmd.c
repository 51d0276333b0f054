/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of single extents, what is made of them, and limits. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/extent_cmd.h"
#include "cli/command/volume_cmd.h"
#include "cli/text/json.h"
#include "cli/text/progress.h"
#include "volume/extent/extents.h"

#define LOOK_MS 300 /* how often a copy is looked at */

int extent_limits_fill(const struct cli *cli, struct node_limits *limits,
		       struct error *err)
{
	struct volume_limits wanted = {
		.iops = limits->iops,
		.bytes_per_second = limits->bytes_per_second,
	};
	int r = limits_fill(&cli->options, &wanted, err);

	if (r < 0)
		return r;
	limits->iops = wanted.iops;
	limits->bytes_per_second = wanted.bytes_per_second;
	return 0;
}

/* ---- a copy that goes on after the answer ---- */

static int look(struct cli *cli, struct node_extent *extent, struct error *err)
{
	struct node_extent now = {0};
	int r = volume_extent_get(cli->volumes, extent->node, extent->name,
				  &now, err);

	if (r == 0 && strcmp(now.id, extent->id) != 0) {
		node_extent_done(&now);
		r = -ENOENT;
	}
	if (r == -ENOENT)
		return error_set(err, EIO,
				 "the copy to '%s/%s' was given up; the log of "
				 "that node's blockd says why",
				 extent->node, extent->name);
	if (r < 0)
		return r;
	node_extent_done(extent);
	*extent = now;
	return 0;
}

/* Wait until its content is there. Interrupted, it goes on by itself. */
static int wait_copied(struct cli *cli, struct node_extent *extent,
		       struct error *err)
{
	struct pollfd stop = {.fd = cli->stop_fd, .events = POLLIN};
	struct progress progress = {0};
	int r = 0;

	while (r == 0 && strcmp(extent->state, NODE_COPYING) == 0) {
		char text[64], done[SIZE_TEXT_MAX];

		(void)snprintf(text, sizeof(text), "%.32s: %s copied",
			       extent->name, size_format(done, extent->copied));
		if (!cli->options.quiet)
			progress_show(&progress, "copy",
				      (unsigned)(extent->copied >> 20),
				      (unsigned)(extent->size >> 20), text);
		if (poll(&stop, 1, LOOK_MS) > 0)
			r = error_set(err, ECANCELED,
				      "interrupted; '%s/%s' is copied all the "
				      "same",
				      extent->node, extent->name);
		else
			r = look(cli, extent, err);
	}
	progress_end(&progress);
	return r;
}

/* ---- snapshot ---- */

/*
 * One: the name that was given. Several: that behind each extent's. None was
 * given: the time.
 */
static int snapshot_name(const struct cli *cli, const char *extent,
			 char *ret /* RECORD_NAME_SIZE bytes */,
			 struct error *err)
{
	const char *name = cli->options.name;
	char now[32] = "";
	time_t seconds = time(NULL);
	struct tm tm;
	int n;

	if (gmtime_r(&seconds, &tm))
		(void)strftime(now, sizeof(now), "%Y%m%d-%H%M%S", &tm);
	if (name && cli->n_arguments == 1)
		n = snprintf(ret, RECORD_NAME_SIZE, "%s", name);
	else
		n = snprintf(ret, RECORD_NAME_SIZE, "%s-%s", extent,
			     name ? name : now);
	if (n >= RECORD_NAME_SIZE)
		return error_set(err, EINVAL,
				 "the name of the snapshot of '%s' would be "
				 "too long: say --name",
				 extent);
	return 0;
}

/* The arguments of one call, and what they point to. */
struct snapshots {
	struct extent_snapshot_request requests[NODE_CUT_MAX];
	struct reference extents[NODE_CUT_MAX];
	char names[NODE_CUT_MAX][RECORD_NAME_SIZE];
	size_t n;
};

static int snapshots_fill(struct cli *cli, struct snapshots *s,
			  struct error *err)
{
	s->n = (size_t)cli->n_arguments;
	for (size_t i = 0; i < s->n; i++) {
		int r = cli_reference(cli, (int)i, "extent", &s->extents[i],
				      err);

		if (r == 0)
			r = snapshot_name(cli, s->extents[i].name, s->names[i],
					  err);
		if (r < 0)
			return r;
		s->requests[i] = (struct extent_snapshot_request){
			.node = s->extents[i].node,
			.extent = s->extents[i].name,
			.name = s->names[i],
		};
	}
	return 0;
}

static int snapshots_make(struct cli *cli, const struct snapshots *s,
			  struct node_extent **ret, struct error *err)
{
	struct labels labels = {0};
	int r = cli_labels(&cli->options.label, &labels, err);

	if (r == 0)
		r = volume_extent_snapshot(cli->volumes, s->requests, s->n,
					   &labels, ret, err);
	labels_done(&labels);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		r = wait_copied(cli, &(*ret)[i], err);
	return r;
}

int extent_snapshot_run(struct cli *cli, struct error *err)
{
	auto_free struct snapshots *s = calloc(1, sizeof(*s));
	struct node_extent *made = NULL;
	int r;

	if (!s)
		return error_set(err, ENOMEM, "out of memory");
	r = snapshots_fill(cli, s, err);
	if (r == 0)
		r = snapshots_make(cli, s, &made, err);
	if (r == 0 && !cli_answer(cli, json_extents(made, s->n)))
		for (size_t i = 0; i < s->n; i++)
			cli_say(cli, "snapshot %s/%s of %s (%s)", made[i].node,
				made[i].name, made[i].origin.name,
				made[i].origin.method);
	if (made)
		node_extents_free(made, s->n);
	return r;
}

/* ---- clone, revert, limit ---- */

int extent_clone_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct labels labels = {0};
	struct extent_clone_request request = {
		.name = cli_argument(cli, 1),
		.size = cli->options.size,
		.labels = &labels,
		.thick = cli->options.thick,
	};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = cli_labels(&cli->options.label, &labels, err);
	if (r == 0)
		r = extent_limits_fill(cli, &request.limits, err);
	if (r == 0) {
		request.node = at.node;
		request.source = at.name;
		r = volume_extent_clone(cli->volumes, &request, &extent, err);
	}
	labels_done(&labels);
	if (r < 0)
		return r;
	r = wait_copied(cli, &extent, err);
	if (r == 0)
		return extent_answer(cli, &extent);
	node_extent_done(&extent);
	return r;
}

int extent_revert_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_revert(cli->volumes, at.node, at.name,
					 cli_argument(cli, 1),
					 cli->options.force, &extent, err);
	return r < 0 ? r : extent_answer(cli, &extent);
}

int extent_limit_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct node_limits limits;
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r < 0)
		return r;
	if (!cli->options.iops && !cli->options.bandwidth)
		return cli_usage(
			cli, err,
			"say which limit: --iops N, --bandwidth SIZE, or none for "
			"either");
	r = volume_extent_get(cli->volumes, at.node, at.name, &extent, err);
	if (r < 0)
		return r;
	limits = extent.limits;
	node_extent_done(&extent);
	r = extent_limits_fill(cli, &limits, err);
	if (r == 0)
		r = volume_extent_limit(cli->volumes, at.node, at.name, &limits,
					&extent, err);
	return r < 0 ? r : extent_answer(cli, &extent);
}

/* ---- ranges ---- */

static int range_print(void *context, uint64_t size, uint64_t offset,
		       uint64_t length)
{
	struct json_object *ranges = context;
	struct json_object *range;

	(void)size;
	if (!ranges) {
		(void)printf("%" PRIu64 " %" PRIu64 "\n", offset, length);
		return 0;
	}
	range = json_object_new_object();
	json_put_number(range, "offset", offset);
	json_put_number(range, "length", length);
	json_object_array_add(ranges, range);
	return 0;
}

int extent_ranges_run(struct cli *cli, struct error *err)
{
	struct json_object *ranges = cli->options.json ? json_object_new_array()
						       : NULL;
	struct node_ranges_request request = {
		.older = cli->options.older,
		.start = cli->options.start,
	};
	struct json_object *answer;
	struct reference at;
	uint64_t size = 0;
	int r = cli_reference(cli, 0, "snapshot", &at, err);

	if (r == 0) {
		request.name = at.name;
		r = volume_extent_ranges(cli->volumes, at.node, &request,
					 range_print, ranges, &size, err);
	}
	if (r < 0 || !ranges) {
		json_object_put(ranges);
		return r;
	}
	answer = json_object_new_object();
	json_put_number(answer, "size", size);
	json_object_object_add(answer, "ranges", ranges);
	(void)cli_answer(cli, answer);
	return 0;
}
