/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's iSCSI sessions and their disks (scsi_transport_iscsi, sysfs).
 * @sys is where sysfs is mounted; tests give a tree of their own.
 */
#ifndef INITIATOR_ISCSI_SYSFS_H
#define INITIATOR_ISCSI_SYSFS_H

#include <stdbool.h>

#include "base/error.h"

#define ISCSI_SYSFS "/sys"

#define ISCSI_IFACE_MAX 64  /* bytes with NUL; of open-iscsi */
#define ISCSI_NAME_SIZE 224 /* bytes with NUL; RFC 7143 4.2.7.1 */

struct iscsi_session {
	unsigned id; /* as `iscsiadm -m session -r ID` takes it */
	char target[ISCSI_NAME_SIZE];
	char state[32]; /* "LOGGED_IN", "FAILED", "FREE" */
};

/* Can the kernel have sessions over TCP: is the module there? */
bool iscsi_sysfs_usable(const char *sys);

/* Find the session that was made by open-iscsi's interface @iface. -ENOENT. */
int iscsi_session_find(const char *sys, const char *iface,
		       struct iscsi_session *ret);

struct iscsi_disk {
	char name[32];   /* "sda" */
	char state[32];  /* "running", "blocked", "transport-offline" */
	char serial[64]; /* VPD page 80h, without spaces around; "": none */
};

/* Find the disk at @lun of a session. -ENOENT: none, or not yet. */
int iscsi_disk_find(const char *sys, unsigned session, unsigned lun,
		    struct iscsi_disk *ret);

#endif
