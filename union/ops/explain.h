/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where something is and where new names go, for people and `trib union
 * explain`. Shown as extended attributes that no listing has (docs/union.md):
 * callers ask for them by name.
 */
#ifndef UNION_EXPLAIN_H
#define UNION_EXPLAIN_H

#include <sys/types.h>

#include "union/view/unionfs.h"

#define EXPLAIN_PREFIX "user.tributary."

/* The longest NAME; that of an attribute has XATTR_NAME_MAX bytes at most. */
#define EXPLAIN_NAME_MAX 232

/*
 * Get the value of the attribute @name of @node.
 *
 *	stats, status   of the root: of the whole union, JSON
 *	control         of the root: the control socket
 *	explain         of a directory: its copies, and for each branch whether
 *	                and why the next file in it goes there, JSON
 *	explain.NAME    of a directory: every copy of NAME in it, JSON
 *	explain-long.HASH
 *	                the same of a name that does not fit there.
 *	                HASH is its fnv1a(), 16 hexadecimal digits
 *	basepath        the branch it is on
 *	relpath         its path there
 *	fullpath        both together
 *	allpaths        the paths of all copies, a NUL after each
 *
 * The last four also as user.mergerfs.*.
 *
 * @ret  owned; set on success only
 *
 * Its length in bytes; -ENODATA for another name, or a path that cannot be
 * told. That is the path of a removed file, or of a file whose directory the
 * branch's file system has forgotten.
 */
ssize_t explain_get(struct unionfs *fs, struct node *node, const char *name,
		    char **ret);

/* Is @name one of these attributes, of whatever node? Nobody may set them. */
bool explain_has(const char *name);

#endif
