/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/options.h"

struct config {
	char *file;
	char *name;
	bool verbose;
	bool sync;
	uint64_t port;
	uint64_t size;
	struct option_list listen;
};

#define AT(member) offsetof(struct config, member)

static const struct option_row rows[] = {
	{"config", 'c', OPTION_STRING, AT(file), "FILE",
	 "read options from here", NULL, 0, 0},
	{"name", 0, OPTION_STRING, AT(name), "NAME", "of this node", "host", 0,
	 0},
	{"verbose", 'v', OPTION_FLAG, AT(verbose), NULL, "say more", NULL, 0,
	 0},
	{"sync", 0, OPTION_FLAG, AT(sync), NULL, "write through", "yes", 0, 0},
	{"port", 'p', OPTION_NUMBER, AT(port), "PORT", "listen on it", "10809",
	 1, 65535},
	{"size", 's', OPTION_SIZE, AT(size), "SIZE", "how large", "1GiB", 4096,
	 0},
	{"listen", 'l', OPTION_LIST, AT(listen), "ADDRESS[,ADDRESS]",
	 "serve here", "tcp:a,tcp:b", 0, 0},
};

#define N array_size(rows)

static int setup(void **state)
{
	struct config *config = calloc(1, sizeof(*config));

	if (!config)
		return -1;
	options_defaults(rows, N, config);
	*state = config;
	return 0;
}

static int teardown(void **state)
{
	options_done(rows, N, *state);
	free(*state);
	return 0;
}

static void assert_list(const struct option_list *list, const char *joined)
{
	char got[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < list->count; i++)
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s",
				      i ? "|" : "", list->items[i]);
	assert_string_equal(got, joined);
}

/* Parse the words after the program's name; the rest's index is @index. */
#define PARSE(config, index, err, ...)                                 \
	options_parse(rows, N, config,                                 \
		      array_size(((char *[]){"prog", ##__VA_ARGS__})), \
		      (char *[]){"prog", ##__VA_ARGS__, NULL}, index, err)

static void assert_parses(struct config *config, char *word, char *value)
{
	struct error err = {0};
	int index = 0, r;

	if (value)
		r = PARSE(config, &index, &err, word, value);
	else
		r = PARSE(config, &index, &err, word);
	if (r < 0)
		fail_msg("%s: %s", word, err.msg);
	assert_int_equal(index, value ? 3 : 2);
}

static void assert_refused(struct config *config, char *word, char *value,
			   const char *text)
{
	struct error err = {0};
	int index = 99, r;

	if (value)
		r = PARSE(config, &index, &err, word, value);
	else
		r = PARSE(config, &index, &err, word);
	assert_int_equal(r, -EINVAL);
	assert_int_equal(index, 99);
	if (!strstr(err.msg, text))
		fail_msg("'%s' not in: %s", text, err.msg);
}

/* A file with @text, loaded. */
static int load(struct config *config, const char *text, size_t length,
		int (*other)(void *, const char *, const char *, const char *,
			     struct error *),
		void *context, struct error *err)
{
	char path[] = "/tmp/options-test.XXXXXX";
	auto_close int fd = mkstemp(path);
	int r;

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, length), 0);
	r = options_load(rows, N, config, path, other, context, err);
	assert_int_equal(unlink(path), 0);
	return r;
}

static void assert_loads(struct config *config, const char *text)
{
	struct error err = {0};

	if (load(config, text, strlen(text), NULL, NULL, &err) < 0)
		fail_msg("%s", err.msg);
}

static void assert_load_refused(struct config *config, const char *text,
				const char *says)
{
	struct error err = {0};

	assert_int_equal(load(config, text, strlen(text), NULL, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "/tmp/options-test."));
	if (!strstr(err.msg, says))
		fail_msg("'%s' not in: %s", says, err.msg);
}

static void every_row_has_its_default(void **state)
{
	struct config *config = *state;

	assert_null(config->file);
	assert_string_equal(config->name, "host");
	assert_false(config->verbose);
	assert_true(config->sync);
	assert_int_equal(config->port, 10809);
	assert_int_equal(config->size, 1 << 30);
	assert_list(&config->listen, "tcp:a|tcp:b");
	assert_true(config->listen.is_default);
}

static void takes_every_form_of_a_flag(void **state)
{
	struct config *config = *state;

	assert_parses(config, "--name", "n1");
	assert_string_equal(config->name, "n1");
	assert_parses(config, "--name=--n2=", NULL);
	assert_string_equal(config->name, "--n2=");
	assert_parses(config, "--name=", NULL);
	assert_string_equal(config->name, "");
	assert_parses(config, "-p", "1");
	assert_int_equal(config->port, 1);
	assert_parses(config, "-p65535", NULL);
	assert_int_equal(config->port, 65535);
	assert_parses(config, "-s", "1.5MiB");
	assert_int_equal(config->size, 1572864);
	assert_parses(config, "-v", NULL);
	assert_true(config->verbose);
	assert_parses(config, "--verbose=no", NULL);
	assert_false(config->verbose);
	assert_parses(config, "--sync=no", NULL);
	assert_false(config->sync);
}

static void stops_at_the_first_word_that_is_no_flag(void **state)
{
	struct config *config = *state;
	int index = 0;

	assert_int_equal(PARSE(config, &index, NULL, "-v", "word", "--bad"), 0);
	assert_int_equal(index, 2);
	assert_int_equal(PARSE(config, &index, NULL, "-v", "--", "--bad"), 0);
	assert_int_equal(index, 3);
	assert_int_equal(PARSE(config, &index, NULL, "-"), 0);
	assert_int_equal(index, 1);
	assert_int_equal(PARSE(config, &index, NULL), 0);
	assert_int_equal(index, 1);
}

static void refuses_bad_flags_and_names_them(void **state)
{
	struct config *config = *state;

	assert_refused(config, "--nmae", "x", "unknown option '--nmae'");
	assert_refused(config, "--nam=x", NULL, "unknown option '--nam'");
	assert_refused(config, "-x", NULL, "unknown option '-x'; try --help");
	assert_refused(config, "-vp", NULL, "unknown option '-vp'");
	assert_refused(config, "--name", NULL,
		       "--name needs a value: --name NAME");
	assert_refused(config, "--name", "--verbose", "--name needs a value");
	assert_refused(config, "--verbose=maybe", NULL,
		       "--verbose: 'maybe' is not yes or no");
	assert_refused(config, "-p", "x", "--port: 'x' is not a number");
	assert_refused(config, "-p", "-1", "is not a number");
	assert_refused(config, "-p", "", "is not a number");
	assert_refused(config, "-p", "80 ", "is not a number");
	assert_refused(config, "-p", "0", "--port: must be from 1 to 65535");
	assert_refused(config, "-p", "65536", "must be from 1 to 65535");
	assert_refused(config, "-p", "99999999999999999999", "too large");
	assert_refused(config, "-s", "10Q", "--size: '10Q' is not a size");
	assert_refused(config, "-s", "1KiB", "must be at least 4.00 KiB");
	assert_int_equal(config->port, 10809);
	assert_int_equal(config->size, 1 << 30);
}

static void a_list_flag_replaces_the_default_and_adds_up(void **state)
{
	struct config *config = *state;
	int index = 0;

	assert_int_equal(PARSE(config, &index, NULL, "-l", "x, y,,", "-l", "z"),
			 0);
	assert_list(&config->listen, "x|y|z");
	assert_false(config->listen.is_default);
	assert_parses(config, "-l", "w");
	assert_list(&config->listen, "x|y|z|w");
}

static void an_empty_list_may_be_asked_for(void **state)
{
	struct config *config = *state;

	assert_parses(config, "--listen=", NULL);
	assert_list(&config->listen, "");
}

static void a_file_sets_what_it_names(void **state)
{
	struct config *config = *state;

	assert_loads(config, "# a comment\n"
			     "; another\n"
			     "\n"
			     "name = n1 ; the first\r\n"
			     "  port=99\n"
			     "verbose = yes\n"
			     "size = 2 MiB\n"
			     "listen = a, b\n"
			     "\tlisten = c");
	assert_string_equal(config->name, "n1");
	assert_int_equal(config->port, 99);
	assert_true(config->verbose);
	assert_true(config->sync);
	assert_int_equal(config->size, 2 << 20);
	assert_list(&config->listen, "a|b|c");
}

static void a_flag_wins_over_the_file(void **state)
{
	struct config *config = *state;
	int index = 0;

	/* Once to find the file, once to win over it. */
	assert_int_equal(PARSE(config, &index, NULL, "-c", "f", "-p", "1", "-l",
			       "x", "-l", "y"),
			 0);
	assert_loads(config, "port = 2\nlisten = a\nname = n\n");
	assert_int_equal(config->port, 2);
	assert_list(&config->listen, "a");
	assert_int_equal(PARSE(config, &index, NULL, "-c", "f", "-p", "1", "-l",
			       "x", "-l", "y"),
			 0);
	assert_int_equal(config->port, 1);
	assert_list(&config->listen, "x|y");
	assert_string_equal(config->name, "n");
}

static void parsing_again_after_a_file_without_the_list_is_the_same(
	void **state)
{
	struct config *config = *state;

	assert_parses(config, "-l", "x");
	assert_loads(config, "port = 2\n");
	assert_list(&config->listen, "x");
	assert_parses(config, "-l", "x");
	assert_list(&config->listen, "x");
}

static void a_bad_line_is_named_by_file_and_number(void **state)
{
	struct config *config = *state;

	assert_load_refused(config, "\n# c\nnmae = x\n",
			    ":3: unknown option 'nmae'");
	assert_load_refused(config, "port = 1\nport = 2\n",
			    ":2: 'port' is given twice");
	assert_load_refused(config, "\n port = many",
			    ":2: port: 'many' is not a number");
	assert_load_refused(config, "verbose = true\n",
			    ":1: verbose: 'true' is not yes or no");
	assert_load_refused(config, "name = a\njust words\n",
			    ":2: neither 'name = value' nor");
	assert_load_refused(config, "[open\n", ":1: neither");
	assert_load_refused(config, "\n[pool]\nname = a\n",
			    ":3: unknown section '[pool]'");
}

static void an_indented_line_is_a_line_of_its_own(void **state)
{
	struct config *config = *state;

	assert_load_refused(config, "name = a\n  nmae = b\n",
			    ":2: unknown option 'nmae'");
}

static void nothing_is_cut_silently(void **state)
{
	struct config *config = *state;
	struct error err = {0};
	char text[5000];

	memset(text, 'x', sizeof(text));
	memcpy(text, "\nname = ", 8);
	text[sizeof(text) - 1] = '\0';
	assert_load_refused(config, text, ":2: longer than 4093 bytes");
	text[4094] = '\0';
	assert_loads(config, text);
	assert_int_equal(strlen(config->name), 4094 - 8);
	assert_load_refused(
		config,
		"[a2345678901234567890123456789012345678901234567890"
		"]\nx=1\n",
		":1: a section name longer than 49 bytes");
	assert_int_equal(load(config, "name = a\0b", 10, NULL, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "zero byte"));
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
	struct error err = {0};

	assert_int_equal(options_load(rows, N, *state, "/nonexistent/x", NULL,
				      NULL, &err),
			 -ENOENT);
	assert_non_null(strstr(err.msg, "/nonexistent/x"));
	assert_int_equal(
		options_load(rows, N, *state, "/tmp", NULL, NULL, &err),
		-EISDIR);
}

static int section_note(void *context, const char *section, const char *name,
			const char *value, struct error *err)
{
	char *seen = context;

	if (strcmp(name, "bad") == 0)
		return error_set(err, EINVAL, "bad is bad");
	if (strcmp(name, "mute") == 0)
		return -ERANGE;
	(void)sprintf(seen + strlen(seen), "%s.%s=%s|", section, name, value);
	return 0;
}

static void other_sections_go_to_the_caller(void **state)
{
	const char *text = "port = 5\n[pool a]\ndir = /x\ndir = /y\n[pool b]\n"
			   "dir = /z\n";
	struct config *config = *state;
	struct error err = {0};
	char seen[256] = "";

	assert_int_equal(
		load(config, text, strlen(text), section_note, seen, &err), 0);
	assert_int_equal(config->port, 5);
	assert_string_equal(seen, "pool a.dir=/x|pool a.dir=/y|pool b.dir=/z|");
}

static void the_callers_error_gets_the_line_and_ends_it(void **state)
{
	const char *bad = "[pool a]\n\nbad = x\ndir = /x\n";
	const char *mute = "[pool a]\nmute = x\n";
	struct error err = {0};
	char seen[256] = "";

	assert_int_equal(
		load(*state, bad, strlen(bad), section_note, seen, &err),
		-EINVAL);
	assert_non_null(strstr(err.msg, ":3: bad is bad"));
	assert_string_equal(seen, "");
	assert_int_equal(
		load(*state, mute, strlen(mute), section_note, seen, &err),
		-ERANGE);
	assert_non_null(strstr(err.msg, ":2: [pool a] mute: "));
}

static void help_shows_every_row(void **state)
{
	auto_free char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	assert_non_null(out);
	options_help(rows, N, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(
		text,
		"  -c, --config FILE           read options from here\n"
		"      --name NAME             of this node (default host)\n"
		"  -v, --verbose               say more\n"
		"      --sync                  write through\n"
		"  -p, --port PORT             listen on it (default 10809)\n"
		"  -s, --size SIZE             how large (default 1GiB)\n"
		"  -l, --listen ADDRESS[,ADDRESS]\n"
		"                              serve here (default tcp:a,tcp:b)\n");
}

int main(void)
{
#define WITH_CONFIG(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_CONFIG(every_row_has_its_default),
		WITH_CONFIG(takes_every_form_of_a_flag),
		WITH_CONFIG(stops_at_the_first_word_that_is_no_flag),
		WITH_CONFIG(refuses_bad_flags_and_names_them),
		WITH_CONFIG(a_list_flag_replaces_the_default_and_adds_up),
		WITH_CONFIG(an_empty_list_may_be_asked_for),
		WITH_CONFIG(a_file_sets_what_it_names),
		WITH_CONFIG(a_flag_wins_over_the_file),
		WITH_CONFIG(
			parsing_again_after_a_file_without_the_list_is_the_same),
		WITH_CONFIG(a_bad_line_is_named_by_file_and_number),
		WITH_CONFIG(an_indented_line_is_a_line_of_its_own),
		WITH_CONFIG(nothing_is_cut_silently),
		WITH_CONFIG(a_file_that_cannot_be_read_is_named),
		WITH_CONFIG(other_sections_go_to_the_caller),
		WITH_CONFIG(the_callers_error_gets_the_line_and_ends_it),
		WITH_CONFIG(help_shows_every_row),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
