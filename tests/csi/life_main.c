/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of the calls of a volume's life, for perf/suites/life.py.
 *
 *	life_main DIR TIMES PARALLEL
 *
 * The driver is at DIR/host1/csi.sock. A volume of three extents is made, used
 * and deleted TIMES times; then PARALLEL volumes are made and published at
 * once. Prints one JSON object, medians in ms; exit 1 when an answer is wrong.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "tests/csi/kit.h"

#define TIMES_MAX    1000
#define PARALLEL_MAX 64

static double now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare_ms(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *ms, size_t n)
{
	qsort(ms, n, sizeof(*ms), compare_ms);
	return ms[n / 2];
}

/* The time from one level of the volume's life to another. */
static double timed(enum level level)
{
	double start = now_ms();

	level_set(level);
	return now_ms() - start;
}

static void one_after_another(size_t times)
{
	static double create[TIMES_MAX], use[TIMES_MAX], gone[TIMES_MAX];

	for (size_t i = 0; i < times; i++) {
		create[i] = timed(CREATED);
		/* Existing: it has its file systems. */
		level_set(PUBLISHED);
		level_set(ATTACHED);
		use[i] = timed(PUBLISHED);
		level_set(CREATED);
		gone[i] = timed(NONE);
	}
	(void)printf("{\"create\": %.2f, \"use\": %.2f, \"delete\": %.2f",
		     median(create, times), median(use, times),
		     median(gone, times));
}

/* ---- at once ---- */

static struct one {
	struct kit_request request;
	struct kit_answer answer;
	pthread_t thread;
	char name[32], id[256];
} all[PARALLEL_MAX];

static void *send_timed(void *one_)
{
	struct one *one = one_;

	kit_send(&one->request, 0, &one->answer);
	return NULL;
}

/* Milliseconds for @method of all volumes; all have to be OK. */
static double at_once(const char *method, size_t n)
{
	double start;

	for (size_t i = 0; i < n; i++) {
		kit_let("name", all[i].name);
		kit_let("id", all[i].id);
		all[i].request = kit_request_make(1, WORDS(method));
	}
	start = now_ms();
	for (size_t i = 0; i < n; i++)
		if (pthread_create(&all[i].thread, NULL, send_timed, &all[i]) !=
		    0)
			abort();
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(all[i].thread, NULL);
	start = now_ms() - start;
	for (size_t i = 0; i < n; i++) {
		if (all[i].answer.code != RPC_OK)
			kit_fail("%s of %s: %s: %s", method, all[i].name,
				 rpc_code_name(all[i].answer.code),
				 all[i].answer.text);
		if (strstr(method, "CreateVolume"))
			(void)message_get(all[i].answer.message,
					  "volume.volume_id", all[i].id,
					  sizeof(all[i].id));
		kit_answer_done(&all[i].answer);
		protobuf_c_message_free_unpacked(all[i].request.in, NULL);
	}
	return start;
}

/* Each has an id of its own, that begins with its name. */
static void ids_are_right(size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strncmp(all[i].id, all[i].name, strlen(all[i].name)) != 0 ||
		    all[i].id[strlen(all[i].name)] != '@')
			kit_fail("volume '%s' has the id '%s'", all[i].name,
				 all[i].id);
	ok(1, "Controller/ListVolumes");
	holds(answer_number("entries.#") == (int64_t)n);
}

static void all_at_once(size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)snprintf(all[i].name, sizeof(all[i].name), "many-%zu", i);
	kit_let("size", "16777216");
	kit_let("extents", "1");
	(void)printf(", \"parallel create\": %.2f",
		     at_once("Controller/CreateVolume", n));
	ids_are_right(n);
	(void)printf(", \"parallel publish\": %.2f}\n",
		     at_once("Controller/ControllerPublishVolume", n));
	(void)at_once("Controller/ControllerUnpublishVolume", n);
	(void)at_once("Controller/DeleteVolume", n);
}

int main(int argc, char **argv)
{
	size_t times = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	size_t parallel = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	if (times < 1 || times > TIMES_MAX || parallel < 1 ||
	    parallel > PARALLEL_MAX) {
		(void)fprintf(stderr, "see life_main.c\n");
		return 2;
	}
	kit_open(argv[1]);
	kit_let("name", "life");
	kit_let("id", "");
	kit_let("mode", "1");
	kit_let("size", "201326592");
	kit_let("access", "mount.fs_type=");
	kit_let("extents", "3");
	one_after_another(times);
	all_at_once(parallel);
	kit_close();
	return 0;
}
