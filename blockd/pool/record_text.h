/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of every record blockd keeps on disk:
 *
 *	KIND VERSION            "tributary-extent 1"
 *	key=value               any number, in a fixed order
 *	crc32c=XXXXXXXX         eight lower-case hex digits over all the
 *	                        bytes before this line
 *
 * Lines end with a newline. In a value every byte but A-Z a-z 0-9 and ". _ - /
 * :" is written %XX, so it holds neither a newline nor '='. A pair is
 * NAME=VALUE with both sides written so. A record is at most RECORD_TEXT_MAX
 * bytes. Docs: docs/dir-pool-format.md.
 */
#ifndef BLOCKD_RECORD_TEXT_H
#define BLOCKD_RECORD_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define RECORD_TEXT_MAX                                       \
	65536 /* bytes; 16 labels and 64 initiators take 18 K \
	       */

/* Zero-initialise; record_text_end() or record_text_drop() ends it. */
struct record_writer {
	char *data;    /* owned */
	size_t length; /* bytes used */
	size_t size;   /* bytes allocated */
	int failed;    /* negative errno of the first failure */
};

void record_text_begin(struct record_writer *w, const char *kind,
		       unsigned version);
void record_text_add(struct record_writer *w, const char *key,
		     const char *value);
void record_text_add_number(struct record_writer *w, const char *key,
			    uint64_t value);
void record_text_add_flag(struct record_writer *w, const char *key, bool value);
void record_text_add_pair(struct record_writer *w, const char *key,
			  const char *name, const char *value);

/* Add the checksum. Returned owned. -ENOMEM, or -EFBIG when it is too long. */
int record_text_end(struct record_writer *w, char **ret, size_t *ret_length);

struct record_reader {
	char *text; /* owned; cut up while it is read */
	char *at;
	char *end;
	unsigned version;
};

/*
 * Check length, form, checksum, kind and version; nothing of a record that
 * fails is used.
 *
 * @version_max  the newest version the caller understands
 *
 * Returns 0, or -EBADMSG with what is wrong with it. record_text_close()
 * frees it (also after a failure).
 */
int record_text_open(struct record_reader *r, const void *data, size_t length,
		     const char *kind, unsigned version_max, struct error *err);
void record_text_close(struct record_reader *r);

/*
 * Read the next line: 1, with key and value still in their written form,
 * borrowed until record_text_close(). 0 at the end; -EBADMSG for a line that is
 * none.
 */
int record_text_next(struct record_reader *r, char **ret_key, char **ret_value,
		     struct error *err);

/*
 * Turn %XX back, in place. -EBADMSG when it is not the written form of a
 * value of @min to @max bytes.
 */
int record_text_decode(char *value, size_t min, size_t max, struct error *err);
/* -EBADMSG unless it is a plain decimal number up to UINT64_MAX. */
int record_text_number(const char *value, uint64_t *ret, struct error *err);
/* "yes" or "no". */
int record_text_flag(const char *value, bool *ret, struct error *err);
/* Split a pair; the sides are still in their written form. */
int record_text_pair(char *value, char **ret_name, char **ret_value,
		     struct error *err);

#endif
