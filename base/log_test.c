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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

/* Standard error goes to a file in memory during a test. */
struct redirected {
	int saved, file;
	char text[8192];
};

static struct redirected redirected;

static int redirect(void **state)
{
	struct redirected *r = &redirected;

	r->saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	r->file = memfd_create("log", MFD_CLOEXEC);
	if (r->saved < 0 || r->file < 0 || dup2(r->file, STDERR_FILENO) < 0)
		return -1;
	*state = r;
	return 0;
}

static int restore(void **state)
{
	struct redirected *r = *state;

	if (dup2(r->saved, STDERR_FILENO) < 0)
		return -1;
	fd_close(r->saved);
	fd_close(r->file);
	return unsetenv("JOURNAL_STREAM");
}

/* Return the text logged until now. */
static const char *logged(struct redirected *r)
{
	ssize_t n = pread(r->file, r->text, sizeof(r->text) - 1, 0);

	assert_true(n >= 0);
	r->text[n] = '\0';
	return r->text;
}

static void a_line_tells_time_program_and_level(void **state)
{
	const char *text;

	log_setup("prog", LOG_LEVEL_INFO);
	log_warning("pool %s is %d%% full", "p", 90);
	text = logged(*state);
	assert_int_equal(text[10], 'T');
	assert_string_equal(text + 24, " prog: warning: pool p is 90% full\n");
}

static void the_journal_gets_a_priority_instead(void **state)
{
	char stream[64];
	struct stat st;

	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(stream, sizeof(stream), "%ju:%ju", (uintmax_t)st.st_dev,
		       (uintmax_t)st.st_ino);
	assert_int_equal(setenv("JOURNAL_STREAM", stream, 1), 0);
	log_setup("prog", LOG_LEVEL_DEBUG);
	log_info("started");
	log_debug("small");
	assert_int_equal(log_error(-EIO, "bad %d", 1), -EIO);
	assert_string_equal(logged(*state), "<6>started\n<7>small\n<3>bad 1\n");
}

static void another_stream_is_not_the_journal(void **state)
{
	assert_int_equal(setenv("JOURNAL_STREAM", "1:1", 1), 0);
	log_setup("prog", LOG_LEVEL_INFO);
	log_info("x");
	assert_null(strstr(logged(*state), "<6>"));
}

static void less_important_levels_are_silent(void **state)
{
	log_setup("prog", LOG_LEVEL_WARNING);
	log_info("info");
	log_debug("debug");
	assert_string_equal(logged(*state), "");
	log_warning("warning");
	assert_non_null(strstr(logged(*state), "warning"));
}

static void a_message_is_one_line_and_bounded(void **state)
{
	char text[10000];
	const char *got;

	log_setup("prog", LOG_LEVEL_INFO);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	text[5] = '\n';
	log_info("%s", text);
	got = logged(*state);
	assert_true(strlen(got) <= 2048);
	assert_ptr_equal(strchr(got, '\n'), got + strlen(got) - 1);
}

static void logging_keeps_errno(void **state)
{
	(void)state;
	log_setup("prog", LOG_LEVEL_INFO);
	errno = EXDEV;
	log_info("x");
	assert_int_equal(errno, EXDEV);
}

static void levels_have_names(void **state)
{
	enum log_level level = LOG_LEVEL_ERROR;

	(void)state;
	assert_int_equal(log_level_parse("debug", &level), 0);
	assert_int_equal(level, LOG_LEVEL_DEBUG);
	assert_int_equal(log_level_parse("warning", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARNING);
	assert_int_equal(log_level_parse("loud", &level), -EINVAL);
	assert_int_equal(level, LOG_LEVEL_WARNING);
}

static void a_peer_cannot_flood_the_log(void **state)
{
	struct log_limit limit = {0};
	unsigned dropped = 99, i;

	(void)state;
	for (i = 0; i < 5; i++) {
		assert_true(log_limit_allow(&limit, &dropped));
		assert_int_equal(dropped, 0);
	}
	for (i = 0; i < 7; i++)
		assert_false(log_limit_allow(&limit, &dropped));
	limit.window_start_ms -= 10000; /* as if ten seconds went by */
	assert_true(log_limit_allow(&limit, &dropped));
	assert_int_equal(dropped, 7);
	assert_true(log_limit_allow(&limit, &dropped));
	assert_int_equal(dropped, 0);
}

static void quotes_everything_a_terminal_might_obey(void **state)
{
	static const char text[] = "a\"\\\x1b[0m\n\xff";
	char buf[64];

	(void)state;
	assert_string_equal(log_quote(buf, sizeof(buf), text, sizeof(text) - 1),
			    "\"a\\\"\\\\\\x1b[0m\\x0a\\xff\"");
	assert_string_equal(log_quote(buf, sizeof(buf), "", 0), "\"\"");
}

static void a_quoted_text_is_cut_at_the_buffer(void **state)
{
	char guard[64];

	(void)state;
	assert_string_equal(log_quote(guard, 8, "abcde", 5), "\"abcde\"");
	assert_string_equal(log_quote(guard, 8, "abcdef", 6), "\"ab...\"");
	assert_string_equal(log_quote(guard, 8, "\n\n", 2), "\"...\"");
	for (unsigned size = 8; size < 40; size++) {
		memset(guard, '#', sizeof(guard));
		log_quote(guard, size, "\n\"a\n\"a\n\"a\n\"a\n\"a\n\"a", 18);
		assert_true(strlen(guard) < size);
		assert_int_equal(guard[size], '#');
		assert_int_equal(guard[strlen(guard) - 1], '"');
	}
}

int main(void)
{
#define WITH_STDERR(test) \
	cmocka_unit_test_setup_teardown(test, redirect, restore)
	const struct CMUnitTest tests[] = {
		WITH_STDERR(a_line_tells_time_program_and_level),
		WITH_STDERR(the_journal_gets_a_priority_instead),
		WITH_STDERR(another_stream_is_not_the_journal),
		WITH_STDERR(less_important_levels_are_silent),
		WITH_STDERR(a_message_is_one_line_and_bounded),
		WITH_STDERR(logging_keeps_errno),
		cmocka_unit_test(levels_have_names),
		cmocka_unit_test(a_peer_cannot_flood_the_log),
		cmocka_unit_test(quotes_everything_a_terminal_might_obey),
		cmocka_unit_test(a_quoted_text_is_cut_at_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
