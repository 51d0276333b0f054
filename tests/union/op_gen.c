/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

static const char *const kind_names[OP_KINDS] = {
	"open",          "close",     "read",        "write", "seek",
	"truncate",      "ftruncate", "fallocate",   "copy",  "sync",
	"mmap",          "lock",      "flags",       "fstat", "mkdir",
	"rmdir",         "unlink",    "rename",      "link",  "link-open",
	"symlink",       "readlink",  "mknod",       "chmod", "chown",
	"utimens",       "access",    "stat",        "same",  "setxattr",
	"getxattr",      "listxattr", "removexattr", "acl",   "list",
	"list-changing", "statfs",    "handle",
};

/* Frequencies of the calls, one to another. */
static const unsigned weights[OP_KINDS] = {
	[OP_OPEN] = 90,      [OP_CLOSE] = 40,     [OP_READ] = 40,
	[OP_WRITE] = 60,     [OP_SEEK] = 20,      [OP_TRUNCATE] = 15,
	[OP_FTRUNCATE] = 15, [OP_FALLOCATE] = 20, [OP_COPY] = 15,
	[OP_SYNC] = 4,       [OP_MMAP] = 15,      [OP_LOCK] = 25,
	[OP_FLAGS] = 8,      [OP_FSTAT] = 25,     [OP_MKDIR] = 50,
	[OP_RMDIR] = 30,     [OP_UNLINK] = 45,    [OP_RENAME] = 90,
	[OP_LINK] = 40,      [OP_LINK_OPEN] = 15, [OP_SYMLINK] = 20,
	[OP_READLINK] = 10,  [OP_MKNOD] = 20,     [OP_CHMOD] = 40,
	[OP_CHOWN] = 25,     [OP_UTIMENS] = 25,   [OP_ACCESS] = 15,
	[OP_STAT] = 50,      [OP_SAME] = 10,      [OP_SETXATTR] = 25,
	[OP_GETXATTR] = 15,  [OP_LISTXATTR] = 8,  [OP_REMOVEXATTR] = 8,
	[OP_ACL] = 15,       [OP_LIST] = 25,      [OP_LIST_CHANGING] = 5,
	[OP_STATFS] = 2,     [OP_HANDLE] = 10,
};

const char *op_kind_name(enum op_kind kind)
{
	return kind_names[kind];
}

#define PICK(dice, array) (array)[dice_roll(dice, array_size(array))]

static void long_name(struct dice *dice, char *ret)
{
	static const int lengths[] = {254, 255, 255, 256, 300, 4095, 4096};

	/* 'L' and the length: "L255". */
	(void)snprintf(ret, OP_PATH_MAX, "%c%d", OP_LONG_NAME,
		       PICK(dice, lengths));
}

void op_random_path(struct dice *dice, char *ret)
{
	static const char *const names[] = {"a", "b",  "c", "d",
					    "e", "h0", "h1"};
	unsigned i, depth = 1 + dice_roll(dice, 3);
	size_t n = 0;

	if (dice_roll(dice, 80) == 0) {
		long_name(dice, ret);
		return;
	}
	for (i = 0; i < depth; i++)
		n += (size_t)snprintf(ret + n, OP_PATH_MAX - n, "%s%s",
				      i ? "/" : "", PICK(dice, names));
	if (dice_roll(dice, 40) == 0)
		(void)snprintf(ret + n, OP_PATH_MAX - n, "/");
	else if (dice_roll(dice, 60) == 0)
		(void)snprintf(ret + n, OP_PATH_MAX - n, "/..");
	else if (dice_roll(dice, 80) == 0)
		(void)snprintf(ret, OP_PATH_MAX, ".");
	else if (dice_roll(dice, 200) == 0)
		*ret = '\0';
}

static int open_flags(struct dice *dice)
{
	static const int access[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR};
	static const int more[] = {O_EXCL,     O_TRUNC,   O_APPEND, O_DIRECTORY,
				   O_NOFOLLOW, O_DIRECT,  O_SYNC,   O_DSYNC,
				   O_NOATIME,  O_NONBLOCK};
	int flags = PICK(dice, access) | O_CLOEXEC | O_NONBLOCK;
	unsigned i;

	if (dice_roll(dice, 14) == 0)
		return flags | O_TMPFILE | (dice_roll(dice, 4) ? 0 : O_EXCL);
	if (dice_roll(dice, 20) == 0)
		return O_PATH | O_CLOEXEC |
		       (dice_roll(dice, 2) ? O_NOFOLLOW : 0);
	if (dice_roll(dice, 2))
		flags |= O_CREAT;
	for (i = dice_roll(dice, 3); i; i--)
		flags |= PICK(dice, more);
	return flags;
}

static int64_t file_offset(struct dice *dice)
{
	static const int64_t steps[] = {0, 1, 511, 4096, 8192, 65536, 65537};

	if (dice_roll(dice, 40) == 0)
		return dice_roll(dice, 2) ? -1 : INT64_C(1) << 40;
	return PICK(dice, steps) +
	       (dice_roll(dice, 3) ? 0 : dice_roll(dice, 9000));
}

static int64_t io_length(struct dice *dice)
{
	static const int64_t lengths[] = {0, 1, 512, 4096, 8192, 65536};

	return dice_roll(dice, 2) ? PICK(dice, lengths)
				  : (int64_t)dice_roll(dice, 20000);
}

static int fallocate_mode(struct dice *dice)
{
	/* FUSE has no collapse and insert: not asked for. */
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE,
	};

	return PICK(dice, modes);
}

static void times(struct dice *dice, struct op *op)
{
	static const int64_t special[] = {UTIME_NOW, UTIME_OMIT, 0, 999999999,
					  1000000000};
	int i;

	for (i = 0; i < 2; i++) {
		op->seconds[i] = (int64_t)dice_roll(dice, 1400000000) - 1000;
		op->nanoseconds[i] = dice_roll(dice, 2)
					     ? PICK(dice, special)
					     : dice_roll(dice, 1000000000);
	}
}

static void xattr_name(struct dice *dice, char *ret)
{
	static const char *const names[] = {
		"user.a",
		"user.b",
		"user.long",
		"trusted.a",
		"trusted.b",
		"security.a",
		"security.capability",
		"system.a",
		"nothing.a",
		"a",
		"user.",
		"system.posix_acl_access",
		"trusted.tributaries",
	};

	if (dice_roll(dice, 30) == 0) {
		memset(ret, 'x', 280);
		memcpy(ret, "user.", 5);
		ret[dice_roll(dice, 2) ? 255 : 256] = '\0';
		return;
	}
	(void)snprintf(ret, sizeof(((struct op *)0)->name), "%s",
		       PICK(dice, names));
}

static int64_t xattr_size(struct dice *dice)
{
	static const int64_t sizes[] = {0,    1,    4,     20,   100,
					2000, 5000, 65536, 65537};

	return PICK(dice, sizes);
}

static unsigned mode_bits(struct dice *dice)
{
	static const unsigned modes[] = {0644,  0600,  0755,  0777,  0,
					 04755, 02755, 06711, 02644, 04644,
					 01777, 02777, 0700,  0666,  0751};

	return dice_roll(dice, 4) ? PICK(dice, modes) : dice_roll(dice, 010000);
}

static int rename_flags(struct dice *dice)
{
	static const int flags[] = {0, 0, 0, 0, 0, 1, 1, 2, 2, 2, 3};

	return PICK(dice, flags);
}

static int user(struct dice *dice)
{
	static const int users[] = {-1, 0, 1000, 2000, 3000};

	return PICK(dice, users);
}

static enum op_kind random_kind(struct dice *dice)
{
	unsigned i, sum = 0, at;

	for (i = 0; i < OP_KINDS; i++)
		sum += weights[i];
	at = dice_roll(dice, sum);
	for (i = 0; at >= weights[i]; i++)
		at -= weights[i];
	return (enum op_kind)i;
}

static void fill_numbers(struct dice *dice, struct op *op)
{
	op->slot = (uint8_t)dice_roll(dice, OP_SLOTS);
	op->slot2 = (uint8_t)dice_roll(dice, OP_SLOTS);
	op->watch = dice_roll(dice, 12) == 0;
	op->way = (int)dice_roll(dice, 12);
	op->mode = mode_bits(dice);
	op->uid = user(dice);
	op->gid = user(dice);
	op->offset = file_offset(dice);
	op->offset2 = file_offset(dice);
	op->length = io_length(dice);
	op->seed = dice_next(dice);
	times(dice, op);
	op_random_path(dice, op->path);
	op_random_path(dice, op->path2);
	xattr_name(dice, op->name);
}

void op_generate(struct dice *dice, const struct op_limits *limits,
		 struct op *ret)
{
	static const int seeks[] = {SEEK_SET,  SEEK_CUR,  SEEK_END,
				    SEEK_DATA, SEEK_HOLE, 77};
	static const int xattr_flags[] = {0, 0, XATTR_CREATE, XATTR_REPLACE};

	memset(ret, 0, sizeof(*ret));
	fill_numbers(dice, ret);
	ret->kind = random_kind(dice);
	ret->named = limits->named;
	/* Half of all by root, the others by three users. */
	ret->actor = (uint8_t)(dice_roll(dice, 2) ? 0
						  : dice_roll(dice, OP_ACTORS));
	switch (ret->kind) {
	case OP_OPEN:
		ret->flags = open_flags(dice);
		if (!limits->direct)
			ret->flags &= ~O_DIRECT;
		break;
	case OP_SEEK: ret->flags = PICK(dice, seeks); break;
	case OP_FALLOCATE: ret->flags = fallocate_mode(dice); break;
	case OP_RENAME: ret->flags = rename_flags(dice); break;
	case OP_SETXATTR:
		ret->flags = PICK(dice, xattr_flags);
		ret->length = xattr_size(dice);
		break;
	default: ret->flags = (int)dice_roll(dice, 1 << 16); break;
	}
}

void op_describe(const struct op *op, char *buf, size_t size)
{
	(void)snprintf(buf, size,
		       "%s actor=%d slot=%d/%d way=%d flags=%o mode=%o "
		       "path='%s' path2='%s' name='%.40s' offset=%lld/%lld "
		       "length=%lld owner=%d:%d%s",
		       kind_names[op->kind], op->actor, op->slot, op->slot2,
		       op->way, (unsigned)op->flags, op->mode, op->path,
		       op->path2, op->name, (long long)op->offset,
		       (long long)op->offset2, (long long)op->length, op->uid,
		       op->gid, op->watch ? " watch" : "");
}
