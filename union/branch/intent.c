/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/intent.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_work.h"

#define SETTLED_PREFIX   "settled-"
#define HANDLE_TEXT_SIZE (16 + 2 * HANDLE_MAX)

static const char *handle_text(const struct handle *handle, char *buf)
{
	size_t n = (size_t)sprintf(buf, "%x:", (unsigned)handle->type);
	unsigned i;

	for (i = 0; i < handle->length; i++)
		n += (size_t)sprintf(buf + n, "%02x", handle->data[i]);
	return buf;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Take "TYPE:HEX " off *@text. */
static int handle_parse(const char **text, struct handle *ret)
{
	char *at;
	int high, low;

	memset(ret, 0, sizeof(*ret));
	ret->type = (int32_t)strtoul(*text, &at, 16);
	if (at == *text || *at++ != ':')
		return -EPROTO;
	for (; *at && *at != ' '; at += 2) {
		high = hex_digit(at[0]);
		low = high < 0 ? -1 : hex_digit(at[1]);
		if (low < 0 || ret->length == HANDLE_MAX)
			return -EPROTO;
		ret->data[ret->length++] = (uint8_t)(high << 4 | low);
	}
	if (!ret->length || *at++ != ' ')
		return -EPROTO;
	*text = at;
	return 0;
}

/* Letters of the kinds, by enum intent_kind. */
static const char kinds[] = {'R', 'M', 'A', 'S', 'X', 'D', 'E', 'N'};

static bool is_relocation_kind(enum intent_kind kind)
{
	return kind == INTENT_RELOCATE || kind == INTENT_RELOCATE_ALL;
}

int intent_encode(const struct intent *intent, char *text)
{
	char moved[HANDLE_TEXT_SIZE], to_dir[HANDLE_TEXT_SIZE];
	char third[HANDLE_TEXT_SIZE], fourth[HANDLE_TEXT_SIZE];
	int n;

	handle_text(&intent->moved, moved);
	handle_text(&intent->to_dir, to_dir);
	if (intent->kind == INTENT_REPLACE)
		n = snprintf(text, INTENT_TEXT_MAX + 1, "1 R %s %s %u %s %s %s",
			     moved, to_dir, intent->other,
			     handle_text(&intent->other_dir, third),
			     handle_text(&intent->replaced, fourth),
			     intent->to_name);
	else if (is_relocation_kind(intent->kind))
		n = snprintf(text, INTENT_TEXT_MAX + 1,
			     "1 %c %s %s %u %s %s %s/%s", kinds[intent->kind],
			     moved, to_dir, intent->other,
			     handle_text(&intent->other_dir, third),
			     handle_text(&intent->replaced, fourth),
			     intent->from_name, intent->to_name);
	else
		n = snprintf(text, INTENT_TEXT_MAX + 1, "1 %c %s %s %s %s/%s",
			     kinds[intent->kind], moved, to_dir,
			     handle_text(&intent->from_dir, third),
			     intent->from_name, intent->to_name);
	return n > INTENT_TEXT_MAX ? -ENAMETOOLONG : 0;
}

static int name_copy(const char *from, size_t length, char *to)
{
	if (!length || length > NAME_MAX || memchr(from, '/', length))
		return -EPROTO;
	memcpy(to, from, length);
	to[length] = '\0';
	return 0;
}

/* "FROM/TO" */
static int decode_names(const char *text, struct intent *ret)
{
	const char *slash = strchr(text, '/');
	int r = slash ? name_copy(text, (size_t)(slash - text), ret->from_name)
		      : -EPROTO;

	return r < 0 ? r
		     : name_copy(slash + 1, strlen(slash + 1), ret->to_name);
}

static int decode_replace(const char *text, struct intent *ret)
{
	char *end;
	unsigned long other = strtoul(text, &end, 10);
	int r;

	if (end == text || *end != ' ' || other >= BRANCH_MAX)
		return -EPROTO;
	ret->other = (unsigned)other;
	text = end + 1;
	r = handle_parse(&text, &ret->other_dir);
	if (r == 0)
		r = handle_parse(&text, &ret->replaced);
	if (r == 0)
		r = is_relocation_kind(ret->kind)
			    ? decode_names(text, ret)
			    : name_copy(text, strlen(text), ret->to_name);
	return r;
}

static int decode_move(const char *text, struct intent *ret)
{
	int r = handle_parse(&text, &ret->from_dir);

	return r < 0 ? r : decode_names(text, ret);
}

int intent_decode(const char *text, struct intent *ret)
{
	struct intent intent = {0};
	const char *kind;
	int r;

	if (strncmp(text, "1 ", 2) != 0 || !text[2] || text[3] != ' ')
		return -EPROTO;
	kind = memchr(kinds, text[2], sizeof(kinds));
	if (!kind)
		return -EPROTO;
	intent.kind = (enum intent_kind)(kind - kinds);
	text += 4;
	r = handle_parse(&text, &intent.moved);
	if (r == 0)
		r = handle_parse(&text, &intent.to_dir);
	if (r == 0)
		r = intent.kind == INTENT_REPLACE ||
				    is_relocation_kind(intent.kind)
			    ? decode_replace(text, &intent)
			    : decode_move(text, &intent);
	if (r == 0)
		*ret = intent;
	return r;
}

uint64_t intent_new_id(void)
{
	static atomic_uint_fast64_t next;

	/* The number is never that of a record of an earlier process. */
	return (uint64_t)clock_wall_s() << 24 | atomic_fetch_add(&next, 1);
}

static void record_name(uint64_t id, char *ret)
{
	(void)snprintf(ret, INTENT_NAME_SIZE, "rename-%llu",
		       (unsigned long long)id); /* fits */
}

int intent_sync_dir(int dirfd)
{
	auto_close int fd = openat(dirfd, ".",
				   O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

bool intent_in_order(const struct branch *branch)
{
	struct statfs fs;

	if (fstatfs(branch->root_fd, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC ||
	       fs.f_type == TMPFS_MAGIC;
}

int intent_sync_rename(const struct branch *branch, int from_fd, int to_fd)
{
	int r = intent_sync_dir(to_fd);

	return r < 0 || intent_in_order(branch) ? r : intent_sync_dir(from_fd);
}

int intent_begin(const struct branch *branch, uint64_t id,
		 const struct intent *intent, bool sync)
{
	auto_close int work = branch_work_dir(branch);
	char text[INTENT_TEXT_MAX + 1], name[INTENT_NAME_SIZE];
	int r = work < 0 ? work : intent_encode(intent, text);

	if (r < 0)
		return r;
	record_name(id, name);
	if (symlinkat(text, work, name) < 0)
		return -errno;
	return sync ? intent_sync_dir(work) : 0;
}

int intent_settle(const struct branch *branch, uint64_t id,
		  const struct intent *intent)
{
	struct intent settled = *intent;
	auto_close int work = branch_work_dir(branch);
	char text[INTENT_TEXT_MAX + 1], name[INTENT_NAME_SIZE];
	char temporary[INTENT_NAME_SIZE];
	int r;

	settled.kind = INTENT_SETTLED;
	r = work < 0 ? work : intent_encode(&settled, text);
	if (r < 0)
		return r;
	record_name(id, name);
	(void)snprintf(temporary, sizeof(temporary), SETTLED_PREFIX "%llu",
		       (unsigned long long)id); /* fits */
	(void)unlinkat(work, temporary, 0);     /* that of one killed here */
	if (symlinkat(text, work, temporary) < 0 ||
	    renameat(work, temporary, work, name) < 0)
		return -errno;
	return intent_sync_dir(work);
}

void intent_sweep(const struct branch *branch)
{
	branch_work_sweep(branch, SETTLED_PREFIX);
}

int intent_end(const struct branch *branch, uint64_t id, bool sync)
{
	auto_close int work = branch_work_dir(branch);
	char name[INTENT_NAME_SIZE];

	if (work < 0)
		return work;
	record_name(id, name);
	if (unlinkat(work, name, 0) < 0 && errno != ENOENT)
		return -errno;
	return sync ? intent_sync_dir(work) : 0;
}

void intent_copy_name(char *to, const char *from)
{
	(void)snprintf(to, NAME_MAX + 1, "%s", from);
}
