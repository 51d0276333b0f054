/* SPDX-License-Identifier: Apache-2.0 */
/* trib-dm: makes one change of a device mapper device (base/dm/mapper.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dm/mapper_call.h"

#define EXIT_USAGE 2
#define WORDS      7 /* up to the retry time */

static const char help[] =
	"usage: " MAPPER_PROGRAM " CHANGE UUID READ-ONLY NO-FLUSH DEFERRED "
	"RETRY-MS [NAME]\n"
	"Make one change of a device mapper device of Tributary: create, load,\n"
	"suspend, resume, clear or remove. A table is read from standard input.\n"
	"The answer is an errno and a text on standard output. Programs of\n"
	"Tributary run this one, because a change may wait for a device that\n"
	"does not answer. By hand use dmsetup(8).\n";

static char *read_input(void)
{
	char *text = NULL;
	size_t room = 0;

	if (getdelim(&text, &room, 0, stdin) < 0) {
		free(text);
		return NULL;
	}
	return text;
}

static int parse(int argc, char **argv, struct mapper_change_request *q)
{
	bool found = false;

	if (argc < WORDS || argc > WORDS + 1)
		return -EINVAL;
	for (unsigned i = 0; i < MAPPER_CHANGES; i++)
		if (!strcmp(argv[1], mapper_change_names[i])) {
			q->change = i;
			found = true;
		}
	q->uuid = argv[2];
	q->flags = (*argv[3] ? MAPPER_READ_ONLY : 0) |
		   (*argv[4] ? MAPPER_NO_FLUSH : 0) |
		   (*argv[5] ? MAPPER_DEFERRED : 0);
	q->retry_ms = atoi(argv[6]);
	q->name = argc > WORDS ? argv[7] : NULL;
	if (!found || (q->change == MAPPER_CHANGE_CREATE) != (q->name != NULL))
		return -EINVAL;
	return 0;
}

static int make(struct mapper_change_request *q, struct error *err)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	auto_free char *text = NULL;
	int r = 0;

	if (q->change == MAPPER_CHANGE_CREATE ||
	    q->change == MAPPER_CHANGE_LOAD) {
		text = read_input();
		r = text ? mapper_table_decode(text, &table, err)
			 : error_set(err, EINVAL, "no table on standard input");
		q->table = &table;
	}
	if (!r)
		r = mapper_call_change(q, err);
	q->table = NULL;
	return r;
}

int main(int argc, char **argv)
{
	struct mapper_change_request q = {.retry_ms = 0};
	struct error err = {.code = 0};
	int r;

	if (argc == 2 && !strcmp(argv[1], "--help")) {
		fputs(help, stdout);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts(MAPPER_PROGRAM " " TRIBUTARY_VERSION);
		return 0;
	}
	if (parse(argc, argv, &q) < 0) {
		fputs(help, stderr);
		return EXIT_USAGE;
	}
	r = make(&q, &err);
	printf("%d %s\n", -r, r < 0 ? error_text(&err) : "");
	return r < 0;
}
