/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of SPC-4, SBC-3 and SAM-5. */
#ifndef TARGET_SCSI_DEFS_H
#define TARGET_SCSI_DEFS_H

#include <stdint.h>

enum scsi_opcode { /* SPC-4 table D.1, SBC-3 table 32 */
		   SCSI_TEST_UNIT_READY = 0x00,
		   SCSI_REQUEST_SENSE = 0x03,
		   SCSI_READ_6 = 0x08,
		   SCSI_WRITE_6 = 0x0a,
		   SCSI_INQUIRY = 0x12,
		   SCSI_MODE_SELECT_6 = 0x15,
		   SCSI_RESERVE_6 = 0x16,
		   SCSI_RELEASE_6 = 0x17,
		   SCSI_MODE_SENSE_6 = 0x1a,
		   SCSI_START_STOP_UNIT = 0x1b,
		   SCSI_PREVENT_ALLOW = 0x1e,
		   SCSI_READ_CAPACITY_10 = 0x25,
		   SCSI_READ_10 = 0x28,
		   SCSI_WRITE_10 = 0x2a,
		   SCSI_WRITE_VERIFY_10 = 0x2e,
		   SCSI_VERIFY_10 = 0x2f,
		   SCSI_PRE_FETCH_10 = 0x34,
		   SCSI_SYNCHRONIZE_CACHE_10 = 0x35,
		   SCSI_WRITE_SAME_10 = 0x41,
		   SCSI_UNMAP = 0x42,
		   SCSI_MODE_SELECT_10 = 0x55,
		   SCSI_RESERVE_10 = 0x56,
		   SCSI_RELEASE_10 = 0x57,
		   SCSI_MODE_SENSE_10 = 0x5a,
		   SCSI_PERSISTENT_RESERVE_IN = 0x5e,
		   SCSI_PERSISTENT_RESERVE_OUT = 0x5f,
		   SCSI_EXTENDED_COPY = 0x83,
		   SCSI_RECEIVE_COPY_RESULTS = 0x84,
		   SCSI_READ_16 = 0x88,
		   SCSI_COMPARE_AND_WRITE = 0x89,
		   SCSI_WRITE_16 = 0x8a,
		   SCSI_ORWRITE_16 = 0x8b,
		   SCSI_WRITE_VERIFY_16 = 0x8e,
		   SCSI_VERIFY_16 = 0x8f,
		   SCSI_PRE_FETCH_16 = 0x90,
		   SCSI_SYNCHRONIZE_CACHE_16 = 0x91,
		   SCSI_WRITE_SAME_16 = 0x93,
		   SCSI_WRITE_ATOMIC_16 = 0x9c, /* SBC-4 */
		   SCSI_SERVICE_ACTION_IN_16 = 0x9e,
		   SCSI_REPORT_LUNS = 0xa0,
		   SCSI_MAINTENANCE_IN = 0xa3,
		   SCSI_READ_12 = 0xa8,
		   SCSI_WRITE_12 = 0xaa,
		   SCSI_WRITE_VERIFY_12 = 0xae,
		   SCSI_VERIFY_12 = 0xaf,
};

enum scsi_sense_key { /* SPC-4 table 43 */
		      SCSI_NO_SENSE = 0x0,
		      SCSI_NOT_READY = 0x2,
		      SCSI_MEDIUM_ERROR = 0x3,
		      SCSI_HARDWARE_ERROR = 0x4,
		      SCSI_ILLEGAL_REQUEST = 0x5,
		      SCSI_UNIT_ATTENTION = 0x6,
		      SCSI_DATA_PROTECT = 0x7,
		      SCSI_COPY_ABORTED = 0xa,
		      SCSI_ABORTED_COMMAND = 0xb,
		      SCSI_MISCOMPARE = 0xe,
};

/* Additional sense code and qualifier, SPC-4 table D.2. */
enum scsi_asc {
	SCSI_ASC_NONE = 0x0000,
	SCSI_ASC_NOT_READY = 0x0400, /* cause not reportable */
	SCSI_ASC_WRITE_ERROR = 0x0c00,
	SCSI_ASC_COPY_TARGET = 0x0d02, /* copy target device unreachable */
	SCSI_ASC_DATA_SIZE = 0x0e03,   /* invalid field in information unit */
	SCSI_ASC_READ_ERROR = 0x1100,  /* unrecovered */
	SCSI_ASC_LIST_LENGTH = 0x1a00, /* parameter list length error */
	SCSI_ASC_MISCOMPARE = 0x1d00,  /* during verify operation */
	SCSI_ASC_INVALID_OPCODE = 0x2000,
	SCSI_ASC_LBA_RANGE = 0x2100,     /* out of range */
	SCSI_ASC_INVALID_CDB = 0x2400,   /* field */
	SCSI_ASC_NO_UNIT = 0x2500,       /* logical unit not supported */
	SCSI_ASC_INVALID_LIST = 0x2600,  /* field in parameter list */
	SCSI_ASC_LIST_VALUE = 0x2602,    /* parameter value invalid */
	SCSI_ASC_BAD_RELEASE = 0x2604,   /* of persistent reservation */
	SCSI_ASC_MANY_TARGETS = 0x2606,  /* too many target descriptors */
	SCSI_ASC_TARGET_TYPE = 0x2607,   /* unsupported target descriptor */
	SCSI_ASC_MANY_SEGMENTS = 0x2608, /* too many segment descriptors */
	SCSI_ASC_SEGMENT_TYPE = 0x2609,  /* unsupported segment descriptor */
	SCSI_ASC_INLINE_DATA = 0x260b,   /* length exceeded */
	SCSI_ASC_COPY_SEGMENT = 0x260c,  /* invalid operation for ... */
	SCSI_ASC_WRITE_PROTECTED = 0x2700,
	SCSI_ASC_SOFTWARE_PROTECTED = 0x2702,
	SCSI_ASC_SPACE = 0x2707,          /* allocation failed write protect */
	SCSI_ASC_MEDIUM_CHANGED = 0x2800, /* not ready to ready change */
	SCSI_ASC_POWER_ON = 0x2900,       /* the one that initiators retry at */
	SCSI_ASC_RESET = 0x2903,          /* bus device reset function */
	SCSI_ASC_NEXUS_LOSS = 0x2907,
	SCSI_ASC_MODE_CHANGED = 0x2a01,
	SCSI_ASC_PREEMPTED = 0x2a03,    /* reservations */
	SCSI_ASC_RELEASED = 0x2a04,     /* reservations */
	SCSI_ASC_UNREGISTERED = 0x2a05, /* registrations preempted */
	SCSI_ASC_CAPACITY = 0x2a09,     /* data has changed */
	SCSI_ASC_SEQUENCE = 0x2c00,     /* command sequence error */
	SCSI_ASC_CLEARED = 0x2f00,      /* by another initiator */
	SCSI_ASC_LOW_SPACE = 0x3807,    /* thin provisioning threshold */
	SCSI_ASC_SAVING = 0x3900,       /* parameters not supported */
	SCSI_ASC_NO_MEDIUM = 0x3a00,
	SCSI_ASC_LUNS_CHANGED = 0x3f0e,    /* reported LUNs data */
	SCSI_ASC_INTERNAL = 0x4400,        /* target failure */
	SCSI_ASC_PR_LOST = 0x4401,         /* reservation information */
	SCSI_ASC_PREVENTED = 0x5302,       /* medium removal */
	SCSI_ASC_NO_RESOURCES = 0x5503,    /* insufficient */
	SCSI_ASC_NO_REGISTRATION = 0x5504, /* insufficient resources */
};

#define SCSI_DISK 0x00 /* peripheral device type, SPC-4 table 139 */

#endif
