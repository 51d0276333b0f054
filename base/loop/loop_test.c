/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/testkit/loop_kit.h"

static void *run_thread(void *context)
{
	return (void *)(intptr_t)loop_run(context);
}

static void thread_end(struct loop *loop, pthread_t thread)
{
	void *res;

	loop_stop(loop);
	pthread_join(thread, &res);
	assert_null(res);
	loop_free(loop);
}

struct numbered {
	struct loop_message message;
	int number;
	int *last; /* the loop's */
	atomic_int *seen;
};

static void numbered_run(struct loop_message *message)
{
	struct numbered *numbered = container_of(message, struct numbered,
						 message);

	if (numbered->number == *numbered->last + 1)
		atomic_fetch_add(numbered->seen, 1);
	*numbered->last = numbered->number;
}

struct poster {
	struct loop *loop;
	struct numbered messages[1000];
	int last;
	atomic_int seen;
};

static void *post_thread(void *context)
{
	struct poster *poster = context;

	for (int i = 0; i < 1000; i++) {
		poster->messages[i] = (struct numbered){
			.message.run = numbered_run,
			.number = i + 1,
			.last = &poster->last,
			.seen = &poster->seen,
		};
		loop_post(poster->loop, &poster->messages[i].message);
	}
	return NULL;
}

static int nothing(void *context)
{
	(void)context;
	return 42;
}

static void messages_of_a_thread_run_once_and_in_order(void **state)
{
	struct loop *loop = loop_make(0);
	struct poster *posters = calloc(4, sizeof(*posters));
	pthread_t runner, threads[4];

	(void)state;
	pthread_create(&runner, NULL, run_thread, loop);
	for (int i = 0; i < 4; i++) {
		posters[i].loop = loop;
		pthread_create(&threads[i], NULL, post_thread, &posters[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(loop_call(loop, nothing, NULL), 42);
	for (int i = 0; i < 4; i++)
		assert_int_equal(atomic_load(&posters[i].seen), 1000);
	thread_end(loop, runner);
	free(posters);
}

struct timed {
	struct loop_timer timer;
	struct loop *loop;
	struct loop_timer *victim;
	int res;
	bool stop;
};

static void timed_done(struct op *op, int res)
{
	struct timed *timed = container_of(op, struct timed, timer.op);

	timed->res = res;
	if (timed->victim)
		loop_cancel(timed->loop, &timed->victim->op);
	if (timed->stop)
		loop_stop(timed->loop);
}

static void a_timer_fires_and_another_is_cancelled(void **state)
{
	struct loop *loop = loop_make(0);
	struct timed never = {.loop = loop, .stop = true};
	struct timed first = {.loop = loop, .victim = &never.timer};
	int64_t start = clock_ms();

	(void)state;
	never.timer.op.done = timed_done;
	first.timer.op.done = timed_done;
	loop_timer_start(loop, &never.timer, 60000);
	loop_timer_start(loop, &first.timer, 20);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(first.res, -ETIME);
	assert_int_equal(never.res, -ECANCELED);
	assert_in_range(clock_ms() - start, 15, 30000);
	loop_free(loop);
}

struct batched {
	struct loop_batch batch;
	struct loop *loop;
	int runs;
};

static void batched_run(struct loop_batch *batch)
{
	struct batched *batched = container_of(batch, struct batched, batch);

	batched->runs++;
	loop_stop(batched->loop);
}

struct batch_setup {
	struct loop_message message;
	struct loop *loop;
	struct batched *kept;
	struct batched *removed;
};

static void batch_setup_run(struct loop_message *message)
{
	struct batch_setup *setup = container_of(message, struct batch_setup,
						 message);

	loop_batch_add(setup->loop, &setup->removed->batch);
	loop_batch_add(setup->loop, &setup->kept->batch);
	loop_batch_add(setup->loop, &setup->kept->batch);
	loop_batch_remove(setup->loop, &setup->removed->batch);
	assert_int_equal(setup->kept->runs, 0);
}

struct impatient {
	struct loop_batch batch;
	struct loop_timer timer;
	struct loop *loop;
	bool fired;
};

/* Until the timer has been told. */
static void impatient_run(struct loop_batch *batch)
{
	struct impatient *impatient = container_of(batch, struct impatient,
						   batch);

	if (impatient->fired)
		loop_stop(impatient->loop);
	else
		loop_batch_add(impatient->loop, batch);
}

static void impatient_fired(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct impatient *impatient = container_of(timer, struct impatient,
						   timer);

	assert_int_equal(res, -ETIME);
	impatient->fired = true;
}

static void be_impatient(unsigned without)
{
	struct loop *loop = loop_make(without);
	struct impatient impatient = {
		.batch.run = impatient_run,
		.timer.op.done = impatient_fired,
		.loop = loop,
	};

	loop_batch_add(loop, &impatient.batch);
	loop_timer_start(loop, &impatient.timer, 5);
	assert_int_equal(loop_run(loop), 0);
	assert_true(impatient.fired);
	assert_int_equal(loop_in_flight(loop), 0);
	loop_free(loop);
}

static void a_batch_that_adds_itself_does_not_stop_the_loop(void **state)
{
	(void)state;
	be_impatient(0);
	be_impatient(LOOP_DEFER_TASKRUN);
	be_impatient(LOOP_DEFER_TASKRUN | LOOP_COOP_TASKRUN);
}

static void a_batch_added_twice_runs_once_and_a_removed_one_never(void **state)
{
	struct loop *loop = loop_make(0);
	struct batched kept = {.batch.run = batched_run, .loop = loop};
	struct batched removed = {.batch.run = batched_run, .loop = loop};
	struct batch_setup setup = {
		.message.run = batch_setup_run,
		.loop = loop,
		.kept = &kept,
		.removed = &removed,
	};

	(void)state;
	loop_post(loop, &setup.message);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(kept.runs, 1);
	assert_int_equal(removed.runs, 0);
	loop_free(loop);
}

struct blocking {
	struct loop_work work;
	struct loop *loop;
	pthread_t ran_on;
	int *order;
	int place;
	int res;
};

static int blocking_run(struct loop_work *work)
{
	struct blocking *blocking = container_of(work, struct blocking, work);

	blocking->ran_on = pthread_self();
	return 7;
}

static void blocking_done(struct loop_work *work, int res)
{
	struct blocking *blocking = container_of(work, struct blocking, work);

	assert_true(loop_is_current(blocking->loop));
	blocking->res = res;
	blocking->place = ++*blocking->order;
	if (blocking->place == 3)
		loop_stop(blocking->loop);
}

static void work_runs_elsewhere_and_is_told_in_order(void **state)
{
	struct loop *loop = loop_make(0);
	struct blocking works[3];
	int order = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		works[i] = (struct blocking){
			.work = {.run = blocking_run, .done = blocking_done},
			.loop = loop,
			.order = &order,
		};
		loop_work(loop, &works[i].work);
	}
	assert_int_equal(loop_in_flight(loop), 3);
	assert_int_equal(loop_run(loop), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(works[i].res, 7);
		assert_int_equal(works[i].place, i + 1);
		assert_false(pthread_equal(works[i].ran_on, pthread_self()));
	}
	loop_free(loop);
}

static void a_stop_before_the_run_ends_it_at_once(void **state)
{
	struct loop *loop = loop_make(0);

	(void)state;
	loop_stop(loop);
	assert_int_equal(loop_run(loop), 0);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_a_thread_run_once_and_in_order),
		cmocka_unit_test(a_timer_fires_and_another_is_cancelled),
		cmocka_unit_test(
			a_batch_added_twice_runs_once_and_a_removed_one_never),
		cmocka_unit_test(
			a_batch_that_adds_itself_does_not_stop_the_loop),
		cmocka_unit_test(work_runs_elsewhere_and_is_told_in_order),
		cmocka_unit_test(a_stop_before_the_run_ends_it_at_once),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
