/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/options_mergerfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define ANY "" /* any value will do */

#define READAHEAD_MAX (1 << 20) /* KiB */

/* An option with an optional value has two rows. */
static const struct row {
	const char *name;   /* with '-' in place of each '_' */
	const char *values; /* that it may have, with '|'; ANY; NULL: none */
	const char *reason; /* why it may have no other */
} rows[] = {
	/* Done here in any case, or of no use with how it is done. */
	{"cache.negative-entry", ANY, NULL},
	{"cache.statfs", ANY, NULL},
	{"cache.open", ANY, NULL},
	{"cache.files", "off|partial|full|auto-full|per-process|libfuse",
	 "there is no such mode"},
	{"cache.files.process-names", ANY, NULL},
	{"cache.symlinks", "true|false", "true or false"},
	{"cache.readdir", "true|false", "true or false"},
	{"dropcacheonclose", "true|false", "true or false"},
	{"direct-io-allow-mmap", "true|false", "true or false"},
	{"ignorepponrename", "true|false", "true or false"},
	/*
	 * The kernel's NFS server can open a file that its client has just
	 * made.
	 */
	{"nfsopenhack", "off|git|all", "off, git or all"},
	{"link-exdev", ANY, NULL},
	{"rename-exdev", ANY, NULL},
	{"fuse-msg-size", ANY, NULL},
	{"flush-on-close", "never|always|opened-for-write",
	 "there is no such mode"},
	{"func.readdir", ANY, NULL},
	{"parallel-direct-writes", "true|false", "true or false"},
	{"process-thread-queue-depth", ANY, NULL},
	{"symlinkify-timeout", ANY, NULL},
	{"proxy-ioprio", "true|false", "true or false"},
	{"async-read", NULL, NULL},
	{"async-read", "true|false", "true or false"},
	{"atomic-o-trunc", NULL, NULL},
	{"auto-cache", NULL, NULL},
	{"big-writes", NULL, NULL},
	{"default-permissions", NULL, NULL},
	{"direct-io", NULL, NULL},
	{"direct-io", "true|false", "true or false"},
	{"intr", NULL, NULL},
	{"large-read", NULL, NULL},
	{"auto-unmount", NULL, NULL},
	{"no-auto-cache", NULL, NULL},
	{"noauto-cache", NULL, NULL},
	{"negative-timeout", ANY, NULL},
	{"ac-attr-timeout", ANY, NULL},
	{"max-read", ANY, NULL},
	{"max-write", ANY, NULL},
	{"max-readahead", ANY, NULL},
	{"max-background", ANY, NULL},
	{"readdir-ino", NULL, NULL},
	{"hard-remove", NULL, NULL},
	{"kernel-cache", NULL, NULL},
	{"negative-entry", NULL, NULL},
	{"negative-entry", ANY, NULL},
	{"nonempty", NULL, NULL},
	{"splice-move", NULL, NULL},
	{"splice-read", NULL, NULL},
	{"splice-write", NULL, NULL},
	{"sync-read", NULL, NULL},
	{"use-ino", NULL, NULL},
	/*
	 * Options that are taken with one of their values, which a union has.
	 */
	{"allow-idmap", "false", "the union cannot be mounted with id maps"},
	{"branches-mount-timeout", "0",
	 "a branch must exist when the union is mounted; "
	 "x-systemd.requires-mounts-for= waits for it"},
	{"branches-mount-timeout-fail", "true|false", "true or false"},
	{"cache.writeback", "false",
	 "with a writeback cache the kernel passes nothing through"},
	{"export-support", "true", "it can always be exported"},
	{"follow-symlinks", "never", "symbolic links stay what they are"},
	{"kernel-permissions-check", "true",
	 "permissions are checked by the kernel alone"},
	{"lazy-umount-mountpoint", "false",
	 "unmount what is there before: 'umount -l'"},
	{"link-cow", "false", "a hard link stays one when it is written to"},
	{"nullrw", "false", "data is read and written"},
	{"passthrough.max-stack-depth", "1",
	 "branches are no stacked file systems where data is passed through"},
	{"posix-acl", "true", "ACLs are always there"},
	{"statfs", "base", "free space is that of all branches"},
	{"symlinkify", "false", "files stay files"},
	{"xattr", "passthrough", "extended attributes are always there"},
	/* Options that are refused with any value. */
	{"branches", "(none)", "branches are the first word: A:B DIR"},
	{"srcmounts", "(none)", "branches are the first word: A:B DIR"},
	{"dirs", "(none)", "branches are the first word: A:B DIR"},
	{"umask", "(none)", "modes are those of the files: chmod them"},
	{"uid", "(none)", "owners are those of the files: chown them"},
	{"gid", "(none)", "owners are those of the files: chown them"},
	{"allow-root", "(none)",
	 "all users may (allow_other), or only root (noallow_other)"},
	{"subtype", "(none)", "it is always fuse.trib-union"},
	{"modules", "(none)", "there are no modules of libfuse in it"},
	{"config", "(none)", "options are written out after -o"},
	{"debug", "(none)", "requests are not traced"},
	{"log.file", "(none)", "messages go to log=FILE"},
	{"mountpoint", "(none)", "the mount point is the last word"},
	{"pin-threads", "(none)", "threads are not bound to processors"},
	{"pipe-max-size", "(none)", "data does not go through pipes"},
	{"scheduling-priority", "(none)",
	 "the server runs as it was started: use nice or systemd's Nice="},
};

/* Is @value one of @values, which stand with '|' between them? */
static bool is_one_of(const char *value, const char *values)
{
	size_t n = strlen(value);

	for (; *values;
	     values += strcspn(values, "|"), values += *values == '|')
		if (strcspn(values, "|") == n && strncmp(values, value, n) == 0)
			return true;
	return false;
}

/* Does @row have that name? '-' and '_' are one, as in mergerfs. */
static bool is_called(const char *row, const char *name)
{
	for (; *row && (*name == '_' ? '-' : *name) == *row; row++)
		name++;
	return !*row && !*name;
}

/* Lower the timeout: the kernel keeps no longer than any of these says. */
static int lower_timeout(struct union_options *options, const char *name,
			 const char *value, struct error *err)
{
	unsigned long long seconds;
	char *end = NULL;

	errno = 0;
	seconds = value ? strtoull(value, &end, 10) : 0;
	if (!value || !*value || *value == '-' || *end || errno)
		return error_set(err, EINVAL, "option '%s=%s': not seconds",
				 name, value ? value : "");
	if (seconds < options->cache_timeout)
		options->cache_timeout = seconds;
	return 0;
}

/* Set the threads that read and serve; 0 and less: the default. */
static int set_mergerfs_threads(struct union_options *options, const char *name,
				const char *value, struct error *err)
{
	char *end = NULL;
	long number = value ? strtol(value, &end, 10) : 0;

	if (!value || !*value || *end || number > UNION_THREADS_MAX)
		return error_set(err, EINVAL,
				 "option '%s=%s': not a number up to %d", name,
				 value ? value : "", UNION_THREADS_MAX);
	if (number > 0)
		options->threads = (unsigned)number;
	return 0;
}

static int set_mergerfs_passthrough(struct union_options *options,
				    const char *name, const char *value,
				    struct error *err)
{
	if (!value || !is_one_of(value, "off|rw"))
		return error_set(err, EINVAL,
				 "option '%s=%s': data is passed through when "
				 "read and written (rw) or not at all (off)",
				 name, value ? value : "");
	options->passthrough = strcmp(value, "rw") == 0;
	return 0;
}

static int set_statfs_ignore(struct union_options *options, const char *name,
			     const char *value, struct error *err)
{
	if (!value || !is_one_of(value, "none|ro|nc"))
		return error_set(err, EINVAL,
				 "option '%s=%s': there are none, ro and nc",
				 name, value ? value : "");
	options->statfs_ignore = 0;
	if (strcmp(value, "nc") == 0)
		options->statfs_ignore = BRANCH_NC;
	else if (strcmp(value, "ro") == 0)
		options->statfs_ignore = BRANCH_RO | BRANCH_NC;
	return 0;
}

static int set_never_forget(struct union_options *options, const char *name,
			    const char *value, struct error *err)
{
	if (!value || !is_one_of(value, "true|false"))
		return error_set(err, EINVAL, "option '%s=%s': true or false",
				 name, value ? value : "");
	options->forgets_nothing = strcmp(value, "true") == 0;
	return 0;
}

/* Keep all forgotten inodes, which are kept by number, not by time. */
static int set_remember(struct union_options *options, const char *name,
			const char *value, struct error *err)
{
	char *end = NULL;
	long seconds = value ? strtol(value, &end, 10) : -1;

	if (strcmp(name, "noforget") == 0 && value)
		return error_set(err, EINVAL, "option '%s' takes no value",
				 name);
	if (strcmp(name, "noforget") != 0 && (!value || !*value || *end))
		return error_set(err, EINVAL, "option '%s=%s': not seconds",
				 name, value ? value : "");
	options->forgets_nothing = seconds != 0;
	return 0;
}

static int set_inodecalc(struct union_options *options, const char *name,
			 const char *value, struct error *err)
{
	if (value && inode_shown_parse(value, &options->numbers))
		return 0;
	return error_set(err, EINVAL,
			 "option '%s%s%s' needs a value: passthrough, "
			 "path-hash, devino-hash, hybrid-hash, or one of the "
			 "last three with 32",
			 name, value ? "=" : "", value ? value : "");
}

static int set_mergerfs_readahead(struct union_options *options,
				  const char *name, const char *value,
				  struct error *err)
{
	options->readahead = value ? strtoul(value, NULL, 10) : 0;
	if (value && *value && strspn(value, "0123456789") == strlen(value) &&
	    options->readahead <= READAHEAD_MAX)
		return 0;
	return error_set(err, EINVAL, "option '%s=%s': not KiB up to %d", name,
			 value ? value : "", READAHEAD_MAX);
}

static int set_capability(struct union_options *options, const char *name,
			  const char *value, struct error *err)
{
	if (!value || !is_one_of(value, "true|false"))
		return error_set(err, EINVAL, "option '%s=%s': true or false",
				 name, value ? value : "");
	options->hides_capabilities = strcmp(value, "false") == 0;
	return 0;
}

static int set_move(struct union_options *options, const char *name,
		    const char *value, struct error *err)
{
	(void)options;
	if (value && (is_one_of(value, "true|false") || policy_find(value)))
		return 0;
	return error_set(err, EINVAL, "option '%s=%s': true, false or a policy",
			 name, value ? value : "");
}

static const struct {
	const char *name;
	int (*set)(struct union_options *options, const char *name,
		   const char *value, struct error *err);
} setters[] = {
	{"cache.attr", lower_timeout},
	{"cache.entry", lower_timeout},
	{"attr-timeout", lower_timeout},
	{"entry-timeout", lower_timeout},
	{"inodecalc", set_inodecalc},
	{"moveonenospc", set_move},
	{"never-forget-nodes", set_never_forget},
	{"noforget", set_remember},
	{"remember", set_remember},
	{"remember-nodes", set_remember},
	{"readahead", set_mergerfs_readahead},
	{"security-capability", set_capability},
	{"passthrough.io", set_mergerfs_passthrough},
	{"process-thread-count", set_mergerfs_threads},
	{"read-thread-count", set_mergerfs_threads},
	{"statfs-ignore", set_statfs_ignore},
};

/* May it have that @value, or none? */
static bool fits(const struct row *row, const char *value)
{
	if (!row->values || !value)
		return !row->values && !value;
	return !*row->values || is_one_of(value, row->values);
}

int options_mergerfs(struct union_options *options, const char *name,
		     const char *value, struct error *err)
{
	const struct row *row = NULL;
	size_t i;

	for (i = 0; i < array_size(setters); i++)
		if (is_called(setters[i].name, name))
			return setters[i].set(options, name, value, err);
	for (i = 0; i < array_size(rows); i++) {
		if (!is_called(rows[i].name, name))
			continue;
		if (fits(&rows[i], value))
			return 0;
		row = &rows[i];
	}
	if (!row)
		return -ENOENT;
	return error_set(err, EINVAL, "option '%s%s%s': %s", name,
			 value ? "=" : "", value ? value : "",
			 row->reason ? row->reason
			 : value     ? "takes no value"
				     : "needs a value");
}

bool options_of_fstab(const char *name)
{
	static const char *const names[] = {
		"auto",     "noauto",     "nofail",   "_netdev",
		"defaults", "user",       "nouser",   "users",
		"owner",    "noowner",    "group",    "nogroup",
		"_rnetdev", "nobootwait", "bootwait", "optional",
	};
	size_t i;

	for (i = 0; i < array_size(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return strncmp(name, "x-", 2) == 0 || strncmp(name, "X-", 2) == 0 ||
	       strcmp(name, "comment") == 0;
}

int options_from_mount(int argc, char **argv, struct error *err)
{
	int i, n = 1;
	const char *c;

	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1] ||
		    strncmp(argv[i], "--", 2) == 0 || argv[i][1] == 'o') {
			argv[n++] = argv[i];
			if (strcmp(argv[i], "-o") == 0 && i + 1 < argc)
				argv[n++] = argv[++i];
			continue;
		}
		if (strcmp(argv[i], "-t") == 0) {
			i++;
			continue;
		}
		for (c = argv[i] + 1; *c; c++) {
			if (*c == 'f')
				return 0;
			if (!strchr("snv", *c))
				return error_set(err, EINVAL,
						 "unknown option '-%c' of "
						 "mount",
						 *c);
		}
	}
	argv[n] = NULL;
	return n;
}
