/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A round's wait. A peer that has just been answered often asks again at once,
 * sooner than a thread is put to sleep and woken. So while waits end that soon,
 * the next one begins by looking instead of sleeping. Looking costs no system
 * call: the kernel says in the ring's flags that there is work. Each look in
 * vain makes twice as many waits sleep from their start. So little is spent on
 * looks where peers are slow, or others want the processor.
 */
#include <errno.h>
#include <liburing.h>
#include <poll.h>

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

/* Looks at the flags for each at the clock. */
#define LOOKS_TOGETHER 32

/* Waits that begin asleep after a look in vain: 2, 4... 2 << this. */
#define VAIN_MAX 8

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#define PAUSE_MS 1

void loop_pause(struct loop *loop)
{
	struct pollfd fd = {.fd = loop->ring.ring_fd, .events = POLLIN};

	if (!io_uring_cq_ready(&loop->ring))
		(void)poll(&fd, 1, PAUSE_MS);
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

int loop_submit(struct loop *loop)
{
	return io_uring_sq_ready(&loop->ring) ? loop_take(loop) : 0;
}

int loop_take(struct loop *loop)
{
	if (loop->features & LOOP_DEFER_TASKRUN)
		return passing(loop,
			       io_uring_submit_and_get_events(&loop->ring));
	return passing(loop, io_uring_submit(&loop->ring));
}

static int sleep_for_more(struct loop *loop)
{
	return passing(loop, io_uring_submit_and_wait(&loop->ring, 1));
}

/* Submit, and look for what comes of it. */
static int look_for_more(struct loop *loop, int64_t start_ns)
{
	struct loop_wait *wait = &loop->wait;
	int r = loop_submit(loop);

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

int loop_wait(struct loop *loop)
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
