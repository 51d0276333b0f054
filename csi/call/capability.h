/* SPDX-License-Identifier: Apache-2.0 */
/* Uses of a volume: access types and modes, file systems, flags. */
#ifndef CSI_CAPABILITY_H
#define CSI_CAPABILITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "proto/csi.pb-c.h"
#include "volume/record/volume_record.h"

#define capability_mode(cap) ((cap)->access_mode->mode)

/*
 * @cap   as csi_check() let it pass
 * @spec  of the volume; NULL: any
 *
 * 0, or -EINVAL with what cannot be done and what can.
 */
int capability_check(const Csi__V1__VolumeCapability *cap,
		     const struct volume_spec *spec, struct error *err);

/* Tell whether all of them want a block device. -EINVAL: they differ. */
int capabilities_block(Csi__V1__VolumeCapability *const *caps, size_t n,
		       bool *ret, struct error *err);

/*
 * The file system that all of them ask for, or "" when none does.
 * @ret: 16 bytes. -EINVAL: they differ.
 */
int capabilities_fs_type(Csi__V1__VolumeCapability *const *caps, size_t n,
			 char *ret, struct error *err);

/* Reading only, whatever a publication says. */
bool capability_reads_only(const Csi__V1__VolumeCapability *cap);
/* On several nodes at the same time. */
bool capability_is_shared(const Csi__V1__VolumeCapability *cap);

/* The number of a group, decimal, below 2^32 - 1; -EINVAL. */
int capability_group_parse(const char *text, gid_t *ret, struct error *err);

/* The group that its files shall belong to, if any (node_group.h). */
bool capability_group(const Csi__V1__VolumeCapability *cap, gid_t *ret);

#define capability_is_block(cap)    \
	((cap)->access_type_case == \
	 CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK)

/*
 * Return the mount flags that concern the file systems, for volume_attach():
 * all flags that volume/record/mount_options.h knows. "" for none. Returned
 * owned; NULL: no memory.
 *
 * @own  without flags that each publication can have for itself
 */
char *capability_mount_options(const Csi__V1__VolumeCapability *cap, bool own);

/* The attributes of a mount (MOUNT_ATTR_*, mount_setattr(2)) for its flags. */
uint64_t capability_mount_attributes(const Csi__V1__VolumeCapability *cap);

/* The same access type, file system, flags in their order, and mode. */
bool capability_equal(const Csi__V1__VolumeCapability *a,
		      const Csi__V1__VolumeCapability *b);

#endif
