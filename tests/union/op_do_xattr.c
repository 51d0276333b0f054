/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes of every namespace, ACLs among them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/posix_acl_xattr.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

static char value[OP_BUFFER];

static size_t make_value(const struct op *op)
{
	struct vfs_cap_data caps = {.magic_etc = VFS_CAP_REVISION_2};

	if (strcmp(op->name, "security.capability") == 0 && op->way % 3) {
		caps.data[0].permitted = 1;
		memcpy(value, &caps, sizeof(caps));
		return XATTR_CAPS_SZ_2;
	}
	op_fill(op->seed, value, (size_t)op->length);
	return (size_t)op->length;
}

static int set_value(const struct op *op, const char *path, int fd,
		     const char *name, size_t size)
{
	switch (op->way % 4) {
	case 0: return fsetxattr(fd, name, value, size, op->flags);
	case 1: return lsetxattr(path, name, value, size, op->flags);
	default: return setxattr(path, name, value, size, op->flags);
	}
}

static void do_get(const struct op *op, const char *path, int fd)
{
	static const size_t sizes[] = {0, 3, 5000, sizeof(value)};
	size_t size = sizes[op->seed % array_size(sizes)];
	ssize_t n;

	switch (op->way % 4) {
	case 0: n = fgetxattr(fd, op->name, value, size); break;
	case 1: n = lgetxattr(path, op->name, value, size); break;
	default: n = getxattr(path, op->name, value, size); break;
	}
	say_result(n);
	if (size && n > 0)
		say(" %llx", (unsigned long long)op_sum(value, (size_t)n));
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void do_list(const struct op *op, const char *path, int fd)
{
	static const size_t sizes[] = {0, 3, sizeof(value), sizeof(value)};
	size_t size = sizes[op->seed % array_size(sizes)], i, count = 0;
	char *names[256];
	ssize_t n, at;

	switch (op->way % 4) {
	case 0: n = flistxattr(fd, value, size); break;
	case 1: n = llistxattr(path, value, size); break;
	default: n = listxattr(path, value, size); break;
	}
	if (op_other_kind && geteuid())
		return; /* Btrfs lists to all what is trusted */
	say_result(n);
	for (at = 0; size && at < n && count < array_size(names);
	     at += (ssize_t)strlen(value + at) + 1)
		names[count++] = value + at;
	qsort(names, count, sizeof(names[0]), compare_names);
	for (i = 0; i < count; i++)
		say(" %.60s", names[i]);
}

/* A whole and valid list, for user 1000 and group 3000 besides. */
static size_t make_acl(const struct op *op)
{
	static const uint16_t tags[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20};
	struct posix_acl_xattr_header *header = (void *)value;
	struct posix_acl_xattr_entry *entries = (void *)(header + 1);
	unsigned i;

	header->a_version = POSIX_ACL_XATTR_VERSION;
	for (i = 0; i < array_size(tags); i++) {
		entries[i].e_tag = tags[i];
		entries[i].e_perm = (uint16_t)(op->seed >> (3 * i) & 7);
		entries[i].e_id = tags[i] == 0x02   ? 1000
				  : tags[i] == 0x08 ? 3000
						    : UINT32_MAX;
	}
	return (size_t)((char *)&entries[i] - value);
}

static void do_acl(const struct op *op, const char *path, int fd)
{
	static const char *const names[] = {"system.posix_acl_access",
					    "system.posix_acl_default"};
	const char *name = names[op->slot % 2];
	struct op plain = *op;
	ssize_t n;

	plain.flags = 0;
	if (op->way % 3 == 0) {
		n = getxattr(path, name, value, sizeof(value));
		say_result(n);
		if (n > 0)
			say(" %llx",
			    (unsigned long long)op_sum(value, (size_t)n));
	} else if (op->way == 1) {
		say_result(removexattr(path, name));
	} else {
		say_result(set_value(&plain, path, fd, name, make_acl(op)));
	}
}

static void do_remove(const struct op *op, const char *path, int fd)
{
	switch (op->way % 4) {
	case 0: say_result(fremovexattr(fd, op->name)); break;
	case 1: say_result(lremovexattr(path, op->name)); break;
	default: say_result(removexattr(path, op->name)); break;
	}
}

void op_do_xattr(const struct op *op, int *fds)
{
	char buf[OP_FULL_PATH_MAX];
	const char *path = op_path(op->path, buf);
	int fd = fds[op->slot];

	switch (op->kind) {
	case OP_SETXATTR:
		say_result(set_value(op, path, fd, op->name, make_value(op)));
		break;
	case OP_GETXATTR: do_get(op, path, fd); break;
	case OP_LISTXATTR: do_list(op, path, fd); break;
	case OP_REMOVEXATTR: do_remove(op, path, fd); break;
	default: do_acl(op, path, fd); break;
	}
}
