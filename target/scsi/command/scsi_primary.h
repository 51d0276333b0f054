/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that every kind of device has, and the limits that they tell. */
#ifndef TARGET_SCSI_PRIMARY_H
#define TARGET_SCSI_PRIMARY_H

#include "target/scsi/scsi_internal.h"

/* There is one port, in one group. */
#define SCSI_PORT       1
#define SCSI_PORT_GROUP 1

/* Values of VPD page B0; bytes but where said otherwise. Ours. */
#define SCSI_TRANSFER_BEST (UINT32_C(1) << 20)
#define SCSI_COMPARE_MAX   255                 /* blocks of COMPARE AND WRITE */
#define SCSI_UNMAP_MAX     (UINT32_C(1) << 29) /* of all ranges together */
#define SCSI_UNMAP_RANGES  256u
#define SCSI_UNMAP_GRAIN   (UINT32_C(1) << 20) /* best in multiples of it */
#define SCSI_SAME_MAX      65535u              /* blocks of one WRITE SAME */
#define SCSI_ATOMIC_MAX    (UINT32_C(1) << 20) /* one WRITE ATOMIC */

/* Page B2: how far around a threshold it may be told; tenths of a percent. */
#define SCSI_THRESHOLD_RANGE 10

void scsi_inquiry_run(struct scsi_task *task);
void scsi_report_luns_parse(struct scsi_task *task);
void scsi_report_luns_run(struct scsi_task *task);
void scsi_capacity_10_parse(struct scsi_task *task);
void scsi_capacity_10_run(struct scsi_task *task);
void scsi_capacity_16_run(struct scsi_task *task);

/* An identifier of 8 bytes, NAA format. */
void scsi_unit_naa(const struct scsi_unit *unit, uint8_t ret[8]);

#endif
