/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/unionfs_life.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "union/branch/ino_preserve.h"
#include "union/migrate/room.h"
#include "union/node/node_restore.h"
#include "union/recover/handover.h"
#include "union/recover/saved_nodes.h"
#include "union/state/state.h"
#include "union/view/name_filter.h"
#include "union/view/preserve_mtime.h"

/* Find the roots, and return how many there are; or -errno. */
static int find_roots(struct unionfs *fs, struct node_found *found,
		      struct stat *first, struct error *err)
{
	struct branch *branch;
	unsigned i;
	int r = 0, n = 0;

	for (i = 0; i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		if (branch->flags & BRANCH_GONE)
			continue;
		found[n].branch = branch->id;
		if (n == 0 && fstat(branch->root_fd, first) < 0)
			r = -errno;
		if (r == 0)
			r = handle_get(branch->root_fd, "", &found[n].handle);
		if (r < 0)
			return error_set(err, -r, "branch '%s': %s",
					 branch->path, strerror(-r));
		n++;
	}
	return n;
}

int unionfs_init(struct unionfs *fs, struct error *err)
{
	struct node_found found[BRANCH_MAX] = {{0}};
	struct node *root;
	struct stat st = {0};
	bool goes_on = fs->state && state_has_root(fs->state);
	int n = goes_on ? 0 : find_roots(fs, found, &st, err), r;

	if (n < 0)
		return n;
	pthread_rwlock_init(&fs->tree, NULL);
	dirty_list_init(&fs->dirty);
	open_table_init(&fs->opened, fs->state);
	pthread_mutex_init(&fs->branch_changes, NULL);
	fs->room = room_new(fs);
	r = migrate_lock_init(&fs->migrate_lock);
	if (r == 0)
		r = node_table_init(&fs->nodes, (uint64_t)clock_wall_s() << 24,
				    fs->state);
	if (r == 0)
		fs->stats = &fs->nodes.state->header->stats;
	fs->nodes.forget_names = name_filter_forget;
	fs->nodes.takes_over = fs->shared;
	fs->nodes.forgotten.max = fs->forgets_nothing ? FORGOTTEN_ALL
						      : FORGOTTEN_DEFAULT;
	if (r == 0 && goes_on) {
		preserve_mtime_take_over(fs->state);
		r = node_restore(&fs->nodes);
	} else if (r == 0) {
		if (saved_nodes_read(fs))
			r = node_restore(&fs->nodes);
	}
	if (r == 0 && !goes_on) {
		r = node_intern(
			&fs->nodes, S_IFDIR,
			branch_number(fs->branches.items[found[0].branch],
				      st.st_ino),
			found, (unsigned)n, &root);
		if (r == 0)
			unionfs_found_at(
				fs, root, fs->branches.items[found[0].branch],
				fs->branches.items[found[0].branch]->root_fd,
				"");
	}
	if (r == 0)
		r = handover_restore(fs);
	return r < 0 ? error_set(err, -r, "%s", strerror(-r)) : 0;
}

void unionfs_done(struct unionfs *fs)
{
	room_free(fs->room);
	node_table_done(&fs->nodes);
	open_table_done(&fs->opened);
	name_filter_forget_all();
	branch_table_done(&fs->branches);
	migrate_lock_done(&fs->migrate_lock);
	dirty_list_done(&fs->dirty);
	pthread_mutex_destroy(&fs->branch_changes);
	pthread_rwlock_destroy(&fs->tree);
}
