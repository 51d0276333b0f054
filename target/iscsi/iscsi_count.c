/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of a session, for the owner of an export (export_stats.h). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"
#include "target/scsi/scsi_defs.h"

/* SBC-3 5.1, SPC-4 6.1; bytes, where they are not what is sent. */
static enum export_op op_of(uint8_t opcode)
{
	switch (opcode) {
	case 0x08: /* READ (6), (10), (12), (16) */
	case 0x28:
	case 0xa8:
	case 0x88: return EXPORT_OP_READ;
	case 0x0a: /* WRITE (6), (10), (12), (16) */
	case 0x2a:
	case 0xaa:
	case 0x8a:
	case 0x2e: /* WRITE AND VERIFY (10), (12), (16) */
	case 0xae:
	case 0x8e:
	case 0x89:                         /* COMPARE AND WRITE */
	case 0x8b:                         /* ORWRITE (16) */
	case 0x9c: return EXPORT_OP_WRITE; /* WRITE ATOMIC (16) */
	case 0x35:                         /* SYNCHRONIZE CACHE (10), (16) */
	case 0x91: return EXPORT_OP_FLUSH;
	case 0x42: return EXPORT_OP_DISCARD; /* UNMAP */
	case 0x41:                           /* WRITE SAME (10), (16) */
	case 0x93: return EXPORT_OP_WRITE_ZEROES;
	default: return EXPORT_OP_OTHER;
	}
}

static uint64_t count_bytes_of(enum export_op op, const struct scsi_task *scsi)
{
	switch (op) {
	case EXPORT_OP_READ:
	case EXPORT_OP_WRITE: return scsi->transfer_length;
	case EXPORT_OP_WRITE_ZEROES: return scsi->length;
	default: return 0;
	}
}

void iscsi_io_count(const struct iscsi_io *io)
{
	const struct scsi_task *scsi = &io->scsi;
	struct iscsi_conn_lun *lun = scsi->path
					     ? io->conn->by_lun[scsi->path->lun]
					     : NULL;
	enum export_op op = op_of(scsi->cdb[0]);

	if (!lun)
		return; /* of no unit that the session sees */
	export_stats_note(&lun->use.stats, op, count_bytes_of(op, scsi),
			  clock_ns() - io->start_ns,
			  scsi->status != SCSI_GOOD &&
				  scsi->status != SCSI_CONDITION_MET);
}

void iscsi_conn_features(const struct iscsi_conn *conn,
			 char ret[static TARGET_FEATURES_MAX])
{
	const struct iscsi_login *login = &conn->session.login;
	const struct iscsi_params *params = &login->params;

	(void)snprintf(ret, TARGET_FEATURES_MAX, "iscsi%s%s%s%s%s",
		       login->secrets && login->secrets->user[0] ? " CHAP" : "",
		       params->header_digest ? " header-digest" : "",
		       params->data_digest ? " data-digest" : "",
		       params->immediate_data ? " immediate-data" : "",
		       params->initial_r2t ? "" : " unsolicited-data");
}
