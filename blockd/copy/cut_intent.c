/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/cut_intent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "blockd/extent/extent_internal.h"
#include "blockd/pool/record_text.h"

/* A cut that somebody works on. */
struct work {
	char cut[UUID_TEXT_SIZE];
	LIST_ENTRY(work) in_list;
};

struct cut_intents {
	int fd;               /* STATE/cuts */
	pthread_mutex_t lock; /* guards the rest; brief */
	LIST_HEAD(work_list, work) work;
};

/* ---- who works on what ---- */

/* The lock is held. */
static struct work *find_work(struct cut_intents *notes, const char *cut)
{
	struct work *work;

	LIST_FOREACH (work, &notes->work, in_list)
		if (strcmp(work->cut, cut) == 0)
			return work;
	return NULL;
}

static int cut_intent_enter(struct cut_intents *notes, const char *cut,
			    struct error *err)
{
	struct work *work = calloc(1, sizeof(*work));
	int r = 0;

	if (!work)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(work->cut, sizeof(work->cut), "%s", cut);
	pthread_mutex_lock(&notes->lock);
	if (find_work(notes, cut))
		r = error_set(err, EAGAIN, "cut %s is being worked on", cut);
	else
		LIST_INSERT_HEAD(&notes->work, work, in_list);
	pthread_mutex_unlock(&notes->lock);
	if (r < 0)
		free(work);
	return r;
}

void cut_intent_leave(struct node *node, const char *cut)
{
	struct cut_intents *notes = node->cut_intents;
	struct work *work;

	pthread_mutex_lock(&notes->lock);
	work = find_work(notes, cut);
	if (work)
		LIST_REMOVE(work, in_list);
	pthread_mutex_unlock(&notes->lock);
	free(work);
}

/* ---- notes ---- */

int cut_intent_begin(struct node *node, const struct copies_record *record,
		     struct error *err)
{
	struct cut_intents *notes = node->cut_intents;
	auto_free char *text = NULL;
	size_t length;
	int r = copies_record_encode(record, &text, &length, err);

	if (r == 0)
		r = cut_intent_enter(notes, record->cut, err);
	if (r < 0)
		return r;
	r = file_replace(notes->fd, record->cut, text, length, 0600, err);
	if (r < 0) {
		cut_intent_leave(node, record->cut);
		(void)error_prefix(err, r, "note cut %s: ", record->cut);
	}
	return r;
}

void cut_intent_forget(struct node *node, const char *cut)
{
	struct error err = {0};

	if (file_remove(node->cut_intents->fd, cut, &err) < 0)
		log_warning("the note of cut %s stays: %s", cut,
			    error_text(&err));
}

void cut_intent_taken_apart(struct node *node, const char *cut)
{
	struct cut_intents *notes = node->cut_intents;
	bool idle;

	pthread_mutex_lock(&notes->lock);
	idle = !find_work(notes, cut);
	pthread_mutex_unlock(&notes->lock);
	if (idle && faccessat(notes->fd, cut, F_OK, 0) == 0)
		cut_intent_forget(node, cut);
}

static int read_note(const struct cut_intents *notes, const char *cut,
		     struct copies_record *ret, struct error *err)
{
	auto_free char *text = NULL;
	size_t length;
	int r = file_read(notes->fd, cut, RECORD_TEXT_MAX, &text, &length, err);

	if (r == 0)
		r = copies_record_decode(text, length, ret, err);
	if (r == 0 && strcmp(ret->cut, cut) != 0) {
		copies_record_done(ret);
		r = error_set(err, EBADMSG, "it is of cut %s", ret->cut);
	}
	return r < 0 ? error_prefix(err, r, "the note of cut %.40s: ", cut) : 0;
}

/* ---- settling ---- */

/* What there is of a cut. */
struct found {
	struct extent *extents[COPIES_MAX]; /* with references */
	size_t n;
	size_t copying; /* of these */
	bool offline;   /* there may be more */
};

/* Tables are held. */
static bool is_of(const struct extent *extent, const char *cut)
{
	return extent && !extent->damage &&
	       extent->record.kind == EXTENT_KIND_SNAPSHOT &&
	       strcmp(extent->record.origin.cut, cut) == 0;
}

static void note_look(struct node *node, const struct copies_record *note,
		      struct found *ret)
{
	const struct node_pool *pool;

	*ret = (struct found){.n = 0};
	pthread_mutex_lock(&node->tables);
	TAILQ_FOREACH (pool, &node->list, in_node)
		ret->offline = ret->offline || !pool->served;
	for (size_t i = 0; i < note->n; i++) {
		struct extent *extent = node_find_extent(node, note->names[i]);

		if (!is_of(extent, note->cut))
			continue;
		ret->extents[ret->n++] = extent_ref(extent);
		ret->copying += extent->record.state == EXTENT_COPYING;
	}
	pthread_mutex_unlock(&node->tables);
}

static int delete_found(struct node *node, const struct found *found,
			struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < found->n; i++) {
		const struct extent_record *record = &found->extents[i]->record;

		r = extent_delete(node, record->name, record->id, err);
	}
	return r;
}

static int note_settle(struct node *node, const struct copies_record *note,
		       const struct found *found, struct error *err)
{
	int r;

	if (found->copying)
		return error_set(err, EAGAIN, "cut %s is being copied",
				 note->cut);
	if (found->n == note->n) {
		cut_intent_forget(node, note->cut);
		return 0;
	}
	if (found->offline)
		return error_set(err, ENODEV,
				 "of cut %s only %zu of %zu snapshots are "
				 "there, the others may be in a pool that is "
				 "not online",
				 note->cut, found->n, note->n);
	r = delete_found(node, found, err);
	if (r < 0)
		return error_prefix(err, r, "undo cut %s: ", note->cut);
	cut_intent_forget(node, note->cut);
	log_info("cut %s was interrupted: undone, with %zu of %zu snapshots",
		 note->cut, found->n, note->n);
	return 1;
}

int cut_intent_settle(struct node *node, const char *cut, struct error *err)
{
	struct cut_intents *notes = node->cut_intents;
	struct copies_record note = {.n = 0};
	struct found found = {.n = 0};
	int r;

	if (faccessat(notes->fd, cut, F_OK, 0) < 0)
		return 0;
	r = cut_intent_enter(notes, cut, err);
	if (r < 0)
		return r;
	r = read_note(notes, cut, &note, err);
	if (r == 0) {
		note_look(node, &note, &found);
		r = note_settle(node, &note, &found, err);
		for (size_t i = 0; i < found.n; i++)
			extent_unref(found.extents[i]);
		copies_record_done(&note);
	}
	cut_intent_leave(node, cut);
	return r == -ENOENT ? 0 : r;
}

static void settle_file(struct node *node, const char *file)
{
	struct error err = {0};
	int r = 0;

	if (strncmp(file, FILE_TEMPORARY_PREFIX,
		    strlen(FILE_TEMPORARY_PREFIX)) == 0)
		return; /* of no consequence; somebody may be writing it */
	if (file[0] != '.')
		r = cut_intent_settle(node, file, &err);
	if (r < 0 && r != -EAGAIN)
		log_warning("%s", error_text(&err));
}

void cut_intents_settle(struct node *node)
{
	struct dirent **entries;
	char path[32];
	int n;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d",
		       node->cut_intents->fd);
	n = scandir(path, &entries, NULL, alphasort);
	if (n < 0) {
		log_warning("read the notes of cuts: %s", strerror(errno));
		return;
	}
	for (int i = 0; i < n; i++) {
		settle_file(node, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
}

/* ---- life ---- */

int cut_intents_new(const char *state_dir, struct cut_intents **ret,
		    struct error *err)
{
	struct cut_intents *notes = calloc(1, sizeof(*notes));
	char path[PATH_MAX];
	int r;

	if (!notes)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(path, sizeof(path), "%s/cuts", state_dir);
	r = dir_make(path, 0700, err);
	notes->fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && notes->fd < 0)
		r = error_set(err, errno, "open '%s': %s", path,
			      strerror(errno));
	if (r < 0) {
		free(notes);
		return r;
	}
	LIST_INIT(&notes->work);
	(void)pthread_mutex_init(&notes->lock, NULL);
	*ret = notes;
	return 0;
}

void cut_intents_free(struct cut_intents *notes)
{
	struct work *work;

	if (!notes)
		return;
	while ((work = LIST_FIRST(&notes->work))) {
		LIST_REMOVE(work, in_list);
		free(work);
	}
	fd_close(notes->fd);
	(void)pthread_mutex_destroy(&notes->lock);
	free(notes);
}
