/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/capability.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "volume/record/mount_options.h"

#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name
#define IS_MOUNT   CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT
#define FS_SIZE    16 /* volume_record.h */

/* Flags of a bind mount, that need no word of the file system's. */
int capability_group_parse(const char *text, gid_t *ret, struct error *err)
{
	unsigned long long n = 0;
	size_t length = strspn(text, "0123456789");

	if (length > 0 && length <= 10 && !text[length])
		n = strtoull(text, NULL, 10);
	else
		n = UINT32_MAX;
	/* The last one stands for "no change", chown(2). */
	if (n >= UINT32_MAX)
		return error_set(err, EINVAL,
				 "volume_mount_group has to be the number of a "
				 "group, 0 to 4294967294");
	*ret = (gid_t)n;
	return 0;
}

static const struct {
	const char *name;
	uint64_t set;
} flags[] = {
	{"rw", 0},
	{"ro", MOUNT_ATTR_RDONLY},
	{"suid", 0},
	{"nosuid", MOUNT_ATTR_NOSUID},
	{"dev", 0},
	{"nodev", MOUNT_ATTR_NODEV},
	{"exec", 0},
	{"noexec", MOUNT_ATTR_NOEXEC},
	{"relatime", MOUNT_ATTR_RELATIME},
	{"noatime", MOUNT_ATTR_NOATIME},
	{"diratime", 0},
	{"nodiratime", MOUNT_ATTR_NODIRATIME},
};

static const uint64_t *flag_find(const char *name)
{
	for (size_t i = 0; i < array_size(flags); i++)
		if (strcmp(flags[i].name, name) == 0)
			return &flags[i].set;
	return NULL;
}

/* @fs_type  NULL: any */
static bool is_option(const char *flag, const char *fs_type)
{
	struct mount_options unused;

	if (fs_type)
		return mount_options_parse(flag, fs_type, &unused, NULL) == 0;
	return is_option(flag, "ext4") || is_option(flag, "xfs");
}

static int check_mode(int mode, struct error *err)
{
	switch (mode) {
	case MODE(SINGLE_NODE_WRITER):
	case MODE(SINGLE_NODE_READER_ONLY):
	case MODE(SINGLE_NODE_SINGLE_WRITER):
	case MODE(SINGLE_NODE_MULTI_WRITER):
	case MODE(MULTI_NODE_READER_ONLY): return 0;
	default:
		return error_set(err, EINVAL,
				 "access mode %d: a volume is written on one "
				 "node at a time, as two would destroy its "
				 "file systems; ask for a SINGLE_NODE mode "
				 "(ReadWriteOnce, ReadWriteOncePod) or for "
				 "MULTI_NODE_READER_ONLY (ReadOnlyMany)",
				 mode);
	}
}

static int check_mount(const Csi__V1__VolumeCapability__MountVolume *mount,
		       const char *fs_type, struct error *err)
{
	gid_t group;

	if (mount->fs_type[0] && strcmp(mount->fs_type, "ext4") != 0 &&
	    strcmp(mount->fs_type, "xfs") != 0)
		return error_set(err, EINVAL,
				 "file system '%.32s': there are ext4 and xfs",
				 mount->fs_type);
	if (fs_type && mount->fs_type[0] &&
	    strcmp(mount->fs_type, fs_type) != 0)
		return error_set(err, EINVAL,
				 "file system '%s': the volume has %s",
				 mount->fs_type, fs_type);
	if (mount->volume_mount_group[0] &&
	    capability_group_parse(mount->volume_mount_group, &group, err) < 0)
		return -EINVAL;
	/* The flag itself may be sensitive: not in the text. */
	for (size_t i = 0; i < mount->n_mount_flags; i++)
		if (!flag_find(mount->mount_flags[i]) &&
		    !is_option(mount->mount_flags[i], fs_type))
			return error_set(err, EINVAL,
					 "mount flag %zu is none that is taken "
					 "for a volume (ro, nosuid, nodev, "
					 "noexec, noatime, nodiratime, "
					 "relatime, their opposites, sync, "
					 "dirsync, lazytime, discard, "
					 "context=...)",
					 i + 1);
	return 0;
}

/* A guest's file system is for one guest. */
static int check_one(const Csi__V1__VolumeCapability *cap, const char *layout,
		     struct error *err)
{
	if (strcmp(layout, "direct") != 0 ||
	    (capability_mode(cap) != MODE(SINGLE_NODE_MULTI_WRITER) &&
	     capability_mode(cap) != MODE(MULTI_NODE_READER_ONLY)))
		return 0;
	return error_set(err, EINVAL,
			 "access mode %d: a volume with kataDirect is for one "
			 "pod; ask for SINGLE_NODE_WRITER or "
			 "SINGLE_NODE_SINGLE_WRITER (ReadWriteOncePod)",
			 capability_mode(cap));
}

static int check_layout(const Csi__V1__VolumeCapability *cap,
			const struct volume_spec *spec, struct error *err)
{
	const bool mount = cap->access_type_case == IS_MOUNT;

	if (mount == (spec->fs_type[0] != '\0'))
		return check_one(cap, spec->layout, err);
	return error_set(err, EINVAL,
			 mount ? "the volume is a block device (layout %s "
				 "without a file system), not a file system"
			       : "the volume is a file system (layout %s), not "
				 "a block device",
			 spec->layout);
}

int capability_check(const Csi__V1__VolumeCapability *cap,
		     const struct volume_spec *spec, struct error *err)
{
	int r = check_mode(capability_mode(cap), err);

	if (r == 0 && spec)
		r = check_layout(cap, spec, err);
	if (r < 0 || cap->access_type_case != IS_MOUNT)
		return r;
	return check_mount(cap->mount, spec ? spec->fs_type : NULL, err);
}

int capabilities_block(Csi__V1__VolumeCapability *const *caps, size_t n,
		       bool *ret, struct error *err)
{
	for (size_t i = 1; i < n; i++)
		if (caps[i]->access_type_case != caps[0]->access_type_case)
			return error_set(err, EINVAL,
					 "one volume cannot be a file system "
					 "and a block device");
	*ret = n > 0 && capability_is_block(caps[0]);
	return 0;
}

int capabilities_fs_type(Csi__V1__VolumeCapability *const *caps, size_t n,
			 char *ret, struct error *err)
{
	ret[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		const char *fs_type = caps[i]->access_type_case == IS_MOUNT
					      ? caps[i]->mount->fs_type
					      : "";

		if (!fs_type[0] || strcmp(ret, fs_type) == 0)
			continue;
		if (ret[0] || strlen(fs_type) >= FS_SIZE)
			return error_set(err, EINVAL,
					 "one volume has one file system, not "
					 "'%s' and '%.32s'",
					 ret, fs_type);
		(void)strcpy(ret, fs_type);
	}
	return 0;
}

bool capability_reads_only(const Csi__V1__VolumeCapability *cap)
{
	return capability_mode(cap) == MODE(SINGLE_NODE_READER_ONLY) ||
	       capability_is_shared(cap);
}

bool capability_is_shared(const Csi__V1__VolumeCapability *cap)
{
	return capability_mode(cap) == MODE(MULTI_NODE_READER_ONLY);
}

bool capability_group(const Csi__V1__VolumeCapability *cap, gid_t *ret)
{
	return cap->access_type_case == IS_MOUNT &&
	       !capability_reads_only(cap) &&
	       cap->mount->volume_mount_group[0] &&
	       capability_group_parse(cap->mount->volume_mount_group, ret,
				      NULL) == 0;
}

char *capability_mount_options(const Csi__V1__VolumeCapability *cap, bool own)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	bool first = true;

	if (!out)
		return NULL;
	for (size_t i = 0;
	     !capability_is_block(cap) && i < cap->mount->n_mount_flags; i++) {
		const char *flag = cap->mount->mount_flags[i];

		if (!is_option(flag, NULL) || (own && flag_find(flag)))
			continue;
		(void)fprintf(out, "%s%s", first ? "" : ",", flag);
		first = false;
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

uint64_t capability_mount_attributes(const Csi__V1__VolumeCapability *cap)
{
	uint64_t set = 0;

	for (size_t i = 0;
	     !capability_is_block(cap) && i < cap->mount->n_mount_flags; i++) {
		const uint64_t *flag = flag_find(cap->mount->mount_flags[i]);

		set |= flag ? *flag : 0;
	}
	if (capability_reads_only(cap))
		set |= MOUNT_ATTR_RDONLY;
	return set;
}

bool capability_equal(const Csi__V1__VolumeCapability *a,
		      const Csi__V1__VolumeCapability *b)
{
	if (a->access_type_case != b->access_type_case ||
	    capability_mode(a) != capability_mode(b))
		return false;
	if (a->access_type_case != IS_MOUNT)
		return true;
	if (strcmp(a->mount->fs_type, b->mount->fs_type) != 0 ||
	    strcmp(a->mount->volume_mount_group,
		   b->mount->volume_mount_group) != 0 ||
	    a->mount->n_mount_flags != b->mount->n_mount_flags)
		return false;
	for (size_t i = 0; i < a->mount->n_mount_flags; i++)
		if (strcmp(a->mount->mount_flags[i],
			   b->mount->mount_flags[i]) != 0)
			return false;
	return true;
}
