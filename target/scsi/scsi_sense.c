/* SPDX-License-Identifier: Apache-2.0 */
#include "target/scsi/scsi_sense.h"

#include <string.h>

#include "base/wire/wire.h"
#include "target/scsi/scsi.h"

#define FIXED_LENGTH 18u /* bytes; SPC-4 4.5.3 */

#define INFORMATION_DESCRIPTOR 0x00 /* SPC-4 4.5.2.2 */
#define SPECIFIC_DESCRIPTOR    0x02 /* SPC-4 4.5.2.4 */
static_assert(8 + 12 + 8 <= SCSI_SENSE_MAX, "all descriptors fit");

void scsi_sense_point(struct scsi_sense *sense, bool in_cdb, unsigned byte,
		      int bit)
{
	sense->has_specific = true;
	sense->specific[0] = (uint8_t)(0x80 | (in_cdb ? 0x40 : 0));
	if (bit != SCSI_NO_BIT)
		sense->specific[0] |= (uint8_t)(0x08 | bit);
	sense->specific[1] = (uint8_t)(byte >> 8);
	sense->specific[2] = (uint8_t)byte;
}

static unsigned fixed_encode(const struct scsi_sense *sense, uint8_t *ret)
{
	be32 information;

	memset(ret, 0, FIXED_LENGTH);
	ret[0] = 0x70; /* current */
	ret[2] = (uint8_t)sense->key;
	ret[7] = FIXED_LENGTH - 8;
	ret[12] = (uint8_t)(sense->asc >> 8);
	ret[13] = (uint8_t)sense->asc;
	if (sense->has_information && sense->information <= UINT32_MAX) {
		ret[0] |= 0x80; /* VALID */
		information = be32_make((uint32_t)sense->information);
		memcpy(ret + 3, &information, sizeof(information));
	}
	if (sense->has_specific)
		memcpy(ret + 15, sense->specific, sizeof(sense->specific));
	return FIXED_LENGTH;
}

static unsigned descriptor_encode(const struct scsi_sense *sense, uint8_t *ret)
{
	unsigned length = 8;
	be64 information;

	memset(ret, 0, 8 + 12 + 8);
	ret[0] = 0x72; /* current */
	ret[1] = (uint8_t)sense->key;
	ret[2] = (uint8_t)(sense->asc >> 8);
	ret[3] = (uint8_t)sense->asc;
	if (sense->has_information) {
		ret[length] = INFORMATION_DESCRIPTOR;
		ret[length + 1] = 10;
		ret[length + 2] = 0x80; /* VALID */
		information = be64_make(sense->information);
		memcpy(ret + length + 4, &information, sizeof(information));
		length += 12;
	}
	if (sense->has_specific) {
		ret[length] = SPECIFIC_DESCRIPTOR;
		ret[length + 1] = 6;
		memcpy(ret + length + 4, sense->specific,
		       sizeof(sense->specific));
		length += 8;
	}
	ret[7] = (uint8_t)(length - 8);
	return length;
}

unsigned scsi_sense_encode(const struct scsi_sense *sense, bool descriptors,
			   uint8_t *ret)
{
	return descriptors ? descriptor_encode(sense, ret)
			   : fixed_encode(sense, ret);
}
