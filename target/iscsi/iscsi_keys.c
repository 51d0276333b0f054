/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_keys.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

enum key_type {
	KEY_DIGEST,  /* list, the first we know */
	KEY_OR,      /* Yes if either says so */
	KEY_AND,     /* Yes if both say so */
	KEY_MIN,     /* the smaller number */
	KEY_MAX,     /* the larger number */
	KEY_DECLARE, /* a number of theirs; no answer */
	KEY_IGNORE,  /* a text of theirs; no answer */
	KEY_LIST,    /* list of words; we know one */
	KEY_FIXED,   /* obsolete: always the same answer */
};

#define NOWHERE UINT16_MAX /* nothing comes of it */

struct key {
	const char *name;
	enum key_type type;
	uint8_t phases; /* enum iscsi_phase */
	bool transfer;  /* irrelevant in a discovery session */
	uint16_t at;    /* in struct iscsi_params */
	uint32_t min, max;
	uint32_t ours;    /* number, or 1 for Yes */
	const char *word; /* KEY_LIST, KEY_FIXED */
};

#define AT(member)  offsetof(struct iscsi_params, member)
#define LOGIN       ISCSI_PHASE_LOGIN
#define SEGMENT_MIN 512u
#define SEGMENT_END ((1u << 24) - 1)

/*
 * Keys of RFC 7143 13, and those that it has made obsolete (13.24; RFC 3720 A).
 */
static const struct key keys[] = {
	{"HeaderDigest", KEY_DIGEST, LOGIN, false, AT(header_digest), 0, 0, 0,
	 NULL},
	{"DataDigest", KEY_DIGEST, LOGIN, false, AT(data_digest), 0, 0, 0,
	 NULL},
	{"MaxConnections", KEY_MIN, LOGIN, true, NOWHERE, 1, 65535, 1, NULL},
	{"InitialR2T", KEY_OR, LOGIN, true, AT(initial_r2t), 0, 0, 0, NULL},
	{"ImmediateData", KEY_AND, LOGIN, true, AT(immediate_data), 0, 0, 1,
	 NULL},
	{"MaxRecvDataSegmentLength", KEY_DECLARE, LOGIN | ISCSI_PHASE_FULL,
	 false, AT(max_segment), SEGMENT_MIN, SEGMENT_END, 0, NULL},
	{"MaxBurstLength", KEY_MIN, LOGIN, true, AT(max_burst), SEGMENT_MIN,
	 SEGMENT_END, ISCSI_BURST_MAX, NULL},
	{"FirstBurstLength", KEY_MIN, LOGIN, true, AT(first_burst), SEGMENT_MIN,
	 SEGMENT_END, ISCSI_FIRST_BURST_MAX, NULL},
	{"DefaultTime2Wait", KEY_MAX, LOGIN, false, AT(time2wait), 0, 3600, 2,
	 NULL},
	{"DefaultTime2Retain", KEY_MIN, LOGIN, false, AT(time2retain), 0, 3600,
	 0, NULL},
	{"MaxOutstandingR2T", KEY_MIN, LOGIN, true, AT(max_r2t), 1, 65535,
	 ISCSI_R2T_MAX, NULL},
	{"DataPDUInOrder", KEY_OR, LOGIN, true, NOWHERE, 0, 0, 1, NULL},
	{"DataSequenceInOrder", KEY_OR, LOGIN, true, NOWHERE, 0, 0, 1, NULL},
	{"ErrorRecoveryLevel", KEY_MIN, LOGIN, false, NOWHERE, 0, 2, 0, NULL},
	{"TaskReporting", KEY_LIST, LOGIN, true, NOWHERE, 0, 0, 0, "RFC3720"},
	{"iSCSIProtocolLevel", KEY_MIN, LOGIN, true, NOWHERE, 0, 31, 1, NULL},
	{"IFMarker", KEY_FIXED, LOGIN, false, NOWHERE, 0, 0, 0, "No"},
	{"OFMarker", KEY_FIXED, LOGIN, false, NOWHERE, 0, 0, 0, "No"},
	{"IFMarkInt", KEY_FIXED, LOGIN, false, NOWHERE, 0, 0, 0, "Irrelevant"},
	{"OFMarkInt", KEY_FIXED, LOGIN, false, NOWHERE, 0, 0, 0, "Irrelevant"},
	{"InitiatorAlias", KEY_IGNORE, LOGIN | ISCSI_PHASE_FULL, false, NOWHERE,
	 0, 0, 0, NULL},
	{"X#NodeArchitecture", KEY_IGNORE, LOGIN | ISCSI_PHASE_FULL, false,
	 NOWHERE, 0, 0, 0, NULL},
};
static_assert(array_size(keys) <= 64, "a bit for each");

void iscsi_params_init(struct iscsi_params *params)
{
	*params = (struct iscsi_params){
		.initial_r2t = true,
		.immediate_data = true,
		.max_segment = 8192,
		.max_burst = 262144,
		.first_burst = 65536,
		.max_r2t = 1,
		.time2wait = 2,
		.time2retain = 20,
	};
}

static void set_bool(struct iscsi_params *params, const struct key *key,
		     bool value)
{
	if (key->at != NOWHERE)
		memcpy((char *)params + key->at, &value, sizeof(value));
}

static void set_number(struct iscsi_params *params, const struct key *key,
		       uint32_t value)
{
	if (key->at != NOWHERE)
		memcpy((char *)params + key->at, &value, sizeof(value));
}

static enum iscsi_verdict key_refuse(const struct key *key,
				     struct iscsi_answer *answer)
{
	iscsi_answer_add(answer, key->name, "Reject");
	return ISCSI_KEY_REFUSED;
}

static enum iscsi_verdict take_digest(struct iscsi_params *params,
				      const struct key *key, const char *value,
				      struct iscsi_answer *answer)
{
	static const char *const known[] = {"CRC32C", "None", NULL};
	const char *chosen = iscsi_list_choose(value, known);

	if (!chosen)
		return key_refuse(key, answer);
	set_bool(params, key, chosen == known[0]);
	iscsi_answer_add(answer, key->name, chosen);
	return ISCSI_KEY_ANSWERED;
}

static enum iscsi_verdict take_bool(struct iscsi_params *params,
				    const struct key *key, const char *value,
				    struct iscsi_answer *answer)
{
	bool theirs = strcmp(value, "Yes") == 0, result;

	if (!theirs && strcmp(value, "No") != 0)
		return key_refuse(key, answer);
	result = key->type == KEY_OR ? theirs || key->ours
				     : theirs && key->ours;
	set_bool(params, key, result);
	iscsi_answer_add(answer, key->name, result ? "Yes" : "No");
	return ISCSI_KEY_ANSWERED;
}

static enum iscsi_verdict take_number(struct iscsi_params *params,
				      const struct key *key, const char *value,
				      struct iscsi_answer *answer)
{
	uint64_t number = 0;

	if (iscsi_number_parse(value, &number) < 0 || number < key->min ||
	    number > key->max)
		return key_refuse(key, answer);
	if (key->type == KEY_MIN && number > key->ours)
		number = key->ours;
	if (key->type == KEY_MAX && number < key->ours)
		number = key->ours;
	set_number(params, key, (uint32_t)number);
	if (key->type != KEY_DECLARE)
		iscsi_answer_add_number(answer, key->name, number);
	return ISCSI_KEY_ANSWERED;
}

static enum iscsi_verdict key_take(struct iscsi_params *params,
				   const struct key *key, const char *value,
				   struct iscsi_answer *answer)
{
	switch (key->type) {
	case KEY_DIGEST: return take_digest(params, key, value, answer);
	case KEY_OR:
	case KEY_AND: return take_bool(params, key, value, answer);
	case KEY_MIN:
	case KEY_MAX:
	case KEY_DECLARE: return take_number(params, key, value, answer);
	case KEY_IGNORE: return ISCSI_KEY_ANSWERED;
	case KEY_LIST:
		if (!iscsi_list_has(value, key->word))
			return key_refuse(key, answer);
		break;
	case KEY_FIXED: break;
	}
	iscsi_answer_add(answer, key->name, key->word);
	return ISCSI_KEY_ANSWERED;
}

static const struct key *key_find(const char *name)
{
	for (size_t i = 0; i < array_size(keys); i++)
		if (strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

enum iscsi_verdict iscsi_key_take(struct iscsi_params *params, uint64_t *seen,
				  const struct iscsi_pair *pair,
				  enum iscsi_phase phase, bool discovery,
				  struct iscsi_answer *answer)
{
	const struct key *key = key_find(pair->key);
	uint64_t bit;

	if (!key)
		return ISCSI_KEY_UNKNOWN;
	if (!(key->phases & phase))
		return ISCSI_KEY_NOT_NOW;
	bit = UINT64_C(1) << (key - keys);
	if (*seen & bit)
		return ISCSI_KEY_TWICE;
	*seen |= bit;
	if (discovery && key->transfer) {
		iscsi_answer_add(answer, key->name, "Irrelevant");
		return ISCSI_KEY_ANSWERED;
	}
	return key_take(params, key, pair->value, answer);
}
