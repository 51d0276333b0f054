/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cli/command/command.h"
#include "cli/help.h"

static void commands_are_found_by_all_their_words(void **state)
{
	char *words[] = {"volume", "create", "x"};
	char *half[] = {"volume"};
	char *none[] = {"volumes", "create"};
	const struct command *command;
	int taken = 0;

	(void)state;
	command = command_find(words, 3, &taken);
	assert_non_null(command);
	assert_string_equal(command->words, "volume create");
	assert_int_equal(taken, 2);
	assert_null(command_find(half, 1, &taken));
	assert_null(command_find(none, 2, &taken));
	assert_null(command_find(none, 0, &taken));
}

static void every_command_is_whole_and_its_options_are_its_own(void **state)
{
	const struct command *c, *other;

	(void)state;
	for (size_t i = 0; (c = command_at(i)); i++) {
		assert_non_null(c->run);
		assert_non_null(c->summary);
		assert_non_null(c->arguments);
		assert_true(c->min_arguments <= c->max_arguments);
		for (size_t k = i + 1; (other = command_at(k)); k++)
			assert_string_not_equal(c->words, other->words);
		for (size_t o = 0; o < c->n_rows; o++)
			for (size_t g = 0; g < cli_global_rows_count; g++)
				assert_string_not_equal(
					c->rows[o].name,
					cli_global_rows[g].name);
	}
}

static void exit_codes_tell_what_to_do(void **state)
{
	(void)state;
	assert_int_equal(help_exit_code(-ENOENT), EXIT_NOT_FOUND);
	assert_int_equal(help_exit_code(-EEXIST), EXIT_EXISTS);
	assert_int_equal(help_exit_code(-ENOSPC), EXIT_NO_SPACE);
	assert_int_equal(help_exit_code(-EBUSY), EXIT_BUSY);
	assert_int_equal(help_exit_code(-EHOSTUNREACH), EXIT_REPEAT);
	assert_int_equal(help_exit_code(-EIO), EXIT_FAILED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_are_found_by_all_their_words),
		cmocka_unit_test(
			every_command_is_whole_and_its_options_are_its_own),
		cmocka_unit_test(exit_codes_tell_what_to_do),
	};

	return cmocka_run_group_tests_name("commands", tests, NULL, NULL);
}
