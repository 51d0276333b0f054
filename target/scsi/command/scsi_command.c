/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all commands: by operation code and service action. */
#include <stdlib.h>
#include <string.h>

#include "target/scsi/scsi_internal.h"

#define COMMANDS_MAX 128 /* ours */

static const struct scsi_command *const tables[] = {
	scsi_primary_commands, scsi_rw_commands,
	scsi_verify_commands,  scsi_compare_commands,
	scsi_cache_commands,   scsi_provision_commands,
	scsi_mode_commands,    scsi_medium_commands,
	scsi_reserve_commands, scsi_pr_in_commands,
	scsi_pr_out_commands,  scsi_maintenance_commands,
	scsi_copy_commands,    scsi_copy_results_commands,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct scsi_command *sorted[COMMANDS_MAX + 1]; /* NULL behind */
static uint8_t first[256]; /* place in sorted[], + 1; 0: no such code */

static int compare(const void *a, const void *b)
{
	const struct scsi_command *x = *(const struct scsi_command *const *)a;
	const struct scsi_command *y = *(const struct scsi_command *const *)b;

	if (x->opcode != y->opcode)
		return x->opcode - y->opcode;
	return x->action - y->action;
}

static void build(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < array_size(tables); i++)
		for (const struct scsi_command *c = tables[i]; c->length; c++) {
			assert(n < COMMANDS_MAX);
			sorted[n++] = c;
		}
	qsort(sorted, n, sizeof(*sorted), compare);
	while (n-- > 0)
		first[sorted[n]->opcode] = (uint8_t)(n + 1);
}

const struct scsi_command *scsi_command_find(const uint8_t *cdb,
					     bool *ret_opcode)
{
	unsigned at;

	(void)pthread_once(&once, build); /* cannot fail */
	at = first[cdb[0]];
	*ret_opcode = at > 0;
	if (at == 0)
		return NULL;
	for (at--; sorted[at] && sorted[at]->opcode == cdb[0]; at++)
		if (sorted[at]->action == SCSI_NO_ACTION ||
		    sorted[at]->action == (cdb[1] & 0x1f))
			return sorted[at];
	return NULL;
}

const struct scsi_command *scsi_command_at(unsigned index)
{
	(void)pthread_once(&once, build); /* cannot fail */
	return index < COMMANDS_MAX ? sorted[index] : NULL;
}
