/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/named.h"

#include <limits.h>
#include <unistd.h>

#include "union/sys/proc_path.h"

bool named_before(struct named *named, const struct handle *handle)
{
	bool known = false;
	unsigned i;

	pthread_mutex_lock(&named->lock);
	for (i = 0; i < NAMED_MAX && !known; i++)
		known = handle_equal(&named->handles[i], handle);
	if (!known)
		named->handles[named->count++ % NAMED_MAX] = *handle;
	pthread_mutex_unlock(&named->lock);
	return known;
}

const char *named_path(int fd, char *ret)
{
	char link[PROC_PATH_MAX];
	ssize_t n = readlink(proc_path(link, fd, ""), ret, PATH_MAX - 1);

	ret[n > 0 ? n : 0] = '\0';
	return ret;
}
