/* SPDX-License-Identifier: Apache-2.0 */
/* trib top: rates of volumes and nodes. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "cli/command/command.h"
#include "cli/live/top.h"
#include "volume/op/volume_walk.h"

#define CLEAR         "\033[H\033[2J" /* ECMA-48 CUP, ED: an empty screen */
#define EVERY_MS      2000
#define ASKED_AT_ONCE 32 /* splits */

struct sampling {
	struct cli *cli;
	const char *volume;         /* only that; NULL: all */
	struct top_samples samples; /* of those in use */
	bool found;
};

static bool is_wanted(const struct sampling *s, const char *node)
{
	const struct option_list *on = &s->cli->options.on;

	for (size_t i = 0; i < on->count; i++)
		if (strcmp(on->items[i], node) == 0)
			return true;
	return on->count == 0;
}

static bool is_used(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_attachments; i++)
		if (record->attachments[i].state != ATTACHMENT_PUBLISHED)
			return true;
	return false;
}

struct asking {
	struct volume_context *ctx;
	const struct volume_record *record;
	struct top_sample *items; /* borrowed */
};

static void split_ask(void *asking_, size_t index)
{
	const struct asking *asking = asking_;
	struct top_sample *item = &asking->items[index];

	volume_split_use(asking->ctx, asking->record, item->index, &item->use);
}

static int record_sample(void *sampling_, const struct volume_record *record,
			 struct error *err)
{
	struct sampling *s = sampling_;
	struct asking asking = {.ctx = s->cli->volumes, .record = record};
	size_t first = s->samples.n;

	if (s->volume && strcmp(record->name, s->volume) != 0)
		return 0;
	s->found = true;
	if (!is_used(record))
		return 0;
	s->samples.items = reallocarray(s->samples.items,
					first + record->n_splits + 1,
					sizeof(*s->samples.items));
	if (!s->samples.items)
		return error_set(err, ENOMEM, "out of memory");
	for (unsigned i = 0; i < record->n_splits; i++) {
		struct top_sample *item = &s->samples.items[s->samples.n];

		if (!is_wanted(s, record->splits[i].node))
			continue;
		*item = (struct top_sample){.index = i};
		memcpy(item->volume, record->name, sizeof(item->volume));
		memcpy(item->node, record->splits[i].node, sizeof(item->node));
		s->samples.n++;
	}
	asking.items = s->samples.items + first;
	parallel_run(s->samples.n - first, ASKED_AT_ONCE, split_ask, &asking);
	return 0;
}

/* Take a sample; @ret: free(items). -ENOENT: no such volume. */
static int sample_take(struct cli *cli, struct top_samples *ret,
		       struct error *err)
{
	struct sampling s = {.cli = cli, .volume = cli_argument(cli, 0)};
	int r;

	s.samples.at_ms = clock_ms();
	r = volume_walk(cli->volumes, NULL, record_sample, &s, NULL, err);
	if (r == 0 && s.volume && !s.found)
		r = error_set(err, ENOENT, "there is no volume '%s'", s.volume);
	if (r < 0) {
		free(s.samples.items);
		return r;
	}
	*ret = s.samples;
	return 0;
}

/* Wait for the next sample. False: a signal says stop. */
static bool goes_on(const struct cli *cli)
{
	struct pollfd stop = {.fd = cli->stop_fd, .events = POLLIN};

	return poll(&stop, 1, EVERY_MS) == 0;
}

static void top_show(struct cli *cli, const struct top *top)
{
	if (cli->options.once) {
		if (!cli_answer(cli, top_json(top)))
			top_print(top, stdout);
		return;
	}
	if (cli->options.json) { /* a document a line */
		struct json_object *object = top_json(top);

		(void)puts(json_object_to_json_string_ext(
			object, JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(object);
		return;
	}
	if (isatty(STDOUT_FILENO))
		(void)fputs(CLEAR, stdout);
	top_print(top, stdout);
	(void)fputc('\n', stdout);
}

int top_run(struct cli *cli, struct error *err)
{
	struct top_samples before = {0}, now = {0};
	int r = sample_take(cli, &before, err);

	while (r == 0 && goes_on(cli)) {
		struct top top;

		r = sample_take(cli, &now, err);
		if (r < 0)
			break;
		top_make(&before, &now, &top);
		top_show(cli, &top);
		top_done(&top);
		free(before.items);
		before = now;
		if (fflush(stdout) != 0)
			r = error_set(err, EIO, "writing: %s", strerror(errno));
		if (cli->options.once)
			break;
	}
	free(before.items);
	return r;
}
