/* SPDX-License-Identifier: Apache-2.0 */
#include "union/control/control_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/dir_fd.h"
#include "union/live/add_branch.h"
#include "union/live/control_status.h"
#include "union/live/remove_branch.h"
#include "union/live/set_branch.h"
#include "union/state/fd_store.h"
#include "union/view/state_note.h"

#define UPGRADE_MS 20000 /* the supervisor's checks may take half of it */

/*
 * Find a branch by the path that it has, or had: its directory may be elsewhere
 * now.
 */
static struct branch *find_branch(const struct unionfs *fs, const char *path)
{
	struct branch *branch = branch_find(&fs->branches, path);
	unsigned i = fs->branches.count;

	while (!branch && i > 0) {
		branch = fs->branches.items[--i];
		if (branch->flags & BRANCH_GONE ||
		    strcmp(branch->path, path) != 0)
			branch = NULL;
	}
	return branch;
}

static char *reply_id(unsigned id)
{
	char json[32];

	(void)snprintf(json, sizeof(json), "{\"id\":%u}", id); /* fits */
	return control_reply_ok(json);
}

static char *do_status(const struct control_target *target)
{
	auto_free char *json = control_status(target->fs, target->mountpoint);

	return json ? control_reply_ok(json) : NULL;
}

static char *do_policy(const struct control_target *target,
		       const struct control_request *request)
{
	auto_free char *json = NULL;
	struct error err = {0};

	if (settings_change(target->fs, request->settings,
			    request->settings_count, &err) < 0)
		return control_reply_error(error_text(&err));
	json = control_policies(target->fs);
	return json ? control_reply_ok(json) : NULL;
}

/* Have this process replaced: the answer to the client is the end of it. */
static char *do_upgrade(void)
{
	struct error err = {0};

	/* The call returns with an error only. */
	(void)fd_store_ask_replace(UPGRADE_MS, &err);
	return control_reply_error(error_text(&err));
}

static char *do_add(const struct control_target *target,
		    const struct branch_spec *spec)
{
	struct error err = {0};
	unsigned id;
	int r;

	pthread_mutex_lock(&target->fs->branch_changes);
	r = union_add_branch(target->fs, target->mountpoint, spec, &id, &err);
	state_note_settings(target->fs);
	pthread_mutex_unlock(&target->fs->branch_changes);
	return r < 0 ? control_reply_error(error_text(&err)) : reply_id(id);
}

static int do_remove(const struct control_target *target, struct branch *branch,
		     struct error *err)
{
	int r;

	if (branch->flags & BRANCH_DRAINING)
		return error_set(err, EBUSY,
				 "branch '%s' is being drained, and goes when "
				 "it is empty",
				 branch->path);
	r = union_remove_branch(target->fs, branch, err);
	if (r == 0)
		log_info("'%s': branch %u, '%s', was removed",
			 target->mountpoint, branch->id, branch->path);
	return r;
}

static int do_set(const struct unionfs *fs, struct branch *branch,
		  const struct branch_spec *spec, struct error *err)
{
	if (fs->read_only && !(spec->flags & BRANCH_RO))
		return error_set(err, EROFS, "the union is mounted read-only");
	return union_set_branch(branch, spec, err);
}

/*
 * Do a command on a branch. With fs->branch_changes: a drained branch is not
 * being detached meanwhile.
 */
static int do_to(const struct control_target *target, struct branch *branch,
		 const struct control_request *request, struct error *err)
{
	switch (request->command) {
	case CONTROL_REMOVE: return do_remove(target, branch, err);
	case CONTROL_SET:
		return do_set(target->fs, branch, &request->branch, err);
	case CONTROL_DRAIN:
		return drain_start(target->drains, branch, request->rate, err);
	case CONTROL_STOP: return drain_stop(target->drains, branch, err);
	default: return error_set(err, EINVAL, "unknown command");
	}
}

static char *do_any(const struct control_target *target,
		    const struct control_request *request)
{
	struct error err = {0};
	struct branch *branch;
	int r = -ENOENT;

	if (request->command == CONTROL_STATUS)
		return do_status(target);
	if (request->command == CONTROL_UPGRADE)
		return do_upgrade();
	if (request->command == CONTROL_POLICY)
		return do_policy(target, request);
	if (request->command == CONTROL_ADD)
		return do_add(target, &request->branch);
	pthread_mutex_lock(&target->fs->branch_changes);
	branch = find_branch(target->fs, request->branch.path);
	if (!branch)
		(void)error_set(&err, ENOENT, "'%s' is no branch of this union",
				request->branch.path);
	else
		r = do_to(target, branch, request, &err);
	state_note_settings(target->fs);
	pthread_mutex_unlock(&target->fs->branch_changes);
	return r < 0 ? control_reply_error(error_text(&err))
		     : reply_id(branch->id);
}

char *control_command_do(const struct control_target *target,
			 const struct control_request *request)
{
	char *reply;

	dir_fd_changes_begin();
	reply = do_any(target, request);
	dir_fd_changes_end();
	return reply;
}
