/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a raw pool whole? Online: in memory, on the medium, and clusters that
 * nobody uses, which can be in memory only: there is no bitmap on the medium.
 * Offline the same but for these.
 */
#include <stdio.h>
#include <string.h>

#include "blockd/raw/pool_raw_internal.h"
#include "blockd/raw/raw_medium_open.h"

static void describe(const struct raw_object *object, char *buf, size_t size)
{
	struct extent_record record;

	if (strncmp(object->text, POOL_RAW_DOOMED, strlen(POOL_RAW_DOOMED)) ==
	    0)
		(void)snprintf(buf, size, "extent '%.64s', being deleted",
			       object->text + strlen(POOL_RAW_DOOMED));
	if (pool_raw_record(object, &record, NULL) < 0)
		return;
	(void)snprintf(buf, size, "extent '%.64s'", record.name);
	extent_record_done(&record);
}

static void check_records(struct raw_store *store,
			  struct raw_findings *findings)
{
	const struct raw_state *state = raw_store_lock(store);

	for (uint32_t id = 1; id <= state->n_slots; id++) {
		const struct raw_object *object = raw_state_object(state, id);
		char text[ERROR_TEXT_MAX + 64];
		struct extent_record record;
		struct error err;

		if (!object || strncmp(object->text, POOL_RAW_DOOMED,
				       strlen(POOL_RAW_DOOMED)) == 0)
			continue;
		if (pool_raw_record(object, &record, &err) == 0) {
			extent_record_done(&record);
			continue;
		}
		(void)snprintf(text, sizeof(text), "object %u: its record: %s",
			       id, error_text(&err));
		findings->tell(findings->context, text, false);
		findings->left++;
	}
	raw_store_unlock(store);
}

int pool_raw_check_open(struct pool *pool, bool repair,
			void (*finding)(void *context, const char *text,
					bool repaired),
			void *context, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct raw_findings findings = {
		.tell = finding, .describe = describe, .context = context};
	int r;

	(void)pthread_mutex_lock(&raw->checks);
	r = raw_store_check(raw->store, repair, &findings, err);
	if (r == 0)
		check_records(raw->store, &findings);
	/* When nothing is committed any more, nothing can leave. */
	if (r == 0 && !raw_store_broken(raw->store, NULL)) {
		/*
		 * The cleaner's round comes after a checkpoint that is due,
		 * so checks one after another don't put that off.
		 */
		r = raw_store_suspect(raw->store, err);
		if (r == 0)
			r = raw_users_settle_now(raw->users, err);
		if (r == 0)
			r = raw_store_leaked(raw->store, repair, &findings,
					     err);
	}
	(void)pthread_mutex_unlock(&raw->checks);
	return r;
}

static void tell_report(const struct raw_report *report,
			struct raw_findings *findings)
{
	/* What an open has written anew; the rest raw_store_check() tells. */
	if (report->super_damaged)
		findings->tell(findings->context,
			       "a copy of the superblock was damaged", true);
	if (report->copies_damaged)
		findings->tell(findings->context,
			       "parts of its metadata were damaged in one of "
			       "two copies",
			       true);
}

int pool_raw_check(const char *path, bool repair,
		   void (*finding)(void *context, const char *text,
				   bool repaired),
		   void *context, bool *ret_clean, struct error *err)
{
	struct raw_findings findings = {
		.tell = finding, .describe = describe, .context = context};
	struct raw_file_medium file;
	struct raw_store *store = NULL;
	struct raw_report report = {0};
	auto_close int fd = -1;
	uint64_t size = 0;
	bool direct;
	int r = raw_medium_open(path, &fd, &direct, err);

	if (r == 0 && repair)
		r = raw_medium_check_writable(fd, path, err);
	if (r == 0)
		r = raw_medium_size(fd, path, &size, err);
	if (r < 0)
		return r;
	raw_file_medium_init(&file, fd, size);
	r = repair ? raw_store_open(&file.medium, &store, &report, err)
		   : raw_store_look(&file.medium, &store, &report, err);
	if (r == 0 && repair && !raw_report_lost(&report))
		tell_report(&report, &findings);
	if (r == 0)
		r = raw_store_check(store, repair, &findings, err);
	if (r == 0)
		check_records(store, &findings);
	if (r < 0)
		(void)error_prefix(err, r, "'%s': ", path);
	*ret_clean = r == 0 && !findings.left;
	raw_store_close(store);
	return r;
}
