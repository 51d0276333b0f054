/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/iscsi/iscsi_sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* SPC-4 7.8.15: page code and a length of two bytes, then the number. */
#define VPD_HEADER 4 /* bytes */
#define VPD_SERIAL 0x80

/* Read an attribute; returns its bytes, without the line's end; -errno. */
__attribute__((format(printf, 3, 4))) static int read_attribute(char *ret,
								size_t size,
								const char *fmt,
								...)
{
	char path[PATH_MAX];
	va_list args;
	ssize_t n;
	int length;

	va_start(args, fmt);
	length = vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	if (length >= (int)sizeof(path))
		return -ENAMETOOLONG;
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, ret, size - 1);
	if (n < 0)
		return -errno;
	if (n && ret[n - 1] == '\n')
		n--;
	ret[n] = '\0';
	return (int)n;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}
#define auto_dir auto_cleanup(close_dir)

/* Find the next entry whose name begins with @prefix. */
static const char *next_name(DIR *dir, const char *prefix)
{
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (!strncmp(e->d_name, prefix, strlen(prefix)) &&
		    e->d_name[0] != '.')
			return e->d_name;
	return NULL;
}

bool iscsi_sysfs_usable(const char *sys)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/class/iscsi_transport/tcp", sys);
	return !access(path, F_OK);
}

/* ---- sessions ---- */

static int read_session(const char *sys, const char *name,
			struct iscsi_session *ret)
{
	const char *class = "class/iscsi_session";
	int r;

	if (sscanf(name, "session%u", &ret->id) != 1)
		return -EINVAL;
	r = read_attribute(ret->target, sizeof(ret->target),
			   "%s/%s/%s/targetname", sys, class, name);
	if (r >= 0)
		r = read_attribute(ret->state, sizeof(ret->state),
				   "%s/%s/%s/state", sys, class, name);
	return r < 0 ? r : 0;
}

int iscsi_session_find(const char *sys, const char *iface,
		       struct iscsi_session *ret)
{
	char path[PATH_MAX], found[ISCSI_IFACE_MAX];
	auto_dir DIR *dir = NULL;
	const char *name;

	(void)snprintf(path, sizeof(path), "%s/class/iscsi_session", sys);
	dir = opendir(path);
	while ((name = next_name(dir, "session"))) {
		struct iscsi_session session;

		if (read_attribute(found, sizeof(found), "%s/%s/ifacename",
				   path, name) < 0 ||
		    strcmp(found, iface) != 0)
			continue;
		if (read_session(sys, name, &session) < 0)
			continue; /* it is just going */
		*ret = session;
		return 0;
	}
	return -ENOENT;
}

/* ---- disks ---- */

static void read_serial(const char *device, struct iscsi_disk *disk)
{
	char page[VPD_HEADER + sizeof(disk->serial)];
	int n = read_attribute(page, sizeof(page), "%s/vpd_pg80", device);
	size_t length, at = VPD_HEADER;

	disk->serial[0] = '\0';
	if (n < VPD_HEADER || (uint8_t)page[1] != VPD_SERIAL)
		return;
	length = (size_t)((uint8_t)page[2] << 8 | (uint8_t)page[3]);
	if (length > (size_t)n - VPD_HEADER)
		length = (size_t)n - VPD_HEADER;
	while (length && page[at] == ' ') {
		at++;
		length--;
	}
	while (length &&
	       (page[at + length - 1] == ' ' || page[at + length - 1] == '\0'))
		length--;
	(void)snprintf(disk->serial, sizeof(disk->serial), "%.*s", (int)length,
		       page + at);
}

/* @device: the folder of a SCSI device, ".../2:0:0:0" */
static int read_disk(const char *device, struct iscsi_disk *ret)
{
	char path[PATH_MAX];
	auto_dir DIR *dir = NULL;
	const char *name;
	int r;

	if (snprintf(path, sizeof(path), "%s/block", device) >=
	    (int)sizeof(path))
		return -ENAMETOOLONG;
	dir = opendir(path);
	name = next_name(dir, "");
	if (!name || strlen(name) >= sizeof(ret->name))
		return -ENOENT;
	(void)snprintf(ret->name, sizeof(ret->name), "%.31s", name);
	r = read_attribute(ret->state, sizeof(ret->state), "%s/state", device);
	read_serial(device, ret);
	return r < 0 ? r : 0;
}

/* Find a LUN in the folder of a SCSI target, "target2:0:0". */
static int find_lun(const char *target, unsigned lun, struct iscsi_disk *ret)
{
	auto_dir DIR *dir = opendir(target);
	const char *name;

	while ((name = next_name(dir, ""))) {
		char device[PATH_MAX];
		unsigned h, c, t, l;
		int end = 0;

		if (sscanf(name, "%u:%u:%u:%u%n", &h, &c, &t, &l, &end) != 4 ||
		    name[end] || l != lun)
			continue;
		if (snprintf(device, sizeof(device), "%s/%s", target, name) <
		    (int)sizeof(device))
			return read_disk(device, ret);
	}
	return -ENOENT;
}

int iscsi_disk_find(const char *sys, unsigned session, unsigned lun,
		    struct iscsi_disk *ret)
{
	char path[PATH_MAX - 256], target[PATH_MAX];
	struct iscsi_disk disk;
	auto_dir DIR *dir = NULL;
	const char *name;
	int r = -ENOENT;

	(void)snprintf(path, sizeof(path),
		       "%s/class/iscsi_session/session%u/device", sys, session);
	dir = opendir(path);
	while (r < 0 && (name = next_name(dir, "target"))) {
		(void)snprintf(target, sizeof(target), "%s/%s", path, name);
		r = find_lun(target, lun, &disk);
	}
	if (r == 0)
		*ret = disk;
	return r < 0 ? -ENOENT : 0;
}
