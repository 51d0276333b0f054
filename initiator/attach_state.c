/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/attach_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"
#include "base/dm/mapper.h"
#include "base/file.h"
#include "base/uuid_name.h"

#define LOCK_NAME ".lock"

void attach_state_close(struct attach_state *s)
{
	if (s->lock >= 0)
		(void)mapper_kernel_hold(s->held);
	fd_close(s->lock); /* and with it the lock */
	fd_close(s->dirfd);
}

int attach_state_open(struct attach_state *s, const char *path, bool make,
		      int operation, struct error *err)
{
	int r = make ? dir_make(path, 0700, err) : 0;

	if (r < 0)
		return r;
	if (!realpath(path, s->path))
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	s->dirfd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dirfd < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	s->lock = openat(s->dirfd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC,
			 0600);
	if (s->lock < 0)
		return error_set(err, errno, "'%s/" LOCK_NAME "': %s", path,
				 strerror(errno));
	s->held = mapper_kernel_hold(s->lock);
	do {
		r = flock(s->lock, operation);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return error_set(err, errno, "lock '%s': %s", path,
				 strerror(errno));
	return 0;
}

int attach_state_name(struct attachment *a, const struct attach_state *s,
		      const char *id, struct error *err)
{
	memset(a, 0, sizeof(*a));
	a->dirfd = s->dirfd;
	a->state_dir = s->path;
	(void)snprintf(a->record.id, sizeof(a->record.id), "%s", id);
	return device_tag(s->dirfd, id, a->tag, err);
}

int attach_state_begin(struct attachment *a, struct attach_state *s,
		       const char *state_dir, const char *id, bool make,
		       int operation, struct error *err)
{
	int r = name_check("attachment", id, err);

	memset(a, 0, sizeof(*a));
	if (r < 0)
		return r;
	r = attach_state_open(s, state_dir, make, operation, err);
	if (r < 0)
		return r;
	return attach_state_name(a, s, id, err);
}

int attach_state_load(struct attachment *a, struct error *err)
{
	struct record found;
	int r = record_load(a->dirfd, a->record.id, &found, err);

	if (r == -ENOENT || r == -EINVAL || r == -EFBIG)
		return 0;
	if (r < 0)
		return r;
	a->record = found;
	record_forget_other_boot(&a->record);
	return 1;
}
