/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the whole server: an initiator, blocking, one PDU after the
 * other, one command at a time. What goes wrong fails the test.
 */
#ifndef TARGET_INITIATOR_KIT_H
#define TARGET_INITIATOR_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/iscsi/iscsi_proto.h"

#define INITIATOR_LARGE (UINT32_C(1) << 20)   /* bytes, of a command */
#define INITIATOR_PART  (UINT32_C(256) << 10) /* of iscsi_split_io.c */
#define INITIATOR_BLOCK 512u

#define INITIATOR_READS   0xc0 /* and final */
#define INITIATOR_WRITES  0xa0
#define INITIATOR_SIMPLE  1 /* the task attribute */
#define INITIATOR_ORDERED 2

struct initiator {
	int fd;
	uint32_t cmdsn, itt; /* of the last command */
	bool digest;         /* of data, both ways */
	struct iscsi_wire_bhs bhs;
	uint8_t data[INITIATOR_LARGE]; /* of the last PDU */
	uint32_t length;
};

/*
 * The first PDU and its answer, with the @length bytes of @text as keys.
 * @isid: of the session
 */
void initiator_login(struct initiator *c, const char *text, size_t length,
		     uint8_t isid);

struct iscsi_wire_bhs initiator_header(uint8_t opcode, uint8_t flags,
				       uint32_t itt);

/*
 * @length  bytes of @data, a multiple of 4
 * @wrong   to the digest of the data; 0: it is right
 */
void initiator_put_pdu(struct initiator *c, struct iscsi_wire_bhs bhs,
		       const void *data, uint32_t length, uint32_t wrong);

/* The next PDU, which must be of that kind. */
void initiator_get_pdu(struct initiator *c, uint8_t opcode);

/* A word of the header that came last. */
uint32_t initiator_word(const struct initiator *c, enum iscsi_word n);

/*
 * READ (16) or WRITE (16) of @length bytes from the start; 0: TEST UNIT READY.
 *
 * @flags  of the PDU, with the task attribute
 * @byte1  of the CDB
 */
void initiator_say(struct initiator *c, uint8_t opcode, uint8_t flags,
		   uint32_t length, uint8_t byte1);

/* Of INITIATOR_LARGE bytes. */
void initiator_say_read(struct initiator *c);
void initiator_say_write(struct initiator *c);

/* The status of the last command; no data comes with it. */
uint8_t initiator_get_status(struct initiator *c);

/* Return the status of TEST UNIT READY. */
uint8_t initiator_be_ready(struct initiator *c);

/* Send the data that an R2T asks for; @wrong is added to its digest. */
void initiator_give(struct initiator *c, const uint8_t *data, uint32_t wrong);

/* Data up to @end, which begins at @at; true: with it came GOOD. */
bool initiator_get_data(struct initiator *c, uint8_t *to, uint32_t at,
			uint32_t end);

/* Of the last command; of all of the unit. */
void initiator_say_abort(struct initiator *c);
void initiator_say_reset(struct initiator *c);
void initiator_get_task_response(struct initiator *c);

#endif
