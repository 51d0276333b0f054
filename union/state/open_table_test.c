/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/open_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "union/state/request.h"
#include "union/state/state.h"

#define MANY (3 * OPEN_CHUNK)

static struct open_table table;
static struct open_item items[MANY];
static unsigned freed;

static void note_free(struct open_item *item)
{
	(void)item;
	freed++;
}

static int setup(void **state)
{
	unsigned i;

	(void)state;
	open_table_init(&table, NULL);
	for (i = 0; i < MANY; i++) {
		atomic_init(&items[i].references, 1);
		items[i].free = note_free;
	}
	freed = 0;
	return 0;
}

static uint64_t add(struct open_item *item)
{
	return open_table_add(&table, NULL, item, NULL);
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
		numbers[i] = add(&items[i]);
		assert_int_not_equal(numbers[i], 0);
	}
	for (i = 0; i < MANY; i++)
		assert_ptr_equal(open_table_get(&table, numbers[i]), &items[i]);
}

static void knows_nothing_of_other_numbers(void **state)
{
	uint64_t number = add(&items[0]);

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
	uint64_t first = add(&items[0]);
	uint64_t second = add(&items[1]), again;

	(void)state;
	open_table_remove(&table, first);
	open_table_remove(&table, first);
	again = add(&items[2]);
	assert_int_equal(open_place(again), open_place(first));
	assert_int_not_equal(again, first);
	assert_null(open_table_get(&table, first));
	open_table_remove(&table, first); /* a late one closes nothing else */
	assert_ptr_equal(open_table_get(&table, again), &items[2]);
	assert_int_not_equal(open_place(add(&items[3])), open_place(first));
	assert_ptr_equal(open_table_get(&table, second), &items[1]);
}

#define NUMBER(place, serial) ((place) | UINT64_C(serial) << OPEN_PLACE_BITS)

static void goes_on_with_the_numbers_of_another(void **state)
{
	static const struct node node = {.id = 5, .generation = 6};
	struct open_table next;
	struct state kept;
	uint64_t number;
	unsigned i;

	(void)state;
	assert_int_equal(state_create(&kept), 0);
	kept.header->next_serial = 77;
	open_table_init(&next, &kept);
	assert_int_equal(open_table_add_at(&next, NUMBER(3, 9), &items[3]), 0);
	assert_int_equal(open_table_add_at(&next, NUMBER(2000, 4), &items[4]),
			 0);
	assert_int_equal(open_table_add_at(&next, NUMBER(2, 4), &items[4]),
			 -ENOMEM);
	assert_ptr_equal(open_table_get(&next, NUMBER(3, 9)), &items[3]);
	assert_ptr_equal(open_table_get(&next, NUMBER(2000, 4)), &items[4]);
	for (i = 0; i < 1998; i++) {
		number = open_table_add(&next, NULL, &items[i], &node);
		assert_int_equal(number >> OPEN_PLACE_BITS, 77 + i);
		assert_in_range(open_place(number), 1, 1999);
		assert_int_not_equal(open_place(number), 3);
	}
	number = open_table_add(&next, NULL, &items[5], &node);
	assert_int_equal(open_place(number), 2001);
	assert_int_equal(kept.header->next_serial, 77 + 1999);
	open_table_done(&next);
	state_done(&kept);
}

static void has_a_record_as_long_as_it_is_open(void **state)
{
	static const struct node node = {.id = 5, .generation = 6};
	struct state kept;
	const struct state_open *record;
	uint64_t number;

	(void)state;
	assert_int_equal(state_create(&kept), 0);
	table.state = &kept;
	items[0].flags = STATE_OPEN_READS;
	number = open_table_add(&table, NULL, &items[0], &node);
	record = &kept.opens[open_place(number)];
	assert_int_equal(record->number, number);
	assert_int_equal(record->node, 5);
	assert_int_equal(record->generation, 6);
	assert_int_equal(record->flags, STATE_OPEN_READS);
	assert_int_equal(kept.header->opens_used, open_place(number) + 1);
	open_table_remove(&table, number);
	assert_int_equal(record->number, 0);
	(void)open_table_add(&table, NULL, &items[1], &node);
	open_table_remove(&table, number); /* a late one ends no other's */
	assert_int_not_equal(record->number, 0);
	table.state = NULL;
	state_done(&kept);
}

static void is_freed_when_nobody_uses_it(void **state)
{
	struct request request = {.watched = true}, other = {0};
	uint64_t number = add(&items[0]);

	(void)state;
	open_item_use(&request, &items[0]);
	open_item_use(&request, &items[0]);
	open_item_use(&other, &items[0]); /* is not answered early */
	open_table_remove(&table, number);
	open_table_remove(&table, number);
	assert_int_equal(freed, 0);
	open_items_end(&other);
	assert_int_equal(freed, 0);
	open_items_end(&request);
	assert_int_equal(freed, 1);
	open_items_end(&request);
	assert_int_equal(freed, 1);
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
		cmocka_unit_test_setup_teardown(
			has_a_record_as_long_as_it_is_open, setup, teardown),
		cmocka_unit_test_setup_teardown(is_freed_when_nobody_uses_it,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
