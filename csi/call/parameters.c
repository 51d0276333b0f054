/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/parameters.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/call/kubernetes_key.h"

#define LIST_MAX 4096 /* bytes, as a map's; csi_check.h */

/* ---- values ---- */

/* A word that volume_spec_check() knows, or says which there are. */
static int set_word(char *ret, size_t size, const char *value,
		    struct error *err)
{
	if (!value[0] || strlen(value) >= size)
		return error_set(err, EINVAL,
				 "has to be a word of 1 to %zu "
				 "bytes",
				 size - 1);
	(void)strcpy(ret, value);
	return 0;
}

static int set_count(unsigned *ret, const char *value, struct error *err)
{
	unsigned long n = 0;
	char *end = NULL;

	if (value[0] >= '1' && value[0] <= '9' && strlen(value) <= 3)
		n = strtoul(value, &end, 10);
	if (!end || *end || n > VOLUME_SPLITS_MAX)
		return error_set(err, EINVAL, "has to be a number from 1 to %d",
				 VOLUME_SPLITS_MAX);
	*ret = (unsigned)n;
	return 0;
}

/* Call @each for the parts of "a,b,c". */
static int each_part(const char *value, void *target,
		     int (*each)(void *target, char *part, struct error *err),
		     struct error *err)
{
	char copy[LIST_MAX + 1], *rest = copy, *part;

	if (strlen(value) > LIST_MAX)
		return error_set(err, EINVAL, "is too long");
	(void)strcpy(copy, value);
	while ((part = strsep(&rest, ","))) {
		int r = each(target, part, err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int add_name(void *list, char *part, struct error *err)
{
	return name_list_add(list, part, err);
}

static int add_label(void *labels, char *part, struct error *err)
{
	char *value = strchr(part, '=');

	if (!value)
		return error_set(err, EINVAL, "'%.60s' is not KEY=VALUE", part);
	*value++ = '\0';
	return labels_set(labels, part, value, err);
}

/* ---- the keys ---- */

static int take_layout(struct volume_spec *s, const char *v, struct error *err)
{
	return set_word(s->layout, sizeof(s->layout), v, err);
}

static int take_fs_type(struct volume_spec *s, const char *v, struct error *err)
{
	return set_word(s->fs_type, sizeof(s->fs_type), v, err);
}

static int take_policy(struct volume_spec *s, const char *v, struct error *err)
{
	return set_word(s->policy, sizeof(s->policy), v, err);
}

static int take_placement(struct volume_spec *s, const char *v,
			  struct error *err)
{
	return set_word(s->placement, sizeof(s->placement), v, err);
}

static int take_transport(struct volume_spec *s, const char *v,
			  struct error *err)
{
	return set_word(s->transport, sizeof(s->transport), v, err);
}

static int take_min_extents(struct volume_spec *s, const char *v,
			    struct error *err)
{
	return set_count(&s->min_splits, v, err);
}

static int take_max_extents(struct volume_spec *s, const char *v,
			    struct error *err)
{
	return set_count(&s->max_splits, v, err);
}

static int take_max_extent_size(struct volume_spec *s, const char *v,
				struct error *err)
{
	return size_parse(v, &s->max_extent, err);
}

static int take_share_pools(struct volume_spec *s, const char *v,
			    struct error *err)
{
	if (strcmp(v, "true") != 0 && strcmp(v, "false") != 0)
		return error_set(err, EINVAL, "has to be true or false");
	s->share_pools = strcmp(v, "true") == 0;
	return 0;
}

static int take_stripe_width(struct volume_spec *s, const char *v,
			     struct error *err)
{
	return set_count(&s->stripe_width, v, err);
}

static int take_stripe_unit(struct volume_spec *s, const char *v,
			    struct error *err)
{
	return size_parse(v, &s->stripe_unit, err);
}

/* Check the value only: it decides the layout, which is done last. */
static int check_kata(struct volume_spec *s, const char *v, struct error *err)
{
	(void)s;
	if (strcmp(v, "true") != 0 && strcmp(v, "false") != 0)
		return error_set(err, EINVAL, "has to be true or false");
	return 0;
}

static int take_iops(struct volume_spec *s, const char *v, struct error *err)
{
	char *end = NULL;
	unsigned long long n = 0;

	if (v[0] >= '0' && v[0] <= '9' && strlen(v) <= 18)
		n = strtoull(v, &end, 10);
	if (!end || *end)
		return error_set(err, EINVAL,
				 "has to be a number; 0 is no limit");
	s->limits.iops = n;
	return 0;
}

static int take_bandwidth(struct volume_spec *s, const char *v,
			  struct error *err)
{
	return size_parse(v, &s->limits.bytes_per_second, err);
}

static int take_nodes(struct volume_spec *s, const char *v, struct error *err)
{
	return each_part(v, &s->nodes, add_name, err);
}

static int take_exclude(struct volume_spec *s, const char *v, struct error *err)
{
	return each_part(v, &s->exclude, add_name, err);
}

static int take_pools(struct volume_spec *s, const char *v, struct error *err)
{
	return each_part(v, &s->pools, add_name, err);
}

static int take_selector(struct volume_spec *s, const char *v,
			 struct error *err)
{
	return each_part(v, &s->node_labels, add_label, err);
}

static const struct {
	const char *key;
	const char *values;
	const char *text; /* the default in it */
	int (*take)(struct volume_spec *spec, const char *value,
		    struct error *err);
} rows[] = {
	{"layout", "`union`, `linear`, `stripe`",
	 "a tree merged of the extents' file systems; one device, its extents "
	 "end to end; or one device, its extents striped. A device has one "
	 "file system, or none with `volumeMode: Block`. By default union or "
	 "linear, as `volumeMode` asks",
	 take_layout},
	{"stripeWidth", "2 to 64",
	 "of layout stripe: extents in a set, each in a pool of its own; 2 by "
	 "default",
	 take_stripe_width},
	{"stripeUnit", "a size, a power of two from `4KiB` to `4MiB`",
	 "of layout stripe: bytes that go to an extent in turn; 256KiB by "
	 "default",
	 take_stripe_unit},
	{"fsType", "`ext4`, `xfs`",
	 "the file system of each extent of a union, or of the device; `ext4` "
	 "unless `csi.storage.k8s.io/fstype` says otherwise",
	 take_fs_type},
	{"createPolicy",
	 "`pfrd`, `mfs`, `lfs`, `lus`, `lup`, `ff`, `rand`, `newest`, "
	 "`all`, `local`, `epall`, `epff`, `eplfs`, `eplus`, `eplup`, "
	 "`epmfs`, `eppfrd`, `eprand`, `msplfs`, `msplus`, "
	 "`msplup`, `mspmfs`, `msppfrd`",
	 "where the union makes new files: at random where there is room (the "
	 "default), on the branch with the most room, and so on "
	 "([union.md](union.md#policies))",
	 take_policy},
	{"transport", "`auto`, `loop`, `nbd`, `iscsi`, `ublk`, `fuse`",
	 "how extents of other nodes are attached; the best there is by "
	 "default",
	 take_transport},
	{"placement", "`balanced`, `packed`, `local`",
	 "as few extents as serve, where there is the most room, so that pools "
	 "fill evenly (the default); in the fullest pools that hold it, so "
	 "that large holes stay; or first in the pools of the node that the "
	 "pod is scheduled to (`volumeBindingMode: WaitForFirstConsumer`), "
	 "the rest elsewhere",
	 take_placement},
	{"minExtents", "1 to 256",
	 "spread over at least so many extents; as few as serve by default",
	 take_min_extents},
	{"maxExtents", "1 to 256", "over no more than that; 256 by default",
	 take_max_extents},
	{"maxExtentSize", "a size, `100GiB`",
	 "no extent is larger; only as large as pools are by default",
	 take_max_extent_size},
	{"sharePools", "`true`, `false`",
	 "several extents of a volume may lie in one pool; not by default",
	 take_share_pools},
	{"nodes", "names with commas", "extents on these nodes only",
	 take_nodes},
	{"excludeNodes", "names with commas", "no extents on these",
	 take_exclude},
	{"poolSelector", "names with commas",
	 "extents in pools of these names only", take_pools},
	{"kataDirect", "`true`, `false`",
	 "one extent with ext4 on it, which Kata Containers gives to the "
	 "pod's virtual machine as a device; nothing is mounted on the node "
	 "([kata.md](kata.md)); not by default",
	 check_kata},
	{"nodeSelector", "`KEY=VALUE` with commas",
	 "extents only on nodes with all of these labels", take_selector},
	{"iops", "a number",
	 "operations a second that the volume may do, divided among its "
	 "extents by their size; may be changed later, by a "
	 "VolumeAttributesClass; 0, the default, is no limit",
	 take_iops},
	{"bytesPerSecond", "a size, `100MiB`",
	 "the same for the bytes it may read and write in a second",
	 take_bandwidth},
};

/* Of those, what may be changed while there is a volume. */
static const char *const mutables[] = {"iops", "bytesPerSecond"};

/* ---- the map ---- */

bool parameters_know(const char *key)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (strcmp(rows[i].key, key) == 0)
			return true;
	return kubernetes_key_is_fs_type(key);
}

static int parameter_unknown(const char *key, struct error *err)
{
	char known[512] = "";

	for (size_t i = 0; i < array_size(rows); i++) {
		size_t at = strlen(known);

		(void)snprintf(known + at, sizeof(known) - at, "%s%s",
			       i ? ", " : "", rows[i].key);
	}
	return error_set(err, EINVAL,
			 "parameter '%.64s' is not known; there are %s", key,
			 known);
}

/* Written twice, in two ways, it has to be the same. */
static int take_fs_type_once(const struct csi_entry *e,
			     struct volume_spec *spec, struct error *err)
{
	if (spec->fs_type[0] && strcmp(spec->fs_type, e->value) != 0)
		return error_set(err, EINVAL,
				 "asks for '%.32s', another parameter for '%s'",
				 e->value, spec->fs_type);
	return take_fs_type(spec, e->value, err);
}

static int take_own(const struct csi_entry *e, struct volume_spec *spec,
		    struct error *err)
{
	if (kubernetes_key_is_fs_type(e->key))
		return take_fs_type_once(e, spec, err);
	for (size_t i = 0; i < array_size(rows); i++)
		if (strcmp(rows[i].key, e->key) == 0)
			return rows[i].take(spec, e->value, err);
	return -ENOENT;
}

static int parameter_take(const struct csi_entry *e, struct volume_spec *spec,
			  struct labels *labels, struct error *err)
{
	int r = take_own(e, spec, err);

	if (r == -ENOENT) {
		r = kubernetes_key_take(e, KUBERNETES_CLAIM, labels, err);
		return r == 0 ? parameter_unknown(e->key, err) : r < 0 ? r : 0;
	}
	if (r < 0)
		(void)error_prefix(err, r, "parameter '%s': ", e->key);
	return r < 0 ? -EINVAL : 0;
}

static bool is_mutable(const char *key)
{
	for (size_t i = 0; i < array_size(mutables); i++)
		if (strcmp(mutables[i], key) == 0)
			return true;
	return false;
}

int parameters_change(ProtobufCMessage *const *entries, size_t n,
		      struct volume_limits *limits, struct error *err)
{
	struct volume_spec spec = {.limits = *limits};

	for (size_t i = 0; i < n; i++) {
		const struct csi_entry *e =
			(const struct csi_entry *)entries[i];

		if (kubernetes_key_take(e, KUBERNETES_CLAIM, NULL, err) == 1)
			continue;
		if (!is_mutable(e->key))
			return error_set(err, EINVAL,
					 "parameter '%.64s' is none that can "
					 "be changed; those are iops and "
					 "bytesPerSecond",
					 e->key);
		if (parameter_take(e, &spec, NULL, err) < 0)
			return -EINVAL;
	}
	*limits = spec.limits;
	return 0;
}

static int apply_kata(const struct csi_entry *e, struct volume_spec *spec,
		      struct error *err)
{
	if (strcmp(e->key, "kataDirect") != 0 || strcmp(e->value, "true") != 0)
		return 0;
	if (spec->layout[0] && strcmp(spec->layout, "direct") != 0)
		return error_set(err, EINVAL,
				 "parameter 'kataDirect': the layout '%s' "
				 "cannot be given to a guest",
				 spec->layout);
	(void)strcpy(spec->layout, "direct");
	return 0;
}

int parameters_read(ProtobufCMessage *const *entries, size_t n,
		    struct volume_spec *spec, struct labels *labels,
		    struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = parameter_take((const struct csi_entry *)entries[i],
				       spec, labels, err);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < n; i++) {
		int r = apply_kata((const struct csi_entry *)entries[i], spec,
				   err);

		if (r < 0)
			return r;
	}
	return 0;
}

void parameters_describe(FILE *out)
{
	(void)fputs("| parameter | values | effect |\n"
		    "|---|---|---|\n"
		    "",
		    out);
	for (size_t i = 0; i < array_size(rows); i++)
		(void)fprintf(out, "| `%s` | %s | %s |\n", rows[i].key,
			      rows[i].values, rows[i].text);
}
