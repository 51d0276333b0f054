/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that lose their connections at any moment, connect again, send the
 * unanswered requests again, and go on. The device takes its time, each request
 * another. Reads must return the data that was acknowledged last. SEED=N
 * repeats a run, STEPS=N makes it longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_proto.h"
#include "target/target.h"
#include "target/testkit/target_test_kit.h"

enum {
	BLOCK = 4096,
	CLIENTS = 3, /* each with some connections of the one export */
	BLOCKS = 2,  /* of each client */
	DISK = BLOCK * BLOCKS * CLIENTS,
	OLD_MAX = 4096,
};

static unsigned random_state;

static unsigned below(unsigned n)
{
	random_state = random_state * 1103515245 + 12345;
	return (random_state >> 8) % n;
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* ---- the device: what is written is there when the request ends ---- */

static pthread_mutex_t disk_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t disk[DISK];
static atomic_uint in_flight;

struct late {
	struct loop_timer timer;
	struct op *user;
	uint64_t offset;
	uint32_t length;
	void *to; /* of a read */
	bool changes;
	uint8_t data[BLOCK];
};

static void late_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct late *late = container_of(timer, struct late, timer);
	struct op *user = late->user;

	(void)res;
	pthread_mutex_lock(&disk_lock);
	if (late->changes)
		memcpy(disk + late->offset, late->data, late->length);
	else if (late->to)
		memcpy(late->to, disk + late->offset, late->length);
	pthread_mutex_unlock(&disk_lock);
	free(late);
	atomic_fetch_sub(&in_flight, 1);
	user->done(user, 0);
}

static struct late *late_new(struct op *op, uint32_t length, uint64_t offset)
{
	struct late *late = calloc(1, sizeof(*late));

	assert_non_null(late);
	atomic_fetch_add(&in_flight, 1);
	assert_true(length <= BLOCK);
	late->user = op;
	late->offset = offset;
	late->length = length;
	late->timer.op.done = late_done;
	return late;
}

static void late_start(struct blockdev *dev, struct late *late)
{
	static atomic_uint n;
	unsigned x = (atomic_fetch_add(&n, 1) + 1) * 2654435761u;

	/* Most are quick, so that the others can be overtaken. */
	loop_timer_start(dev->loop, &late->timer,
			 (x >> 16) % 6 ? 0 : 20 + (x >> 20) % 20);
}

static void dev_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct late *late = late_new(op, length, offset);

	late->to = data;
	late_start(dev, late);
}

static void dev_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct late *late = late_new(op, length, offset);

	(void)flags;
	late->changes = true;
	memcpy(late->data, data, length);
	late_start(dev, late);
}

static void dev_zero(struct blockdev *dev, struct op *op, uint64_t offset,
		     uint64_t length, unsigned flags)
{
	struct late *late = late_new(op, (uint32_t)length, offset);

	(void)flags;
	late->changes = true;
	late_start(dev, late);
}

static void dev_flush(struct blockdev *dev, struct op *op)
{
	late_start(dev, late_new(op, 0, 0));
}

static void dev_close(struct blockdev *dev)
{
	free(dev);
}

static const struct blockdev_ops dev_ops = {
	.read = dev_read,
	.write = dev_write,
	.discard = dev_zero,
	.write_zeroes = dev_zero,
	.flush = dev_flush,
	.close = dev_close,
};

static int dev_open(void *context, struct loop *loop, bool read_only,
		    struct blockdev **ret, struct error *err)
{
	struct blockdev *dev = calloc(1, sizeof(*dev));

	(void)context;
	(void)err;
	assert_non_null(dev);
	*dev = (struct blockdev){
		.ops = &dev_ops,
		.loop = loop,
		.size = DISK,
		.block_size = BLOCK,
		.preferred_size = BLOCK,
		.read_only = read_only,
	};
	*ret = dev;
	return 0;
}

/* ---- the clients ---- */

struct change {
	TAILQ_ENTRY(change) entry;
	uint64_t cookie;
	uint16_t type;
	uint8_t value;
};

TAILQ_HEAD(changes, change);

struct client {
	const char *address;
	int fd;
	unsigned number;
	struct changes unanswered;      /* the oldest first */
	struct change of_block[BLOCKS]; /* one at a time */
	bool busy[BLOCKS];
	uint8_t acknowledged[BLOCKS];
	unsigned lost;
};

static int old[OLD_MAX]; /* sockets that the server has to take for alive */
static unsigned n_old;

static void change_send(struct client *c, const struct change *change)
{
	const unsigned block = (unsigned)change->cookie;
	uint8_t data[BLOCK];

	client_ask(c->fd, change->type, change->cookie,
		   (uint64_t)BLOCK * (c->number * BLOCKS + block), BLOCK);
	if (change->type != NBD_CMD_WRITE)
		return;
	memset(data, change->value, sizeof(data));
	client_put(c->fd, data, sizeof(data));
}

static void client_connect(struct client *c)
{
	const int yes = 1;
	struct change *change;

	for (unsigned i = 0;; i++) {
		c->fd = client_dial(c->address);
		/* Not of a unix socket. */
		(void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes,
				 sizeof(yes));
		if (client_begin(c->fd, "disk@7", NULL))
			break;
		assert_true(i < 10);
		close(c->fd);
	}
	TAILQ_FOREACH (change, &c->unanswered, entry)
		change_send(c, change);
}

static void client_change(struct client *c)
{
	static const uint16_t types[] = {NBD_CMD_WRITE, NBD_CMD_WRITE,
					 NBD_CMD_WRITE_ZEROES, NBD_CMD_TRIM};
	const unsigned block = below(BLOCKS);
	struct change *change = &c->of_block[block];

	if (c->busy[block])
		return;
	c->busy[block] = true;
	change->cookie = block;
	change->type = types[below(4)];
	change->value = change->type == NBD_CMD_WRITE
				? (uint8_t)(1 + below(255))
				: 0;
	TAILQ_INSERT_TAIL(&c->unanswered, change, entry);
	change_send(c, change);
}

static void client_take_answer(struct client *c)
{
	struct nbd_wire_simple_reply reply;
	struct change *change;
	unsigned block;

	if (TAILQ_EMPTY(&c->unanswered))
		return;
	client_get(c->fd, &reply, sizeof(reply));
	assert_int_equal(be32_get(reply.error), 0);
	block = (unsigned)be64_get(reply.cookie);
	assert_true(block < BLOCKS && c->busy[block]);
	change = &c->of_block[block];
	TAILQ_REMOVE(&c->unanswered, change, entry);
	c->busy[block] = false;
	c->acknowledged[block] = change->value;
}

static void client_take_answers(struct client *c)
{
	while (!TAILQ_EMPTY(&c->unanswered))
		client_take_answer(c);
}

/* Also when all that the device had has come to it. */
static void client_check(struct client *c)
{
	client_take_answers(c);
	while (atomic_load(&in_flight))
		(void)usleep(1000);
	for (unsigned i = 0; i < BLOCKS; i++) {
		const unsigned block = c->number * BLOCKS + i;
		uint8_t there;

		pthread_mutex_lock(&disk_lock);
		there = disk[(size_t)block * BLOCK];
		pthread_mutex_unlock(&disk_lock);
		if (there != c->acknowledged[i])
			fail_msg("block %u: %u was acknowledged last, %u is "
				 "there",
				 block, c->acknowledged[i], there);
	}
}

/*
 * Wait until the client's bytes have left the network, which is beyond the
 * server. By TCP all of them have come to the server's machine then, read or
 * not (tcp(7), SIOCOUTQ).
 */
static void client_deliver(const struct client *c)
{
	int left = 0;

	while (strncmp(c->address, "tcp:", 4) == 0 &&
	       ioctl(c->fd, SIOCOUTQ, &left) == 0 && left > 0)
		(void)usleep(100);
}

/* However a connection is lost, the client is done with it. */
static void client_lose(struct client *c)
{
	struct linger now = {.l_onoff = 1};

	client_deliver(c);
	switch (below(4)) {
	case 0:
		(void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &now,
				 sizeof(now));
		close(c->fd);
		break;
	case 1: close(c->fd); break;
	case 2: /* as the kernel's own */
		(void)shutdown(c->fd, SHUT_RDWR);
		old[n_old++] = c->fd;
		break;
	default: /* half open: the server is told nothing */
		old[n_old++] = c->fd;
		break;
	}
	c->lost++;
	client_connect(c);
	/* A change that was sent twice is followed by another one soon. */
	for (unsigned i = 0; i < 4 * BLOCKS; i++) {
		client_change(c);
		client_take_answer(c);
	}
	client_check(c);
}

static void check(const char *address, const struct client *clients)
{
	int fd = client_dial(address);
	uint8_t data[BLOCK];

	assert_true(client_begin(fd, "disk@7", NULL));
	for (unsigned i = 0; i < CLIENTS * BLOCKS; i++) {
		const uint8_t want =
			clients[i / BLOCKS].acknowledged[i % BLOCKS];

		client_ask(fd, NBD_CMD_READ, i, (uint64_t)i * BLOCK, BLOCK);
		assert_int_equal(client_answer(fd, i), 0);
		client_get(fd, data, sizeof(data));
		if (data[0] != want || data[BLOCK - 1] != want)
			fail_msg("block %u: %u was acknowledged last, %u read",
				 i, want, data[0]);
	}
	close(fd);
}

static void run(const char *address)
{
	static struct client clients[CLIENTS];
	unsigned steps = from_environment("STEPS", 500), lost = 0;

	print_message("%s, seed %u, %u steps\n", address, random_state, steps);
	pthread_mutex_lock(&disk_lock); /* a socket is no barrier to TSan */
	memset(disk, 0, sizeof(disk));
	pthread_mutex_unlock(&disk_lock);
	for (unsigned i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){.address = address, .number = i};
		TAILQ_INIT(&clients[i].unanswered);
		client_connect(&clients[i]);
	}
	for (unsigned i = 0; i < steps; i++) {
		struct client *c = &clients[below(CLIENTS)];
		unsigned what = below(16);

		if (what < 9)
			client_change(c);
		else if (what < 15)
			client_take_answer(c);
		else if (n_old < OLD_MAX && !TAILQ_EMPTY(&c->unanswered))
			client_lose(c);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		client_take_answers(&clients[i]);
	check(address, clients);
	for (unsigned i = 0; i < CLIENTS; i++) {
		lost += clients[i].lost;
		close(clients[i].fd);
	}
	while (n_old)
		close(old[--n_old]);
	assert_true(lost > 0);
}

static struct target *target_make(char *tcp, size_t size)
{
	static const char *const any[] = {"any", "unix"};
	struct target_options options = {.loops = 2};
	struct target_export export = {
		.name = "disk",
		.epoch = 7,
		.open = dev_open,
		.initiators = any,
		.n_initiators = 2,
		.description = "incarnation=1/1",
	};
	struct target *target;
	struct error err = {0};
	int port;

	random_state = from_environment("SEED", 1);
	assert_int_equal(target_new(&options, &target, &err), 0);
	assert_int_equal(
		target_listen_nbd(target, "tcp:127.0.0.1:0", &port, &err), 0);
	assert_int_equal(target_export_set(target, &export, &err), 0);
	(void)snprintf(tcp, size, "tcp:127.0.0.1:%d", port);
	return target;
}

static void keeps_what_was_acknowledged_over_tcp(void **unused)
{
	char tcp[64];
	struct target *target = target_make(tcp, sizeof(tcp));

	(void)unused;
	run(tcp);
	target_free(target);
}

static void keeps_what_was_acknowledged_over_a_unix_socket(void **unused)
{
	char dir[64], path[100], tcp[64];
	struct target *target = target_make(tcp, sizeof(tcp));
	struct error err = {0};

	(void)unused;
	(void)snprintf(dir, sizeof(dir), "%.40s/resend.XXXXXX",
		       getenv("TMPDIR") ?: "/tmp");
	assert_non_null(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "unix:%s/nbd", dir);
	assert_int_equal(target_listen_nbd(target, path, NULL, &err), 0);
	run(path);
	target_free(target);
	(void)unlink(path + strlen("unix:"));
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_was_acknowledged_over_tcp),
		cmocka_unit_test(
			keeps_what_was_acknowledged_over_a_unix_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
