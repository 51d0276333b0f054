/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/policy_record.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

typedef char policy_name[STATE_POLICY_NAME_MAX];

static void write_names(policy_name *into, const struct policy_set *set)
{
	unsigned i;

	for (i = 0; i < POLICY_FUNCTIONS; i++)
		(void)snprintf(into[i], sizeof(*into), "%s",
			       policy_of(set, i)->name); /* fits */
	/*
	 * The record is complete before the store that makes it count. The
	 * other one is not touched before that. Only the compiler could change
	 * the order: the reader is the next server, after the end of this one.
	 */
	atomic_signal_fence(memory_order_seq_cst);
}

static void write_counted(struct state_header *header,
			  const struct policy_set *set)
{
	write_names(header->policies, set);
	atomic_store(&header->policies_change, false);
	atomic_signal_fence(memory_order_seq_cst);
}

void policy_record(struct state_header *header, const struct policy_set *set)
{
	if (atomic_load(&header->policies_change)) /* of one that was killed */
		write_counted(header, set);
	write_names(header->policies_kept, set);
	atomic_store(&header->policies_change, true);
	atomic_signal_fence(memory_order_seq_cst);
	write_counted(header, set);
}

void policy_restore(const struct state_header *header, struct policy_set *set)
{
	const policy_name *from = atomic_load(&header->policies_change)
					  ? header->policies_kept
					  : header->policies;
	char word[64], name[STATE_POLICY_NAME_MAX + 1];
	struct error err = {0};
	unsigned i;

	for (i = 0; i < POLICY_FUNCTIONS; i++) {
		(void)snprintf(word, sizeof(word), "func.%s",
			       policy_function_name(i)); /* fits */
		(void)snprintf(name, sizeof(name), "%.*s", (int)sizeof(*from),
			       from[i]); /* fits */
		if (policy_set_apply(set, word, name, &err) < 0)
			log_warning("%s; '%s' stays %s", error_text(&err), word,
				    policy_of(set, i)->name);
	}
}
