/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "csi/heap_trim.h"

#define BLOCKS 8192
#define BYTES  1024

static uint64_t resident(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, pages;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &pages), 2);
	(void)fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void what_was_freed_goes_back(void **state)
{
	static char *blocks[BLOCKS];
	struct pollfd timer = {.fd = heap_trim_open(NULL), .events = POLLIN};
	uint64_t before;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	print_message("a sanitizer's allocator keeps what was freed\n");
	skip();
#endif
	assert_true(timer.fd >= 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		assert_non_null(blocks[i]);
		memset(blocks[i], 1, BYTES);
	}
	/* All but the last, below which malloc keeps it. */
	for (size_t i = 0; i < BLOCKS - 1; i++)
		free(blocks[i]);
	before = resident();
	heap_trim_later(timer.fd);
	assert_int_equal(poll(&timer, 1, 100 * HEAP_TRIM_AFTER_MS), 1);
	heap_trim_now(timer.fd);
	assert_true(resident() + 6 * MIB < before);
	/* Once. */
	assert_int_equal(poll(&timer, 1, HEAP_TRIM_AFTER_MS + 200), 0);
	free(blocks[BLOCKS - 1]);
	(void)close(timer.fd);
}

static void a_call_puts_it_off(void **state)
{
	struct pollfd timer = {.fd = heap_trim_open(NULL), .events = POLLIN};
	int64_t start_ms;
	int fired;

	(void)state;
	heap_trim_later(-1);
	heap_trim_later(timer.fd);
	assert_int_equal(poll(&timer, 1, 100 * HEAP_TRIM_AFTER_MS), 1);
	/* Unless we are that slow. */
	do {
		start_ms = clock_ms();
		heap_trim_later(timer.fd);
		fired = poll(&timer, 1, 0);
	} while (fired && clock_ms() - start_ms >= HEAP_TRIM_AFTER_MS);
	assert_int_equal(fired, 0);
	heap_trim_now(timer.fd); /* does not wait */
	(void)close(timer.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_freed_goes_back),
		cmocka_unit_test(a_call_puts_it_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
