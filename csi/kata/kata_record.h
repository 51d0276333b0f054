/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes that Kata Containers gives to a virtual machine as a device ("direct
 * block device assignment" in its documentation). The runtime finds such a
 * volume by a record of ours. The record's directory is named after the path
 * where the container expects the volume:
 *
 *	RUN/kata-containers/shared/direct-volumes/BASE64URL(path)/mountInfo.json
 *
 * The base64 has padding; the directory has mode 0700, the file 0600. The
 * runtime puts a file beside the record that has the sandbox's id as its name.
 */
#ifndef CSI_KATA_RECORD_H
#define CSI_KATA_RECORD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define KATA_RUN_DIR_DEFAULT "/run"
#define KATA_PATH_MAX        189 /* bytes; in base64 a name of 252, NAME_MAX */
#define KATA_SANDBOX_SIZE    128 /* bytes with NUL */

struct kata_record {
	const char *device;
	const char *fs_type;
	const char *const *options; /* of the mount in the guest */
	size_t n_options;
	bool has_group; /* fsGroup, for the agent in the guest */
	gid_t group;
};

/*
 * The directory for @path, PATH_MAX bytes. -ENAMETOOLONG: the path has more
 * than KATA_PATH_MAX bytes.
 */
int kata_record_dir(const char *run_dir, const char *path, char *ret,
		    struct error *err);

/* Atomic; there already: replaced. */
int kata_record_write(const char *run_dir, const char *path,
		      const struct kata_record *record, struct error *err);
bool kata_record_exists(const char *run_dir, const char *path);
/* Remove the record, with the runtime's files beside it. Not there: 0. */
int kata_record_remove(const char *run_dir, const char *path,
		       struct error *err);

/*
 * The sandbox that has the volume. @ret: KATA_SANDBOX_SIZE bytes. -ENOENT: no
 * guest has it yet.
 */
int kata_record_sandbox(const char *run_dir, const char *path, char *ret,
			struct error *err);

#endif
