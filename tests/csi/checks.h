/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the specification, and the checks of them: tables. */
#ifndef TESTS_CSI_CHECKS_H
#define TESTS_CSI_CHECKS_H

#include "tests/csi/kit.h"

/*
 * One thing the specification asks for: a MUST, a SHOULD, or a code it names
 * for a condition.
 */
struct rule {
	const char *name;    /* what checks call it */
	char strength;       /* 'M' MUST, 'S' SHOULD */
	const char *text;    /* in our words */
	const char *because; /* it does not apply; NULL: it does */
};
extern const struct rule rules[];
extern const size_t n_rules;

enum access {
	BOTH,  /* once for a mounted and once for a block volume */
	MOUNT, /* only there */
	BLOCK,
	ONCE, /* it makes no difference */
};

struct check {
	const char *rule;
	const char *name; /* a sentence */
	enum level level; /* how far the volume is before, and after */
	enum access access;
	void (*run)(void);
	/* Or: one call on host 1, and what it has to answer. */
	enum rpc_code code;
	const char *words[12];
};

#define CHECK(rule, name, level, access, run)      \
	{                                          \
		rule, name, level, access, run, 0, \
		{                                  \
			0                          \
		}                                  \
	}
#define ASK(rule, name, level, access, code, ...)      \
	{                                              \
		rule, name, level, access, NULL, code, \
		{                                      \
			__VA_ARGS__                    \
		}                                      \
	}

extern const struct check general_checks[], controller_checks[], node_checks[];
extern const struct check snapshot_checks[];
extern const size_t n_general_checks, n_controller_checks, n_node_checks,
	n_snapshot_checks;

#define GONE_ID "gone@0c6f9d5e-1111-4222-8333-abcdefabcdef"

#endif
