/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round: the wait, then completions, results and batches.
 *
 * A peer that has just been answered often asks again at once, sooner than a
 * thread is put to sleep and woken. So while waits end that soon, the next one
 * begins by looking instead of sleeping. Looking costs no system call: the
 * kernel says in the ring's flags that there is work. Each look in vain makes
 * twice as many waits sleep from their start. So little is spent on looks where
 * peers are slow, or others want the processor.
 */
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/loop/loop_internal.h"

/*
 * Longer waits are slept through, ns. A peer on the same machine takes 5 to 15
 * us from an answer to its next request, and 30 where its processor rests
 * meanwhile and is a virtual one; one behind a network more. To sleep and be
 * woken costs such a machine as much of its processor's time as to look for
 * 20 us.
 */
#define LOOK_NS 50000

/*
 * A payload keeps others from being looked for so long, ns: 1 MiB takes 9 ms at
 * 1 Gbit/s and less than one on the same machine; a peer that stops in the
 * middle of one is not waited for.
 */
#define PAYLOAD_NS 5000000

/*
 * How often a round looks for more before it runs the batches, if any wait:
 * I/O that completes at once joins its batch, and a peer that never pauses
 * still gets its replies.
 */
#define ROUND_LOOKS 4

/*
 * Batches that a round runs, at most: a batch that adds itself again and again
 * waits for something that is told only in the next round.
 */
#define ROUND_BATCHES 1024

/* Looks at the flags for each at the clock. */
#define LOOKS_TOGETHER 32

/* Waits that begin asleep after a look in vain: 2, 4... 2 << this. */
#define VAIN_MAX 8

/* ---- waiting ---- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/*
 * -EINTR: a signal. -EAGAIN, -EBUSY: the kernel has no memory, or completions
 * must be taken first: without any it is asked again in a moment.
 */
static int passing(struct loop *loop, int r)
{
	if (r != -EINTR && r != -EAGAIN && r != -EBUSY)
		return r;
	if (r != -EINTR)
		loop_pause(loop);
	return 0;
}

static bool is_ready(const struct loop *loop)
{
	unsigned flags = __atomic_load_n(loop->ring.sq.kflags,
					 __ATOMIC_RELAXED);

	return flags & IORING_SQ_TASKRUN || io_uring_cq_ready(&loop->ring) > 0;
}

/* True: there is something before the time is over. */
static bool look(const struct loop *loop, int64_t start_ns)
{
	do {
		for (unsigned i = 0; i < LOOKS_TOGETHER; i++) {
			if (is_ready(loop))
				return true;
			pause_briefly();
		}
	} while (clock_ns() - start_ns < LOOK_NS);
	return false;
}

/*
 * Submit all that was started, if anything was, and take all completions at
 * once.
 */
static int take(struct loop *loop)
{
	if (loop->features & LOOP_DEFER_TASKRUN)
		return passing(loop,
			       io_uring_submit_and_get_events(&loop->ring));
	return passing(loop, io_uring_submit(&loop->ring));
}

/* Submit what was started, if anything was. */
static int submit(struct loop *loop)
{
	return io_uring_sq_ready(&loop->ring) ? take(loop) : 0;
}

static int sleep_for_more(struct loop *loop)
{
	return passing(loop, io_uring_submit_and_wait(&loop->ring, 1));
}

/* Submit, and look for what comes of it. */
static int look_for_more(struct loop *loop, int64_t start_ns)
{
	struct loop_wait *wait = &loop->wait;
	int r = submit(loop);

	if (r < 0)
		return r;
	if (!look(loop, start_ns)) {
		wait->vain_looks++;
		wait->asleep = 2u << wait->vain;
		if (wait->vain < VAIN_MAX)
			wait->vain++;
		wait->soon = false;
		return sleep_for_more(loop);
	}
	wait->looks++;
	wait->vain -= wait->vain > 0;
	return io_uring_cq_ready(&loop->ring)
		       ? 0
		       : passing(loop, io_uring_get_events(&loop->ring));
}

void loop_disk_begin(struct loop *loop)
{
	loop->disks++;
}

void loop_disk_end(struct loop *loop)
{
	loop->disks--;
}

void loop_payload_begin(struct loop *loop)
{
	if (loop->features & LOOP_BUSY_WAIT)
		loop->payload_ns = clock_ns() + PAYLOAD_NS;
}

void loop_payload_end(struct loop *loop)
{
	loop->payload_ns = 0;
}

/* Submit what was started, and wait until there is a completion. */
static int wait_for_more(struct loop *loop)
{
	struct loop_wait *wait = &loop->wait;
	int64_t start_ns;
	int r;

	if (!(loop->features & LOOP_BUSY_WAIT) || loop->disks > 0)
		return sleep_for_more(loop);
	if (wait->asleep > 0) {
		wait->asleep--;
		return sleep_for_more(loop);
	}
	start_ns = clock_ns();
	if (start_ns < loop->payload_ns)
		return sleep_for_more(loop);
	if (wait->soon)
		return look_for_more(loop, start_ns);
	r = sleep_for_more(loop);
	wait->soon = clock_ns() - start_ns < LOOK_NS;
	return r;
}

/* ---- results ---- */

void loop_complete(struct loop *loop, struct op *op, int res)
{
	op->res = res;
	op->next = NULL;
	if (loop->results_last)
		loop->results_last->next = op;
	else
		loop->results_first = op;
	loop->results_last = op;
	loop->in_flight++;
}

bool loop_sq_empty(const struct loop *loop)
{
	return !loop->results_first && !io_uring_sq_ready(&loop->ring);
}

/* ---- batches ---- */

void loop_batch_add(struct loop *loop, struct loop_batch *batch)
{
	if (batch->queued)
		return;
	batch->queued = true;
	batch->next = NULL;
	if (loop->batch_last)
		loop->batch_last->next = batch;
	else
		loop->batch_first = batch;
	loop->batch_last = batch;
}

void loop_batch_remove(struct loop *loop, struct loop_batch *batch)
{
	struct loop_batch **at = &loop->batch_first;
	struct loop_batch *before = NULL;

	if (!batch->queued)
		return;
	while (*at != batch) {
		before = *at;
		at = &(*at)->next;
	}
	*at = batch->next;
	if (loop->batch_last == batch)
		loop->batch_last = before;
	batch->queued = false;
}

static void batches_run(struct loop *loop)
{
	for (int i = 0; i < ROUND_BATCHES && loop->batch_first; i++) {
		struct loop_batch *batch = loop->batch_first;

		loop->batch_first = batch->next;
		if (!batch->next)
			loop->batch_last = NULL;
		batch->queued = false;
		batch->run(batch);
	}
}

/* ---- running ---- */

static unsigned completions_run(struct loop *loop)
{
	struct io_uring_cqe *cqe;
	unsigned head, seen = 0;

	io_uring_for_each_cqe(&loop->ring, head, cqe)
	{
		struct op *op = io_uring_cqe_get_data(cqe);
		int res = cqe->res;

		loop->done_flags = cqe->flags;
		/* Give the entry back first: done() may start more. */
		io_uring_cq_advance(&loop->ring, 1);
		seen++;
		if (!op)
			continue;
		if (op != &loop->wake_op &&
		    !(loop->done_flags & IORING_CQE_F_MORE))
			loop->in_flight--;
		op->done(op, res);
	}
	return seen;
}

/* Run the results that were there when it began. */
static unsigned results_run(struct loop *loop)
{
	struct op *op = loop->results_first;
	unsigned n = 0;

	loop->results_first = loop->results_last = NULL;
	while (op) {
		struct op *next = op->next;

		loop->in_flight--;
		n++;
		op->done(op, op->res); /* may free it */
		op = next;
	}
	return n;
}

/*
 * Messages posted while the thread was blocked come before bytes received
 * after it.
 */
static void messages_look(struct loop *loop)
{
	if (!loop->was_blocked)
		return;
	loop->was_blocked = false;
	if (atomic_load(&loop->messages))
		loop_messages_run(loop);
}

static int round_run(struct loop *loop)
{
	int r;

	messages_look(loop);
	r = loop->batch_first     ? take(loop)
	    : loop->results_first ? submit(loop)
				  : wait_for_more(loop);

	for (int i = 0; i < ROUND_LOOKS && r >= 0; i++) {
		unsigned seen = completions_run(loop);

		seen += results_run(loop);
		if (!seen || !loop->batch_first)
			break; /* the next wait submits what was started */
		/*
		 * What the last look started is taken if it is ready at once,
		 * so that the results of cached I/O join the batch that asked
		 * for it.
		 */
		messages_look(loop);
		r = submit(loop);
	}
	batches_run(loop);
	return r;
}

int loop_run(struct loop *loop)
{
	int r = 0;

	if (!loop->enabled) {
		/* liburing 2.3 declares a wrapper and does not export it. */
		r = io_uring_register((unsigned)loop->ring.ring_fd,
				      IORING_REGISTER_ENABLE_RINGS, NULL, 0);
		if (r < 0)
			return r;
		loop->enabled = true;
	}
	if (loop->name)
		(void)pthread_setname_np(pthread_self(), loop->name);
	loop->thread = pthread_self();
	atomic_store(&loop->running, true);
	if (!loop->wake_armed)
		loop_wake_arm(loop);
	batches_run(loop); /* what was added before the run */
	while (r >= 0 && !atomic_load(&loop->stopping))
		r = round_run(loop);
	if (r >= 0)
		r = submit(loop);
	loop_messages_run(loop);
	while (results_run(loop) > 0)
		;
	while (loop->batch_first)
		batches_run(loop);
	atomic_store(&loop->running, false);
	return r < 0 ? r : 0;
}
