/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call of a random sequence. It holds all it needs: none depends on what
 * another answered, so any part of a sequence is a sequence, too.
 */
#ifndef TESTS_UNION_OP_H
#define TESTS_UNION_OP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define OP_PATH_MAX  640
#define OP_SLOTS     8         /* open files of an actor */
#define OP_TEXT_MAX  8192      /* of an outcome */
#define OP_BUFFER    (1 << 17) /* bytes, the most that is read or written */
#define OP_ACTORS    4
#define OP_LONG_NAME 0x4c /* 'L': path[0] of a name made of path[1] letters */

enum op_kind {
	OP_OPEN,
	OP_CLOSE,
	OP_READ,
	OP_WRITE,
	OP_SEEK,
	OP_TRUNCATE,
	OP_FTRUNCATE,
	OP_FALLOCATE,
	OP_COPY,
	OP_SYNC,
	OP_MMAP,
	OP_LOCK,
	OP_FLAGS,
	OP_FSTAT,
	OP_MKDIR,
	OP_RMDIR,
	OP_UNLINK,
	OP_RENAME,
	OP_LINK,
	OP_LINK_OPEN,
	OP_SYMLINK,
	OP_READLINK,
	OP_MKNOD,
	OP_CHMOD,
	OP_CHOWN,
	OP_UTIMENS,
	OP_ACCESS,
	OP_STAT,
	OP_SAME,
	OP_SETXATTR,
	OP_GETXATTR,
	OP_LISTXATTR,
	OP_REMOVEXATTR,
	OP_ACL,
	OP_LIST,
	OP_LIST_CHANGING,
	OP_STATFS,
	OP_HANDLE,
	OP_KINDS,
};

struct op {
	enum op_kind kind;
	uint8_t actor, slot, slot2;
	bool watch; /* say which times the call changed */
	bool named; /* nothing is written to files without a name */
	int flags;  /* of the call */
	int way;    /* which of several calls does it */
	unsigned mode;
	int uid, gid;
	int64_t offset, offset2, length;
	uint64_t seed; /* of data */
	int64_t seconds[2];
	int64_t nanoseconds[2];
	char path[OP_PATH_MAX], path2[OP_PATH_MAX], name[300];
};

/* xorshift64*: the same everywhere. */
struct dice {
	uint64_t state;
};
static inline void dice_init(struct dice *dice, uint64_t seed)
{
	dice->state = seed * UINT64_C(0x9e3779b97f4a7c15) + 0x1234567;
	if (!dice->state)
		dice->state = 1;
}
static inline uint64_t dice_next(struct dice *dice)
{
	dice->state ^= dice->state >> 12;
	dice->state ^= dice->state << 25;
	dice->state ^= dice->state >> 27;
	return dice->state * UINT64_C(0x2545f4914f6cdd1d);
}
static inline unsigned dice_roll(struct dice *dice, unsigned below)
{
	return (unsigned)((dice_next(dice) >> 33) % below);
}

/* What a sequence may ask for. */
struct op_limits {
	bool direct; /* O_DIRECT: also what is not aligned for it */
	bool named;  /* only files with names grow: they can be moved */
};

/* The next call of a sequence. */
void op_generate(struct dice *dice, const struct op_limits *limits,
		 struct op *ret);

/* A path as random calls use them: few names, so that they meet. */
void op_random_path(struct dice *dice, char *ret);

const char *op_kind_name(enum op_kind kind);

/* For people; @size bytes at @buf. */
void op_describe(const struct op *op, char *buf, size_t size);

/*
 * In the calling process, whose root directory is the tree: do it, and write
 * what came of it to @text (OP_TEXT_MAX bytes). @fds: OP_SLOTS descriptors.
 */
void op_do(const struct op *op, int *fds, char *text);

/* The parts of op_do(), by what they work on; each adds to the text. */
void op_do_file(const struct op *op, int *fds);
void op_do_data(const struct op *op, int *fds);
void op_do_name(const struct op *op, int *fds);
void op_do_attr(const struct op *op, int *fds);
void op_do_xattr(const struct op *op, int *fds);
void op_do_dir(const struct op *op, int *fds);

/* Of SEEK_DATA and SEEK_HOLE: it is not true; it depends on what is cached. */
#define OP_SEEK_WRONG     " wrong"
#define OP_SEEK_UNWRITTEN " unwritten"

/* Add to the text of the call being done. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A call's result: the number, or the name of its error. */
void say_result(long result);

/*
 * The file systems below are of another kind than ext4. Answers in which they
 * differ are left out (links of directories, which Btrfs does not count) or
 * made alike (ENOTEMPTY, which is EEXIST to XFS).
 */
extern bool op_other_kind;
/* st_nlink as it is said. */
unsigned long op_links(mode_t mode, unsigned long links);

struct stat;
/* All of it that does not differ by right. */
void say_stat(const struct stat *st);

/* Is @op not to be done, as the file @fd has no name any more? It is said. */
bool op_is_nameless(const struct op *op, int fd);

/* The path to use: long names are written out. */
const char *op_path(const char *path, char *buf);
#define OP_FULL_PATH_MAX 5000

/* Fill @data with bytes that depend on @seed alone. */
void op_fill(uint64_t seed, void *data, size_t length);
uint64_t op_sum(const void *data, size_t length);

#endif
