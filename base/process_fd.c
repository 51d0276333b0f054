/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_fd.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool process_fd_is_device(int fds, const char *name, dev_t device)
{
	static const char place[] = "/dev/";
	char target[sizeof(place)];
	struct stat st;

	return readlinkat(fds, name, target, strlen(place)) ==
		       (ssize_t)strlen(place) &&
	       strncmp(target, place, strlen(place)) == 0 &&
	       fstatat(fds, name, &st, 0) == 0 && S_ISBLK(st.st_mode) &&
	       st.st_rdev == device;
}
