/* SPDX-License-Identifier: Apache-2.0 */
#include "union/testkit/replay_acts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"

#include <cmocka.h>

uint64_t act_file;

void *act_body(struct fuse_in_header *header, uint32_t opcode, uint64_t node,
	       size_t length)
{
	header->opcode = opcode;
	header->nodeid = node;
	header->len = (uint32_t)(sizeof(*header) + length);
	memset(header + 1, 0, length);
	return header + 1;
}

void act_add_bytes(struct fuse_in_header *header, const void *data,
		   size_t length)
{
	memcpy((char *)header + header->len, data, length);
	header->len += (uint32_t)length;
}

void act_add_text(struct fuse_in_header *header, const char *text)
{
	act_add_bytes(header, text, strlen(text) + 1);
}

static void fill_create(struct fuse_in_header *header)
{
	struct fuse_create_in *in = act_body(header, FUSE_CREATE, FUSE_ROOT_ID,
					     sizeof(*in));

	in->flags = O_CREAT | O_EXCL | O_RDWR;
	in->mode = S_IFREG | 0640;
	act_add_text(header, "f");
}

static void fill_create_deep(struct fuse_in_header *header)
{
	fill_create(header);
	header->nodeid = 2;
}

static void fill_tmpfile(struct fuse_in_header *header)
{
	fill_create(header);
	header->opcode = FUSE_TMPFILE;
}

static void fill_mknod(struct fuse_in_header *header)
{
	struct fuse_mknod_in *in = act_body(header, FUSE_MKNOD, FUSE_ROOT_ID,
					    sizeof(*in));

	in->mode = S_IFIFO | 0600;
	act_add_text(header, "f");
}

static void fill_mkdir(struct fuse_in_header *header)
{
	struct fuse_mkdir_in *in = act_body(header, FUSE_MKDIR, 2, sizeof(*in));

	in->mode = 0750;
	act_add_text(header, "new");
}

static void fill_symlink(struct fuse_in_header *header)
{
	act_body(header, FUSE_SYMLINK, FUSE_ROOT_ID, 0);
	act_add_text(header, "new");
	act_add_text(header, "target");
}

static void fill_link(struct fuse_in_header *header)
{
	struct fuse_link_in *in = act_body(header, FUSE_LINK, 3, sizeof(*in));

	in->oldnodeid = 2;
	act_add_text(header, "new");
}

static void fill_unlink(struct fuse_in_header *header)
{
	act_body(header, FUSE_UNLINK, FUSE_ROOT_ID, 0);
	act_add_text(header, "f");
}

static void fill_rmdir(struct fuse_in_header *header)
{
	act_body(header, FUSE_RMDIR, FUSE_ROOT_ID, 0);
	act_add_text(header, "d");
}

static void fill_any_rename(struct fuse_in_header *header, const char *from,
			    const char *to, unsigned flags)
{
	struct fuse_rename2_in *in = act_body(header, FUSE_RENAME2,
					      FUSE_ROOT_ID, sizeof(*in));

	in->newdir = FUSE_ROOT_ID;
	in->flags = flags;
	act_add_text(header, from);
	act_add_text(header, to);
}

static void fill_rename(struct fuse_in_header *header)
{
	fill_any_rename(header, "f", "g", 0);
}

static void fill_rename_new(struct fuse_in_header *header)
{
	fill_any_rename(header, "f", "g", RENAME_NOREPLACE);
}

static void fill_rename_dir(struct fuse_in_header *header)
{
	fill_any_rename(header, "d", "e", 0);
}

static void fill_exchange(struct fuse_in_header *header)
{
	fill_any_rename(header, "d", "f", RENAME_EXCHANGE);
}

static void fill_setxattr(struct fuse_in_header *header)
{
	/* Without FUSE_SETXATTR_EXT the flags are the last field. */
	struct fuse_setxattr_in *in = act_body(header, FUSE_SETXATTR, 2,
					       FUSE_COMPAT_SETXATTR_IN_SIZE);

	in->size = 3;
	in->flags = XATTR_CREATE;
	act_add_text(header, ACT_ATTRIBUTE);
	act_add_bytes(header, "one", 3);
}

static void fill_removexattr(struct fuse_in_header *header)
{
	act_body(header, FUSE_REMOVEXATTR, 2, 0);
	act_add_text(header, ACT_ATTRIBUTE);
}

static void fill_open(struct fuse_in_header *header)
{
	struct fuse_open_in *in = act_body(header, FUSE_OPEN, 2, sizeof(*in));

	in->flags = O_WRONLY | O_TRUNC;
}

static void fill_opendir(struct fuse_in_header *header)
{
	(void)act_body(header, FUSE_OPENDIR, FUSE_ROOT_ID,
		       sizeof(struct fuse_open_in));
}

static void fill_lookup(struct fuse_in_header *header)
{
	(void)act_body(header, FUSE_LOOKUP, FUSE_ROOT_ID, 0);
	act_add_text(header, "d");
}

static void fill_readdirplus(struct fuse_in_header *header)
{
	struct fuse_read_in *in = act_body(header, FUSE_READDIRPLUS,
					   FUSE_ROOT_ID, sizeof(*in));

	in->fh = act_file;
	in->size = 4096;
}

static void fill_setattr_of_nothing(struct fuse_in_header *header)
{
	(void)act_body(header, FUSE_SETATTR, 2, sizeof(struct fuse_setattr_in));
}

/* The state before a request */

static void put_file(int root, const char *name, const char *text)
{
	auto_close int fd = openat(root, name, O_CREAT | O_WRONLY | O_CLOEXEC,
				   0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void put_dir(int root, const char *name)
{
	assert_int_equal(mkdirat(root, name, 0755), 0);
}

static void put_attribute(int root, const char *name)
{
	auto_close int fd = openat(root, name, O_RDONLY | O_CLOEXEC);

	assert_int_equal(fsetxattr(fd, ACT_ATTRIBUTE, "old", 3, 0), 0);
}

static void nothing(const int *roots)
{
	(void)roots;
}

static void dir_on_second(const int *roots)
{
	put_dir(roots[1], "d");
}

static void file_and_dirs(const int *roots)
{
	put_file(roots[1], "f", "one");
	put_dir(roots[0], "d");
}

static void files_on_both(const int *roots)
{
	put_file(roots[0], "f", "seen");
	put_file(roots[1], "f", "hidden");
}

static void file_over_dir(const int *roots)
{
	put_file(roots[0], "f", "seen");
	put_dir(roots[1], "f");
}

static void dirs_on_both(const int *roots)
{
	put_dir(roots[0], "d");
	put_dir(roots[1], "d");
}

static void dir_over_file(const int *roots)
{
	put_dir(roots[0], "d");
	put_file(roots[1], "d", "hidden");
}

static void two_files(const int *roots)
{
	put_file(roots[0], "f", "new");
	put_file(roots[0], "g", "old");
	put_file(roots[1], "f", "hidden");
	put_file(roots[1], "g", "hidden");
}

static void files_apart(const int *roots)
{
	put_file(roots[1], "f", "new");
	put_file(roots[0], "g", "old");
}

static void only_one_file(const int *roots)
{
	put_file(roots[1], "f", "one");
}

static void setuid_file(const int *roots)
{
	only_one_file(roots);
	assert_int_equal(fchmodat(roots[1], "f", 04755, 0), 0);
}

static void dirs_and_target(const int *roots)
{
	dirs_on_both(roots);
	put_file(roots[1], "d/x", "x");
	put_dir(roots[0], "e");
	put_dir(roots[1], "e");
}

static void dirs_apart(const int *roots)
{
	put_dir(roots[0], "d");
	put_dir(roots[1], "e");
}

static void dirs_and_file(const int *roots)
{
	dirs_on_both(roots);
	put_file(roots[1], "d/x", "x");
	put_file(roots[1], "f", "one");
}

static void attribute_on_both(const int *roots)
{
	dirs_on_both(roots);
	put_attribute(roots[0], "d");
	put_attribute(roots[1], "d");
}

const struct act replay_acts[] = {
	{.name = "create",
	 .prepare = nothing,
	 .fill = fill_create,
	 .makes_entry = true},
	{.name = "create in a directory to be cloned",
	 .prepare = dir_on_second,
	 .known = {"d"},
	 .fill = fill_create_deep,
	 .makes_entry = true},
	{.name = "create of what is there",
	 .prepare = files_on_both,
	 .fill = fill_create,
	 .makes_entry = true,
	 .error = -EEXIST,
	 .shared = true},
	{.name = "create where others do",
	 .prepare = nothing,
	 .fill = fill_create,
	 .makes_entry = true,
	 .shared = true},
	{.name = "tmpfile",
	 .prepare = nothing,
	 .fill = fill_tmpfile,
	 .makes_entry = true},
	{.name = "mknod",
	 .prepare = nothing,
	 .fill = fill_mknod,
	 .makes_entry = true},
	{.name = "mkdir",
	 .prepare = dir_on_second,
	 .known = {"d"},
	 .fill = fill_mkdir,
	 .makes_entry = true},
	{.name = "symlink",
	 .prepare = nothing,
	 .fill = fill_symlink,
	 .makes_entry = true},
	{.name = "link",
	 .prepare = file_and_dirs,
	 .known = {"f", "d"},
	 .fill = fill_link,
	 .makes_entry = true},
	{.name = "unlink",
	 .prepare = files_on_both,
	 .known = {"f"},
	 .fill = fill_unlink},
	{.name = "unlink of what hides a directory",
	 .prepare = file_over_dir,
	 .known = {"f"},
	 .fill = fill_unlink},
	{.name = "unlink of nothing",
	 .prepare = nothing,
	 .fill = fill_unlink,
	 .error = -ENOENT},
	{.name = "rmdir",
	 .prepare = dirs_on_both,
	 .known = {"d"},
	 .fill = fill_rmdir},
	{.name = "rmdir of what hides a file",
	 .prepare = dir_over_file,
	 .known = {"d"},
	 .fill = fill_rmdir},
	{.name = "rmdir of a full one",
	 .prepare = dirs_and_file,
	 .known = {"d"},
	 .fill = fill_rmdir,
	 .error = -ENOTEMPTY},
	{.name = "rename",
	 .prepare = two_files,
	 .known = {"f", "g"},
	 .fill = fill_rename},
	{.name = "rename over another branch",
	 .prepare = files_apart,
	 .known = {"f", "g"},
	 .fill = fill_rename},
	{.name = "rename to nothing",
	 .prepare = only_one_file,
	 .known = {"f"},
	 .fill = fill_rename_new},
	{.name = "rename to something",
	 .prepare = two_files,
	 .known = {"f"},
	 .fill = fill_rename_new,
	 .error = -EEXIST},
	{.name = "rename of a directory",
	 .prepare = dirs_and_target,
	 .known = {"d"},
	 .fill = fill_rename_dir},
	{.name = "rename of a directory over one of another branch",
	 .prepare = dirs_apart,
	 .known = {"d", "e"},
	 .fill = fill_rename_dir},
	{.name = "exchange",
	 .prepare = dirs_and_file,
	 .known = {"d"},
	 .fill = fill_exchange},
	{.name = "setxattr",
	 .prepare = only_one_file,
	 .known = {"f"},
	 .fill = fill_setxattr},
	{.name = "setxattr of a directory",
	 .prepare = dirs_on_both,
	 .known = {"d"},
	 .fill = fill_setxattr},
	{.name = "setxattr of what is there",
	 .prepare = attribute_on_both,
	 .known = {"d"},
	 .fill = fill_setxattr,
	 .error = -EEXIST},
	{.name = "removexattr",
	 .prepare = attribute_on_both,
	 .known = {"d"},
	 .fill = fill_removexattr},
	{.name = "removexattr of nothing",
	 .prepare = dirs_on_both,
	 .known = {"d"},
	 .fill = fill_removexattr,
	 .error = -ENODATA},
	{.name = "open",
	 .prepare = only_one_file,
	 .known = {"f"},
	 .fill = fill_open},
	{.name = "opendir", .prepare = nothing, .fill = fill_opendir},
	{.name = "lookup",
	 .prepare = dirs_on_both,
	 .fill = fill_lookup,
	 .makes_entry = true},
	{.name = "readdirplus",
	 .prepare = files_apart,
	 .fill = fill_readdirplus,
	 .lists = true},
	{.name = "setattr that is taken for a write",
	 .prepare = setuid_file,
	 .known = {"f"},
	 .fill = fill_setattr_of_nothing,
	 .uncaps = true},
};

const size_t replay_act_count = array_size(replay_acts);
