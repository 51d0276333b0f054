/* SPDX-License-Identifier: Apache-2.0 */
/* The volume of the checks, and whatever else they made. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/csi/kit.h"

static enum level level;

enum level level_get(void)
{
	return level;
}

void level_is(enum level now)
{
	level = now;
}

static void make_folders(void)
{
	for (int i = 1; i <= KIT_HOSTS; i++) {
		const char *const paths[] = {"$dir/host$host/staging",
					     "$dir/host$host/pods", "$staging"};
		char text[8];

		(void)snprintf(text, sizeof(text), "%d", i);
		kit_let("host", text);
		for (size_t j = 0; j < array_size(paths); j++)
			kit_make_folder(kit_text(paths[j]));
	}
}

static void up(void)
{
	switch (level) {
	case NONE:
		ok(1, "Controller/CreateVolume");
		kit_let("id", answer("volume.volume_id"));
		make_folders();
		break;
	case CREATED: ok(1, "Controller/ControllerPublishVolume"); break;
	case ATTACHED: ok(1, "Node/NodeStageVolume"); break;
	case STAGED:
	case PUBLISHED: ok(1, "Node/NodePublishVolume"); break;
	}
	level++;
}

static void down(void)
{
	switch (level) {
	case PUBLISHED: ok(1, "Node/NodeUnpublishVolume"); break;
	case STAGED: ok(1, "Node/NodeUnstageVolume"); break;
	case ATTACHED: ok(1, "Controller/ControllerUnpublishVolume"); break;
	case CREATED:
	case NONE: ok(1, "Controller/DeleteVolume"); break;
	}
	level--;
}

void level_set(enum level want)
{
	while (level < want)
		up();
	while (level > want)
		down();
}

/* ---- remains ---- */

static void unpublish_all(int host)
{
	DIR *dir = opendir(kit_text("$dir/host$host/pods"));
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		char field[512];

		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(field, sizeof(field),
			       "target_path=$dir/host$host/pods/%.255s",
			       e->d_name);
		(void)call(host, "Node/NodeUnpublishVolume", field);
	}
	if (dir)
		(void)closedir(dir);
}

static bool scrap_one(const char *name, const char *id)
{
	kit_let("name", name);
	kit_let("id", id);
	for (int host = 1; host <= KIT_HOSTS; host++) {
		char text[8];

		(void)snprintf(text, sizeof(text), "%d", host);
		kit_let("host", text);
		unpublish_all(host);
		(void)call(host, "Node/NodeUnstageVolume");
	}
	(void)call(1, "Controller/ControllerUnpublishVolume", "!node_id");
	if (call(1, "Controller/DeleteVolume") == RPC_OK)
		return true;
	(void)printf("# volume '%s' stays: %s\n", name, answer_text());
	return false;
}

/* All members of the group that the snapshot at @path is one of. */
static bool scrap_group(const char *group)
{
	const char *words[32] = {"GroupController/DeleteVolumeGroupSnapshot",
				 "!snapshot_ids"};
	char texts[16][300], group_text[300];
	size_t n = 2;

	for (size_t i = 0; i < array_size(texts); i++) {
		char path[64], id[256];

		(void)snprintf(path, sizeof(path),
			       "entries.%zu.snapshot.group_snapshot_id", i);
		if (strcmp(answer(path), group) != 0)
			continue;
		(void)snprintf(path, sizeof(path),
			       "entries.%zu.snapshot.snapshot_id", i);
		(void)snprintf(id, sizeof(id), "%s", answer(path));
		(void)snprintf(texts[i], sizeof(texts[i]), "snapshot_ids=%s",
			       id);
		words[n++] = texts[i];
	}
	(void)snprintf(group_text, sizeof(group_text), "group_snapshot_id=%s",
		       group);
	words[n++] = group_text;
	return kit_call(1, words) == RPC_OK;
}

bool scrap_snapshots(void)
{
	for (int i = 0; i < 64; i++) {
		char id[256], group[256];

		if (call(1, "Controller/ListSnapshots") != RPC_OK)
			return false;
		(void)snprintf(id, sizeof(id), "%s",
			       answer("entries.0.snapshot.snapshot_id"));
		(void)snprintf(group, sizeof(group), "%s",
			       answer("entries.0.snapshot.group_snapshot_id"));
		if (!id[0])
			return true;
		kit_let("snapshot", id);
		if (group[0] ? !scrap_group(group)
			     : call(1, "Controller/DeleteSnapshot") != RPC_OK) {
			(void)printf("# snapshot '%s' stays: %s\n", id,
				     answer_text());
			return false;
		}
	}
	return false;
}

bool scrap(bool all)
{
	char name[KIT_TEXT_MAX], id[KIT_TEXT_MAX], ids[64][256];
	size_t n = 0;
	bool gone = scrap_snapshots();

	(void)snprintf(name, sizeof(name), "%s", value_of("name"));
	(void)snprintf(id, sizeof(id), "%s", value_of("id"));
	if (call(1, "Controller/ListVolumes") != RPC_OK)
		return false;
	while (n < array_size(ids)) {
		char path[64];

		(void)snprintf(path, sizeof(path),
			       "entries.%zu.volume.volume_id", n);
		(void)snprintf(ids[n], sizeof(ids[n]), "%s", answer(path));
		if (!ids[n][0])
			break;
		n++;
	}
	for (size_t i = 0; i < n; i++) {
		char other[256];

		if (!all && strcmp(ids[i], id) == 0)
			continue;
		(void)snprintf(other, sizeof(other), "%.*s",
			       (int)strcspn(ids[i], "@"), ids[i]);
		gone = scrap_one(other, ids[i]) && gone;
	}
	kit_let("name", name);
	kit_let("id", id);
	if (all)
		level = NONE;
	return gone;
}

/* ---- the view at a path ---- */

void kit_sleep_ms(unsigned ms)
{
	(void)usleep(ms * 1000);
}

bool kit_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

void kit_make_folder(const char *path)
{
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		kit_fail("mkdir '%s': %s", path, strerror(errno));
}

static int remove_entry(const char *path, const struct stat *st, int type,
			struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

void kit_remove_tree(const char *path)
{
	(void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

unsigned kit_group_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : st.st_gid;
}

const char *target_of(int host)
{
	char text[8];

	(void)snprintf(text, sizeof(text), "%d", host);
	kit_let("host", text);
	return value_of("target");
}

const char *staging_of(int host)
{
	(void)target_of(host);
	return value_of("staging");
}

/* Not by its device: of a bind mount that is its source's. */
unsigned mounts_at(const char *path)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[KIT_TEXT_MAX], point[KIT_TEXT_MAX];
	unsigned n = 0;

	while (f && fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %*s %*s %*s %8000s", point) == 1 &&
		     strcmp(point, path) == 0;
	if (f)
		(void)fclose(f);
	return n;
}

bool is_mounted(const char *path)
{
	return mounts_at(path) > 0;
}

static bool is_block(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode);
}

static int open_content(const char *path, int flags)
{
	char file[KIT_TEXT_MAX];
	int fd;

	(void)snprintf(file, sizeof(file), is_block(path) ? "%s" : "%s/content",
		       path);
	fd = open(file, flags | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

int content_write(const char *path, const char *text)
{
	char sector[512] = "";
	int fd = open_content(path, O_WRONLY | (is_block(path) ? 0 : O_CREAT));
	int r = 0;

	if (fd < 0)
		return fd;
	(void)snprintf(sector, sizeof(sector), "%s", text);
	if (pwrite(fd, sector, sizeof(sector), 0) != sizeof(sector) ||
	    fsync(fd) < 0)
		r = -errno;
	(void)close(fd);
	return r;
}

int content_fill(const char *path, unsigned mib)
{
	static char block[KIT_MIB];
	int fd = open_content(path, O_WRONLY | (is_block(path) ? 0 : O_CREAT));
	int r = 0;

	if (fd < 0)
		return fd;
	memset(block, 'x', sizeof(block));
	for (unsigned i = 0; r == 0 && i < mib; i++)
		if (pwrite(fd, block, sizeof(block), (off_t)i * KIT_MIB) !=
		    (ssize_t)sizeof(block))
			r = -errno;
	if (fsync(fd) < 0)
		r = -errno;
	(void)close(fd);
	return r;
}

bool content_is(const char *path, const char *text)
{
	char sector[512] = "";
	int fd = open_content(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = pread(fd, sector, sizeof(sector) - 1, 0);
	(void)close(fd);
	return n > 0 && strcmp(sector, text) == 0;
}

uint64_t content_size(const char *path)
{
	struct statvfs vfs;
	uint64_t size = 0;
	int fd;

	if (!is_block(path))
		return statvfs(path, &vfs) < 0 ? 0
					       : vfs.f_blocks * vfs.f_frsize;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0)
		size = 0;
	if (fd >= 0)
		(void)close(fd);
	return size;
}
