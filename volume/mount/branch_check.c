/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/branch_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/process.h"
#include "base/wire/wire.h"
#include "volume/mount/branch_fs.h"
#include "volume/mount/branch_tool.h"
#include "volume/mount/mounts.h"

/* ---- superblocks ---- */

#define EXT4_SUPER          1024 /* bytes from the start of the device */
#define EXT4_MAGIC          0xef53
#define EXT4_STATE_CLEAN    1 /* s_state: EXT4_VALID_FS */
#define EXT4_STATE_ERRORS   2 /* EXT4_ERROR_FS */
#define EXT4_NEEDS_RECOVERY 4 /* s_feature_incompat */

/* Linux, fs/ext4/ext4.h, struct ext4_super_block */
struct ext4_super {
	uint8_t before[0x38];
	le16 magic, state;
	uint8_t between[0x60 - 0x3c];
	le32 incompat;
	uint8_t more[0x194 - 0x64];
	le32 error_count;
};
static_assert(sizeof(struct ext4_super) == 0x198, "on the disk");

#define XFS_MAGIC        0x58465342 /* "XFSB" */
#define XFS_VERSION_MASK 0xf
#define XFS_NEEDSREPAIR  0x10 /* sb_features_incompat */

/* Linux, fs/xfs/libxfs/xfs_format.h, struct xfs_dsb */
struct xfs_super {
	be32 magic;
	uint8_t before[100 - 4];
	be16 version;
	uint8_t between[126 - 102];
	uint8_t in_progress;
	uint8_t more[216 - 127];
	be32 incompat; /* version 5 */
};
static_assert(sizeof(struct xfs_super) == 220, "on the disk");

struct own_words {
	bool errors;  /* it says that something is wrong */
	bool counted; /* ... and e2fsck does not heed where it says so */
	bool unclean;
};

static int read_at(const char *device, off_t at, void *ret, size_t size,
		   struct error *err)
{
	auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, ret, size, at);

	if (n < 0)
		return error_set(err, errno, "read '%s': %s", device,
				 strerror(errno));
	if ((size_t)n < size)
		return error_set(err, EIO, "'%s' is too small", device);
	return 0;
}

/* Of one that cannot be known by its magic nothing is said. */
static int read_words(const char *device, const char *type,
		      struct own_words *ret, struct error *err)
{
	struct ext4_super ext4;
	struct xfs_super xfs;
	unsigned state;
	int r;

	*ret = (struct own_words){0};
	if (strcmp(type, "xfs") == 0) {
		r = read_at(device, 0, &xfs, sizeof(xfs), err);
		if (r == 0 && be32_get(xfs.magic) == XFS_MAGIC)
			ret->errors = xfs.in_progress ||
				      ((be16_get(xfs.version) &
					XFS_VERSION_MASK) == 5 &&
				       be32_get(xfs.incompat) &
					       XFS_NEEDSREPAIR);
		return r;
	}
	r = read_at(device, EXT4_SUPER, &ext4, sizeof(ext4), err);
	if (r < 0 || le16_get(ext4.magic) != EXT4_MAGIC)
		return r;
	state = le16_get(ext4.state);
	ret->counted = le32_get(ext4.error_count) > 0;
	ret->errors = ret->counted || state & EXT4_STATE_ERRORS;
	ret->unclean = !(state & EXT4_STATE_CLEAN) ||
		       le32_get(ext4.incompat) & EXT4_NEEDS_RECOVERY;
	return 0;
}

int branch_check_due(const char *device, const char *type, bool *ret,
		     struct error *err)
{
	struct own_words words;
	int r = read_words(device, type, &words, err);

	if (r == 0)
		*ret = words.errors || words.unclean;
	return r;
}

/* ---- programs ---- */

#define TEXT_C "LC_ALL=C" /* what they say is read */

/*
 * Take one line, without the @device it begins with. Returns the next, or NULL.
 */
static char *line_take(char *text, const char *device, const char **ret)
{
	size_t length = strlen(device);
	char *end = strchr(text, '\n');

	if (end)
		*end = '\0';
	if (strncmp(text, device, length) == 0 && text[length] == ':')
		text += length + 1;
	*ret = text + strspn(text, " \t*-");
	return end ? end + 1 : NULL;
}

/* Tell whether a line only reports a program's progress. */
static bool is_idle(const char *line)
{
	static const char *const idle[] = {
		"Phase ",
		"Pass ",
		"agno = ",
		"process ",
		"Using ",
		"scan ",
		"zero log",
		"found root inode",
		"ALERT: The filesystem has valuable metadata",
		"setting up ",
		"check ",
		"reset ",
		"clear ",
		"recovering journal",
		"e2fsck 1.",
		"Warning: skipping journal",
		"contains a file system with errors",
		"No modify flag set",
	};

	for (size_t i = 0; i < array_size(idle); i++)
		if (strncmp(line, idle[i], strlen(idle[i])) == 0)
			return true;
	return !line[0] || strstr(line, "check forced.") ||
	       (strstr(line, " files") && strstr(line, " blocks"));
}

/*
 * Words of e2fsck -p, on stderr, after an error that it did not dare to mend.
 */
#define GIVEN_UP "UNEXPECTED INCONSISTENCY"

/* The first thing that was found, or the @last one. @text is cut up. */
static void finding(char *text, const char *device, bool last, char *ret)
{
	const char *line;

	for (char *at = text; at && (last || !ret[0]);) {
		at = line_take(at, device, &line);
		if (!is_idle(line))
			(void)snprintf(ret, BRANCH_FOUND_SIZE, "%s", line);
	}
}

struct run {
	int code;
	bool log_ignored; /* xfs_repair -n: what it says may be wrong */
	bool fatal;
	char found[BRANCH_FOUND_SIZE];
};

static int tool_run(const struct branch_check *check, const char *const *argv,
		    struct run *ret, struct error *err)
{
	struct process_result result;
	int r = branch_tool_run(check->device, argv, check->cancel_fd, &result,
				err);

	if (r < 0)
		return r;
	*ret = (struct run){.code = result.exit_code};
	ret->log_ignored =
		strstr(result.errors, "valuable metadata changes in a log") ||
		strstr(result.out, "valuable metadata changes in a log");
	ret->fatal = strstr(result.errors, "fatal error");
	finding(result.out, check->device, strstr(result.errors, GIVEN_UP),
		ret->found);
	if (!ret->found[0])
		finding(result.errors, check->device, false, ret->found);
	process_result_done(&result);
	return 0;
}

static int failed(const struct branch_check *check, const char *program,
		  const struct run *run, struct error *err)
{
	return error_set(err, EIO, "%s on '%s' ended with %d%s%s", program,
			 check->device, run->code, run->found[0] ? ": " : "",
			 run->found);
}

static void judge(struct branch_found *ret, enum branch_verdict verdict,
		  const char *what)
{
	*ret = (struct branch_found){.verdict = verdict};
	(void)snprintf(ret->what, sizeof(ret->what), "%s", what);
}

/* ---- ext4 ---- */

/* e2fsck(8): bits of its exit code */
#define E2FSCK_MENDED 3 /* 2: the same, and a reboot is wished for */
#define E2FSCK_LEFT   4 /* errors are left */

static int e2fsck(const struct branch_check *check, const char *how,
		  struct run *ret, struct error *err)
{
	const char *const argv[] = {"env", TEXT_C,        "e2fsck",
				    how,   check->device, NULL};
	int r = tool_run(check, argv, ret, err);

	if (r == 0 && ret->code & ~(E2FSCK_MENDED | E2FSCK_LEFT))
		r = failed(check, "e2fsck", ret, err);
	return r;
}

static int preen(const struct branch_check *check, bool whole,
		 struct branch_found *ret, struct error *err)
{
	struct run run;
	int r = e2fsck(check, whole ? "-fp" : "-p", &run, err);

	if (r < 0)
		return r;
	if (run.code & E2FSCK_LEFT)
		judge(ret, BRANCH_DAMAGED, run.found);
	else if (run.code & E2FSCK_MENDED)
		judge(ret, BRANCH_MENDED,
		      run.found[0] ? run.found
				   : "it was marked as having errors");
	else
		judge(ret, BRANCH_SOUND, "");
	return 0;
}

static int look_ext4(const struct branch_check *check, struct branch_found *ret,
		     struct error *err)
{
	struct own_words words;
	struct run run;
	int r = read_words(check->device, check->type, &words, err);

	if (r == 0)
		r = e2fsck(check, "-fn", &run, err);
	if (r < 0)
		return r;
	if (words.unclean)
		judge(ret, BRANCH_UNCLEAN, "its journal has to be replayed");
	else if (run.code || words.errors)
		judge(ret, BRANCH_DAMAGED,
		      run.found[0] ? run.found
				   : "it is marked as having errors");
	else
		judge(ret, BRANCH_SOUND, "");
	return 0;
}

/* ---- XFS ---- */

/* xfs_repair(8) */
#define XFS_REPAIR_DAMAGED 1 /* -n */
#define XFS_REPAIR_LOG     2 /* its log has to be replayed first */
#define XFS_REPAIR_MENDED  4 /* -e */

static const char unfinished[] =
	"its superblock says that it is being made, or was being repaired";

bool branch_check_is_damage(int r)
{
	return r == -EUCLEAN || r == -EBADMSG || r == -EIO;
}

/* By a mount. Negative errno of that. */
static int replay(const struct branch_check *check, struct error *err)
{
	int r = branch_fs_mount(check->device, check->type, check->target,
				false, NULL, err);

	return r < 0 ? r : mounts_remove(check->target, false, err);
}

static int look_xfs(const struct branch_check *check, struct branch_found *ret,
		    struct error *err)
{
	const char *const argv[] = {"env", TEXT_C,        "xfs_repair",
				    "-n",  check->device, NULL};
	struct run run;
	int r = tool_run(check, argv, &run, err);

	if (r < 0)
		return r;
	if (run.log_ignored)
		judge(ret, BRANCH_UNCLEAN, "its log has to be replayed");
	else if (run.code == 0)
		judge(ret, BRANCH_SOUND, "");
	else if (run.code == XFS_REPAIR_DAMAGED && !run.fatal)
		judge(ret, BRANCH_DAMAGED,
		      run.found[0] ? run.found : unfinished);
	else
		r = failed(check, "xfs_repair -n", &run, err);
	return r;
}

static int mend_xfs(const struct branch_check *check, struct branch_found *ret,
		    struct error *err)
{
	struct own_words words;
	struct error why = {0};
	int r = read_words(check->device, check->type, &words, err);

	if (r < 0)
		return r;
	if (words.errors) {
		judge(ret, BRANCH_DAMAGED, unfinished);
		return 0;
	}
	judge(ret, BRANCH_SOUND, "");
	if (!check->whole || !check->target)
		return 0;
	r = replay(check, &why);
	if (r == 0)
		return look_xfs(check, ret, err);
	if (branch_check_is_damage(r)) {
		judge(ret, BRANCH_DAMAGED, error_text(&why));
		return 0;
	}
	if (err)
		*err = why;
	return r;
}

static int repair_xfs(const struct branch_check *check,
		      struct branch_found *ret, struct error *err)
{
	const char *const argv[] = {"env", TEXT_C,        "xfs_repair",
				    "-e",  check->device, NULL};
	struct run run;
	int r = replay(check, err);

	if (r < 0 && r != -EINVAL && !branch_check_is_damage(r))
		return r;
	r = tool_run(check, argv, &run, err);
	if (r < 0)
		return r;
	if (run.code == 0)
		judge(ret, BRANCH_SOUND, "");
	else if (run.code == XFS_REPAIR_MENDED)
		judge(ret, BRANCH_MENDED, run.found);
	else if (run.code == XFS_REPAIR_LOG)
		judge(ret, BRANCH_DAMAGED_LOG, "its log can't be replayed");
	else
		r = failed(check, "xfs_repair", &run, err);
	return r;
}

/* ---- both ---- */

static bool is_xfs(const struct branch_check *check)
{
	return strcmp(check->type, "xfs") == 0;
}

int branch_check_mend(const struct branch_check *check,
		      struct branch_found *ret, struct error *err)
{
	struct own_words words;
	int r;

	if (is_xfs(check))
		return mend_xfs(check, ret, err);
	r = read_words(check->device, check->type, &words, err);
	return r < 0 ? r
		     : preen(check, check->whole || words.counted, ret, err);
}

int branch_check_look(const struct branch_check *check,
		      struct branch_found *ret, struct error *err)
{
	return is_xfs(check) ? look_xfs(check, ret, err)
			     : look_ext4(check, ret, err);
}

int branch_check_repair(const struct branch_check *check,
			struct branch_found *ret, struct error *err)
{
	return is_xfs(check) ? repair_xfs(check, ret, err)
			     : preen(check, true, ret, err);
}
