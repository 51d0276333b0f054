/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Findings of `trib doctor`: what is looked at, how it is, what that costs and
 * the command that mends it.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stddef.h>

#include "cli/text/cli.h"

enum doctor_verdict {
	DOCTOR_OK,
	DOCTOR_NOTICE, /* works, but slower or not for long */
	DOCTOR_FAULT,  /* something does not work: exit code 1 */
};

#define DOCTOR_SUBJECT_SIZE 192
#define DOCTOR_TEXT_SIZE    512

struct doctor_finding {
	enum doctor_verdict verdict;
	char subject[DOCTOR_SUBJECT_SIZE]; /* "module nbd", "node a"... */
	char found[DOCTOR_TEXT_SIZE];
	char cost[DOCTOR_TEXT_SIZE]; /* what does not work; "": nothing */
	char mend[DOCTOR_TEXT_SIZE]; /* the next step; "": none is known */
};

struct doctor {
	struct doctor_finding *findings; /* owned */
	size_t n;
};

/*
 * Append a finding and return it, borrowed until the next one is added. Out of
 * memory ends the program: it is a command, not a daemon.
 */
struct doctor_finding *doctor_add(struct doctor *doctor,
				  enum doctor_verdict verdict,
				  const char *subject);

/* Look at this machine: kernel, modules, programs. */
void doctor_look_at_host(struct doctor *doctor);

/* Look at one node, as it answered or did not. */
void doctor_look_at_node(struct doctor *doctor, const struct node_state *node);

/* Look at what the last scrub found on @n nodes, and how long ago. */
void doctor_look_at_scrub(struct doctor *doctor, const struct node_state *nodes,
			  size_t n);

/*
 * Look at the nodes and volumes of the store: answers, versions, clocks,
 * certificates, room, conditions. An unreadable store is a finding.
 */
void doctor_look_at_cluster(struct doctor *doctor, struct cli *cli);

#endif
