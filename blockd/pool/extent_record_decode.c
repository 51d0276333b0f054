/* SPDX-License-Identifier: Apache-2.0 */
/* From text to record; nothing that does not pass every check is used. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/pool/extent_record.h"
#include "blockd/pool/record_text.h"

enum field {
	FIELD_NAME,
	FIELD_ID,
	FIELD_POOL,
	FIELD_SIZE,
	FIELD_CREATED,
	FIELD_STATE,
	FIELD_BLANK,
	FIELD_EPOCH,
	FIELD_ACTIVE,
	FIELD_READ_ONLY,
	FIELD_KIND,
	FIELD_THICK,
	FIELD_RESERVED,
	FIELD_ORIGIN,
	FIELD_METHOD,
	FIELD_CUT,
	FIELD_LIMIT_IOPS,
	FIELD_LIMIT_BYTES,
	FIELD_TARGET,
	FIELD_LUN,
	FIELD_ACCOUNT,
	FIELD_BLOCK_SIZE,
	FIELD_GRANT,
	FIELD_LABEL, /* this and the next may come more than once */
	FIELD_INITIATOR,
	N_FIELDS,
};

#define ALWAYS ((1u << FIELD_EPOCH) - 1)
#define EXPORT \
	((1u << FIELD_EPOCH) | (1u << FIELD_ACTIVE) | (1u << FIELD_READ_ONLY))
/* With these there is an export, too: */
#define EXPORT_MORE                                                         \
	((1u << FIELD_BLOCK_SIZE) | (1u << FIELD_INITIATOR) |               \
	 (1u << FIELD_TARGET) | (1u << FIELD_LUN) | (1u << FIELD_ACCOUNT) | \
	 (1u << FIELD_GRANT))
/* These come together: */
#define TARGET        ((1u << FIELD_TARGET) | (1u << FIELD_LUN))
#define ORIGIN        ((1u << FIELD_ORIGIN) | (1u << FIELD_METHOD))
#define SNAPSHOT_ONLY ((1u << FIELD_RESERVED) | (1u << FIELD_CUT))
#define SNAPSHOT      (SNAPSHOT_ONLY | ORIGIN)

static const char *const field_names[N_FIELDS] = {
	[FIELD_NAME] = "name",
	[FIELD_ID] = "id",
	[FIELD_POOL] = "pool",
	[FIELD_SIZE] = "size",
	[FIELD_CREATED] = "created",
	[FIELD_STATE] = "state",
	[FIELD_BLANK] = "blank",
	[FIELD_EPOCH] = "export-epoch",
	[FIELD_ACTIVE] = "export-active",
	[FIELD_READ_ONLY] = "export-read-only",
	[FIELD_KIND] = "kind",
	[FIELD_THICK] = "thick",
	[FIELD_RESERVED] = "reserved",
	[FIELD_ORIGIN] = "origin",
	[FIELD_METHOD] = "method",
	[FIELD_CUT] = "cut",
	[FIELD_LIMIT_IOPS] = "limit-iops",
	[FIELD_LIMIT_BYTES] = "limit-bytes",
	[FIELD_TARGET] = "export-target",
	[FIELD_LUN] = "export-lun",
	[FIELD_ACCOUNT] = "export-account",
	[FIELD_BLOCK_SIZE] = "export-block-size",
	[FIELD_GRANT] = "export-grant",
	[FIELD_LABEL] = "label",
	[FIELD_INITIATOR] = "export-initiator",
};

/* Fields as they come; arrays borrow from the reader. */
struct decoding {
	struct extent_record record;
	unsigned seen; /* bit mask of enum field */
	char target[EXTENT_TARGET_SIZE], account[EXTENT_ACCOUNT_SIZE];
	uint64_t lun;
	struct extent_label labels[EXTENT_LABELS_MAX];
	size_t n_labels;
	const char *initiators[EXTENT_INITIATORS_MAX];
	size_t n_initiators;
};

static int decode_text(char *value, char *ret, size_t size, struct error *err)
{
	int r = record_text_decode(value, 1, size - 1, err);

	if (r == 0)
		memcpy(ret, value, strlen(value) + 1);
	return r;
}

static int decode_uuid(char *value, char *ret, struct error *err)
{
	if (strlen(value) != UUID_TEXT_SIZE - 1)
		return error_set(err, EBADMSG, "an id is no UUID");
	return decode_text(value, ret, UUID_TEXT_SIZE, err);
}

static int decode_state(const char *value, enum extent_state *ret,
			struct error *err)
{
	static const enum extent_state states[] = {EXTENT_CREATING, EXTENT_OK};

	for (size_t i = 0; i < array_size(states); i++) {
		if (strcmp(value, extent_state_name(states[i])) == 0) {
			*ret = states[i];
			return 0;
		}
	}
	return error_set(err, EBADMSG, "its state is none that we know");
}

static int decode_kind(const char *value, enum extent_kind *ret,
		       struct error *err)
{
	if (strcmp(value, extent_kind_name(EXTENT_KIND_SNAPSHOT)) != 0)
		return error_set(err, EBADMSG, "its kind is none that we know");
	*ret = EXTENT_KIND_SNAPSHOT;
	return 0;
}

static int decode_method(const char *value, enum pool_copy_method *ret,
			 struct error *err)
{
	static const enum pool_copy_method methods[] = {
		POOL_COPY_SHARED, POOL_COPY_REFLINK, POOL_COPY_BYTES};

	for (size_t i = 0; i < array_size(methods); i++) {
		if (strcmp(value, pool_copy_method_name(methods[i])) == 0) {
			*ret = methods[i];
			return 0;
		}
	}
	return error_set(err, EBADMSG, "its method is none that we know");
}

static int decode_origin(char *value, struct extent_origin *ret,
			 struct error *err)
{
	char *name, *id;
	int r = record_text_pair(value, &name, &id, err);

	if (r == 0)
		r = decode_text(name, ret->name, sizeof(ret->name), err);
	return r < 0 ? r : decode_uuid(id, ret->id, err);
}

/* A flag, or a number, that is only written when it says something. */
static int decode_set_flag(const char *value, bool *ret, struct error *err)
{
	int r = record_text_flag(value, ret, err);

	return r == 0 && !*ret ? error_set(err, EBADMSG,
					   "a flag is 'no' that is only "
					   "written when it is not")
			       : r;
}

static int decode_limit(const char *value, uint64_t *ret, struct error *err)
{
	int r = record_text_number(value, ret, err);

	return r == 0 && *ret == 0
		       ? error_set(err, EBADMSG, "a limit is 0, which is none")
		       : r;
}

static int decode_label(struct decoding *d, char *value, struct error *err)
{
	struct extent_label *label = &d->labels[d->n_labels];
	int r;

	if (d->n_labels == EXTENT_LABELS_MAX)
		return error_set(err, EBADMSG, "it has more than %d labels",
				 EXTENT_LABELS_MAX);
	r = record_text_pair(value, &label->key, &label->value, err);
	if (r == 0)
		r = record_text_decode(label->key, 1, EXTENT_LABEL_MAX, err);
	if (r == 0)
		r = record_text_decode(label->value, 0, EXTENT_LABEL_MAX, err);
	if (r == 0)
		d->n_labels++;
	return r;
}

static int decode_initiator(struct decoding *d, char *value, struct error *err)
{
	int r;

	if (d->n_initiators == EXTENT_INITIATORS_MAX)
		return error_set(err, EBADMSG, "it has more than %d initiators",
				 EXTENT_INITIATORS_MAX);
	r = record_text_decode(value, 1, EXTENT_INITIATOR_MAX, err);
	if (r == 0)
		d->initiators[d->n_initiators++] = value;
	return r;
}

static int decode_field(struct decoding *d, enum field field, char *value,
			struct error *err)
{
	struct extent_record *record = &d->record;

	switch (field) {
	case FIELD_NAME:
		return decode_text(value, record->name, sizeof(record->name),
				   err);
	case FIELD_ID: return decode_uuid(value, record->id, err);
	case FIELD_POOL: return decode_uuid(value, record->pool_id, err);
	case FIELD_SIZE: return record_text_number(value, &record->size, err);
	case FIELD_CREATED:
		return record_text_number(value, &record->created_s, err);
	case FIELD_STATE: return decode_state(value, &record->state, err);
	case FIELD_BLANK: return record_text_flag(value, &record->blank, err);
	case FIELD_EPOCH:
		return record_text_number(value, &record->export.epoch, err);
	case FIELD_ACTIVE:
		return record_text_flag(value, &record->export.active, err);
	case FIELD_READ_ONLY:
		return record_text_flag(value, &record->export.read_only, err);
	case FIELD_KIND: return decode_kind(value, &record->kind, err);
	case FIELD_THICK: return decode_set_flag(value, &record->thick, err);
	case FIELD_RESERVED:
		return record_text_number(value, &record->reserved, err);
	case FIELD_ORIGIN: return decode_origin(value, &record->origin, err);
	case FIELD_METHOD:
		return decode_method(value, &record->origin.method, err);
	case FIELD_CUT: return decode_uuid(value, record->origin.cut, err);
	case FIELD_LIMIT_IOPS:
		return decode_limit(value, &record->limits.iops, err);
	case FIELD_LIMIT_BYTES:
		return decode_limit(value, &record->limits.bytes_per_second,
				    err);
	case FIELD_TARGET:
		return decode_text(value, d->target, sizeof(d->target), err);
	case FIELD_LUN: return record_text_number(value, &d->lun, err);
	case FIELD_ACCOUNT:
		return decode_text(value, d->account, sizeof(d->account), err);
	case FIELD_BLOCK_SIZE:
		return decode_limit(value, &record->export.block_size, err);
	case FIELD_GRANT:
		return decode_text(value, record->export.grant,
				   sizeof(record->export.grant), err);
	case FIELD_LABEL: return decode_label(d, value, err);
	case FIELD_INITIATOR: return decode_initiator(d, value, err);
	case N_FIELDS: break;
	}
	return error_set(err, EBADMSG, "it has a line that we do not know");
}

static enum field find_field(const char *key)
{
	unsigned i;

	for (i = 0; i < N_FIELDS; i++)
		if (strcmp(key, field_names[i]) == 0)
			break;
	return (enum field)i;
}

static int extent_decode_lines(struct decoding *d, struct record_reader *reader,
			       struct error *err)
{
	char *key, *value;
	int r;

	while ((r = record_text_next(reader, &key, &value, err)) == 1) {
		enum field field = find_field(key);

		if (field < FIELD_LABEL && d->seen & (1u << field))
			return error_set(err, EBADMSG, "'%s' comes twice", key);
		d->seen |= 1u << field;
		r = decode_field(d, field, value, err);
		if (r < 0)
			return r;
	}
	return r;
}

/* The bits of @all that are not in @seen. */
static unsigned lacking(unsigned seen, unsigned all)
{
	return all & ~seen;
}

static int check_complete(struct decoding *d, struct error *err)
{
	unsigned missing = lacking(d->seen, ALWAYS);

	if (d->seen & (EXPORT | EXPORT_MORE)) {
		missing |= lacking(d->seen, EXPORT);
		d->record.export.exists = true;
	}
	if (d->seen & TARGET)
		missing |= lacking(d->seen, TARGET);
	if (d->seen & ORIGIN)
		missing |= lacking(d->seen, ORIGIN);
	if (d->record.kind == EXTENT_KIND_SNAPSHOT)
		missing |= lacking(d->seen, SNAPSHOT);
	else if (d->seen & SNAPSHOT_ONLY)
		missing |= 1u << FIELD_KIND;
	if (missing)
		return error_set(err, EBADMSG, "it has no '%s'",
				 field_names[__builtin_ctz(missing)]);
	return 0;
}

/* Every field was there and they make sense together. */
static int decode_end(struct decoding *d, struct error *err)
{
	struct extent_record *record = &d->record;
	struct error rule = {0};
	int r = check_complete(d, err);

	if (r < 0)
		return r;
	if (name_check("extent", record->name, &rule) < 0 ||
	    (record->origin.name[0] &&
	     name_check("extent", record->origin.name, &rule) < 0) ||
	    extent_size_check(record->size, &rule) < 0 ||
	    extent_limits_check(&record->limits, &rule) < 0 ||
	    extent_scsi_make(d->target, d->lun, d->account,
			     &record->export.scsi, &rule) < 0 ||
	    extent_block_size_check(record->export.block_size, &rule) < 0 ||
	    extent_record_set_labels(record, d->labels, d->n_labels, &rule) <
		    0 ||
	    extent_record_set_initiators(record, d->initiators, d->n_initiators,
					 &rule) < 0)
		return error_set(err, EBADMSG, "%s", error_text(&rule));
	return 0;
}

int extent_record_decode(const void *data, size_t length,
			 struct extent_record *ret, struct error *err)
{
	struct record_reader reader;
	struct decoding d = {0};
	int r;

	r = record_text_open(&reader, data, length, EXTENT_RECORD_KIND,
			     EXTENT_RECORD_VERSION, err);
	if (r == 0)
		r = extent_decode_lines(&d, &reader, err);
	if (r == 0)
		r = decode_end(&d, err);
	record_text_close(&reader);
	if (r < 0) {
		extent_record_done(&d.record);
		return r;
	}
	*ret = d.record;
	return 0;
}
