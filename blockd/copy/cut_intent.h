/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cut of extents in several pools is made pool by pool. A crash in between
 * must leave all of it or nothing. So STATE/cuts has a note of the cut from
 * before the first snapshot is made until the last is whole. The note is a
 * copies record. Its file's name is the cut's id. A note that nobody works on
 * is settled where it is found. When all its snapshots are there the note is
 * only forgotten, else they are deleted first. While a pool is not online
 * nobody knows, and the note stays.
 *
 * A request to delete one of its snapshots ends the consistent point on
 * purpose. Then the note goes first, and the other snapshots stay.
 *
 * Any thread.
 */
#ifndef BLOCKD_CUT_INTENT_H
#define BLOCKD_CUT_INTENT_H

#include "blockd/pool/copies_record.h"

struct node;
struct cut_intents;

int cut_intents_new(const char *state_dir, struct cut_intents **ret,
		    struct error *err);
/* NULL is fine. */
void cut_intents_free(struct cut_intents *notes);

/* Durably; @record->cut is worked on until cut_intent_leave(). */
int cut_intent_begin(struct node *node, const struct copies_record *record,
		     struct error *err);
/* Remove the note, which is of no consequence any more. */
void cut_intent_forget(struct node *node, const char *cut);
void cut_intent_leave(struct node *node, const char *cut);

/* The same as cut_intent_forget(), unless somebody works on it. */
void cut_intent_taken_apart(struct node *node, const char *cut);

/*
 * Settle the note of a cut. 1: the snapshots that there were of it are gone; 0:
 * there is no note any more. -EAGAIN: somebody works on it; -ENODEV: a pool is
 * not online; or why its snapshots can't be deleted.
 */
int cut_intent_settle(struct node *node, const char *cut, struct error *err);
/* Settle all notes; the log says which could not be settled. */
void cut_intents_settle(struct node *node);

#endif
