/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of an object, by a user or a layer above. */
#ifndef VOLUME_LABEL_H
#define VOLUME_LABEL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define LABEL_TEXT_SIZE 129 /* bytes with NUL; proto/blockd.proto, Label */
#define LABELS_MAX      16  /* the same */

struct label {
	char key[LABEL_TEXT_SIZE];
	char value[LABEL_TEXT_SIZE];
};

/* Zero-initialise; labels_done() frees. Keys are unique. */
struct labels {
	struct label *items; /* owned */
	size_t count;
};

/* Set or replace. -EINVAL: empty or too long; -E2BIG: over LABELS_MAX. */
int labels_set(struct labels *labels, const char *key, const char *value,
	       struct error *err);

/* NULL when there is none. Borrowed. */
const char *labels_get(const struct labels *labels, const char *key);

bool labels_equal(const struct labels *a, const struct labels *b);

/* Every label of @wanted is in @labels with the same value. */
bool labels_match(const struct labels *wanted, const struct labels *labels);

int labels_copy(const struct labels *from, struct labels *to,
		struct error *err);
void labels_done(struct labels *labels);

#endif
