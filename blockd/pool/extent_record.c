/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/extent_record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/pool/record_text.h"

const char *extent_state_name(enum extent_state state)
{
	switch (state) {
	case EXTENT_CREATING: return "creating";
	case EXTENT_OK: return "ok";
	case EXTENT_DELETING: return "deleting";
	case EXTENT_COPYING: return "copying";
	}
	return "";
}

const char *extent_kind_name(enum extent_kind kind)
{
	return kind == EXTENT_KIND_SNAPSHOT ? "snapshot" : "extent";
}

const char *pool_copy_method_name(enum pool_copy_method method)
{
	switch (method) {
	case POOL_COPY_NONE: break;
	case POOL_COPY_SHARED: return "shared";
	case POOL_COPY_REFLINK: return "reflink";
	case POOL_COPY_BYTES: return "copy";
	}
	return "none";
}

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

int extent_limits_check(const struct extent_limits *limits, struct error *err)
{
	const uint64_t bytes = limits->bytes_per_second;

	if (limits->iops > EXTENT_IOPS_MAX)
		return error_set(err, EINVAL,
				 "a limit of %" PRIu64
				 " operations a second is too large: at most "
				 "%" PRIu64,
				 limits->iops, EXTENT_IOPS_MAX);
	if (bytes && (bytes < EXTENT_BYTES_MIN || bytes > EXTENT_BYTES_MAX))
		return error_set(err, EINVAL,
				 "a limit of %" PRIu64
				 " bytes a second is not 0 or from 64 KiB to "
				 "1 PiB",
				 bytes);
	return 0;
}

int extent_block_size_check(uint64_t size, struct error *err)
{
	if (size != 0 && size != 512 && size != 4096)
		return error_set(err, EINVAL,
				 "a disk's block size is 512 or 4096 bytes");
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

int extent_grant_check(const char *grant, struct error *err)
{
	return check_printable("the grant of an epoch", grant, 0,
			       EXTENT_GRANT_SIZE - 1, err);
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
	    a->block_size != b->block_size || strcmp(a->grant, b->grant) != 0 ||
	    a->n_initiators != b->n_initiators ||
	    !extent_scsi_same(&a->scsi, &b->scsi))
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

/* What only some have. */
static void encode_extras(struct record_writer *w,
			  const struct extent_record *record)
{
	const struct extent_origin *origin = &record->origin;
	const struct extent_limits *limits = &record->limits;

	if (record->kind == EXTENT_KIND_SNAPSHOT) {
		record_text_add(w, "kind", extent_kind_name(record->kind));
		record_text_add_number(w, "reserved", record->reserved);
	}
	if (record->thick)
		record_text_add_flag(w, "thick", true);
	if (origin->name[0]) {
		record_text_add_pair(w, "origin", origin->name, origin->id);
		record_text_add(w, "method",
				pool_copy_method_name(origin->method));
	}
	if (origin->cut[0])
		record_text_add(w, "cut", origin->cut);
	if (limits->iops)
		record_text_add_number(w, "limit-iops", limits->iops);
	if (limits->bytes_per_second)
		record_text_add_number(w, "limit-bytes",
				       limits->bytes_per_second);
}

static void encode_export(struct record_writer *w,
			  const struct extent_export *export)
{
	if (!export->exists)
		return;
	record_text_add_number(w, "export-epoch", export->epoch);
	record_text_add_flag(w, "export-active", export->active);
	record_text_add_flag(w, "export-read-only", export->read_only);
	for (unsigned i = 0; i < export->n_initiators; i++)
		record_text_add(w, "export-initiator", export->initiators[i]);
	if (export->scsi.target[0]) {
		record_text_add(w, "export-target", export->scsi.target);
		record_text_add_number(w, "export-lun", export->scsi.lun);
	}
	if (export->scsi.account[0])
		record_text_add(w, "export-account", export->scsi.account);
	if (export->block_size)
		record_text_add_number(w, "export-block-size",
				       export->block_size);
	if (export->grant[0])
		record_text_add(w, "export-grant", export->grant);
}

int extent_record_encode(const struct extent_record *record, char **ret,
			 size_t *ret_length, struct error *err)
{
	struct record_writer w = {0};
	int r;

	record_text_begin(&w, EXTENT_RECORD_KIND, EXTENT_RECORD_VERSION);
	record_text_add(&w, "name", record->name);
	record_text_add(&w, "id", record->id);
	record_text_add(&w, "pool", record->pool_id);
	record_text_add_number(&w, "size", record->size);
	record_text_add_number(&w, "created", record->created_s);
	record_text_add(&w, "state", extent_state_name(record->state));
	record_text_add_flag(&w, "blank", record->blank);
	for (unsigned i = 0; i < record->n_labels; i++)
		record_text_add_pair(&w, "label", record->labels[i].key,
				     record->labels[i].value);
	encode_extras(&w, record);
	encode_export(&w, &record->export);
	r = record_text_end(&w, ret, ret_length);
	return r < 0 ? error_set(err, -r, "encode the record of '%s'",
				 record->name)
		     : 0;
}
