/* SPDX-License-Identifier: Apache-2.0 */
#include "union/serve/pending_names.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/branch/branch_health.h"

struct pending {
	struct pending *next;
	uint64_t directory; /* the id of its node */
	char name[];
};

static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
/* The lock guards all but whether there is any. */
_Atomic(struct pending *) pending_first;

struct named {
	uint64_t directory;
	const char *name; /* NULL: none is made */
};

/*
 * Get the string at @at behind the header, and its length with its NUL; or
 * NULL.
 */
static const char *string_at(const struct fuse_in_header *header, size_t length,
			     size_t at, size_t *ret_size)
{
	const char *text = (const char *)(header + 1) + at;
	size_t room = length - sizeof(*header);
	const char *end = at < room ? memchr(text, '\0', room - at) : NULL;

	*ret_size = end ? (size_t)(end - text) + 1 : 0;
	return end ? text : NULL;
}

static void get_renamed(const struct fuse_in_header *header, size_t length,
			size_t at, struct named *ret)
{
	size_t size;

	/* Both kinds begin with the directory. */
	if (length < sizeof(*header) + at ||
	    !string_at(header, length, at, &size))
		return;
	memcpy(&ret->directory, header + 1, sizeof(ret->directory));
	ret->name = string_at(header, length, at + size, &size);
}

/* Get the name that @request makes. False: @request changes no names. */
static bool get_named(const void *request, size_t length, struct named *ret)
{
	const struct fuse_in_header *header = request;
	size_t size;

	*ret = (struct named){0};
	if (length < sizeof(*header))
		return false;
	ret->directory = header->nodeid;
	switch (header->opcode) {
	case FUSE_UNLINK:
	case FUSE_RMDIR: return true;
	case FUSE_SYMLINK:
		ret->name = string_at(header, length, 0, &size);
		return true;
	case FUSE_MKDIR:
		ret->name = string_at(header, length,
				      sizeof(struct fuse_mkdir_in), &size);
		return true;
	case FUSE_MKNOD:
		ret->name = string_at(header, length,
				      sizeof(struct fuse_mknod_in), &size);
		return true;
	case FUSE_LINK:
		ret->name = string_at(header, length,
				      sizeof(struct fuse_link_in), &size);
		return true;
	case FUSE_CREATE:
		ret->name = string_at(header, length,
				      sizeof(struct fuse_create_in), &size);
		return true;
	case FUSE_RENAME:
		get_renamed(header, length, sizeof(struct fuse_rename_in), ret);
		return true;
	case FUSE_RENAME2:
		get_renamed(header, length, sizeof(struct fuse_rename2_in),
			    ret);
		return true;
	default: return false;
	}
}

static void forget_all(void)
{
	struct pending *one, *next;

	for (one = atomic_exchange(&pending_first, NULL); one; one = next) {
		next = one->next;
		free(one);
	}
}

static const struct pending *find_pending(const struct named *named)
{
	const struct pending *one = atomic_load(&pending_first);

	while (one && (one->directory != named->directory ||
		       strcmp(one->name, named->name) != 0))
		one = one->next;
	return one;
}

static void add_pending(const struct named *named)
{
	size_t size = strlen(named->name) + 1;
	struct pending *one = malloc(sizeof(*one) + size);

	if (!one)
		return;
	one->directory = named->directory;
	memcpy(one->name, named->name, size);
	one->next = atomic_load(&pending_first);
	atomic_store(&pending_first, one);
}

bool pending_names_add(const void *request, size_t length)
{
	struct named named;

	if (!get_named(request, length, &named))
		return false;
	pthread_mutex_lock(&pending_lock);
	if (named.name && !find_pending(&named))
		add_pending(&named);
	pthread_mutex_unlock(&pending_lock);
	return true;
}

bool pending_names_find(const void *request, size_t length)
{
	struct named named;
	bool has = false;

	pthread_mutex_lock(&pending_lock);
	if (!branch_any_doubted())
		forget_all();
	else if (get_named(request, length, &named) && named.name)
		has = find_pending(&named);
	pthread_mutex_unlock(&pending_lock);
	return has;
}
