/* SPDX-License-Identifier: Apache-2.0 */
/* What a person types to name a pool or an extent: "NODE/NAME" or "NAME". */
#ifndef CLI_REFERENCE_H
#define CLI_REFERENCE_H

#include "base/error.h"
#include "volume/record/label.h"
#include "volume/record/volume_record.h"

struct reference {
	char node[RECORD_NAME_SIZE];
	char name[RECORD_NAME_SIZE];
};

/*
 * @own_node  the node meant when @text names none
 *
 * -EINVAL with the rule that was broken.
 */
int reference_parse(const char *what, const char *text, const char *own_node,
		    struct reference *ret, struct error *err);

/* "KEY=VALUE" into @labels. -EINVAL. */
int label_parse(const char *text, struct labels *labels, struct error *err);

#endif
