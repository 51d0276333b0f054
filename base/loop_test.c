/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop.h"

/* Every set of features the loop can fall back to. */
static const unsigned without_sets[] = {
	0,
	LOOP_DEFER_TASKRUN,
	LOOP_SINGLE_ISSUER,
	LOOP_ALL_FEATURES,
};

static struct loop *loop_make(unsigned without)
{
	struct loop_options options = {
		.name = "test",
		.entries = 8, /* small, so that it fills */
		.without = without,
		.buffer_limit = 1 << 20,
	};
	struct loop *loop = NULL;
	struct error err = {0};

	assert_int_equal(loop_new(&options, &loop, &err), 0);
	return loop;
}

struct count {
	struct op op;
	struct loop *loop;
	int *left; /* stops the loop at 0 */
	int res;
};

static void count_done(struct op *op, int res)
{
	struct count *count = container_of(op, struct count, op);

	count->res = res;
	if (--*count->left == 0)
		loop_stop(count->loop);
}

static void operations_started_before_the_run_complete(void **state)
{
	struct count counts[100];
	char data[100];

	(void)state;
	for (size_t s = 0; s < array_size(without_sets); s++) {
		struct loop *loop = loop_make(without_sets[s]);
		auto_close int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		int left = 100;

		memset(data, 1, sizeof(data));
		for (int i = 0; i < 8; i++) /* before it runs: what fits */
			counts[i] = (struct count){
				.op.done = count_done,
				.loop = loop,
				.left = &left,
			};
		for (int i = 0; i < 7; i++)
			loop_read(loop, &counts[i].op, fd, data + i, 1, 0);
		left = 7;
		assert_int_equal(loop_run(loop), 0);
		for (int i = 0; i < 7; i++) {
			assert_int_equal(counts[i].res, 1);
			assert_int_equal(data[i], 0);
		}
		assert_int_equal(loop_in_flight(loop), 0);
		assert_int_equal(loop_features(loop) & without_sets[s], 0);
		loop_free(loop);
	}
}

struct hurry {
	struct loop_message message;
	struct count counts[2];
	int pipe[2];
	int early, late; /* bytes in the pipe after each start */
	int left;
};

static int bytes_in(int fd)
{
	int n = -1;

	assert_int_equal(ioctl(fd, FIONREAD, &n), 0);
	return n;
}

static void hurry_start(struct loop_message *message)
{
	struct hurry *hurry = container_of(message, struct hurry, message);
	struct loop *loop = hurry->counts[0].loop;

	loop_write(loop, &hurry->counts[0].op, hurry->pipe[1], "a", 1, 0, 0);
	loop_hurry(loop, 2);
	hurry->early = bytes_in(hurry->pipe[0]);
	loop_write(loop, &hurry->counts[1].op, hurry->pipe[1], "b", 1, 0, 0);
	loop_hurry(loop, 2);
	hurry->late = bytes_in(hurry->pipe[0]);
}

static void a_hurried_operation_does_not_wait_for_the_round(void **state)
{
	struct loop *loop = loop_make(0);
	struct hurry hurry = {.message.run = hurry_start, .left = 2};

	(void)state;
	assert_int_equal(pipe(hurry.pipe), 0);
	for (int i = 0; i < 2; i++)
		hurry.counts[i] = (struct count){.op.done = count_done,
						 .loop = loop,
						 .left = &hurry.left};
	loop_post(loop, &hurry.message);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(hurry.early, 0);
	assert_int_equal(hurry.late, 2);
	assert_int_equal(hurry.counts[0].res, 1);
	assert_int_equal(hurry.counts[1].res, 1);
	fd_close(hurry.pipe[0]);
	fd_close(hurry.pipe[1]);
	loop_free(loop);
}

struct flood {
	struct loop_message message;
	struct loop *loop;
	struct count counts[100];
	char data[100];
	int fd;
	int left;
};

static void flood_start(struct loop_message *message)
{
	struct flood *flood = container_of(message, struct flood, message);

	for (int i = 0; i < 100; i++) {
		flood->counts[i] = (struct count){
			.op.done = count_done,
			.loop = flood->loop,
			.left = &flood->left,
		};
		loop_read(flood->loop, &flood->counts[i].op, flood->fd,
			  flood->data + i, 1, 0);
	}
}

static void a_full_queue_is_submitted_and_refilled(void **state)
{
	(void)state;
	for (size_t s = 0; s < array_size(without_sets); s++) {
		struct flood flood = {
			.message.run = flood_start,
			.loop = loop_make(without_sets[s]),
			.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC),
			.left = 100,
		};

		memset(flood.data, 1, sizeof(flood.data));
		loop_post(flood.loop, &flood.message);
		assert_int_equal(loop_run(flood.loop), 0);
		for (int i = 0; i < 100; i++) {
			assert_int_equal(flood.counts[i].res, 1);
			assert_int_equal(flood.data[i], 0);
		}
		close(flood.fd);
		loop_free(flood.loop);
	}
}

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

static void a_cancelled_receive_tells_so(void **state)
{
	struct loop *loop = loop_make(0);
	int left = 1, pair[2];
	struct count count = {
		.op.done = count_done,
		.loop = loop,
		.left = &left,
	};
	char byte;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	loop_recv(loop, &count.op, pair[0], &byte, 1, 0);
	loop_cancel(loop, &count.op);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(count.res, -ECANCELED);
	close(pair[0]);
	close(pair[1]);
	loop_free(loop);
}

static void a_send_to_a_closed_peer_is_an_error_not_a_signal(void **state)
{
	struct loop *loop = loop_make(0);
	int left = 2, pair[2];
	struct count send = {
		.op.done = count_done,
		.loop = loop,
		.left = &left,
	};
	struct count poll = send;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	close(pair[1]);
	loop_send(loop, &send.op, pair[0], "x", 1, 0);
	loop_poll(loop, &poll.op, pair[0], POLLIN);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(send.res, -EPIPE);
	assert_true(poll.res & POLLHUP);
	close(pair[0]);
	loop_free(loop);
}

static void buffers_are_bounded_and_reused(void **state)
{
	struct loop *loop = loop_make(0); /* 1 MiB of them */
	struct iobuf *large = loop_iobuf_get(loop, (1 << 19) + 1);
	struct iobuf *small;

	(void)state;
	assert_non_null(large);
	assert_int_equal(large->size, 1 << 20);
	assert_int_equal((uintptr_t)large->data & 4095, 0);
	assert_null(loop_iobuf_get(loop, 1));
	loop_iobuf_put(loop, large);
	small = loop_iobuf_get(loop, 1); /* the kept large one makes room */
	assert_non_null(small);
	assert_int_equal(small->size, 4096);
	loop_iobuf_put(loop, small);
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
		cmocka_unit_test(operations_started_before_the_run_complete),
		cmocka_unit_test(
			a_hurried_operation_does_not_wait_for_the_round),
		cmocka_unit_test(a_full_queue_is_submitted_and_refilled),
		cmocka_unit_test(messages_of_a_thread_run_once_and_in_order),
		cmocka_unit_test(a_timer_fires_and_another_is_cancelled),
		cmocka_unit_test(
			a_batch_added_twice_runs_once_and_a_removed_one_never),
		cmocka_unit_test(work_runs_elsewhere_and_is_told_in_order),
		cmocka_unit_test(a_cancelled_receive_tells_so),
		cmocka_unit_test(
			a_send_to_a_closed_peer_is_an_error_not_a_signal),
		cmocka_unit_test(buffers_are_bounded_and_reused),
		cmocka_unit_test(a_stop_before_the_run_ends_it_at_once),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
