/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node_left.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/union_process.h"

/* Mount namespaces seen, by their inode numbers. */
struct seen {
	ino_t *items; /* owned */
	size_t count;
};

/* Was it not yet? Without memory it is looked at again. */
static bool seen_add(struct seen *seen, ino_t ns)
{
	ino_t *items;

	for (size_t i = 0; i < seen->count; i++)
		if (seen->items[i] == ns)
			return false;
	items = reallocarray(seen->items, seen->count + 1, sizeof(*items));
	if (items) {
		seen->items = items;
		items[seen->count++] = ns;
	}
	return true;
}

/* "36 35 98:0 /root /target options - type source options" */
int node_left_line(const char *line, const char *volume, dev_t alive)
{
	static const char type[] = " - " UNION_FS_TYPE " ";
	const char *at = strstr(line, type);
	size_t length = strlen(volume);
	unsigned major, minor;

	if (!at || strncmp(at + strlen(type), volume, length) != 0 ||
	    at[strlen(type) + length] != ' ')
		return 0;
	if (sscanf(line, "%*u %*u %u:%u ", &major, &minor) != 2)
		return 0;
	return makedev(major, minor) != alive;
}

static bool namespace_has(int process, const char *volume, dev_t alive)
{
	int fd = openat(process, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
	auto_free char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (!in) {
		fd_close(fd);
		return false;
	}
	while (!found && getline(&line, &size, in) > 0)
		found = node_left_line(line, volume, alive);
	(void)fclose(in);
	return found;
}

static void describe(int process, const char *pid, char *ret, size_t size)
{
	auto_free char *name = NULL;
	size_t length;

	if (file_read(process, "comm", 64, &name, &length, NULL) == 0)
		name[strcspn(name, "\n")] = '\0';
	(void)snprintf(ret, size, "%s (%.10s)", name ? name : "a process", pid);
}

int node_left_find(const char *volume, dev_t alive, char *ret, size_t size)
{
	struct seen seen = {0};
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	int found = 0;

	while (dir && !found && (entry = readdir(dir))) {
		auto_close int process = -1;
		struct stat ns;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		process = openat(dirfd(dir), entry->d_name,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process < 0 || fstatat(process, "ns/mnt", &ns, 0) < 0 ||
		    !seen_add(&seen, ns.st_ino) ||
		    !namespace_has(process, volume, alive))
			continue;
		describe(process, entry->d_name, ret, size);
		found = 1;
	}
	if (dir)
		(void)closedir(dir);
	free(seen.items);
	return found;
}
