/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/record_text.h"

#define KIND    "tributary-extent"
#define VERSION 1

static const char *const state_names[] = {
	[EXTENT_CREATING] = "creating",
	[EXTENT_OK] = "ok",
};

int extent_size_check(uint64_t size, struct error *err)
{
	if (size % EXTENT_ALIGN)
		return error_set(err, EINVAL,
				 "a size of %" PRIu64
				 " bytes is not a multiple of %d",
				 size, EXTENT_ALIGN);
	if (size < EXTENT_SIZE_MIN)
		return error_set(err, EINVAL,
				 "a size of %" PRIu64
				 " bytes is too small: at least 1 MiB",
				 size);
	if (size > EXTENT_SIZE_MAX)
		return error_set(err, EINVAL,
				 "a size of %" PRIu64
				 " bytes is too large: at most %" PRIu64
				 " (16 TiB less 4 KiB)",
				 size, EXTENT_SIZE_MAX);
	return 0;
}

static void labels_free(struct extent_record *record)
{
	for (unsigned i = 0; i < record->n_labels; i++) {
		free(record->labels[i].key);
		free(record->labels[i].value);
	}
	free(record->labels);
	record->labels = NULL;
	record->n_labels = 0;
}

static void initiators_free(struct extent_record *record)
{
	for (unsigned i = 0; i < record->export.n_initiators; i++)
		free(record->export.initiators[i]);
	free(record->export.initiators);
	record->export.initiators = NULL;
	record->export.n_initiators = 0;
}

void extent_record_done(struct extent_record *record)
{
	labels_free(record);
	initiators_free(record);
}

static int check_printable(const char *what, const char *text, size_t min,
			   size_t max, struct error *err)
{
	size_t length = strlen(text);

	if (length < min || length > max)
		return error_set(err, EINVAL, "%s must have %zu to %zu bytes",
				 what, min, max);
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return error_set(err, EINVAL,
					 "%s has a byte that is not "
					 "printable ASCII",
					 what);
	return 0;
}

static int label_compare(const void *a, const void *b)
{
	return strcmp(((const struct extent_label *)a)->key,
		      ((const struct extent_label *)b)->key);
}

/* Append a copy; the array has room. */
static int label_append(struct extent_record *record, const char *key,
			const char *value)
{
	struct extent_label label = {strdup(key), strdup(value)};

	if (!label.key || !label.value) {
		free(label.key);
		free(label.value);
		return -ENOMEM;
	}
	record->labels[record->n_labels++] = label;
	return 0;
}

static int labels_fill(struct extent_record *record,
		       const struct extent_label *labels, size_t n,
		       struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = check_printable("a label's key", labels[i].key, 1,
					EXTENT_LABEL_MAX, err);

		if (r == 0)
			r = check_printable("a label's value", labels[i].value,
					    0, EXTENT_LABEL_MAX, err);
		if (r < 0)
			return r;
		if (label_append(record, labels[i].key, labels[i].value) < 0)
			return error_set(err, ENOMEM, "out of memory");
	}
	qsort(record->labels, record->n_labels, sizeof(record->labels[0]),
	      label_compare);
	for (size_t i = 1; i < n; i++)
		if (!label_compare(&record->labels[i - 1], &record->labels[i]))
			return error_set(err, EINVAL,
					 "the label '%s' is given twice",
					 record->labels[i].key);
	return 0;
}

int extent_record_set_labels(struct extent_record *record,
			     const struct extent_label *labels, size_t n,
			     struct error *err)
{
	struct extent_record fresh = {0};
	int r;

	if (n > EXTENT_LABELS_MAX)
		return error_set(err, EINVAL, "%zu labels: at most %d", n,
				 EXTENT_LABELS_MAX);
	if (n > 0) {
		fresh.labels = calloc(n, sizeof(fresh.labels[0]));
		if (!fresh.labels)
			return error_set(err, ENOMEM, "out of memory");
		r = labels_fill(&fresh, labels, n, err);
		if (r < 0) {
			labels_free(&fresh);
			return r;
		}
	}
	labels_free(record);
	record->labels = fresh.labels;
	record->n_labels = fresh.n_labels;
	return 0;
}

bool extent_record_same_labels(const struct extent_record *a,
			       const struct extent_record *b)
{
	if (a->n_labels != b->n_labels)
		return false;
	for (unsigned i = 0; i < a->n_labels; i++)
		if (strcmp(a->labels[i].key, b->labels[i].key) != 0 ||
		    strcmp(a->labels[i].value, b->labels[i].value) != 0)
			return false;
	return true;
}

static int initiators_fill(struct extent_record *record,
			   const char *const *initiators, size_t n,
			   struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = check_printable("an initiator", initiators[i], 1,
					EXTENT_INITIATOR_MAX, err);
		char *copy;

		if (r < 0)
			return r;
		copy = strdup(initiators[i]);
		if (!copy)
			return error_set(err, ENOMEM, "out of memory");
		record->export.initiators[record->export.n_initiators++] = copy;
	}
	return 0;
}

int extent_record_set_initiators(struct extent_record *record,
				 const char *const *initiators, size_t n,
				 struct error *err)
{
	struct extent_record fresh = {0};
	int r;

	if (n > EXTENT_INITIATORS_MAX)
		return error_set(err, EINVAL, "%zu initiators: at most %d", n,
				 EXTENT_INITIATORS_MAX);
	if (n > 0) {
		fresh.export.initiators = calloc(n, sizeof(char *));
		if (!fresh.export.initiators)
			return error_set(err, ENOMEM, "out of memory");
		r = initiators_fill(&fresh, initiators, n, err);
		if (r < 0) {
			initiators_free(&fresh);
			return r;
		}
	}
	initiators_free(record);
	record->export.initiators = fresh.export.initiators;
	record->export.n_initiators = fresh.export.n_initiators;
	return 0;
}

bool extent_export_same(const struct extent_export *a,
			const struct extent_export *b)
{
	if (a->exists != b->exists || a->active != b->active ||
	    a->read_only != b->read_only || a->epoch != b->epoch ||
	    a->n_initiators != b->n_initiators)
		return false;
	for (unsigned i = 0; i < a->n_initiators; i++)
		if (strcmp(a->initiators[i], b->initiators[i]) != 0)
			return false;
	return true;
}

int extent_record_copy(struct extent_record *to,
		       const struct extent_record *from)
{
	struct extent_record copy = *from;
	int r;

	copy.labels = NULL;
	copy.n_labels = 0;
	copy.export.initiators = NULL;
	copy.export.n_initiators = 0;
	r = extent_record_set_labels(&copy, from->labels, from->n_labels, NULL);
	if (r == 0)
		r = extent_record_set_initiators(
			&copy, (const char *const *)from->export.initiators,
			from->export.n_initiators, NULL);
	if (r < 0) {
		extent_record_done(&copy);
		return r;
	}
	*to = copy;
	return 0;
}

int extent_record_encode(const struct extent_record *record, char **ret,
			 size_t *ret_length, struct error *err)
{
	const struct extent_export *export = &record->export;
	struct record_writer w = {0};
	int r;

	record_text_begin(&w, KIND, VERSION);
	record_text_add(&w, "name", record->name);
	record_text_add(&w, "id", record->id);
	record_text_add(&w, "pool", record->pool_id);
	record_text_add_number(&w, "size", record->size);
	record_text_add_number(&w, "created", record->created_s);
	record_text_add(&w, "state", state_names[record->state]);
	record_text_add_flag(&w, "blank", record->blank);
	for (unsigned i = 0; i < record->n_labels; i++)
		record_text_add_pair(&w, "label", record->labels[i].key,
				     record->labels[i].value);
	if (export->exists) {
		record_text_add_number(&w, "export-epoch", export->epoch);
		record_text_add_flag(&w, "export-active", export->active);
		record_text_add_flag(&w, "export-read-only", export->read_only);
		for (unsigned i = 0; i < export->n_initiators; i++)
			record_text_add(&w, "export-initiator",
					export->initiators[i]);
	}
	r = record_text_end(&w, ret, ret_length);
	return r < 0 ? error_set(err, -r, "encode the record of '%s'",
				 record->name)
		     : 0;
}

/* ---- decode ---- */

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
	FIELD_LABEL, /* this and the next may come more than once */
	FIELD_INITIATOR,
	N_FIELDS,
};

#define ALWAYS ((1u << FIELD_EPOCH) - 1)
#define EXPORT \
	((1u << FIELD_EPOCH) | (1u << FIELD_ACTIVE) | (1u << FIELD_READ_ONLY))

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
	[FIELD_LABEL] = "label",
	[FIELD_INITIATOR] = "export-initiator",
};

/* Fields as they come; arrays borrow from the reader. */
struct decoding {
	struct extent_record record;
	unsigned seen; /* bit mask of enum field */
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
	for (unsigned i = 0; i < array_size(state_names); i++) {
		if (strcmp(value, state_names[i]) == 0) {
			*ret = (enum extent_state)i;
			return 0;
		}
	}
	return error_set(err, EBADMSG, "its state is none that we know");
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

static int decode_lines(struct decoding *d, struct record_reader *reader,
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

/* Every field was there and they make sense together. */
static int decode_end(struct decoding *d, struct error *err)
{
	struct extent_record *record = &d->record;
	unsigned missing = ALWAYS & ~d->seen;
	struct error rule = {0};

	if (d->seen & (EXPORT | (1u << FIELD_INITIATOR))) {
		missing |= EXPORT & ~d->seen;
		record->export.exists = true;
	}
	if (missing)
		return error_set(err, EBADMSG, "it has no '%s'",
				 field_names[__builtin_ctz(missing)]);
	if (name_check("extent", record->name, &rule) < 0 ||
	    extent_size_check(record->size, &rule) < 0 ||
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

	r = record_text_open(&reader, data, length, KIND, VERSION, err);
	if (r == 0)
		r = decode_lines(&d, &reader, err);
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
