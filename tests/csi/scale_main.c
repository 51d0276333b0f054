/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of calls to a driver whose cluster may be large, for
 * perf/suites/scale.py.
 *
 *	scale_main DIR TIMES VOLUMES [ENTRIES]
 *
 * The driver is at DIR/host1/csi.sock. A volume of three extents is made and
 * deleted TIMES times, one call after the other. Then, unless VOLUMES is
 * "none", all volumes are listed, page by page: there have to be VOLUMES, each
 * once. With ENTRIES a page has no more, and a volume more is made or deleted
 * before each. Prints one JSON object: medians of "create" and "delete" in ms,
 *"list" of all in s. Exit 1 when an answer is wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/csi/kit.h"

#define TIMES_MAX 1000
#define LIST      "Controller/ListVolumes"
#define EXTRA     "fill-2-more" /* among those of fake_cluster.c */

static double clock_of_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int sort_ms(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_ms(double *ms, size_t n)
{
	qsort(ms, n, sizeof(*ms), sort_ms);
	return ms[n / 2];
}

static double level_took_ms(enum level level)
{
	double start = clock_of_ms();

	level_set(level);
	return clock_of_ms() - start;
}

/* Read the name of entry @index of the last page: its id without "@UID". */
static void name_of(size_t index, char *ret, size_t size)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "entries.%zu.volume.volume_id",
		       index);
	(void)snprintf(ret, size, "%s", answer(path));
	ret[strcspn(ret, "@")] = '\0';
}

/* How many of the last page's entries are there all the time, in order. */
static size_t page_count(char *last, size_t size)
{
	size_t n = (size_t)answer_number("entries.#"), staying = 0;

	for (size_t i = 0; i < n; i++) {
		char name[256];

		name_of(i, name, sizeof(name));
		holds(strcmp(last, name) < 0);
		(void)snprintf(last, size, "%s", name);
		staying += strcmp(name, EXTRA) != 0;
	}
	return staying;
}

static double list_all(size_t volumes, const char *entries)
{
	double start = clock_of_ms();
	char last[256] = "";
	size_t n = 0;

	kit_let("token", "");
	kit_let("entries", entries ?: "0");
	for (unsigned page = 0; page == 0 || value_of("token")[0]; page++) {
		if (entries)
			level_set(page % 2 ? NONE : CREATED);
		ok(1, LIST, "starting_token=$token", "max_entries=$entries");
		n += page_count(last, sizeof(last));
		kit_let("token", answer("next_token"));
	}
	start = (clock_of_ms() - start) / 1e3;
	level_set(NONE);
	if (n != volumes)
		kit_fail("%zu volumes are listed, of %zu", n, volumes);
	return start;
}

static void volume_words(void)
{
	kit_let("name", EXTRA);
	kit_let("id", "");
	kit_let("size", "201326592");
	kit_let("access", "mount.fs_type=");
	kit_let("mode", "1");
	kit_let("extents", "3");
}

int main(int argc, char **argv)
{
	static double create[TIMES_MAX], gone[TIMES_MAX];
	size_t times = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	size_t volumes = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	if (times < 1 || times > TIMES_MAX) {
		(void)fprintf(stderr, "see scale_main.c\n");
		return 2;
	}
	kit_open(argv[1]);
	volume_words();
	for (size_t i = 0; i < times; i++) {
		create[i] = level_took_ms(CREATED);
		gone[i] = level_took_ms(NONE);
	}
	(void)printf("{\"create\": %.2f, \"delete\": %.2f",
		     median_ms(create, times), median_ms(gone, times));
	if (strcmp(argv[3], "none") != 0)
		(void)printf(", \"list\": %.2f", list_all(volumes, argv[4]));
	(void)printf("}\n");
	kit_close();
	return 0;
}
