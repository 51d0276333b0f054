/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control_status.h"

#include <json-c/json.h>
#include <string.h>

static void add(struct json_object *object, const char *name,
		struct json_object *value)
{
	/* It takes the value, also NULL; without memory the value is lost. */
	if (json_object_object_add(object, name, value) < 0)
		json_object_put(value);
}

static struct json_object *branch_json(struct branch *branch)
{
	struct json_object *object = json_object_new_object();
	struct statvfs space = {0};

	/* A branch that cannot say has none. */
	if (fstatvfs(branch->root_fd, &space) < 0)
		memset(&space, 0, sizeof(space));
	add(object, "id", json_object_new_int((int)branch->id));
	add(object, "path", json_object_new_string(branch->path));
	add(object, "local",
	    json_object_new_boolean(!!(branch->flags & BRANCH_LOCAL)));
	add(object, "ro",
	    json_object_new_boolean(!!(branch->flags & BRANCH_RO)));
	add(object, "size",
	    json_object_new_uint64((uint64_t)space.f_blocks * space.f_frsize));
	add(object, "available",
	    json_object_new_uint64((uint64_t)space.f_bavail * space.f_frsize));
	return object;
}

static struct json_object *counters_json(struct unionfs *fs)
{
	struct unionfs_stats *stats = &fs->stats;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{"nodes", node_count(&fs->nodes)},
		{"lookups", atomic_load(&stats->lookups)},
		{"creates", atomic_load(&stats->creates)},
		{"opens", atomic_load(&stats->opens)},
		{"passthrough_opens", atomic_load(&stats->passthrough_opens)},
		{"reads", atomic_load(&stats->reads)},
		{"writes", atomic_load(&stats->writes)},
		{"cloned_directories", atomic_load(&stats->cloned_directories)},
	};
	struct json_object *object = json_object_new_object();
	size_t i;

	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		add(object, counters[i].name,
		    json_object_new_uint64(counters[i].value));
	return object;
}

char *control_status(struct unionfs *fs, const char *mountpoint)
{
	struct json_object *object = json_object_new_object();
	struct json_object *branches = json_object_new_array();
	unsigned i, count = fs->branches.count;
	const char *text;
	char *copy = NULL;

	for (i = 0; i < count; i++)
		(void)json_object_array_add(branches,
					    branch_json(fs->branches.items[i]));
	add(object, "mountpoint", json_object_new_string(mountpoint));
	add(object, "policy", json_object_new_string(fs->policy->name));
	add(object, "min_free", json_object_new_uint64(fs->min_free));
	add(object, "passthrough", json_object_new_boolean(fs->passthrough));
	add(object, "branches", branches);
	add(object, "counters", counters_json(fs));
	text = json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	if (text)
		copy = strdup(text);
	json_object_put(object);
	return copy;
}
