/* SPDX-License-Identifier: Apache-2.0 */
/* The whole server over real sockets, with a device that takes its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_proto.h"
#include "target/target.h"
#include "target/testkit/slow_disk_kit.h"
#include "target/testkit/target_test_kit.h"

/* ---- what is behind it ---- */

static atomic_uint released;

static void disk_fill(char c)
{
	pthread_mutex_lock(&slow_disk.lock);
	memset(slow_disk.data, c, SLOW_DISK_SIZE);
	pthread_mutex_unlock(&slow_disk.lock);
}

/* Bytes from @offset on that are @c. */
static size_t disk_run(size_t offset, char c)
{
	size_t n = 0;

	pthread_mutex_lock(&slow_disk.lock);
	while (offset + n < SLOW_DISK_SIZE &&
	       slow_disk.data[offset + n] == (uint8_t)c)
		n++;
	pthread_mutex_unlock(&slow_disk.lock);
	return n;
}

static void release(void *context)
{
	(void)context;
	released++;
}

/* ---- the server ---- */

struct fixture {
	struct target *target;
	char dir[32];
	char address[64]; /* "unix:PATH" */
};

static int export_set(struct fixture *f, uint64_t epoch, bool read_only,
		      const char *initiator)
{
	return target_export_set(f->target,
				 &(struct target_export){
					 .name = "x",
					 .epoch = epoch,
					 .read_only = read_only,
					 .initiators = &initiator,
					 .n_initiators = 1,
					 .open = slow_disk_open,
					 .release = release,
				 },
				 NULL);
}

static int setup(void **state)
{
	static struct fixture fixture;
	struct fixture *f = &fixture;
	struct target_options options = {
		.loops = 2,
		.buffer_limit = NBD_PAYLOAD_MAX, /* one request, no more */
		.max_connections = 8,
	};
	struct error err = {0};

	slow_disk_reset();
	slow_disk_fill(NULL, SLOW_DISK_SIZE);
	slow_disk.delay_ms = 0;
	slow_disk.block_size = 1;
	released = 0;
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/target-test.XXXXXX");
	if (!mkdtemp(f->dir))
		return -1;
	(void)snprintf(f->address, sizeof(f->address), "unix:%.31s/s", f->dir);
	if (target_new(&options, &f->target, &err) < 0 ||
	    target_listen_nbd(f->target, f->address, NULL, &err) < 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	*state = f;
	return export_set(f, 5, false, "unix");
}

static void stop(struct fixture *f)
{
	target_free(f->target);
	f->target = NULL;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	stop(f);
	assert_int_equal(slow_disk.open, 0);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_not_equal(released, 0);
	assert_int_equal(rmdir(f->dir), 0); /* the socket is gone */
	return 0;
}

/* ---- a client ---- */

static int dial(struct fixture *f)
{
	return client_dial(f->address);
}

static int connect_to(struct fixture *f, const char *name)
{
	int fd = dial(f);

	assert_true(client_begin(fd, name, NULL));
	return fd;
}

/* ---- tests ---- */

static void what_is_written_is_read(void **state)
{
	static char data[100000], back[sizeof(data)];
	int fd = connect_to(*state, "x@5");

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31);
	client_ask(fd, NBD_CMD_WRITE, 1, 12345, sizeof(data));
	client_put(fd, data, sizeof(data));
	assert_int_equal(client_answer(fd, 1), 0);
	client_ask(fd, NBD_CMD_READ, 2, 12345, sizeof(data));
	assert_int_equal(client_answer(fd, 2), 0);
	client_get(fd, back, sizeof(back));
	assert_memory_equal(data, back, sizeof(data));
	client_ask(fd, NBD_CMD_DISC, 0, 0, 0);
	assert_true(client_closed(fd));
	fd_close(fd);
}

static void a_payload_may_come_byte_by_byte(void **state)
{
	static const uint32_t lengths[] = {1, 3000, 50000};
	int fd = connect_to(*state, "x@5");

	for (unsigned i = 0; i < array_size(lengths); i++) {
		client_ask(fd, NBD_CMD_WRITE, i, 0, lengths[i]);
		for (uint32_t n = 0; n < lengths[i]; n++) {
			char c = (char)(n + i);

			client_put(fd, &c, 1);
		}
		assert_int_equal(client_answer(fd, i), 0);
		for (uint32_t n = 0; n < lengths[i]; n++)
			assert_true(disk_run(n, (char)(n + i)) > 0);
	}
	fd_close(fd);
}

static void zeroes_are_written_where_the_device_has_none(void **state)
{
	int fd = connect_to(*state, "x@5");

	disk_fill('x');
	client_ask(fd, NBD_CMD_WRITE_ZEROES, 1, 7, SLOW_DISK_SIZE - 8);
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(disk_run(0, 'x'), 7);
	assert_int_equal(disk_run(7, 0), SLOW_DISK_SIZE - 8);
	assert_int_equal(disk_run(SLOW_DISK_SIZE - 1, 'x'), 1);
	fd_close(fd);
}

static void only_what_the_device_can_do_is_offered(void **state)
{
	int fd = dial(*state);
	struct client_export export = {0};

	assert_true(client_begin(fd, "x@5", &export));
	assert_int_equal(export.flags, NBD_TRANSMIT_HAS_FLAGS |
					       NBD_TRANSMIT_SEND_FLUSH |
					       NBD_TRANSMIT_SEND_FUA |
					       NBD_TRANSMIT_SEND_WRITE_ZEROES |
					       NBD_TRANSMIT_CAN_MULTI_CONN);
	client_ask(fd, NBD_CMD_TRIM, 1, 0, 4096);
	assert_int_equal(client_answer(fd, 1), NBD_EINVAL);
	fd_close(fd);
	assert_int_equal(export_set(*state, 6, true, "unix"), 0);
	fd = dial(*state);
	assert_true(client_begin(fd, "x@6", &export));
	assert_int_equal(export.flags, NBD_TRANSMIT_HAS_FLAGS |
					       NBD_TRANSMIT_READ_ONLY |
					       NBD_TRANSMIT_SEND_FLUSH |
					       NBD_TRANSMIT_CAN_MULTI_CONN);
	client_ask(fd, NBD_CMD_WRITE, 2, 0, 4);
	client_put(fd, "data", 4);
	assert_int_equal(client_answer(fd, 2), NBD_EPERM);
	client_ask(fd, NBD_CMD_WRITE_ZEROES, 3, 0, 4);
	assert_int_equal(client_answer(fd, 3), NBD_EPERM);
	fd_close(fd);
}

static void many_more_requests_than_slots_are_all_answered(void **state)
{
	static struct nbd_wire_request wires[4000];
	struct fixture *f = *state;
	char address[64], data[512];
	int port, fd;

	assert_int_equal(
		target_listen_nbd(f->target, "tcp:127.0.0.1:0", &port, NULL),
		0);
	(void)snprintf(address, sizeof(address), "tcp:127.0.0.1:%d", port);
	assert_int_equal(export_set(f, 6, false, "127.0.0.1"), 0);
	fd = client_dial(address);
	assert_true(client_begin(fd, "x@6", NULL));
	/* One by one, until the server receives as a stream. */
	for (unsigned i = 0; i < 20; i++) {
		client_ask(fd, NBD_CMD_READ, i, 0, sizeof(data));
		assert_int_equal(client_answer(fd, i), 0);
		client_get(fd, data, sizeof(data));
	}
	slow_disk.operations = 0;
	slow_disk.delay_ms = 1;
	for (size_t i = 0; i < array_size(wires); i++)
		wires[i] = (struct nbd_wire_request){
			.magic = be32_make(NBD_REQUEST_MAGIC),
			.type = be16_make(NBD_CMD_READ),
			.offset = be64_make(i),
			.length = be32_make(sizeof(data)),
		};
	client_put(fd, wires, sizeof(wires));
	for (size_t i = 0; i < array_size(wires); i++) {
		assert_int_equal(client_answer(fd, 0), 0);
		client_get(fd, data, sizeof(data));
	}
	assert_int_equal(slow_disk.operations, array_size(wires));
	client_put(fd, wires, 10); /* the end comes with half a request */
	fd_close(fd);
	while (target_export_connections(f->target, "x") > 0)
		usleep(1000);
}

struct reader {
	pthread_t thread;
	struct fixture *f;
	char *data;
};

static void *reader_main(void *context)
{
	struct reader *reader = context;
	int fd = connect_to(reader->f, "x@5");

	client_ask(fd, NBD_CMD_READ, 1, 0, NBD_PAYLOAD_MAX);
	client_ask(fd, NBD_CMD_READ, 2, 0, 4096);
	client_ask(fd, NBD_CMD_READ, 3, 0, NBD_PAYLOAD_MAX);
	for (uint64_t cookie = 1; cookie <= 3; cookie++) {
		assert_int_equal(client_answer(fd, cookie), 0);
		client_get(fd, reader->data,
			   cookie == 2 ? 4096 : NBD_PAYLOAD_MAX);
	}
	fd_close(fd);
	return NULL;
}

/* Each loop's pool has room for one of these at a time. */
static void the_largest_requests_wait_for_each_other(void **state)
{
	struct reader readers[6];

	slow_disk.delay_ms = 5;
	for (size_t i = 0; i < array_size(readers); i++) {
		readers[i].f = *state;
		readers[i].data = malloc(NBD_PAYLOAD_MAX);
		assert_non_null(readers[i].data);
		assert_int_equal(pthread_create(&readers[i].thread, NULL,
						reader_main, &readers[i]),
				 0);
	}
	for (size_t i = 0; i < array_size(readers); i++) {
		pthread_join(readers[i].thread, NULL);
		free(readers[i].data);
	}
	assert_int_equal(slow_disk.operations, 3 * array_size(readers));
}

/* A second connection of the same client waits for the first's requests, and a
 * slow disk is no reason to drop the first. */
static void a_connection_whose_disk_is_slow_is_not_dropped(void **state)
{
	struct reader reader = {.f = *state, .data = malloc(NBD_PAYLOAD_MAX)};

	assert_non_null(reader.data);
	slow_disk.delay_ms = 1500;
	assert_int_equal(
		pthread_create(&reader.thread, NULL, reader_main, &reader), 0);
	while (slow_disk.in_flight == 0)
		usleep(1000);
	fd_close(connect_to(*state, "x@5"));
	pthread_join(reader.thread, NULL);
	free(reader.data);
}

static atomic_bool drips;

static void *drip_main(void *context)
{
	static char some[65536];
	int fd = *(int *)context;

	while (drips && recv(fd, some, sizeof(some), 0) > 0)
		usleep(100000);
	return NULL;
}

/* Little at a time keeps no other connection out for ever. */
static void a_peer_that_takes_little_at_a_time_is_dropped(void **state)
{
	int fd = connect_to(*state, "x@5");
	pthread_t thread;

	for (uint64_t cookie = 1; cookie <= 3; cookie++)
		client_ask(fd, NBD_CMD_READ, cookie, 0, NBD_PAYLOAD_MAX);
	drips = true;
	assert_int_equal(pthread_create(&thread, NULL, drip_main, &fd), 0);
	usleep(200000);
	fd_close(connect_to(*state, "x@5"));
	drips = false;
	pthread_join(thread, NULL);
	fd_close(fd);
}

/* On each of the loops, one peer takes nothing and one sends half. */
static void peers_that_sit_on_the_buffers_are_dropped(void **state)
{
	static char data[1 << 20];
	int fds[4], other;

	for (int i = 0; i < 4; i++) {
		fds[i] = connect_to(*state, "x@5");
		client_ask(fds[i], i < 2 ? NBD_CMD_READ : NBD_CMD_WRITE, 1, 0,
			   NBD_PAYLOAD_MAX);
		usleep(20000);
	}
	other = connect_to(*state, "x@5");
	client_ask(other, NBD_CMD_READ, 2, 0, sizeof(data));
	assert_int_equal(client_answer(other, 2), 0);
	client_get(other, data, sizeof(data));
	for (int i = 0; i < 4; i++)
		fd_close(fds[i]);
	fd_close(other);
}

static void a_higher_epoch_waits_for_what_is_in_flight(void **state)
{
	int old = connect_to(*state, "x@5"), new;
	unsigned long long operations;

	slow_disk.delay_ms = 300;
	client_ask(old, NBD_CMD_WRITE, 1, 0, 4);
	client_put(old, "late", 4);
	while (slow_disk.in_flight == 0)
		usleep(1000);
	assert_int_equal(export_set(*state, 6, false, "unix"), 0);
	assert_int_equal(slow_disk.in_flight, 0);
	assert_int_equal(slow_disk.open, 0);
	operations = slow_disk.operations;
	assert_true(client_closed(old));
	new = dial(*state);
	assert_false(client_begin(new, "x@5", NULL)); /* older: refused */
	fd_close(new);
	new = connect_to(*state, "x@6");
	assert_true(slow_disk.operations == operations);
	assert_int_equal(target_export_connections(
				 ((struct fixture *)*state)->target, "x"),
			 1);
	fd_close(new);
	fd_close(old);
}

static void half_a_write_never_reaches_the_device(void **state)
{
	int fd = connect_to(*state, "x@5");

	client_ask(fd, NBD_CMD_WRITE, 1, 0, 1 << 20);
	client_put(fd, "only a part", 11);
	client_ask(fd, NBD_CMD_READ, 2, 0, 1); /* is payload too */
	usleep(20000);
	assert_int_equal(target_export_remove(
				 ((struct fixture *)*state)->target, "x", NULL),
			 0);
	assert_int_equal(slow_disk.open, 0);
	assert_int_equal(released, 1);
	assert_int_equal(slow_disk.operations, 0);
	assert_true(client_closed(fd));
	fd_close(fd);
}

static void the_same_epoch_keeps_its_connections(void **state)
{
	int fd = connect_to(*state, "x@5");

	assert_int_equal(export_set(*state, 5, false, "any"), 0);
	client_ask(fd, NBD_CMD_FLUSH, 1, 0, 0);
	assert_int_equal(client_answer(fd, 1), 0);
	assert_int_equal(export_set(*state, 5, false, "10.0.0.7"), 0);
	assert_true(client_closed(fd)); /* not on the list any more */
	fd_close(fd);
}

struct raiser {
	struct fixture *f;
	atomic_bool stop;
};

/* Epochs go up while clients come and go. */
static void *raiser_main(void *context)
{
	struct raiser *raiser = context;

	for (uint64_t epoch = 6; !raiser->stop; epoch++) {
		assert_int_equal(export_set(raiser->f, epoch, false, "any"), 0);
		assert_int_equal(slow_disk.in_flight, 0);
	}
	return NULL;
}

static void epochs_may_rise_under_load(void **state)
{
	struct raiser raiser = {.f = *state};
	pthread_t thread;
	char name[32];

	slow_disk.delay_ms = 1;
	assert_int_equal(pthread_create(&thread, NULL, raiser_main, &raiser),
			 0);
	for (int i = 0; i < 300; i++) {
		int fd = dial(*state);

		(void)snprintf(name, sizeof(name), "x@%d", 6 + i);
		if (client_begin(fd, name, NULL)) {
			struct nbd_wire_request wire = {
				.magic = be32_make(NBD_REQUEST_MAGIC),
				.type = be16_make(NBD_CMD_READ),
				.length = be32_make(4096),
			};
			/* May be closed already: that is the point. */
			(void)!send(fd, &wire, sizeof(wire), MSG_NOSIGNAL);
		}
		fd_close(fd);
	}
	raiser.stop = true;
	pthread_join(thread, NULL);
}

static void stopping_sends_the_replies_that_are_due(void **state)
{
	int fd = connect_to(*state, "x@5");
	char data[4096];

	slow_disk.delay_ms = 200;
	disk_fill('d');
	client_ask(fd, NBD_CMD_READ, 9, 0, sizeof(data));
	while (slow_disk.in_flight == 0)
		usleep(1000);
	stop(*state);
	assert_int_equal(client_answer(fd, 9), 0);
	client_get(fd, data, sizeof(data));
	assert_int_equal(data[0], 'd');
	assert_true(client_closed(fd));
	fd_close(fd);
}

static void stopping_does_not_wait_for_a_peer_that_reads_nothing(void **state)
{
	int fd = connect_to(*state, "x@5");
	int64_t start;

	client_ask(fd, NBD_CMD_READ, 1, 0, NBD_PAYLOAD_MAX);
	slow_disk_await(1);
	start = clock_ms();
	stop(*state);
	assert_in_range(clock_ms() - start, 1000, 30000);
	fd_close(fd);
}

static void one_connection_too_many_is_closed(void **state)
{
	int fds[9];

	for (int i = 0; i < 8; i++)
		fds[i] = connect_to(*state, "x@5");
	fds[8] = dial(*state);
	assert_true(client_closed(fds[8]));
	fd_close(fds[0]);
	for (int tries = 0;; tries++) { /* until the server has noticed */
		char c;

		fd_close(fds[8]);
		fds[8] = dial(*state);
		if (recv(fds[8], &c, 1, 0) == 1)
			break;
		assert_true(tries < 1000);
		usleep(1000);
	}
	for (int i = 1; i < 9; i++)
		fd_close(fds[i]);
}

static void a_unix_socket_is_private_and_its_own(void **state)
{
	struct fixture *f = *state;
	struct error err = {0};
	struct stat st;

	assert_int_equal(stat(f->address + 5, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(target_listen_nbd(f->target, f->address, NULL, &err),
			 -EADDRINUSE);
	assert_non_null(strstr(err.msg, f->address));
}

static void a_stale_unix_socket_is_replaced(void **state)
{
	struct fixture *f = *state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	char address[64];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address, sizeof(address), "unix:%s/stale", f->dir);
	(void)snprintf(un.sun_path, sizeof(un.sun_path), "%s", address + 5);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
	fd_close(fd);
	assert_int_equal(target_listen_nbd(f->target, address, NULL, NULL), 0);
}

static void refuses_addresses_it_does_not_understand(void **state)
{
	static const char *const rows[] = {
		"",
		"tcp:",
		"tcp:127.0.0.1",
		"tcp:127.0.0.1:port",
		"unix:relative",
		"udp:127.0.0.1:1",
		"127.0.0.1:10809",
		"tcp:127.0.0.1:99999999",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < array_size(rows); i++) {
		struct error err = {0};

		assert_int_equal(
			target_listen_nbd(f->target, rows[i], NULL, &err),
			-EINVAL);
		assert_true(strlen(err.msg) > 0);
	}
}

static void a_busy_port_is_named(void **state)
{
	struct fixture *f = *state;
	struct error err = {0};
	char address[64];
	int port = 0;

	assert_int_equal(
		target_listen_nbd(f->target, "tcp:127.0.0.1:0", &port, &err),
		0);
	assert_true(port > 0);
	(void)snprintf(address, sizeof(address), "tcp:127.0.0.1:%d", port);
	assert_int_equal(target_listen_nbd(f->target, address, NULL, &err),
			 -EADDRINUSE);
	assert_non_null(strstr(err.msg, address));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	static const struct CMUnitTest tests[] = {
		TEST(what_is_written_is_read),
		TEST(a_payload_may_come_byte_by_byte),
		TEST(zeroes_are_written_where_the_device_has_none),
		TEST(only_what_the_device_can_do_is_offered),
		TEST(many_more_requests_than_slots_are_all_answered),
		TEST(the_largest_requests_wait_for_each_other),
		TEST(a_connection_whose_disk_is_slow_is_not_dropped),
		TEST(a_peer_that_takes_little_at_a_time_is_dropped),
		TEST(peers_that_sit_on_the_buffers_are_dropped),
		TEST(a_higher_epoch_waits_for_what_is_in_flight),
		TEST(half_a_write_never_reaches_the_device),
		TEST(the_same_epoch_keeps_its_connections),
		TEST(epochs_may_rise_under_load),
		TEST(stopping_sends_the_replies_that_are_due),
		TEST(stopping_does_not_wait_for_a_peer_that_reads_nothing),
		TEST(one_connection_too_many_is_closed),
		TEST(a_unix_socket_is_private_and_its_own),
		TEST(a_stale_unix_socket_is_replaced),
		TEST(refuses_addresses_it_does_not_understand),
		TEST(a_busy_port_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
