/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/control_status.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/branch/branch_health.h"
#include "union/state/fd_store.h"

void json_add(struct json_object *object, const char *name,
	      struct json_object *value)
{
	if (json_object_object_add(object, name, value) < 0)
		json_object_put(value);
}

static struct json_object *drain_json(const struct drain_progress *p)
{
	struct json_object *object = json_object_new_object();

	json_add(object, "rate", json_object_new_uint64(p->rate));
	json_add(object, "files_left", json_object_new_uint64(p->files_left));
	json_add(object, "bytes_left", json_object_new_uint64(p->bytes_left));
	json_add(object, "files_moved", json_object_new_uint64(p->files_moved));
	json_add(object, "bytes_moved", json_object_new_uint64(p->bytes_moved));
	json_add(object, "busy", json_object_new_uint64(p->busy));
	json_add(object, "failed", json_object_new_uint64(p->failed));
	json_add(object, "error", json_object_new_string(p->error));
	return object;
}

static const char *mode_of(unsigned flags)
{
	if (flags & BRANCH_GONE)
		return flags & BRANCH_ABSENT ? "absent" : "gone";
	if (flags & BRANCH_DRAINING)
		return "draining";
	if (flags & BRANCH_RO)
		return "ro";
	return flags & BRANCH_NC ? "nc" : "rw";
}

static struct json_object *status_of_branch(struct branch *branch,
					    struct drains *drains)
{
	struct json_object *object = json_object_new_object();
	int failed = atomic_load(&branch->failed);
	const char *state = branch->flags & BRANCH_ABSENT     ? "absent"
			    : failed || branch->doubted       ? "failed"
			    : atomic_load(&branch->turned_ro) ? "read-only"
							      : "ok";
	struct drain_progress progress;
	struct statvfs space = {0};

	/* A branch that cannot be asked has no space. */
	if (!branch_usable(branch->id) || fstatvfs(branch->root_fd, &space) < 0)
		memset(&space, 0, sizeof(space));
	json_add(object, "id", json_object_new_int((int)branch->id));
	json_add(object, "path", json_object_new_string(branch->path));
	json_add(object, "local",
		 json_object_new_boolean(!!(branch->flags & BRANCH_LOCAL)));
	json_add(object, "ro",
		 json_object_new_boolean(!!(branch->flags & BRANCH_RO)));
	json_add(object, "mode",
		 json_object_new_string(mode_of(branch->flags)));
	if (branch->min_free != BRANCH_MIN_FREE_UNION)
		json_add(object, "min_free",
			 json_object_new_uint64(branch->min_free));
	json_add(object, "size",
		 json_object_new_uint64((uint64_t)space.f_blocks *
					space.f_frsize));
	json_add(object, "available",
		 json_object_new_uint64((uint64_t)space.f_bavail *
					space.f_frsize));
	json_add(object, "state", json_object_new_string(state));
	if (failed)
		json_add(object, "error",
			 json_object_new_string(strerror(failed)));
	json_add(object, "failures",
		 json_object_new_uint64(atomic_load(&branch->failures)));
	json_add(object, "damaged", json_object_new_boolean(branch->damaged));
	drain_get(drains, branch, &progress);
	if (progress.draining)
		json_add(object, "drain", drain_json(&progress));
	return object;
}

/* List the policy of each category; "mixed": its functions have not all one. */
static struct json_object *policies_json(const struct unionfs *fs)
{
	struct json_object *object = json_object_new_object();
	const struct policy *policy;
	const char *name;
	unsigned i;

	for (i = 0; (name = policy_category_name(i)); i++) {
		policy = policy_of_category(&fs->policies, i);
		json_add(object, name,
			 json_object_new_string(policy ? policy->name
						       : "mixed"));
	}
	return object;
}

static struct json_object *counters_json(struct unionfs *fs)
{
	const struct union_stats *stats = fs->stats;
	const struct {
		const char *name;
		uint64_t value;
	} counters[] = {
		{"nodes", node_count(&fs->nodes)},
		{"requests", atomic_load(&stats->requests)},
		{"lookups", atomic_load(&stats->lookups)},
		{"creates", atomic_load(&stats->creates)},
		{"opens", atomic_load(&stats->opens)},
		{"passthrough_opens", atomic_load(&stats->passthrough_opens)},
		{"reads", atomic_load(&stats->reads)},
		{"writes", atomic_load(&stats->writes)},
		{"cloned_directories", atomic_load(&stats->cloned_directories)},
		{"moved_files", atomic_load(&stats->moved_files)},
	};
	struct json_object *object = json_object_new_object();
	size_t i;

	for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		json_add(object, counters[i].name,
			 json_object_new_uint64(counters[i].value));
	return object;
}

/* Make text of @object, owned; NULL: ENOMEM. */
static char *text_of_json(struct json_object *object)
{
	const char *text = json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	char *copy = text ? strdup(text) : NULL;

	json_object_put(object);
	return copy;
}

/* Is the program at this one's path still this one? */
static bool is_current_program(void)
{
	struct stat own, there;
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n < 0 || stat("/proc/self/exe", &own) < 0)
		return false;
	path[n] = '\0';
	return stat(path, &there) == 0 && own.st_dev == there.st_dev &&
	       own.st_ino == there.st_ino;
}

char *control_status(struct unionfs *fs, const char *mountpoint)
{
	struct json_object *object = json_object_new_object();
	struct json_object *branches = json_object_new_array();
	unsigned i, count = fs->branches.count;

	for (i = 0; i < count; i++)
		(void)json_object_array_add(
			branches,
			status_of_branch(fs->branches.items[i], fs->drains));
	json_add(object, "mountpoint", json_object_new_string(mountpoint));
	json_add(object, "version", json_object_new_string(TRIBUTARY_VERSION));
	json_add(object, "pid", json_object_new_int(getpid()));
	json_add(object, "current",
		 json_object_new_boolean(is_current_program()));
	json_add(object, "survives", json_object_new_boolean(fd_store_is_on()));
	json_add(object, "policy",
		 json_object_new_string(
			 policy_of(&fs->policies, POLICY_CREATE)->name));
	json_add(object, "policies", policies_json(fs));
	json_add(object, "min_free", json_object_new_uint64(fs->min_free));
	json_add(object, "passthrough",
		 json_object_new_boolean(fs->passthrough));
	json_add(object, "branches", branches);
	json_add(object, "counters", counters_json(fs));
	return text_of_json(object);
}

char *control_policies(struct unionfs *fs)
{
	struct json_object *object = json_object_new_object();

	json_add(object, "policies", policies_json(fs));
	json_add(object, "min_free", json_object_new_uint64(fs->min_free));
	return text_of_json(object);
}

static bool is_damaged(const struct branch *branch)
{
	return atomic_load(&branch->damaged);
}

static bool has_no_disk(const struct branch *branch)
{
	return branch->flags & BRANCH_ABSENT;
}

static bool has_left(const struct branch *branch)
{
	return (branch->flags & (BRANCH_GONE | BRANCH_ABSENT)) == BRANCH_GONE;
}

/* Write the ids of the wanted branches: "0,3". */
static void list_branches(const struct branch_table *table,
			  bool (*wanted)(const struct branch *branch),
			  char ret[static 4 * BRANCH_MAX])
{
	unsigned i, count = table->count;
	char *at = ret;

	*at = '\0';
	for (i = 0; i < count; i++)
		if (wanted(table->items[i]))
			at += sprintf(at, "%s%u", at == ret ? "" : ",",
				      i); /* fits */
}

char *control_stats(struct unionfs *fs)
{
	const struct union_stats *s = fs->stats;
	struct branches_ill ill = branch_table_ill(&fs->branches);
	char damaged[4 * BRANCH_MAX], absent[4 * BRANCH_MAX],
		gone[4 * BRANCH_MAX];
	char *text;
	int n;

	list_branches(&fs->branches, is_damaged, damaged);
	list_branches(&fs->branches, has_no_disk, absent);
	list_branches(&fs->branches, has_left, gone);
	n = asprintf(
		&text,
		"{\"branches\":%u,\"policy\":\"%s\",\"passthrough\":%s,"
		"\"nodes\":%llu,\"requests\":%lu,\"lookups\":%lu,\"creates\":%lu,\"opens\":%lu,"
		"\"passthrough_opens\":%lu,\"reads\":%lu,\"writes\":%lu,"
		"\"cloned_directories\":%lu,\"failed\":%u,\"read_only\":%u,"
		"\"failures\":%lu,\"damaged\":[%s],\"absent\":[%s],\"gone\":[%s]}",
		fs->branches.count,
		policy_of(&fs->policies, POLICY_CREATE)->name,
		fs->passthrough ? "true" : "false",
		(unsigned long long)node_count(&fs->nodes),
		atomic_load(&s->requests), atomic_load(&s->lookups),
		atomic_load(&s->creates), atomic_load(&s->opens),
		atomic_load(&s->passthrough_opens), atomic_load(&s->reads),
		atomic_load(&s->writes), atomic_load(&s->cloned_directories),
		ill.failed, ill.read_only, ill.failures, damaged, absent, gone);

	return n < 0 ? NULL : text;
}
