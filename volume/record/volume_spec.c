/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blockdev/segments.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "volume/record/volume_record.h"

int name_list_add(struct name_list *list, const char *name, struct error *err)
{
	char(*items)[RECORD_NAME_SIZE];
	int r = name_check("node", name, err);

	if (r < 0)
		return r;
	if (name_list_has(list, name))
		return 0;
	if (list->count >= VOLUME_NODES_MAX)
		return error_set(err, E2BIG, "more than %d nodes in a list",
				 VOLUME_NODES_MAX);
	items = reallocarray(list->items, list->count + 1, sizeof(*items));
	if (!items)
		return error_set(err, ENOMEM, "out of memory");
	list->items = items;
	memset(items[list->count], 0, sizeof(*items));
	memcpy(items[list->count++], name, strlen(name));
	return 0;
}

void name_list_remove(struct name_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i], name) != 0)
			continue;
		list->count--;
		memmove(&list->items[i], &list->items[i + 1],
			(list->count - i) * sizeof(*list->items));
		return;
	}
}

bool name_list_has(const struct name_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++) {
		if (strcmp(list->items[i], name) == 0)
			return true;
	}
	return false;
}

void name_list_done(struct name_list *list)
{
	free(list->items);
	*list = (struct name_list){0};
}

static bool name_list_equal(const struct name_list *a,
			    const struct name_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		if (!name_list_has(b, a->items[i]))
			return false;
	}
	return true;
}

static int name_list_copy(const struct name_list *from, struct name_list *to,
			  struct error *err)
{
	to->items = NULL;
	to->count = 0;
	if (from->count == 0)
		return 0;
	to->items = calloc(from->count, sizeof(*to->items));
	if (!to->items)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(to->items, from->items, from->count * sizeof(*to->items));
	to->count = from->count;
	return 0;
}

/* A word of the spec: the default when empty, else one of @words. */
static int word_check(const char *what, char *word, size_t size,
		      const char *const *words, size_t n, struct error *err)
{
	char known[256] = "";
	size_t length = 0;

	if (!word[0])
		memcpy(word, words[0], strlen(words[0]) + 1);
	for (size_t i = 0; i < n; i++) {
		if (strncmp(word, words[i], size) == 0)
			return 0;
		if (length < sizeof(known)) /* else the last are left out */
			length += (size_t)snprintf(
				known + length, sizeof(known) - length, "%s%s",
				i > 0 ? ", " : "", words[i]);
	}
	return error_set(err, EINVAL, "%s '%.*s' is not known; it is one of %s",
			 what, (int)size - 1, word, known);
}

bool volume_spec_is_device(const struct volume_spec *spec)
{
	return strcmp(spec->layout, "linear") == 0 ||
	       volume_spec_stripe(spec) || volume_spec_direct(spec);
}

bool volume_spec_is_tree(const struct volume_spec *spec)
{
	return spec->fs_type[0] && !volume_spec_direct(spec);
}

size_t volume_spec_file_systems(const struct volume_spec *spec, size_t n_splits)
{
	if (!volume_spec_is_device(spec))
		return n_splits;
	return spec->fs_type[0] && n_splits > 0;
}

bool volume_spec_stripe(const struct volume_spec *spec)
{
	return strcmp(spec->layout, "stripe") == 0;
}

/* mkfs.xfs refuses less than 300 MiB (xfsprogs 5.19 and later). */
static uint64_t fs_minimum(const struct volume_spec *spec)
{
	return strcmp(spec->fs_type, "xfs") == 0 ? 300 * MIB
						 : VOLUME_CAPACITY_MIN;
}

uint64_t volume_spec_unit(const struct volume_spec *spec)
{
	return volume_spec_stripe(spec) ? spec->stripe_width * spec->stripe_unit
					: RECORD_SIZE_UNIT;
}

uint64_t volume_spec_minimum(const struct volume_spec *spec)
{
	unsigned splits = volume_spec_stripe(spec) ? spec->stripe_width
						   : spec->min_splits;
	uint64_t bytes = volume_spec_split_minimum(spec) *
			 (splits ? splits : 1);

	return bytes > fs_minimum(spec) ? bytes : fs_minimum(spec);
}

bool volume_spec_direct(const struct volume_spec *spec)
{
	return strcmp(spec->layout, "direct") == 0;
}

/* Before the defaults are filled in. */
static void spec_list_init(struct volume_spec *spec)
{
	spec->any_policy = spec->any_policy || !spec->policy[0];
	spec->any_transport = spec->any_transport || !spec->transport[0];
	spec->any_placement = spec->any_placement || !spec->placement[0];
}

static int words_check(struct volume_spec *spec, struct error *err)
{
	static const char *const layouts[] = {"union", "linear", "stripe",
					      "direct"};
	static const char *const systems[] = {"ext4", "xfs"};
	/* As trib-union has them (union/config/policy.c). */
	static const char *const policies[] = {
		"pfrd",   "mfs",    "lfs",    "lus",    "lup",    "ff",
		"rand",   "newest", "all",    "local",  "epall",  "epff",
		"eplfs",  "eplus",  "eplup",  "epmfs",  "eppfrd", "eprand",
		"msplfs", "msplus", "msplup", "mspmfs", "msppfrd"};
	static const char *const transports[] = {"auto",  "loop", "nbd",
						 "iscsi", "ublk", "fuse"};
	static const char *const placements[] = {"balanced", "packed", "local"};
	int r = word_check("layout", spec->layout, sizeof(spec->layout),
			   layouts, array_size(layouts), err);

	/* Without a word, linear and stripe are bare devices. */
	if (r == 0 && (spec->fs_type[0] || !volume_spec_is_device(spec) ||
		       volume_spec_direct(spec)))
		r = word_check("file system", spec->fs_type,
			       sizeof(spec->fs_type), systems,
			       array_size(systems), err);
	if (r == 0)
		r = word_check("policy", spec->policy, sizeof(spec->policy),
			       policies, array_size(policies), err);
	if (r == 0)
		r = word_check("transport", spec->transport,
			       sizeof(spec->transport), transports,
			       array_size(transports), err);
	if (r == 0)
		r = word_check("placement", spec->placement,
			       sizeof(spec->placement), placements,
			       array_size(placements), err);
	return r;
}

/* The file system of a device lies on all of its extents together. */
uint64_t volume_spec_split_minimum(const struct volume_spec *spec)
{
	return volume_spec_is_device(spec) ? VOLUME_CAPACITY_MIN
					   : fs_minimum(spec);
}

static int spec_check_direct(struct volume_spec *spec, struct error *err)
{
	if (strcmp(spec->fs_type, "ext4") != 0)
		return error_set(err, EINVAL,
				 "a direct volume has the file system ext4, "
				 "not '%.15s'",
				 spec->fs_type);
	if (spec->min_splits > 1)
		return error_set(err, EINVAL,
				 "a direct volume is one extent, not %u",
				 spec->min_splits);
	if (spec->max_extent && spec->max_extent < spec->capacity)
		return error_set(err, ERANGE,
				 "a direct volume is one extent, and its size "
				 "is above that of the largest extent allowed");
	spec->max_splits = 1;
	return 0;
}

/* Fill in and check the width and the unit. */
static int spec_check_stripe(struct volume_spec *spec, struct error *err)
{
	struct stripe stripe;

	if (!spec->stripe_width)
		spec->stripe_width = VOLUME_STRIPE_WIDTH;
	if (!spec->stripe_unit)
		spec->stripe_unit = VOLUME_STRIPE_UNIT;
	if (spec->min_splits)
		return error_set(err, EINVAL,
				 "the width of a stripe says how many extents "
				 "it has, not their least number");
	if (spec->max_splits && spec->max_splits < spec->stripe_width)
		return error_set(err, EINVAL,
				 "a stripe of %u extents, but at most %u are "
				 "allowed",
				 spec->stripe_width, spec->max_splits);
	stripe = (struct stripe){spec->stripe_width, spec->stripe_unit};
	return stripe_check(&stripe, err);
}

/* A block device. */
static int spec_check_device(struct volume_spec *spec, struct error *err)
{
	if (volume_spec_direct(spec))
		return spec_check_direct(spec, err);
	return volume_spec_stripe(spec) ? spec_check_stripe(spec, err) : 0;
}

static int size_check(struct volume_spec *spec, uint64_t least,
		      struct error *err)
{
	char text[2][SIZE_TEXT_MAX];

	if (spec->capacity < least || spec->capacity > VOLUME_CAPACITY_MAX)
		return error_set(err, ERANGE,
				 "a volume's size%s%s is from %s to %s",
				 spec->fs_type[0] ? " with " : "",
				 spec->fs_type, size_format(text[0], least),
				 size_format(text[1], VOLUME_CAPACITY_MAX));
	(void)size_round_up(spec->capacity, volume_spec_unit(spec),
			    &spec->capacity);
	if (spec->capacity > VOLUME_CAPACITY_MAX)
		spec->capacity = VOLUME_CAPACITY_MAX -
				 VOLUME_CAPACITY_MAX % volume_spec_unit(spec);
	return 0;
}

/* The layout's own members, then the size. */
static int spec_check_size(struct volume_spec *spec, struct error *err)
{
	int r = 0;

	if (!volume_spec_stripe(spec) &&
	    (spec->stripe_width || spec->stripe_unit))
		return error_set(err, EINVAL,
				 "the width and the unit of a stripe, but the "
				 "layout is '%s', not 'stripe'",
				 spec->layout);
	if (volume_spec_is_device(spec))
		r = spec_check_device(spec, err);
	if (r < 0)
		return r;
	return size_check(spec,
			  volume_spec_stripe(spec) ? volume_spec_minimum(spec)
						   : fs_minimum(spec),
			  err);
}

int volume_spec_check(struct volume_spec *spec, struct error *err)
{
	char text[2][SIZE_TEXT_MAX];
	uint64_t least;
	int r;

	spec_list_init(spec);
	r = words_check(spec, err);
	if (r < 0)
		return r;
	r = spec_check_size(spec, err);
	if (r < 0)
		return r;
	least = volume_spec_split_minimum(spec);
	if (spec->min_splits > VOLUME_SPLITS_MAX ||
	    spec->max_splits > VOLUME_SPLITS_MAX)
		return error_set(err, ERANGE, "a volume has at most %d splits",
				 VOLUME_SPLITS_MAX);
	if (spec->max_splits && spec->min_splits > spec->max_splits)
		return error_set(err, EINVAL,
				 "at least %u splits but at most %u",
				 spec->min_splits, spec->max_splits);
	if (spec->min_splits && spec->capacity / spec->min_splits < least)
		return error_set(err, ERANGE,
				 "%u splits of %s would be smaller than %s, "
				 "the least for one with %s",
				 spec->min_splits,
				 size_format(text[0], spec->capacity),
				 size_format(text[1], least), spec->fs_type);
	if (spec->local_node[0] && strcmp(spec->placement, "local") != 0)
		return error_set(err, EINVAL,
				 "a node to fill first, but the placement is "
				 "'%s', not 'local'",
				 spec->placement);
	if (spec->local_node[0])
		r = name_check("node", spec->local_node, err);
	if (r < 0)
		return r;
	if (spec->max_extent && spec->max_extent < least)
		return error_set(err, ERANGE,
				 "the largest extent has to be at least %s",
				 size_format(text[0], least));
	return 0;
}

int volume_spec_copy(const struct volume_spec *from, struct volume_spec *to,
		     struct error *err)
{
	struct volume_spec copy = *from;
	int r;

	copy.nodes = (struct name_list){0};
	copy.exclude = (struct name_list){0};
	copy.pools = (struct name_list){0};
	copy.node_labels = (struct labels){0};
	r = name_list_copy(&from->nodes, &copy.nodes, err);
	if (r == 0)
		r = name_list_copy(&from->exclude, &copy.exclude, err);
	if (r == 0)
		r = name_list_copy(&from->pools, &copy.pools, err);
	if (r == 0)
		r = labels_copy(&from->node_labels, &copy.node_labels, err);
	if (r < 0) {
		volume_spec_done(&copy);
		return r;
	}
	volume_spec_done(to);
	*to = copy;
	return 0;
}

bool volume_source_equal(const struct volume_source *a,
			 const struct volume_source *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
	       (!a->uid[0] || !b->uid[0] || strcmp(a->uid, b->uid) == 0);
}

static bool words_equal(const struct volume_spec *made,
			const struct volume_spec *asked)
{
	return strcmp(made->layout, asked->layout) == 0 &&
	       strcmp(made->fs_type, asked->fs_type) == 0 &&
	       (asked->any_policy ||
		strcmp(made->policy, asked->policy) == 0) &&
	       (asked->any_transport ||
		strcmp(made->transport, asked->transport) == 0) &&
	       (asked->any_placement ||
		(strcmp(made->placement, asked->placement) == 0 &&
		 strcmp(made->local_node, asked->local_node) == 0));
}

bool volume_spec_equal(const struct volume_spec *made,
		       const struct volume_spec *asked)
{
	/* Older versions made linear volumes of one extent only. */
	const bool one = strcmp(made->layout, "linear") == 0 &&
			 made->max_splits == 1 && !asked->max_splits;

	return made->capacity == asked->capacity &&
	       made->stripe_width == asked->stripe_width &&
	       made->stripe_unit == asked->stripe_unit &&
	       made->min_splits == asked->min_splits &&
	       (one || made->max_splits == asked->max_splits) &&
	       made->max_extent == asked->max_extent &&
	       made->share_pools == asked->share_pools &&
	       words_equal(made, asked) &&
	       name_list_equal(&made->nodes, &asked->nodes) &&
	       name_list_equal(&made->exclude, &asked->exclude) &&
	       name_list_equal(&made->pools, &asked->pools) &&
	       labels_equal(&made->node_labels, &asked->node_labels) &&
	       volume_source_equal(&made->source, &asked->source);
}

void volume_spec_done(struct volume_spec *spec)
{
	name_list_done(&spec->nodes);
	name_list_done(&spec->exclude);
	name_list_done(&spec->pools);
	labels_done(&spec->node_labels);
}
