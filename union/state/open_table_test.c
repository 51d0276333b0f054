/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/open_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MANY (3 * OPEN_CHUNK)

static struct open_table table;
static char items[MANY];

static int setup(void **state)
{
	(void)state;
	open_table_init(&table, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	open_table_done(&table);
	return 0;
}

static void gives_each_its_number(void **state)
{
	uint64_t numbers[MANY];
	unsigned i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		numbers[i] = open_table_add(&table, &items[i]);
		assert_int_not_equal(numbers[i], 0);
	}
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(open_table_get(&table, numbers[i]), &items[i]);
}

static void knows_nothing_of_other_numbers(void **state)
{
	uint64_t number = open_table_add(&table, &items[0]);

	(void)state;
	assert_null(open_table_get(&table, 0));
	assert_null(open_table_get(&table, number + 1));
	assert_null(open_table_get(&table, UINT64_MAX));
	open_table_remove(&table, UINT64_MAX);
	open_table_remove(&table, number);
	open_table_remove(&table, number);
	assert_null(open_table_get(&table, number));
}

static void uses_a_place_again_and_a_number_never(void **state)
{
	uint64_t first = open_table_add(&table, &items[0]);
	uint64_t second = open_table_add(&table, &items[1]), again;

	(void)state;
	open_table_remove(&table, first);
	open_table_remove(&table, first);
	again = open_table_add(&table, &items[2]);
	assert_int_equal(open_place(again), open_place(first));
	assert_int_not_equal(again, first);
	assert_null(open_table_get(&table, first));
	open_table_remove(&table, first); /* a late one closes nothing else */
	assert_ptr_equal(open_table_get(&table, again), &items[2]);
	assert_int_not_equal(open_place(open_table_add(&table, &items[3])),
			     open_place(first));
	assert_ptr_equal(open_table_get(&table, second), &items[1]);
}

#define NUMBER(place, serial) ((place) | UINT64_C(serial) << OPEN_PLACE_BITS)

static void goes_on_with_the_numbers_of_another(void **state)
{
	_Atomic uint64_t serial = 77;
	struct open_table next;
	uint64_t number;
	unsigned i;

	(void)state;
	open_table_init(&next, &serial);
	assert_int_equal(open_table_add_at(&next, NUMBER(3, 9), &items[3]), 0);
	assert_int_equal(open_table_add_at(&next, NUMBER(2000, 4), &items[4]),
			 0);
	assert_int_equal(open_table_add_at(&next, NUMBER(2, 4), &items[4]),
			 -ENOMEM);
	assert_ptr_equal(open_table_get(&next, NUMBER(3, 9)), &items[3]);
	assert_ptr_equal(open_table_get(&next, NUMBER(2000, 4)), &items[4]);
	for (i = 0; i < 1998; i++) {
		number = open_table_add(&next, &items[i]);
		assert_int_equal(number >> OPEN_PLACE_BITS, 77 + i);
		assert_in_range(open_place(number), 1, 1999);
		assert_int_not_equal(open_place(number), 3);
	}
	number = open_table_add(&next, &items[5]);
	assert_int_equal(open_place(number), 2001);
	assert_int_equal(serial, 77 + 1999);
	open_table_done(&next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(gives_each_its_number, setup,
						teardown),
		cmocka_unit_test_setup_teardown(knows_nothing_of_other_numbers,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			uses_a_place_again_and_a_number_never, setup, teardown),
		cmocka_unit_test_setup_teardown(
			goes_on_with_the_numbers_of_another, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
