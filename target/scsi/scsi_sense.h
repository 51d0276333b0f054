/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sense data, SPC-4 4.5: built from what happened, in the fixed or the
 * descriptor format.
 */
#ifndef TARGET_SCSI_SENSE_H
#define TARGET_SCSI_SENSE_H

#include <stdbool.h>
#include <stdint.h>

#include "target/scsi/scsi_defs.h"

struct scsi_sense {
	enum scsi_sense_key key;
	enum scsi_asc asc;
	bool has_information;
	uint64_t information; /* an LBA, or the command's own */
	bool has_specific;
	uint8_t specific[3]; /* sense key specific; SPC-4 4.5.2.4 */
};

#define SCSI_NO_BIT (-1)

/*
 * A field pointer, SPC-4 4.5.2.4.2.
 *
 * @in_cdb  else in the parameter list
 * @byte    where the field begins
 * @bit     its most significant bit; SCSI_NO_BIT: a whole byte or more
 */
void scsi_sense_point(struct scsi_sense *sense, bool in_cdb, unsigned byte,
		      int bit);

/*
 * @ret  at least SCSI_SENSE_MAX bytes
 *
 * Returns the length. An information field that does not fit the fixed
 * format is left out there.
 */
unsigned scsi_sense_encode(const struct scsi_sense *sense, bool descriptors,
			   uint8_t *ret);

#endif
