/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of login and text PDUs: key=value pairs, each ended by a NUL, and the
 * forms that values come in (RFC 7143 6.1). Nothing is trusted.
 */
#ifndef TARGET_ISCSI_TEXT_H
#define TARGET_ISCSI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ISCSI_KEY_MAX    63   /* bytes; RFC 7143 6.1 */
#define ISCSI_BINARY_MAX 1024 /* bytes of a binary value; RFC 7143 6.1 */

/* The longest value is one of CHAP's, 1024 bytes as text with "0x". */
#define ISCSI_VALUE_MAX (2 + 2 * ISCSI_BINARY_MAX) /* bytes */

/* A text may come in several PDUs; all of it: ours. */
#define ISCSI_TEXT_MAX (UINT32_C(16) << 10) /* bytes */

/* Bytes of a peer, gathered until they are whole. */
struct iscsi_text {
	char *data; /* owned; ISCSI_TEXT_MAX + 1 bytes once there are some */
	size_t length;
};

/* -E2BIG: it is longer than ISCSI_TEXT_MAX; -ENOMEM. */
int iscsi_text_append(struct iscsi_text *text, const void *data, size_t length);
void iscsi_text_done(struct iscsi_text *text);

/* A key with its value: borrowed from the text, both ended by NUL. */
struct iscsi_pair {
	const char *key;
	const char *value;
};

/*
 * Read the next pair of @text, from *@at on (0 at first). 1: @ret is set. 0:
 * there are no more pairs. -EPROTO: no pair, a key too long or of wrong
 * characters, a value too long, or no NUL at the end. The call changes the
 * text: make it once for each pair.
 */
int iscsi_text_next(struct iscsi_text *text, size_t *at,
		    struct iscsi_pair *ret);

/* ---- values ---- */

/* Decimal or hexadecimal constant ("0x1F"). -EINVAL. */
int iscsi_number_parse(const char *value, uint64_t *ret);

/*
 * "0x..." (an odd number of digits has a zero in front) or "0b..." (base64).
 * Returns the bytes, up to @max, at least 1; -EINVAL.
 */
int iscsi_binary_parse(const char *value, uint8_t *ret, size_t max);

/* "0x..."; @to has room for 3 + 2 * @length bytes. Returns @to. */
char *iscsi_binary_format(char *to, const uint8_t *data, size_t length);

/* Is @word one of the comma separated @list? */
bool iscsi_list_has(const char *list, const char *word);

/*
 * The first of the peer's @offer that is in our @known too: NULL, or it as
 * it is in @known, whose items are NULL-terminated.
 */
const char *iscsi_list_choose(const char *offer, const char *const *known);

/* ---- our own ---- */

/* Our answer; grows by itself. */
struct iscsi_answer {
	char *data; /* owned */
	size_t length, size;
	bool failed; /* no memory, or more than ISCSI_ANSWER_MAX: give up */
};

/* All targets that a peer may see, at most. */
#define ISCSI_ANSWER_MAX (UINT32_C(4) << 20) /* bytes */

void iscsi_answer_add(struct iscsi_answer *answer, const char *key,
		      const char *value);
void iscsi_answer_add_number(struct iscsi_answer *answer, const char *key,
			     uint64_t value);
void iscsi_answer_done(struct iscsi_answer *answer);

#endif
