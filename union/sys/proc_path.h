/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_PROC_PATH_H
#define UNION_PROC_PATH_H

#include <limits.h>
#include <stdio.h>

#define PROC_PATH_MAX (sizeof("/proc/self/fd/2147483647/") + NAME_MAX)

/*
 * Make a path for calls that take no descriptor, or no O_PATH one. The path is
 * that of @fd, or of @name (unless "") in the directory @fd. Returns @buf
 * (PROC_PATH_MAX bytes).
 */
static inline const char *proc_path(char *buf, int fd, const char *name)
{
	(void)snprintf(buf, PROC_PATH_MAX, "/proc/self/fd/%d%s%s", fd,
		       *name ? "/" : "", name); /* cannot be too long */
	return buf;
}

#endif
