/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/config/options.h"
#include "union/config/options_mergerfs.h"

#include <cmocka.h>

#define WORDS_MAX 8

static struct union_options options;
static struct error err;

/* Parse the words, up to a NULL, as a command line. */
static int parse(const char *const *words)
{
	char *argv[WORDS_MAX + 1] = {(char *)"trib-union"};
	int argc = 1;

	while (*words)
		argv[argc++] = (char *)*words++; /* is not written to */
	union_options_done(&options);
	memset(&err, 0, sizeof(err));
	return union_options_parse(argc, argv, &options, &err);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *text, int r)
{
	assert_true(r < 0);
	assert_non_null(strstr(err.msg, text));
}

static void defaults_are_what_the_help_says(void **state)
{
	(void)state;
	assert_int_equal(PARSE("/a", "/mnt"), 0);
	assert_int_equal(options.branch_count, 1);
	assert_string_equal(options.branches[0].path, "/a");
	assert_string_equal(options.mountpoint, "/mnt");
	assert_string_equal(policy_of(&options.policies, POLICY_CREATE)->name,
			    "pfrd");
	assert_int_equal(options.threads, 8);
	assert_true(options.allow_other);
	assert_true(options.passthrough);
	assert_false(options.asks_io_uring);
	assert_true(options.survive);
	assert_false(options.lists_quietly);
	assert_int_equal(options.branch_timeout, 30);
	assert_false(options.foreground);
	assert_int_equal(options.min_free, 0);
	assert_int_equal(options.ready_fd, -1);
	assert_int_equal(options.start_fd, -1);
	assert_string_equal(options.fsname, "/a"); /* as fstab has it */
	assert_false(options.read_only);
	assert_int_equal(PARSE("-o", "rw,ro", "/a=rw,4G:/b", "/mnt"), 0);
	assert_true(options.read_only);
	assert_string_equal(options.fsname, "/a=rw,4G:/b");
	assert_int_equal(PARSE("-oro,rw,fsname=pool", "/a", "/mnt"), 0);
	assert_false(options.read_only);
	assert_string_equal(options.fsname, "pool");
}

static void a_label_with_categories_reaches_libfuse_whole(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("-o",
		      "nodev,context=\"system_u:object_r:x_t:s0:c1,c2\",noexec",
		      "/a", "/mnt"),
		0);
	assert_string_equal(
		options.mount_flags,
		",nodev,context=\"system_u:object_r:x_t:s0:c1\\,c2\",noexec");
	assert_int_equal(PARSE("-o", "rootcontext=a:b,policy=ff", "/a", "/mnt"),
			 0);
	assert_string_equal(options.mount_flags, ",rootcontext=a:b");
	assert_string_equal(policy_of(&options.policies, POLICY_CREATE)->name,
			    "ff");
}

static void a_union_survives_unless_it_is_not_to(void **state)
{
	(void)state;
	assert_int_equal(PARSE("-o", "survive=no", "/a", "/mnt"), 0);
	assert_false(options.survive);
}

/* The option had an effect once, and is in fstab files still. */
static void io_uring_is_taken_and_does_nothing(void **state)
{
	(void)state;
	assert_int_equal(PARSE("-o", "io_uring=off", "/a", "/mnt"), 0);
	assert_false(options.asks_io_uring);
	assert_int_equal(PARSE("-o", "io_uring=auto", "/a", "/mnt"), 0);
	assert_true(options.asks_io_uring);
	refused("io_uring=on", PARSE("-o", "io_uring=on", "/a", "/m"));
}

static void options_are_taken_in_both_spellings(void **state)
{
	(void)state;
	assert_int_equal(PARSE("-o", "policy=ff,minfreespace=1G,nosuid",
			       "-othreads=3,passthrough=off,fsname=v,noatime",
			       "-ofailed=quiet,branch_timeout=0", "-f", "/a",
			       "/mnt"),
			 0);
	assert_string_equal(policy_of(&options.policies, POLICY_CREATE)->name,
			    "ff");
	assert_int_equal(options.min_free, 1 << 30);
	assert_int_equal(options.threads, 3);
	assert_false(options.passthrough);
	assert_true(options.lists_quietly);
	assert_int_equal(options.branch_timeout, 0);
	assert_true(options.foreground);
	assert_string_equal(options.fsname, "v");
	assert_string_equal(options.mount_flags, ",nosuid,noatime");
}

static void branches_have_flags_and_escapes(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("/a=local:/b\\:c\\=ro=ro:/d\\\\=local,ro:/e", "/mnt"), 0);
	assert_int_equal(options.branch_count, 4);
	assert_string_equal(options.branches[0].path, "/a");
	assert_int_equal(options.branches[0].flags, BRANCH_LOCAL);
	assert_string_equal(options.branches[1].path, "/b:c=ro");
	assert_int_equal(options.branches[1].flags, BRANCH_RO);
	assert_string_equal(options.branches[2].path, "/d\\");
	assert_int_equal(options.branches[2].flags, BRANCH_LOCAL | BRANCH_RO);
	assert_string_equal(options.branches[3].path, "/e");
}

/* The union may be among the matches, and dead. */
static void a_server_with_a_supervisor_looks_for_no_match(void **state)
{
	(void)state;
	refused("nothing matches", PARSE("/none/*", "/mnt"));
	assert_int_equal(PARSE("--holder-fd=3", "/none/*", "/mnt"), 0);
	assert_int_equal(options.branch_count, 0);
	assert_string_equal(options.list, "/none/*");
	assert_string_equal(options.mountpoint, "/mnt");
}

static void branches_have_a_mode_and_a_minimum(void **state)
{
	char text[BRANCH_SPEC_WORDS_MAX];

	(void)state;
	assert_int_equal(PARSE("/a=RW,4G:/b=nc:/c=1KiB,local,RO:/d", "/mnt"),
			 0);
	assert_int_equal(options.branches[0].flags, 0);
	assert_int_equal(options.branches[0].min_free, 4ULL << 30);
	assert_int_equal(options.branches[1].flags, BRANCH_NC);
	assert_int_equal(options.branches[1].min_free, BRANCH_MIN_FREE_UNION);
	assert_int_equal(options.branches[2].flags, BRANCH_LOCAL | BRANCH_RO);
	assert_int_equal(options.branches[2].min_free, 1024);
	assert_int_equal(options.branches[3].min_free, BRANCH_MIN_FREE_UNION);
	assert_string_equal(branch_spec_format(text, options.branches[0].flags,
					       options.branches[0].min_free),
			    "rw,4G");
	assert_string_equal(branch_spec_format(text, options.branches[1].flags,
					       options.branches[1].min_free),
			    "nc");
	assert_string_equal(branch_spec_format(text, options.branches[2].flags,
					       options.branches[2].min_free),
			    "ro,local,1K");
	refused("one mode", PARSE("/a=rw,ro", "/mnt"));
	refused("one size", PARSE("/a=1G,2G", "/mnt"));
	refused("one size", PARSE("/a=rw,,ro", "/mnt"));
}

static void options_of_mergerfs_are_taken(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("/a:/b", "/mnt", "-o",
		      "defaults,nofail,_netdev,x-systemd.automount,user,"
		      "category.create=mspmfs,func.getattr=newest,"
		      "cache.files=off,dropcacheonclose=true,moveonenospc=pfrd,"
		      "minfreespace=4G,fsname=pool,inodecalc=hybrid-hash,"
		      "func.readdir=cosr:4,statfs-ignore=nc,use_ino,"
		      "read-thread-count=-1,process-thread-count=4,"
		      "posix-acl=true,allow_other,noatime"),
		0);
	assert_string_equal(policy_of(&options.policies, POLICY_MKNOD)->name,
			    "mspmfs");
	assert_string_equal(policy_of(&options.policies, POLICY_GETATTR)->name,
			    "newest");
	assert_int_equal(options.statfs_ignore, BRANCH_NC);
	assert_int_equal(options.threads, 4);
	assert_int_equal(options.min_free, 4ULL << 30);
	assert_string_equal(options.fsname, "pool");
	assert_string_equal(options.mount_flags, ",noatime");
	assert_int_equal(options.cache_timeout, 315360000);
	assert_int_equal(PARSE("-o", "cache.attr=7,cache.entry=3", "/a", "/m"),
			 0);
	assert_int_equal(options.cache_timeout, 3);
	assert_int_equal(PARSE("-o", "passthrough.io=off", "/a", "/m"), 0);
	assert_false(options.passthrough);
	assert_false(options.forgets_nothing);
	assert_int_equal(PARSE("-o", "never-forget-nodes=true", "/a", "/m"), 0);
	assert_true(options.forgets_nothing);
}

/* Out of public reports, guides and scripts, as people have them. */
static void lists_of_people_are_taken(void **state)
{
	static const char *const lists[] = {
		"allow_other,moveonenospc=true,use_ino,inodecalc=path-hash,"
		"ignorepponrename=true",
		"defaults,moveonenospc=true,minfreespace=50G,fsname=mergerfs",
		"rw,allow_other,use_ino,category.create=epmfs",
		"rw,allow_other,direct_io,use_ino,noforget,category.create=lfs,"
		"minfreespace=10M,dev,suid",
		"minfreespace=50G,category.create=mfs,func.getattr=newest,"
		"fsname=mergerfs",
		"defaults,nofail,auto,owner,users,rw,exec,x-systemd.requires=/a,"
		"x-systemd.requires=/b,x-systemd.device-timeout=120,noatime,"
		"nodiratime,nonempty,allow_other,moveonenospc=true,use_ino,"
		"noforget,inodecalc=path-hash,nfsopenhack=all,threads=0,"
		"cache.files=partial,dropcacheonclose=true,"
		"category.create=epmfs,category.action=epall,"
		"category.search=epff,statfs=base,statfs_ignore=none,"
		"func.getattr=newest,fsname=mergerfs",
		"defaults,nonempty,allow_other,use_ino,cache.files=off,"
		"moveonenospc=true,category.create=mfs,dropcacheonclose=true,"
		"minfreespace=250G,fsname=mergerfs",
		"cache.files=partial,dropcacheonclose=true,category.create=mfs",
		"allow_other,use_ino,cache.files=partial,dropcacheonclose=true,"
		"category.create=mfs",
		"defaults,rw,allow_other,use_ino,hard_remove,direct_io,"
		"dropcacheonclose=true",
		"defaults,allow_other,category.create=mfs,use_ino",
		"dropcacheonclose=true,threads=12,async_read=false,use_ino,"
		"cache.files=auto-full,allow_other,func.getattr=newest,"
		"category.action=all,category.create=ff",
		"threads=12,async_read=false,use_ino,cache.files=off,"
		"allow_other,func.getattr=newest,category.action=all,"
		"category.create=ff",
		"allow_other,use_ino",
		"defaults,sync_read,auto_cache,use_ino,allow_other,"
		"func.getattr=newest,category.action=all,category.create=ff",
		"nonempty,rw,async_read=false,use_ino,allow_other,"
		"func.getattr=newest,category.action=all,category.create=ff,"
		"cache.files=partial,dropcacheonclose=true",
		"noatime,cache.files=off,async_read=false,threads=16,"
		"security_capability=false,readahead=1024,cache.readdir=true,"
		"func.readdir=cor,posix_acl=true,parallel-direct-writes=true,"
		"ignorepponrename=true,category.create=pfrd,category.action=ff,"
		"category.search=ff,minfreespace=40G",
		"cache.files=partial,dropcacheonclose=true,category.create=mfs,"
		"fsname=M-NAS",
		"rw,async_read=false,use_ino,allow_other,func.getattr=newest,"
		"category.action=all,category.create=ff,cache.files=partial,"
		"noforget,nonempty,dropcacheonclose=true,inodecalc=path-hash",
		"cache.files=off,category.create=epmfs,func.getattr=newest,"
		"dropcacheonclose=false,remember-nodes=172800,"
		"inodecalc=path-hash,lazy-umount-mountpoint=false",
		"defaults,category.create=pfrd,func.getattr=newest,"
		"minfreespace=20G,fsname=mergerfs",
		"defaults,allow_other,dropcacheonclose=true,use_ino,"
		"category.create=ff,moveonenospc=true,minfreespace=20G,"
		"fsname=mergerfsPool",
		"defaults,nonempty,allow_other,use_ino,cache.files=partial,"
		"moveonenospc=true,dropcacheonclose=true,minfreespace=100G,"
		"fsname=mergerfs",
		"defaults,allow_other,use_ino,category.create=lfs,"
		"moveonenospc=true,minfreespace=512G,cache.files=partial,"
		"dropcacheonclose=true",
		"defaults,nofail,auto,owner,users,rw,exec,noatime,nonempty,"
		"allow_other,moveonenospc=true,use_ino,noforget,"
		"inodecalc=path-hash,nfsopenhack=all,threads=0,"
		"cache.files=partial,dropcacheonclose=true,"
		"category.create=epall,category.action=epall,"
		"category.search=epff,statfs=base,statfs_ignore=none,"
		"func.getattr=newest,fsname=mergerfs",
		"allow_other,cache.files=partial,dropcacheonclose=true,"
		"category.create=mfs,moveonenospc=true,minfreespace=20G,"
		"fsname=storage,nofail,x-systemd.requires-mounts-for=/a,"
		"x-systemd.requires-mounts-for=/b",
		"allow_other,direct_io,use_ino,category.create=lfs,"
		"moveonenospc=true,minfreespace=20G,fsname=mergerfsPool",
		"allow_other,cache.files=full,dropcacheonclose=true,"
		"category.create=mfs",
		"allow_other,cache.files=partial,dropcacheonclose=true,"
		"default_permissions,use_ino,category.create=lfs,"
		"minfreespace=1G,nonempty",
		"defaults,use_ino,category.create=ff,category.action=epff",
		"rw,use_ino,nonempty,allow_other,statfs_ignore=nc,"
		"func.getattr=newest,category.action=all,category.create=ff,"
		"cache.files=auto-full,dropcacheonclose=true,fsname=mergerfs",
		"ro,allow_other,cache.files=off,cache.attr=0,cache.entry=0,"
		"func.getattr=newest",
		"use_ino,cache.files=full,dropcacheonclose=true,allow_other,"
		"category.create=mfs,fsname=server",
		"passthrough.io=rw,cache.files=auto-full,category.create=pfrd",
	};
	size_t i;

	(void)state;
	for (i = 0; i < array_size(lists); i++)
		if (PARSE("-o", lists[i], "/a:/b", "/m") < 0)
			fail_msg("%s: %s", lists[i], err.msg);
}

/* Each refusal says what to do instead. */
static void what_has_no_meaning_is_refused_by_name(void **state)
{
	static const struct {
		const char *word, *instead;
	} refusals[] = {
		{"umask=0000", "chmod"},
		{"uid=1000", "chown"},
		{"gid=1000", "chown"},
		{"srcmounts=/a:/b", "A:B DIR"},
		{"branches=/a:/b", "A:B DIR"},
		{"config=/etc/m.conf", "after -o"},
		{"allow_root", "noallow_other"},
		{"link_cow=true", "hard link"},
		{"xattr=nosys", "always there"},
		{"posix_acl=false", "always there"},
		{"lazy-umount-mountpoint=true", "umount -l"},
		{"branches-mount-timeout=60", "x-systemd.requires-mounts-for"},
		{"cache.writeback=true", "passes nothing through"},
		{"statfs=full", "all branches"},
		{"passthrough.io=ro", "(rw) or not at all (off)"},
		{"symlinkify=true", "files stay files"},
		{"pin-threads=R1L", "processors"},
		{"scheduling-priority=-10", "nice"},
	};
	char name[64];
	size_t i;

	(void)state;
	for (i = 0; i < array_size(refusals); i++) {
		(void)snprintf(name, sizeof(name), "option '%s'",
			       refusals[i].word);
		refused(name, PARSE("-o", refusals[i].word, "/a", "/m"));
		assert_non_null(strstr(err.msg, refusals[i].instead));
	}
}

static void options_of_mergerfs_have_both_spellings(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("/a:/b", "/mnt", "-o",
		      "cache.negative_entry=1,cache.files.process_names=x,"
		      "direct_io_allow_mmap=true,link_exdev=passthrough,"
		      "fuse_msg_size=1M,fuse-msg-size=1M,posix_acl=true,"
		      "passthrough.max_stack_depth=1,use-ino,splice-move,"
		      "async_read,async_read=true,async-read=false,sync_read,"
		      "negative_entry,negative-entry=3,never_forget_nodes=true,"
		      "process_thread_count=5,statfs_ignore=ro,"
		      "attr-timeout=9,entry_timeout=8"),
		0);
	assert_true(options.forgets_nothing);
	assert_int_equal(options.threads, 5);
	assert_int_equal(options.cache_timeout, 8);
	assert_int_equal(options.statfs_ignore, BRANCH_RO | BRANCH_NC);
	/* The error has the word as written, and the reason. */
	refused("option 'posix_acl=false': ACLs",
		PARSE("-o", "posix_acl=false", "/a", "/mnt"));
	refused("option 'pin_threads=R1L': threads",
		PARSE("-o", "pin_threads=R1L", "/a", "/mnt"));
	refused("option 'async_read=no': true or false",
		PARSE("-o", "async_read=no", "/a", "/mnt"));
	refused("use-ino=1", PARSE("-o", "use-ino=1", "/a", "/mnt"));
	refused("unknown option 'posix_ac'",
		PARSE("-o", "posix_ac=true", "/a", "/mnt"));
	refused("unknown option 'posix_acls'",
		PARSE("-o", "posix_acls=true", "/a", "/mnt"));
	refused("unknown option 'posix.acl'",
		PARSE("-o", "posix.acl=true", "/a", "/mnt"));
	/* Ours have one. */
	refused("unknown option 'branch-timeout'",
		PARSE("-o", "branch-timeout=1", "/a", "/mnt"));
}

static void what_cannot_be_is_refused_with_the_reason(void **state)
{
	(void)state;
	refused("option 'nullrw=true': data is read",
		PARSE("-o", "nullrw=true", "/a", "/mnt"));
	refused("option 'config=/x': options are",
		PARSE("-o", "config=/x", "/a", "/mnt"));
	refused("option 'debug'", PARSE("-o", "debug", "/a", "/mnt"));
	refused("symlinkify=true", PARSE("-o", "symlinkify=true", "/a", "/m"));
	refused("cache.writeback",
		PARSE("-o", "cache.writeback=true", "/a", "/mnt"));
	refused("cache.attr=x", PARSE("-o", "cache.attr=x", "/a", "/mnt"));
	refused("passthrough.io=ro",
		PARSE("-o", "passthrough.io=ro", "/a", "/mnt"));
	refused("true or false",
		PARSE("-o", "never-forget-nodes=1", "/a", "/mnt"));
	refused("use_ino=1", PARSE("-o", "use_ino=1", "/a", "/mnt"));
	refused("statfs=full", PARSE("-o", "statfs=full", "/a", "/mnt"));
	refused("moveonenospc=x", PARSE("-o", "moveonenospc=x", "/a", "/mnt"));
	refused("needs a value", PARSE("-o", "inodecalc", "/a", "/mnt"));
	refused("option 'inodecalc=x' needs a value: passthrough",
		PARSE("-o", "inodecalc=x", "/a", "/mnt"));
}

static void patterns_are_the_directories_they_match(void **state)
{
	char dir[] = "/tmp/options_test.XXXXXX", list[256], path[64];
	static const char *const names[] = {"b2", "b10", "a[x", "b1"};
	size_t i;

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (i = 0; i < array_size(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	(void)snprintf(list, sizeof(list), "%s/b*=nc:%s/a\\[?", dir, dir);
	assert_int_equal(PARSE(list, "/mnt"), 0);
	assert_int_equal(options.branch_count, 4);
	assert_string_equal(strrchr(options.branches[0].path, '/'), "/b1");
	assert_string_equal(strrchr(options.branches[1].path, '/'), "/b10");
	assert_string_equal(strrchr(options.branches[2].path, '/'), "/b2");
	assert_int_equal(options.branches[2].flags, BRANCH_NC);
	assert_string_equal(strrchr(options.branches[3].path, '/'), "/a[x");
	assert_int_equal(PARSE("/a\\*", "/mnt"), 0);
	assert_string_equal(options.branches[0].path, "/a*");
	(void)snprintf(list, sizeof(list), "%s/c*", dir);
	refused("nothing matches", PARSE(list, "/mnt"));
	for (i = 0; i < array_size(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		assert_int_equal(rmdir(path), 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

/* The words that mount(8) gives its helper, up to a NULL. */
static int from_mount(const char *const *words, const char *joined)
{
	char *argv[WORDS_MAX + 1] = {(char *)"mount.fuse.trib-union"};
	char got[256] = "";
	int argc = 1, i;

	while (*words)
		argv[argc++] = (char *)*words++; /* is not written to */
	argc = options_from_mount(argc, argv, &err);
	for (i = 1; i < argc; i++) {
		strcat(got, argv[i]);
		strcat(got, " ");
	}
	assert_string_equal(got, joined);
	return argc;
}
#define FROM_MOUNT(joined, ...) \
	from_mount((const char *const[]){__VA_ARGS__, NULL}, joined)

static void mount_s_words_become_ours(void **state)
{
	(void)state;
	FROM_MOUNT("/a:/b /mnt -o rw,ff ", "/a:/b", "/mnt", "-sn", "-o",
		   "rw,ff", "-t", "fuse.trib-union");
	FROM_MOUNT("/a /mnt -orw ", "/a", "/mnt", "-v", "-orw");
	assert_int_equal(FROM_MOUNT("", "/a", "/mnt", "-f"), 0);
	assert_true(FROM_MOUNT("", "/a", "/mnt", "-N", "ns") < 0);
}

static void refuses_the_unknown_by_name(void **state)
{
	(void)state;
	refused("cache.file", PARSE("-o", "cache.file=off", "/a", "/mnt"));
	refused("--fast", PARSE("--fast", "/a", "/mnt"));
	refused("policy=best", PARSE("-o", "policy=best", "/a", "/mnt"));
	refused("func.rm", PARSE("-o", "func.rm=ff", "/a", "/mnt"));
	refused("quick", PARSE("/a=quick", "/mnt"));
	refused("failed=maybe", PARSE("-o", "failed=maybe", "/a", "/m"));
	refused("passthrough=on", PARSE("-o", "passthrough=on", "/a", "/m"));
	refused("third", PARSE("/a", "/mnt", "third"));
}

/* mount(8), "FILESYSTEM-INDEPENDENT MOUNT OPTIONS". */
static void each_word_of_mount_is_done_or_refused(void **state)
{
	static const struct {
		const char *list;
		uint64_t said, set;
		unsigned fs_said, fs_set;
	} taken[] = {
		{"noatime", MOUNT_ATTR__ATIME, MOUNT_ATTR_NOATIME, 0, 0},
		{"relatime", MOUNT_ATTR__ATIME, MOUNT_ATTR_RELATIME, 0, 0},
		{"strictatime", MOUNT_ATTR__ATIME, MOUNT_ATTR_STRICTATIME, 0,
		 0},
		{"noatime,strictatime", MOUNT_ATTR__ATIME,
		 MOUNT_ATTR_STRICTATIME, 0, 0},
		{"noatime,atime", MOUNT_ATTR__ATIME, MOUNT_ATTR_RELATIME, 0, 0},
		{"noatime,nostrictatime", MOUNT_ATTR__ATIME, MOUNT_ATTR_NOATIME,
		 0, 0},
		{"strictatime,atime", MOUNT_ATTR__ATIME, MOUNT_ATTR_STRICTATIME,
		 0, 0},
		{"nodiratime", MOUNT_ATTR_NODIRATIME, MOUNT_ATTR_NODIRATIME, 0,
		 0},
		{"nodiratime,diratime", MOUNT_ATTR_NODIRATIME, 0, 0, 0},
		{"nosuid,dev", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		 MOUNT_ATTR_NOSUID, 0, 0},
		{"noexec,exec", MOUNT_ATTR_NOEXEC, 0, 0, 0},
		{"nosymfollow", MOUNT_ATTR_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW,
		 0, 0},
		{"sync", 0, 0, MOUNT_FS_SYNC, MOUNT_FS_SYNC},
		{"sync,async", 0, 0, MOUNT_FS_SYNC, 0},
		{"dirsync", 0, 0, MOUNT_FS_DIRSYNC, MOUNT_FS_DIRSYNC},
		{"ro", MOUNT_ATTR_RDONLY, MOUNT_ATTR_RDONLY, MOUNT_FS_RO,
		 MOUNT_FS_RO},
		{"nomand,noiversion,loud", 0, 0, 0, 0},
	};
	static const char *const refusals[] = {
		"lazytime", "nolazytime", "iversion",   "mand",    "norelatime",
		"rbind",    "move",       "private",    "rshared", "slave",
		"rslave",   "rprivate",   "unbindable", "bogus",
	};
	char text[64];
	size_t i;

	(void)state;
	for (i = 0; i < array_size(taken); i++) {
		assert_int_equal(PARSE("-o", taken[i].list, "/a", "/m"), 0);
		assert_int_equal(options.words.said, taken[i].said);
		assert_int_equal(options.words.set, taken[i].set);
		assert_int_equal(options.words.fs_said, taken[i].fs_said);
		assert_int_equal(options.words.fs_set, taken[i].fs_set);
	}
	for (i = 0; i < array_size(refusals); i++) {
		(void)snprintf(text, sizeof(text), "option '%s'", refusals[i]);
		refused(text, PARSE("-o", refusals[i], "/a", "/m"));
	}
	assert_int_equal(PARSE("-o", "silent", "/a", "/m"), 0);
	assert_true(options.words.silent);
	/* An option of mount(8) takes no value. */
	refused("'sync'", PARSE("-o", "sync=1", "/a", "/m"));
}

static void change(const char *list, const char *error)
{
	struct union_change change = {0};
	int r;

	memset(&err, 0, sizeof(err));
	r = union_options_change(&options, list, &change, &err);
	if (error)
		refused(error, r);
	else
		assert_int_equal(r, 0);
	union_change_done(&change);
}

static void what_is_so_already_may_be_said_again(void **state)
{
	static const char mounted[] =
		"threads=3,cache.attr=7,fsname=x,control=/c,"
		"context=a:b,passthrough=off,use_ino,nofail";
	struct union_change some = {0};

	(void)state;
	assert_int_equal(PARSE("-o", mounted, "/a", "/m"), 0);
	change("rw,remount,user_id=0,group_id=0,default_permissions,"
	       "allow_other,relatime,max_read=131072,blksize=4096",
	       NULL);
	change("threads=3,cache.attr=7,fsname=x,control=/c,context=a:b,"
	       "passthrough=off,use_ino,nofail,x-systemd.automount",
	       NULL);
	change("threads=4", "option 'threads=4' cannot come");
	change("control=/d", "option 'control=/d' cannot come");
	change("context=c:d", "option 'context=c:d' cannot come");
	change("passthrough=auto", "cannot come");
	change("noallow_other", "cannot come");
	change("io_uring=auto", NULL);
	change("lazytime", "option 'lazytime'");
	change("fast", "unknown option 'fast'");
	change("nullrw=true", "data is read");
	assert_int_equal(union_options_change(&options,
					      "noatime,func.mkdir=ff,sync,"
					      "minfreespace=4G,policy=mfs",
					      &some, &err),
			 0);
	assert_int_equal(some.count, 3);
	assert_string_equal(some.settings[0].name, "func.mkdir");
	assert_string_equal(some.settings[1].value, "4G");
	assert_int_equal(some.words.set, MOUNT_ATTR_NOATIME);
	assert_int_equal(some.words.fs_set, MOUNT_FS_SYNC);
	union_change_done(&some);
}

/* Options that mount(8) leaves out end; those it repeats change nothing. */
static void a_whole_list_is_what_there_is_to_be(void **state)
{
	struct mount_words now, to = {0};

	(void)state;
	mount_words_of_mount("rw,nosuid,nodev,noatime", &now);
	mount_words_of_fs("rw,sync,user_id=0", &now);
	assert_int_equal(mount_words_take(&to, "rw", NULL, &err), 0);
	assert_int_equal(mount_words_take(&to, "nodev", NULL, &err), 0);
	mount_words_complete(&to, &now);
	assert_int_equal(to.said, MOUNT_ATTR_NOSUID | MOUNT_ATTR__ATIME);
	assert_int_equal(to.set & to.said, MOUNT_ATTR_RELATIME);
	assert_int_equal(to.fs_said, MOUNT_FS_SYNC);
	assert_int_equal(to.fs_set, 0);
	/* proc(5) has no word for strictatime. */
	mount_words_of_mount("rw", &now);
	assert_int_equal(now.set & MOUNT_ATTR__ATIME, MOUNT_ATTR_STRICTATIME);
	to = (struct mount_words){0};
	mount_words_complete(&to, &now);
	assert_int_equal(to.said, 0);
}

static void refuses_bad_values(void **state)
{
	(void)state;
	refused("threads=-2", PARSE("-o", "threads=-2", "/a", "/mnt"));
	refused("threads=9x", PARSE("-o", "threads=9x", "/a", "/mnt"));
	refused("minfreespace", PARSE("-o", "minfreespace=much", "/a", "/m"));
	refused("the policies are", PARSE("-o", "policy", "/a", "/mnt"));
	refused("needs a value", PARSE("-o", "threads", "/a", "/mnt"));
	refused("takes no value", PARSE("-o", "allow_other=1", "/a", "/mnt"));
	refused("-o needs", PARSE("/a", "/mnt", "-o"));
	refused("nosuid", PARSE("-o", "nosuid=1", "/a", "/mnt"));
	refused("context", PARSE("-o", "context", "/a", "/mnt"));
	refused("seclabel", PARSE("-o", "seclabel", "/a", "/mnt"));
}

static void refuses_missing_and_empty_branches(void **state)
{
	(void)state;
	refused("missing", PARSE("/a"));
	refused("empty", PARSE("/a::/b", "/mnt"));
	refused("empty", PARSE("=ro", "/mnt"));
	refused("empty", PARSE("", "/mnt"));
}

static void refuses_more_branches_than_fit(void **state)
{
	char list[2 * 257 + 1] = "";
	unsigned i;

	(void)state;
	for (i = 0; i < 256; i++)
		strcat(list, i ? ":a" : "a");
	assert_int_equal(PARSE(list, "/mnt"), 0);
	assert_int_equal(options.branch_count, 256);
	strcat(list, ":a");
	refused("256", PARSE(list, "/mnt"));
}

static void help_asks_for_nothing_else(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--help"), 0);
	assert_true(options.help);
	assert_int_equal(PARSE("-V"), 0);
	assert_true(options.version);
}

static int done(void **state)
{
	(void)state;
	union_options_done(&options);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_what_the_help_says),
		cmocka_unit_test(a_union_survives_unless_it_is_not_to),
		cmocka_unit_test(io_uring_is_taken_and_does_nothing),
		cmocka_unit_test(options_are_taken_in_both_spellings),
		cmocka_unit_test(a_label_with_categories_reaches_libfuse_whole),
		cmocka_unit_test(branches_have_flags_and_escapes),
		cmocka_unit_test(a_server_with_a_supervisor_looks_for_no_match),
		cmocka_unit_test(branches_have_a_mode_and_a_minimum),
		cmocka_unit_test(options_of_mergerfs_are_taken),
		cmocka_unit_test(lists_of_people_are_taken),
		cmocka_unit_test(what_has_no_meaning_is_refused_by_name),
		cmocka_unit_test(options_of_mergerfs_have_both_spellings),
		cmocka_unit_test(what_cannot_be_is_refused_with_the_reason),
		cmocka_unit_test(patterns_are_the_directories_they_match),
		cmocka_unit_test(mount_s_words_become_ours),
		cmocka_unit_test(refuses_the_unknown_by_name),
		cmocka_unit_test(each_word_of_mount_is_done_or_refused),
		cmocka_unit_test(what_is_so_already_may_be_said_again),
		cmocka_unit_test(a_whole_list_is_what_there_is_to_be),
		cmocka_unit_test(refuses_bad_values),
		cmocka_unit_test(refuses_missing_and_empty_branches),
		cmocka_unit_test(refuses_more_branches_than_fit),
		cmocka_unit_test(help_asks_for_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
