/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of reservations: a unit that keeps its state in a file, and two
 * sessions with it. Each command returns its SCSI status.
 */
#ifndef TARGET_SCSI_PR_TEST_KIT_H
#define TARGET_SCSI_PR_TEST_KIT_H

#include "target/scsi/scsi_pr.h"
#include "target/testkit/scsi_test_kit.h"

/* Service actions of PERSISTENT RESERVE OUT, SPC-4 6.16 */
enum {
	REGISTER,
	RESERVE,
	RELEASE,
	CLEAR,
	PREEMPT,
	PREEMPT_ABORT,
	IGNORE,
	MOVE,
	REPLACE_LOST
};

struct pr_kit {
	char path[64]; /* of the state */
	struct kit kit;
	struct kit_session *a, *b;
};

/* cmocka's: *@state is a struct pr_kit that is up. */
int pr_kit_setup(void **state);
int pr_kit_teardown(void **state);

/* Unit and sessions end, and begin again with the state that was kept. */
void pr_kit_down(struct pr_kit *f);
void pr_kit_up(struct pr_kit *f);

/* PERSISTENT RESERVE OUT with a list of 24 bytes; @flags: its byte 20. */
int pr_out(struct kit_session *s, uint8_t action, uint8_t type, uint64_t key,
	   uint64_t action_key, uint8_t flags);

/* Do a PERSISTENT RESERVE IN: its data is in @s->in. */
int pr_in(struct kit_session *s, uint8_t action);

/* a by the key 0xa, b by 0xb. */
void pr_both_register(struct pr_kit *f);

/* Block 0, of 512 bytes. */
int pr_write_block(struct kit_session *s);
int pr_read_block(struct kit_session *s);

/* The next command is told of it. */
void pr_assert_attention(struct kit_session *s, enum scsi_asc asc);

#endif
