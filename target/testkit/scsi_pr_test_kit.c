/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/testkit/scsi_pr_test_kit.h"

void pr_kit_up(struct pr_kit *f)
{
	const struct scsi_unit_options options = {.block_size = 512,
						  .state_path = f->path};

	kit_open(&f->kit, &options);
	f->a = kit_login(&f->kit, 1);
	f->b = kit_login(&f->kit, 2);
}

void pr_kit_down(struct pr_kit *f)
{
	kit_logout(f->a);
	kit_logout(f->b);
	kit_close(&f->kit);
}

int pr_kit_setup(void **state)
{
	struct pr_kit *f = calloc(1, sizeof(*f));

	snprintf(f->path, sizeof(f->path), "%s/trib-scsi-pr.%d",
		 getenv("TMPDIR") ?: "/tmp", (int)getpid());
	pr_kit_up(f);
	*state = f;
	return 0;
}

int pr_kit_teardown(void **state)
{
	struct pr_kit *f = *state;

	pr_kit_down(f);
	(void)unlink(f->path);
	free(f);
	return 0;
}

int pr_out(struct kit_session *s, uint8_t action, uint8_t type, uint64_t key,
	   uint64_t action_key, uint8_t flags)
{
	memset(s->out, 0, 24);
	scsi_put64(s->out, key);
	scsi_put64(s->out + 8, action_key);
	s->out[20] = flags;
	return KIT_DO(s, 24, 0, SCSI_PERSISTENT_RESERVE_OUT, action, type, 0, 0,
		      0, 0, 0, 24, 0);
}

int pr_in(struct kit_session *s, uint8_t action)
{
	return KIT_DO(s, 0, 4096, SCSI_PERSISTENT_RESERVE_IN, action, 0, 0, 0,
		      0, 0, 16, 0, 0);
}

void pr_both_register(struct pr_kit *f)
{
	assert_int_equal(pr_out(f->a, REGISTER, 0, 0, 0xa, 0), 0);
	assert_int_equal(pr_out(f->b, REGISTER, 0, 0, 0xb, 0), 0);
}

int pr_write_block(struct kit_session *s)
{
	return KIT_DO(s, 512, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 1, 0);
}

int pr_read_block(struct kit_session *s)
{
	return KIT_DO(s, 0, 512, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 1, 0);
}

void pr_assert_attention(struct kit_session *s, enum scsi_asc asc)
{
	assert_int_equal(kit_ready(s), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_UNIT_ATTENTION, asc);
}
