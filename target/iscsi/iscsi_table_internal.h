/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of iscsi_table.h. Nobody else includes it. */
#ifndef TARGET_ISCSI_TABLE_INTERNAL_H
#define TARGET_ISCSI_TABLE_INTERNAL_H

#include <pthread.h>

#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_table.h"

struct iscsi_target {
	struct iscsi_table *table;
	struct iscsi_target *next, **link;
	unsigned refs; /* of rows and sessions, under the table's lock */
	unsigned rows;
	size_t base_length; /* of @name, without the epoch */
	char name[ISCSI_NAME_MAX + 1];
	char tag[TARGET_ISCSI_TAG_MAX + 1]; /* "": none */
	struct scsi_target *scsi;
	struct chap_secrets secrets;
};

struct iscsi_row {
	struct iscsi_row *next;
	struct iscsi_target *target;
	unsigned lun;
	struct scsi_unit *unit;
	struct scsi_unit_options options; /* without its pointers */
	char export[EXPORT_FULL_NAME_MAX];
	char name[EXPORT_NAME_MAX + 1];
};

struct iscsi_table {
	/* Guards all of it; the export table's is taken inside. */
	pthread_mutex_t lock;
	struct export_table *exports;
	struct iscsi_target *targets;
	struct iscsi_row *rows;
	struct iscsi_ready *coming; /* prepared; their owners' */
	struct iscsi_login_user *logins;
	unsigned n_logins;
	uint16_t tsih; /* the last one given */
	/* Secrets of discovery; without a user: none. */
	struct chap_secrets discovery;
};

/* A target that has rows; the lock is held. NULL: none. */
struct iscsi_target *iscsi_target_by_name(struct iscsi_table *table,
					  const char *name);

/* iscsi_target_revoke(); the lock is held. */
void iscsi_target_revoke_locked(struct iscsi_target *target);

#endif
