/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_LIMITS_H
#define UNION_LIMITS_H

/*
 * What whoever started us may do is no measure for a file system: as many
 * open files, and files as large, as this process can be allowed. The kernel
 * keeps callers to their own limits.
 */
void limits_raise(void);

#endif
