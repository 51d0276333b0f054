/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policy of each function of the file system. Policies are set by function
 * (func.mkdir=ff) and by category (category.create=mfs). Later words override
 * earlier ones, also while the union is in use.
 */
#ifndef UNION_POLICY_SET_H
#define UNION_POLICY_SET_H

#include <stdatomic.h>

#include "base/error.h"
#include "union/config/policy.h"

/* In the order of their categories: create, search, action. */
enum policy_function {
	POLICY_CREATE, /* the category create */
	POLICY_MKDIR,
	POLICY_MKNOD,
	POLICY_SYMLINK,
	POLICY_ACCESS, /* search */
	POLICY_GETATTR,
	POLICY_GETXATTR,
	POLICY_IOCTL,
	POLICY_LISTXATTR,
	POLICY_OPEN,
	POLICY_READLINK,
	POLICY_CHMOD, /* action */
	POLICY_CHOWN,
	POLICY_LINK,
	POLICY_REMOVEXATTR,
	POLICY_RENAME,
	POLICY_RMDIR,
	POLICY_SETXATTR,
	POLICY_TRUNCATE,
	POLICY_UNLINK,
	POLICY_UTIMENS,
	POLICY_FUNCTIONS
};

/* Setting by name, a policy for example: see settings.h. */
struct setting {
	const char *name; /* "category.create" */
	const char *value;
};

struct policy_set {
	const struct policy *_Atomic of[POLICY_FUNCTIONS];
};

/*
 * Set the defaults. create: the first policy there is, search: ff, action:
 * epall.
 */
void policy_set_init(struct policy_set *set);

void policy_set_copy(struct policy_set *to, const struct policy_set *from);

/*
 * Apply an option.
 *
 * @name   "policy" (for category.create), "category.NAME", "func.NAME"
 * @value  the name of a policy
 *
 * -ENOENT without an error: @name is none of these. -EINVAL: no such
 * function, category or policy.
 */
int policy_set_apply(struct policy_set *set, const char *name,
		     const char *value, struct error *err);

static inline const struct policy *policy_of(const struct policy_set *set,
					     enum policy_function function)
{
	return atomic_load_explicit(&set->of[function], memory_order_relaxed);
}

/* "create", "mkdir" and so on. */
const char *policy_function_name(enum policy_function function);

/* Get the policy of a whole category by its number, 0 to 2; NULL: its functions
 * have different ones.
 */
const struct policy *policy_of_category(const struct policy_set *set,
					unsigned category);
/* "create", "search", "action"; NULL past the last. */
const char *policy_category_name(unsigned category);

#endif
