/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/branches_kit.h"
#include "union/recover/unionfs_life.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <stdlib.h>
#include <sys/stat.h>

#include "base/process.h"

#include <cmocka.h>

int branches_kit_make(char top[BRANCHES_KIT_TOP], struct branch_table *table)
{
	struct error err = {0};
	char path[BRANCHES_KIT_TOP + 8];
	unsigned i;

	(void)snprintf(top, BRANCHES_KIT_TOP, "/tmp/trib-union-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	for (i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%u", top, i);
		if (mkdir(path, 0755) < 0)
			return -1;
		if (branch_add(table, path, 0, &err) < 0) {
			print_message("%s\n", err.msg);
			return 0;
		}
	}
	return 0;
}

int branches_kit_union(char top[BRANCHES_KIT_TOP], struct unionfs *fs,
		       struct node **ret_root)
{
	struct error err = {0};

	*ret_root = NULL;
	if (branches_kit_make(top, &fs->branches) < 0)
		return -1;
	if (fs->branches.count < 2)
		return 0;
	policy_set_init(&fs->policies);
	if (unionfs_init(fs, &err) < 0)
		return -1;
	*ret_root = node_get(&fs->nodes, NODE_ROOT_ID);
	return 0;
}

int branches_kit_remove(const char *top)
{
	const char *const argv[] = {"rm", "-rf", top, NULL};

	return process_must(argv, 60000, NULL);
}
