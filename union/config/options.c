/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "union/config/options_branches.h"
#include "union/config/options_mergerfs.h"

/*
 * Seconds for which the kernel keeps answers until told otherwise: ten years.
 */
#define BRANCH_TIMEOUT_DEFAULT 30 /* seconds */
#define BRANCH_TIMEOUT_MAX     86400
#define TIMEOUT_DEFAULT        315360000
#define THREADS_DEFAULT        8
#define SOURCE_SIZE            4096 /* bytes; mount(2) takes a page */

struct option {
	const char *name;
	const char *argument; /* NULL: takes none */
	const char *help;
	int (*set)(struct union_options *options, const char *value,
		   struct error *err);
};

static int copy_text(char **into, const char *value, struct error *err)
{
	char *copy = strdup(value);

	if (!copy)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	free(*into);
	*into = copy;
	return 0;
}

static int parse_number(const char *name, const char *value, uint64_t min,
			uint64_t max, uint64_t *ret, struct error *err)
{
	unsigned long long number;
	char *end;

	errno = 0;
	number = strtoull(value, &end, 10);
	if (!*value || strspn(value, "0123456789") != strlen(value) || *end ||
	    errno || number < min || number > max)
		return error_set(err, EINVAL,
				 "option '%s=%s': not a number from %llu to "
				 "%llu",
				 name, value, (unsigned long long)min,
				 (unsigned long long)max);
	*ret = number;
	return 0;
}

static int set_min_free(struct union_options *options, const char *value,
			struct error *err)
{
	int r = size_parse(value, &options->min_free, err);

	return r < 0 ? error_prefix(err, r, "option 'minfreespace': ") : 0;
}

static int set_fsname(struct union_options *options, const char *value,
		      struct error *err)
{
	return copy_text(&options->fsname, value, err);
}

static int set_allow_other(struct union_options *options, const char *value,
			   struct error *err)
{
	(void)value;
	(void)err;
	options->allow_other = true;
	return 0;
}

static int set_no_allow_other(struct union_options *options, const char *value,
			      struct error *err)
{
	(void)value;
	(void)err;
	options->allow_other = false;
	return 0;
}

static int parse_auto(const char *name, const char *value, bool *ret,
		      struct error *err)
{
	if (strcmp(value, "auto") != 0 && strcmp(value, "off") != 0)
		return error_set(err, EINVAL, "option '%s=%s': auto or off",
				 name, value);
	*ret = strcmp(value, "auto") == 0;
	return 0;
}

static int set_passthrough(struct union_options *options, const char *value,
			   struct error *err)
{
	if (strcmp(value, "rw") == 0) /* as mergerfs says it */
		value = "auto";
	return parse_auto("passthrough", value, &options->passthrough, err);
}

static int set_io_uring(struct union_options *options, const char *value,
			struct error *err)
{
	return parse_auto("io_uring", value, &options->asks_io_uring, err);
}

static int set_timeout(struct union_options *options, const char *value,
		       struct error *err)
{
	return parse_number("cache_timeout", value, 0, TIMEOUT_DEFAULT,
			    &options->cache_timeout, err);
}

static int set_shared(struct union_options *options, const char *value,
		      struct error *err)
{
	(void)value;
	(void)err;
	options->shared = true;
	return 0;
}

static int set_failed(struct union_options *options, const char *value,
		      struct error *err)
{
	if (strcmp(value, "strict") != 0 && strcmp(value, "quiet") != 0)
		return error_set(err, EINVAL,
				 "option 'failed=%s': strict or quiet", value);
	options->lists_quietly = strcmp(value, "quiet") == 0;
	return 0;
}

static int set_branch_timeout(struct union_options *options, const char *value,
			      struct error *err)
{
	return parse_number("branch_timeout", value, 0, BRANCH_TIMEOUT_MAX,
			    &options->branch_timeout, err);
}

static int set_survive(struct union_options *options, const char *value,
		       struct error *err)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return error_set(err, EINVAL, "option 'survive=%s': yes or no",
				 value);
	options->survive = strcmp(value, "yes") == 0;
	return 0;
}

static int set_threads(struct union_options *options, const char *value,
		       struct error *err)
{
	uint64_t number;
	int r;

	if (strcmp(value, "0") == 0 || strcmp(value, "-1") == 0)
		return 0; /* the default number */
	r = parse_number("threads", value, 1, UNION_THREADS_MAX, &number, err);
	if (r == 0)
		options->threads = (unsigned)number;
	return r;
}

static int set_log(struct union_options *options, const char *value,
		   struct error *err)
{
	return copy_text(&options->log_file, value, err);
}

static int set_control(struct union_options *options, const char *value,
		       struct error *err)
{
	return copy_text(&options->control, value, err);
}

static const struct option options_table[] = {
	{"minfreespace", "SIZE",
	 "branches with less are the last choice (default 0)", set_min_free},
	{"fsname", "NAME",
	 "source of the mount in the mount table (default the "
	 "branches as given)",
	 set_fsname},
	{"allow_other", NULL, "all users may use the mount (default)",
	 set_allow_other},
	{"noallow_other", NULL, "only the user that mounts may",
	 set_no_allow_other},
	{"passthrough", "auto|off",
	 "let the kernel pass data through where it can (default "
	 "auto)",
	 set_passthrough},
	{"cache_timeout", "SECONDS",
	 "time that the kernel keeps names and attributes (default "
	 "10 years)",
	 set_timeout},
	{"shared", NULL,
	 "other programs change the branches, too: the kernel keeps "
	 "nothing of them",
	 set_shared},
	{"shared_branches", NULL,
	 "the same; for /etc/fstab, where shared is an option of "
	 "mount itself",
	 set_shared},
	{"failed", "strict|quiet",
	 "listings that lack the names of a failed branch end with "
	 "EIO (default), or without error",
	 set_failed},
	{"branch_timeout", "SECONDS",
	 "a branch that does not answer for this long has failed "
	 "(default 30; 0: never)",
	 set_branch_timeout},
	{"threads", "N", "requests served at once (default 8)", set_threads},
	{"survive", "yes|no",
	 "go on when the server is killed or replaced (default yes)",
	 set_survive},
	{"control", "SOCKET", "take commands here: see --control", set_control},
	{"log", "FILE", "file for messages, once in the background", set_log},
	{"io_uring", "auto|off",
	 "does nothing, accepted for older mounts: requests come by "
	 "/dev/fuse",
	 set_io_uring},
};

/* Labels of SELinux, which the kernel takes too. */
static const char *const mount_labels[] = {
	"context",
	"fscontext",
	"defcontext",
	"rootcontext",
};

static int add_mount_flag(struct union_options *options, const char *name,
			  struct error *err)
{
	char *longer;

	if (asprintf(&longer, "%s,%s",
		     options->mount_flags ? options->mount_flags : "",
		     name) < 0)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	free(options->mount_flags);
	options->mount_flags = longer;
	return 0;
}

/* NAME=VALUE, as libfuse wants it in its list: without a bare comma. */
static int add_mount_label(struct union_options *options, const char *name,
			   const char *value, struct error *err)
{
	auto_free char *text = malloc(strlen(name) + 2 * strlen(value) + 2);
	char *at;

	if (!text)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	at = stpcpy(stpcpy(text, name), "=");
	for (; *value; value++) {
		if (*value == ',' || *value == '\\')
			*at++ = '\\';
		*at++ = *value;
	}
	*at = '\0';
	return add_mount_flag(options, text, err);
}

static int set_mount_word(struct union_options *options, const char *word,
			  struct error *err)
{
	bool for_libfuse;
	int r = mount_words_take(&options->words, word, &for_libfuse, err);

	if (r < 0)
		return r;
	if (options->words.fs_said & MOUNT_FS_RO)
		options->read_only = options->words.fs_set & MOUNT_FS_RO;
	return for_libfuse ? add_mount_flag(options, word, err) : 0;
}

static int set_option(struct union_options *options, char *word,
		      struct error *err)
{
	char *value = strchr(word, '=');
	size_t i;
	int r;

	if (value)
		*value++ = '\0';
	if (options_of_fstab(word))
		return 0;
	r = options_mergerfs(options, word, value, err);
	if (r == -ENOENT)
		r = policy_set_apply(&options->policies, word,
				     value ? value : "", err);
	if (r != -ENOENT)
		return r;
	for (i = 0; i < array_size(options_table); i++) {
		const struct option *option = &options_table[i];

		if (strcmp(option->name, word) != 0)
			continue;
		if (!option->argument != !value)
			return error_set(err, EINVAL, "option '%s' %s", word,
					 value ? "takes no value"
					       : "needs a value");
		return option->set(options, value, err);
	}
	if (!value) {
		r = set_mount_word(options, word, err);
		if (r != -ENOENT)
			return r;
	}
	for (i = 0; i < array_size(mount_labels) && value; i++)
		if (strcmp(mount_labels[i], word) == 0)
			return add_mount_label(options, word, value, err);
	return error_set(err, EINVAL, "unknown option '%s'; --help lists them",
			 word);
}

/* Cut off the word up to the next comma outside double quotes; NULL: none. */
static char *next_word(char **rest)
{
	char *word = *rest, *at = word;
	bool quoted = false;

	if (!word)
		return NULL;
	for (; *at && (quoted || *at != ','); at++)
		quoted ^= *at == '"';
	*rest = *at ? at + 1 : NULL;
	*at = '\0';
	return word;
}

static int set_options(struct union_options *options, const char *list,
		       struct error *err)
{
	auto_free char *copy = strdup(list);
	char *rest = copy, *word;
	int r = copy ? 0 : error_set(err, ENOMEM, "%s", strerror(ENOMEM));

	while (r == 0 && (word = next_word(&rest)))
		if (*word)
			r = set_option(options, word, err);
	return r;
}

/* ---- a mount that is changed ---- */

static int add_setting(struct union_change *change, const char *word,
		       struct error *err)
{
	struct setting *more = reallocarray(change->settings, change->count + 1,
					    sizeof(*more));
	char *name = more ? strdup(word) : NULL;
	char *value = name ? strchr(name, '=') : NULL;

	if (more)
		change->settings = more;
	if (!name)
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	if (value)
		*value++ = '\0';
	more[change->count++] = (struct setting){name, value ? value : ""};
	return 0;
}

static bool is_setting(const char *word)
{
	return strncmp(word, "policy=", 7) == 0 ||
	       strncmp(word, "category.", 9) == 0 ||
	       (strncmp(word, "func.", 5) == 0 &&
		strncmp(word, "func.readdir", 12) != 0) ||
	       strncmp(word, "minfreespace=", 13) == 0;
}

/* The kernel shows these of a FUSE file system, and mount(8) repeats them. */
static bool is_of_kernel(const char *word)
{
	static const char *const words[] = {
		"user_id=", "group_id=", "max_read=", "blksize=", "rootmode=",
	};
	size_t i;

	for (i = 0; i < array_size(words); i++)
		if (strncmp(word, words[i], strlen(words[i])) == 0)
			return true;
	return strcmp(word, "seclabel") == 0;
}

static bool same_text(const char *now, const char *wanted)
{
	return !wanted || (now && strcmp(now, wanted) == 0);
}

static bool are_same(const struct union_options *a,
		     const struct union_options *b)
{
	return a->statfs_ignore == b->statfs_ignore &&
	       a->cache_timeout == b->cache_timeout &&
	       a->threads == b->threads &&
	       a->branch_timeout == b->branch_timeout &&
	       a->lists_quietly == b->lists_quietly &&
	       a->forgets_nothing == b->forgets_nothing &&
	       a->allow_other == b->allow_other &&
	       a->numbers.calc == b->numbers.calc &&
	       a->numbers.narrow == b->numbers.narrow &&
	       a->readahead == b->readahead &&
	       a->hides_capabilities == b->hides_capabilities &&
	       a->passthrough == b->passthrough && a->shared == b->shared &&
	       a->survive == b->survive && same_text(a->fsname, b->fsname) &&
	       same_text(a->control, b->control) &&
	       same_text(a->log_file, b->log_file) &&
	       (!b->mount_flags ||
		(a->mount_flags && strstr(a->mount_flags, b->mount_flags)));
}

/* Check that option @word has the value already: then it may be given. */
static int check_same(const struct union_options *now, const char *word,
		      struct error *err)
{
	struct union_options wanted = *now;
	auto_free char *copy = strdup(word);
	bool same = false;
	int r;

	wanted.fsname = wanted.control = wanted.log_file = NULL;
	wanted.mount_flags = NULL;
	r = copy ? set_option(&wanted, copy, err)
		 : error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	if (r == 0)
		same = are_same(now, &wanted);
	free(wanted.fsname);
	free(wanted.control);
	free(wanted.log_file);
	free(wanted.mount_flags);
	return r < 0 || same ? r
			     : error_set(err, EINVAL,
					 "option '%s' cannot come while it is "
					 "mounted: unmount, and mount it so",
					 word);
}

static int change_word(const struct union_options *now, const char *word,
		       struct union_change *change, struct error *err)
{
	int r;

	if (is_setting(word))
		return add_setting(change, word, err);
	if (is_of_kernel(word))
		return 0;
	r = mount_words_take(&change->words, word, NULL, err);
	return r == -ENOENT && now ? check_same(now, word, err)
				   : (r == -ENOENT ? 0 : r);
}

int union_options_change(const struct union_options *now, const char *list,
			 struct union_change *ret, struct error *err)
{
	auto_free char *copy = strdup(list);
	char *rest = copy, *word;
	int r = copy ? 0 : error_set(err, ENOMEM, "%s", strerror(ENOMEM));

	while (r == 0 && (word = next_word(&rest)))
		if (*word)
			r = change_word(now, word, ret, err);
	return r;
}

void union_change_done(struct union_change *change)
{
	size_t i;

	for (i = 0; i < change->count; i++)
		free((char *)change->settings[i].name);
	free(change->settings);
	memset(change, 0, sizeof(*change));
}

static int parse_flag(struct union_options *options, int argc, char **argv,
		      int *i, struct error *err)
{
	const char *word = argv[*i];
	uint64_t fd;
	int r;

	if (strcmp(word, "-f") == 0) {
		options->foreground = true;
	} else if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
		options->help = true;
	} else if (strcmp(word, "-V") == 0 || strcmp(word, "--version") == 0) {
		options->version = true;
	} else if (strcmp(word, "--shared") == 0) {
		options->shared = true;
	} else if (strncmp(word, "--ready-fd=", 11) == 0) {
		r = parse_number("--ready-fd", word + 11, 3, 1023, &fd, err);
		if (r < 0)
			return r;
		options->ready_fd = (int)fd;
	} else if (strncmp(word, "--start-fd=", 11) == 0) {
		r = parse_number("--start-fd", word + 11, 3, 1023, &fd, err);
		if (r < 0)
			return r;
		options->start_fd = (int)fd;
	} else if (strncmp(word, "--holder-fd=", 12) == 0) {
		r = parse_number("--holder-fd", word + 12, 3, 1023, &fd, err);
		if (r < 0)
			return r;
		options->supervisor_fd = (int)fd;
	} else if (strncmp(word, "--stored-fd=", 12) == 0) {
		r = parse_number("--stored-fd", word + 12, 3, 1023, &fd, err);
		if (r < 0)
			return r;
		options->stored_fd = (int)fd;
	} else if (strcmp(word, "--without=resend") == 0) {
		options->without_resend = true;
	} else if (strncmp(word, "-o", 2) == 0) {
		if (word[2])
			return set_options(options, word + 2, err);
		if (++*i == argc)
			return error_set(err, EINVAL, "-o needs options");
		return set_options(options, argv[*i], err);
	} else {
		return error_set(err, EINVAL,
				 "unknown option '%s'; --help lists them",
				 word);
	}
	return 0;
}

static void set_defaults(struct union_options *options)
{
	memset(options, 0, sizeof(*options));
	policy_set_init(&options->policies);
	options->cache_timeout = TIMEOUT_DEFAULT;
	options->branch_timeout = BRANCH_TIMEOUT_DEFAULT;
	options->threads = THREADS_DEFAULT;
	options->survive = true;
	options->allow_other = true;
	options->passthrough = true;
	options->ready_fd = -1;
	options->start_fd = -1;
	options->supervisor_fd = -1;
	options->stored_fd = -1;
}

/*
 * Set the source of the mount as in fstab, so that mount(8) finds it mounted.
 * "trib-union" takes the place of a source too long for mount(2).
 */
static int set_source(struct union_options *options, struct error *err)
{
	if (options->fsname)
		return 0;
	return copy_text(&options->fsname,
			 strlen(options->list) < SOURCE_SIZE ? options->list
							     : "trib-union",
			 err);
}

int union_options_parse(int argc, char **argv, struct union_options *ret,
			struct error *err)
{
	const char *words[2];
	int i, n = 0, r = 0;

	set_defaults(ret);
	for (i = 1; i < argc && r == 0; i++) {
		if (argv[i][0] == '-' && argv[i][1])
			r = parse_flag(ret, argc, argv, &i, err);
		else if (n == 2)
			r = error_set(err, EINVAL, "'%s': one word too many",
				      argv[i]);
		else
			words[n++] = argv[i];
	}
	if (r < 0 || ret->help || ret->version)
		return r;
	if (n != 2)
		return error_set(err, EINVAL,
				 "branches and mount point are missing: "
				 "trib-union BRANCH:BRANCH... MOUNTPOINT");
	if ((ret->shared || ret->numbers.calc == INODE_CALC_PATH) &&
	    ret->cache_timeout == TIMEOUT_DEFAULT)
		ret->cache_timeout = 0;
	/*
	 * A server's mount may be dead until it serves. So a server that goes
	 * on must not look for matches of a pattern, nor its supervisor.
	 */
	ret->lists_later = ret->supervisor_fd >= 0 || ret->stored_fd >= 0;
	r = copy_text(&ret->list, words[0], err);
	if (r == 0)
		r = copy_text(&ret->mountpoint, words[1], err);
	if (r == 0)
		r = set_source(ret, err);
	return r < 0 || ret->lists_later ? r
					 : options_branches(ret, words[0], err);
}

void union_options_done(struct union_options *options)
{
	size_t i;

	for (i = 0; i < options->branch_count; i++)
		free(options->branches[i].path);
	free(options->branches);
	free(options->list);
	free(options->mountpoint);
	free(options->fsname);
	free(options->mount_flags);
	free(options->log_file);
	free(options->control);
	memset(options, 0, sizeof(*options));
}

void union_options_help(FILE *out)
{
	const struct policy *policy;
	char word[64];
	size_t i;

	fputs("trib-union [-f] [-o OPTION,OPTION...] BRANCH:BRANCH... "
	      "MOUNTPOINT\n"
	      "trib-union --control SOCKET COMMAND\n\n"
	      "Shows the directories BRANCH as one tree at MOUNTPOINT.\n"
	      "BRANCH is PATH or PATH=WORD,WORD...: a mode (rw, ro; nc: no new\n"
	      "files), local (storage of this node), a size (its "
	      "minfreespace).\n"
	      "A pattern (/srv/*) stands for all directories that match it.\n"
	      "In a path write '\\:' for ':' and '\\=' for '='.\n\n"
	      "  -f              stay in the foreground\n"
	      "  --shared        as -o shared\n"
	      "  -h, --help      this text\n"
	      "  -V, --version   the version\n"
	      "  --control SOCKET COMMAND\n"
	      "                  for the union mounted with '-o "
	      "control=SOCKET':\n"
	      "                  status, policy, add, set, drain, remove, "
	      "upgrade;\n"
	      "                  a wrong command prints their usage\n\n"
	      "Options:\n"
	      "  policy=POLICY          where new names go (default pfrd)\n"
	      "  category.NAME=POLICY   policy of a category: create, search, action\n"
	      "  func.NAME=POLICY       policy of one function: func.mkdir=ff\n",
	      out);
	for (i = 0; i < array_size(options_table); i++) {
		(void)snprintf(
			word, sizeof(word), "%s%s%s", options_table[i].name,
			options_table[i].argument ? "=" : "",
			options_table[i].argument ? options_table[i].argument
						  : ""); /* fits */
		fprintf(out, "  %-22s %s\n", word, options_table[i].help);
	}
	fputs("  and of mount(8): ro rw suid nosuid dev nodev exec noexec\n"
	      "  symfollow nosymfollow sync async dirsync atime noatime\n"
	      "  relatime strictatime nostrictatime diratime nodiratime\n"
	      "  silent; remount with what can change while it is mounted\n\n"
	      "Policies:\n",
	      out);
	for (i = 0; (policy = policy_at((unsigned)i)); i++)
		fprintf(out, "  %-8s %s\n", policy->name, policy->help);
}
