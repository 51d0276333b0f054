/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_LIMITS_H
#define UNION_LIMITS_H

/*
 * Raise the limits of this process to the most it can be allowed: open files,
 * and the size of files. The limits of the process that started the server are
 * no measure for a file system. The kernel keeps callers to their own limits.
 */
void limits_raise(void);

#endif
