/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/request.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"
#include "csi/call/capability.h"
#include "csi/call/parameters.h"
#include "volume/op/node_states.h"

/* The file system of the capabilities, unless the parameters have another. */
static int request_take_fs_type(struct volume_spec *spec,
				Csi__V1__VolumeCapability *const *caps,
				size_t n, struct error *err)
{
	char fs_type[sizeof(spec->fs_type)];
	int r = capabilities_fs_type(caps, n, fs_type, err);

	if (r < 0 || !fs_type[0] || strcmp(fs_type, spec->fs_type) == 0)
		return r;
	if (spec->fs_type[0])
		return error_set(err, EINVAL,
				 "the parameters ask for the file system '%s', "
				 "a capability for '%s'",
				 spec->fs_type, fs_type);
	(void)strcpy(spec->fs_type, fs_type);
	return 0;
}

/* Members that the request leaves open are as the source has them. */
static void take_open(struct volume_spec *spec, const struct volume_spec *from)
{
	if (!spec->layout[0])
		(void)strcpy(spec->layout, from->layout);
	if (!spec->fs_type[0])
		(void)strcpy(spec->fs_type, from->fs_type);
	if (!volume_spec_stripe(from) || !volume_spec_stripe(spec))
		return;
	if (!spec->stripe_width)
		spec->stripe_width = from->stripe_width;
	if (!spec->stripe_unit)
		spec->stripe_unit = from->stripe_unit;
}

/* One class serves both kinds of claims: a block device has no file system. */
static int make_block(struct volume_spec *spec, const struct volume_spec *from,
		      struct error *err)
{
	if (from && from->fs_type[0])
		return error_set(err, EINVAL,
				 "the source is a file system (layout %s): no "
				 "block device is made of it",
				 from->layout);
	if (!spec->layout[0])
		(void)strcpy(spec->layout, from ? from->layout : "linear");
	if (!volume_spec_is_device(spec) || volume_spec_direct(spec))
		return error_set(err, EINVAL,
				 "the parameters ask for the layout '%s', a "
				 "capability for a block device, which is "
				 "'linear' or 'stripe'",
				 spec->layout);
	spec->fs_type[0] = '\0';
	return 0;
}

static int make_mounted(struct volume_spec *spec,
			const struct volume_spec *from, struct error *err)
{
	if (from && !from->fs_type[0])
		return error_set(err, EINVAL,
				 "the source is a block device (layout %s): no "
				 "file system is made of it",
				 from->layout);
	if (!spec->layout[0] && !from)
		(void)strcpy(spec->layout, "union");
	if (!spec->fs_type[0] && !from)
		(void)strcpy(spec->fs_type, "ext4");
	return 0;
}

/* A file system or a block device, as the capabilities have it. */
static int take_kind(struct volume_spec *spec,
		     Csi__V1__VolumeCapability *const *caps, size_t n,
		     const struct volume_spec *from, struct error *err)
{
	bool block = false;
	int r = capabilities_block(caps, n, &block, err);

	if (r < 0 || n == 0)
		return r;
	return block ? make_block(spec, from, err)
		     : make_mounted(spec, from, err);
}

int request_read(struct request *request, ProtobufCMessage *const *parameters,
		 size_t n_parameters, Csi__V1__VolumeCapability *const *caps,
		 size_t n_caps, const struct volume_spec *from,
		 struct error *err)
{
	struct volume_spec *spec = &request->spec;
	int r;

	*request = (struct request){0};
	r = parameters_read(parameters, n_parameters, spec, &request->labels,
			    err);
	for (size_t i = 0; r == 0 && i < n_caps; i++)
		r = capability_check(caps[i], NULL, err);
	if (r == 0)
		r = request_take_fs_type(spec, caps, n_caps, err);
	if (r == 0)
		r = take_kind(spec, caps, n_caps, from, err);
	if (r < 0)
		return r;
	if (from)
		take_open(spec, from);
	/* With this capacity, an error cannot be about the size. */
	spec->capacity = VOLUME_CAPACITY_MAX;
	r = volume_spec_check(spec, err);
	spec->capacity = 0;
	return r < 0 ? -EINVAL : 0;
}

void request_done(struct request *request)
{
	volume_spec_done(&request->spec);
	labels_done(&request->labels);
}

int request_capacity(const Csi__V1__CapacityRange *range,
		     const struct volume_spec *spec, uint64_t *ret,
		     struct error *err)
{
	uint64_t required = range ? (uint64_t)range->required_bytes : 0;
	uint64_t limit = range ? (uint64_t)range->limit_bytes : 0;
	uint64_t least = volume_spec_minimum(spec),
		 unit = volume_spec_unit(spec);
	uint64_t size = required ? required : REQUEST_SIZE_DEFAULT;

	if (limit && limit < required)
		return error_set(err, ERANGE,
				 "the limit of %" PRIu64 " bytes is less than "
				 "the %" PRIu64 " required",
				 limit, required);
	if (!required && limit && size > limit)
		size = limit - limit % unit;
	if (size < least)
		size = least;
	if (size_round_up(size, unit, &size) < 0 || size > VOLUME_CAPACITY_MAX)
		return error_set(err, ERANGE,
				 "%" PRIu64 " bytes: a volume has at most "
				 "%" PRIu64,
				 required, VOLUME_CAPACITY_MAX);
	if (limit && size > limit)
		return error_set(err, ERANGE,
				 "the smallest volume for this is %" PRIu64
				 " bytes, more than the limit of %" PRIu64,
				 size, limit);
	*ret = size;
	return 0;
}

bool request_allows(const Csi__V1__CapacityRange *range, uint64_t capacity)
{
	if (!range)
		return true;
	return capacity >= (uint64_t)range->required_bytes &&
	       (!range->limit_bytes ||
		capacity <= (uint64_t)range->limit_bytes);
}

/* The name of the node that it is; "": everywhere; NULL: none of ours. */
static const char *place_node(const Csi__V1__Topology *place)
{
	if (place->n_segments == 0)
		return "";
	/* There is one key, and csi_check() lets no two be the same. */
	if (place->n_segments > 1 ||
	    strcasecmp(place->segments[0]->key, CSI_TOPOLOGY_NODE) != 0)
		return NULL;
	return place->segments[0]->value;
}

static bool is_node(const struct node_state *states, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(states[i].record.name, name) == 0)
			return true;
	return false;
}

/* Every node reaches every volume: a place is good when it is one of ours. */
int request_place_known(struct csi *csi, Csi__V1__Topology *const *places,
			size_t n_places, struct error *err)
{
	struct node_state *states = NULL;
	size_t n = 0;
	bool known = false;
	int r = node_states_load(csi->volumes, &states, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; !known && i < n_places; i++) {
		const char *node = place_node(places[i]);

		known = node && (!node[0] || is_node(states, n, node));
	}
	node_states_free(states, n);
	return known;
}

/* The first of the places that is a node of ours. */
static void take_first(struct volume_spec *spec,
		       const struct node_state *states, size_t n,
		       Csi__V1__Topology *const *places, size_t n_places)
{
	for (size_t i = 0; i < n_places; i++) {
		const char *node = place_node(places[i]);

		if (!node || !node[0] || !is_node(states, n, node))
			continue;
		(void)strcpy(spec->local_node, node); /* as long as theirs */
		return;
	}
}

int request_take_local(struct csi *csi,
		       const Csi__V1__TopologyRequirement *places,
		       struct volume_spec *spec, struct error *err)
{
	struct node_state *states = NULL;
	size_t n = 0;
	int r;

	if (!places || strcmp(spec->placement, "local") != 0)
		return 0;
	r = node_states_load(csi->volumes, &states, &n, err);
	if (r < 0)
		return r;
	take_first(spec, states, n, places->preferred, places->n_preferred);
	if (!spec->local_node[0] && places->n_requisite == 1)
		take_first(spec, states, n, places->requisite, 1);
	node_states_free(states, n);
	return 0;
}
