/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/union/images.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/process.h"

#define PATIENCE_MS 300000
#define STEP_MS     20

int image_unmount(const char *dir, const char *name, struct error *err)
{
	char path[PATH_MAX];
	int i, r = -EBUSY;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (i = 0; i < PATIENCE_MS && r == -EBUSY; i += STEP_MS) {
		r = umount2(path, UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
		if (r == -EBUSY)
			(void)usleep(STEP_MS * 1000);
	}
	return r < 0 ? error_set(err, -r, "unmount '%s': %s", path,
				 strerror(-r))
		     : 0;
}

int image_mount(const char *dir, const char *name, struct error *err)
{
	char path[PATH_MAX], image[PATH_MAX];
	const char *const argv[] = {"mount", "-o", "loop,noatime",
				    image,   path, NULL};

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	(void)snprintf(image, sizeof(image), "%s/%s.img", dir, name);
	return process_must(argv, PATIENCE_MS, err);
}
