/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/copies_record.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/pool/record_text.h"

#define KIND    "tributary-copies"
#define VERSION 1

int copies_record_encode(const struct copies_record *record, char **ret,
			 size_t *ret_length, struct error *err)
{
	struct record_writer w = {0};
	int r;

	record_text_begin(&w, KIND, VERSION);
	if (record->cut[0])
		record_text_add(&w, "cut", record->cut);
	for (size_t i = 0; i < record->n; i++)
		record_text_add(&w, "name", record->names[i]);
	r = record_text_end(&w, ret, ret_length);
	return r < 0 ? error_set(err, -r, "a list of copies: %s", strerror(-r))
		     : 0;
}

/* Tell whether @text is a UUID. It names a file, too. */
static bool is_uuid(const char *text)
{
	return strspn(text, "0123456789abcdefABCDEF-") == UUID_TEXT_SIZE - 1;
}

static int take_cut(struct copies_record *record, char *value,
		    struct error *err)
{
	int r = record_text_decode(value, UUID_TEXT_SIZE - 1,
				   UUID_TEXT_SIZE - 1, err);

	if (r == 0 && (record->cut[0] || record->n || !is_uuid(value)))
		r = error_set(err, EBADMSG, "its cut is none");
	if (r == 0)
		memcpy(record->cut, value, UUID_TEXT_SIZE);
	return r;
}

static int take_name(struct copies_record *record, char *value,
		     struct error *err)
{
	struct error rule = {0};
	int r = record_text_decode(value, 1, EXTENT_NAME_SIZE - 1, err);

	if (r < 0)
		return r;
	if (name_check("extent", value, &rule) < 0)
		return error_set(err, EBADMSG, "%s", error_text(&rule));
	if (record->n == COPIES_MAX)
		return error_set(err, EBADMSG, "it has more than %d names",
				 COPIES_MAX);
	memcpy(record->names[record->n++], value, strlen(value) + 1);
	return 0;
}

static int copies_record_take_line(struct copies_record *record,
				   const char *key, char *value,
				   struct error *err)
{
	if (strcmp(key, "cut") == 0)
		return take_cut(record, value, err);
	if (strcmp(key, "name") == 0)
		return take_name(record, value, err);
	return error_set(err, EBADMSG, "it has a key '%.32s'", key);
}

int copies_record_decode(const void *data, size_t length,
			 struct copies_record *ret, struct error *err)
{
	struct copies_record found = {
		.names = calloc(COPIES_MAX, sizeof(*found.names))};
	struct record_reader reader;
	char *key, *value;
	int r = record_text_open(&reader, data, length, KIND, VERSION, err);

	if (r == 0 && !found.names)
		r = error_set(err, ENOMEM, "out of memory");
	while (r == 0) {
		r = record_text_next(&reader, &key, &value, err);
		if (r < 1)
			break;
		r = copies_record_take_line(&found, key, value, err);
	}
	record_text_close(&reader);
	if (r == 0 && !found.n)
		r = error_set(err, EBADMSG, "it has no names");
	if (r < 0) {
		copies_record_done(&found);
		return r;
	}
	*ret = found;
	return 0;
}

void copies_record_done(struct copies_record *record)
{
	free(record->names);
	*record = (struct copies_record){.cut = ""};
}
