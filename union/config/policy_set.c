/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/policy_set.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const functions[POLICY_FUNCTIONS] = {
	[POLICY_CREATE] = "create",
	[POLICY_MKDIR] = "mkdir",
	[POLICY_MKNOD] = "mknod",
	[POLICY_SYMLINK] = "symlink",
	[POLICY_ACCESS] = "access",
	[POLICY_GETATTR] = "getattr",
	[POLICY_GETXATTR] = "getxattr",
	[POLICY_IOCTL] = "ioctl",
	[POLICY_LISTXATTR] = "listxattr",
	[POLICY_OPEN] = "open",
	[POLICY_READLINK] = "readlink",
	[POLICY_CHMOD] = "chmod",
	[POLICY_CHOWN] = "chown",
	[POLICY_LINK] = "link",
	[POLICY_REMOVEXATTR] = "removexattr",
	[POLICY_RENAME] = "rename",
	[POLICY_RMDIR] = "rmdir",
	[POLICY_SETXATTR] = "setxattr",
	[POLICY_TRUNCATE] = "truncate",
	[POLICY_UNLINK] = "unlink",
	[POLICY_UTIMENS] = "utimens",
};

static const struct {
	const char *name;
	enum policy_function from, to; /* @to is of the next */
	const char *policy;            /* as it begins; NULL: the default */
} categories[] = {
	{"create", POLICY_CREATE, POLICY_ACCESS, NULL},
	{"search", POLICY_ACCESS, POLICY_CHMOD, "ff"},
	{"action", POLICY_CHMOD, POLICY_FUNCTIONS, "epall"},
};

static void set_range(struct policy_set *set, unsigned from, unsigned to,
		      const struct policy *policy)
{
	for (; from < to; from++)
		atomic_store(&set->of[from], policy);
}

void policy_set_init(struct policy_set *set)
{
	size_t i;

	for (i = 0; i < array_size(categories); i++)
		set_range(set, categories[i].from, categories[i].to,
			  categories[i].policy
				  ? policy_find(categories[i].policy)
				  : policy_at(0));
}

void policy_set_copy(struct policy_set *to, const struct policy_set *from)
{
	unsigned i;

	for (i = 0; i < POLICY_FUNCTIONS; i++)
		atomic_store(&to->of[i], policy_of(from, i));
}

struct range {
	unsigned from, to; /* @to is the first not of it */
};

static int find_category(const char *name, struct range *ret, struct error *err)
{
	size_t i;

	for (i = 0; i < array_size(categories); i++) {
		if (strcmp(categories[i].name, name) != 0)
			continue;
		*ret = (struct range){categories[i].from, categories[i].to};
		return 0;
	}
	return error_set(err, EINVAL,
			 "option 'category.%s': there are create, search and "
			 "action",
			 name);
}

static int find_function(const char *name, struct range *ret, struct error *err)
{
	unsigned i;

	for (i = 0; i < POLICY_FUNCTIONS; i++) {
		if (strcmp(functions[i], name) != 0)
			continue;
		*ret = (struct range){i, i + 1};
		return 0;
	}
	return error_set(err, EINVAL,
			 "option 'func.%s': no function with a policy is "
			 "called so",
			 name);
}

static int find_range(const char *name, struct range *ret, struct error *err)
{
	if (strcmp(name, "policy") == 0)
		return find_category("create", ret, err);
	if (strncmp(name, "category.", 9) == 0)
		return find_category(name + 9, ret, err);
	if (strncmp(name, "func.", 5) == 0)
		return find_function(name + 5, ret, err);
	return -ENOENT;
}

/* Refuse an unknown policy, with the names of all. */
static int unknown_policy(const char *name, const char *value,
			  struct error *err)
{
	char list[256] = "";
	const struct policy *policy;
	unsigned i;

	for (i = 0; (policy = policy_at(i)); i++)
		(void)snprintf(list + strlen(list), sizeof(list) - strlen(list),
			       "%s%s", i ? ", " : "", policy->name); /* fits */
	return error_set(err, EINVAL, "option '%s=%s': the policies are %s",
			 name, value, list);
}

int policy_set_apply(struct policy_set *set, const char *name,
		     const char *value, struct error *err)
{
	const struct policy *policy;
	struct range range;
	int r = find_range(name, &range, err);

	if (r < 0)
		return r;
	policy = policy_find(value);
	if (!policy)
		return unknown_policy(name, value, err);
	set_range(set, range.from, range.to, policy);
	return 0;
}

const char *policy_function_name(enum policy_function function)
{
	return functions[function];
}

const char *policy_category_name(unsigned category)
{
	return category < array_size(categories) ? categories[category].name
						 : NULL;
}

const struct policy *policy_of_category(const struct policy_set *set,
					unsigned category)
{
	unsigned i = categories[category].from;
	const struct policy *policy = policy_of(set, i);

	for (; i < categories[category].to; i++)
		if (policy_of(set, i) != policy)
			return NULL;
	return policy;
}
