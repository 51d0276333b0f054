/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The link against a server made here: a thread that shakes hands properly
 * and then does what each test says with the requests.
 */
#include "initiator/nbd/nbd_link.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define SIZE    UINT64_C(65536)
#define REFUSED "epoch 2 is current"

enum behaviour {
	ANSWER,        /* serve */
	DROP_REQUESTS, /* hang up on the first request */
	GARBAGE,       /* answer with bytes that are no reply */
	UNASKED,       /* answer a request nobody made */
	REFUSE,        /* NBD_REP_ERR_POLICY in the handshake */
	LEAVE,         /* NBD_ESHUTDOWN to the first request */
};

struct server {
	char dir[32];
	char path[64];
	int listener;
	atomic_int connection; /* the one served; shut down to end it */
	pthread_t thread;
	atomic_int behaviour;
	atomic_bool ends;
	atomic_int connections;
	atomic_int requests[16]; /* by type */
	const char *_Atomic description;
	uint8_t disk[SIZE];
};

static bool take(int fd, void *data, size_t length)
{
	return recv(fd, data, length, MSG_WAITALL) == (ssize_t)length;
}

static bool give(int fd, const void *data, size_t length)
{
	return send(fd, data, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static bool give_option(int fd, uint32_t option, uint32_t type,
			const void *data, size_t length)
{
	struct nbd_wire_option_reply reply = {
		.magic = be64_make(NBD_OPTION_REPLY_MAGIC),
		.option = be32_make(option),
		.type = be32_make(type),
		.length = be32_make((uint32_t)length),
	};

	return give(fd, &reply, sizeof(reply)) &&
	       (!length || give(fd, data, length));
}

static bool give_export(struct server *s, int fd, uint32_t option)
{
	struct {
		be16 type;
		be64 size;
		be16 flags;
	} info = {be16_make(NBD_INFO_EXPORT), be64_make(SIZE),
		  be16_make(NBD_TRANSMIT_HAS_FLAGS | NBD_TRANSMIT_SEND_FLUSH)};
	const char *description = s->description;
	uint8_t text[64] = {0, NBD_INFO_DESCRIPTION};

	if (s->behaviour == REFUSE) {
		(void)give_option(fd, option, NBD_REP_ERR_POLICY, REFUSED,
				  strlen(REFUSED));
		return false;
	}
	if (description) {
		memcpy(text + 2, description, strlen(description));
		if (!give_option(fd, option, NBD_REP_INFO, text,
				 2 + strlen(description)))
			return false;
	}
	return give_option(fd, option, NBD_REP_INFO, &info, sizeof(info)) &&
	       give_option(fd, option, NBD_REP_ACK, NULL, 0);
}

static bool shake_hands(struct server *s, int fd)
{
	struct nbd_wire_greeting greeting = {
		.magic = be64_make(NBD_MAGIC),
		.option_magic = be64_make(NBD_OPTION_MAGIC),
		.flags = be16_make(NBD_FLAG_FIXED_NEWSTYLE),
	};
	struct nbd_wire_option option;
	uint8_t rest[256];
	be32 flags;

	return give(fd, &greeting, sizeof(greeting)) &&
	       take(fd, &flags, sizeof(flags)) &&
	       take(fd, &option, sizeof(option)) &&
	       be32_get(option.length) <= sizeof(rest) &&
	       take(fd, rest, be32_get(option.length)) &&
	       give_export(s, fd, be32_get(option.option));
}

static bool answer(struct server *s, int fd, const struct nbd_wire_request *q)
{
	uint64_t offset = be64_get(q->offset);
	uint32_t length = be32_get(q->length);
	uint16_t type = be16_get(q->type);
	struct nbd_wire_simple_reply reply = {
		.magic = be32_make(NBD_SIMPLE_REPLY_MAGIC),
		.cookie = q->cookie,
	};

	if (s->behaviour == GARBAGE)
		reply.magic = be32_make(0xdeadbeef);
	if (s->behaviour == UNASKED)
		reply.cookie = be64_make(be64_get(q->cookie) + 1);
	if (s->behaviour == LEAVE)
		reply.error = be32_make(NBD_ESHUTDOWN);
	if (type == NBD_CMD_WRITE && !take(fd, s->disk + offset, length))
		return false;
	if (!give(fd, &reply, sizeof(reply)))
		return false;
	return type != NBD_CMD_READ || s->behaviour != ANSWER ||
	       give(fd, s->disk + offset, length);
}

static void serve(struct server *s, int fd)
{
	struct nbd_wire_request q;

	if (!shake_hands(s, fd))
		return;
	s->connections++;
	while (take(fd, &q, sizeof(q))) {
		uint16_t type = be16_get(q.type);

		if (s->behaviour == DROP_REQUESTS || type == NBD_CMD_DISC)
			return;
		s->requests[type]++;
		if (!answer(s, fd, &q))
			return;
	}
}

static void *run_server(void *arg)
{
	struct server *s = arg;

	while (!s->ends) {
		int fd = accept(s->listener, NULL, NULL);

		if (fd < 0)
			continue;
		s->connection = fd;
		serve(s, fd);
		s->connection = -1;
		(void)close(fd);
	}
	return NULL;
}

/* ---- the link, and one request at a time ---- */

struct test {
	struct server server;
	struct nbd_address address;
	struct nbd_export export;
	struct nbd_link *link;
	bool answered;
	int error;
	uint8_t data[4096];
	struct nbd_link_request request;
};

static void done(struct nbd_link_request *r, int error, const void *data)
{
	struct test *t = container_of(r, struct test, request);

	t->answered = true;
	t->error = error;
	if (!error && r->type == NBD_CMD_READ)
		memcpy(t->data, data, r->length);
}

static void turn(struct test *t, int most_ms)
{
	struct pollfd fds[NBD_LINK_POLLFDS];
	int wait = nbd_link_prepare(t->link, fds);

	if (wait < 0 || wait > most_ms)
		wait = most_ms;
	assert_true(poll(fds, NBD_LINK_POLLFDS, wait) >= 0);
	nbd_link_run(t->link, fds);
}

static void begin(struct test *t, uint16_t type, const void *data)
{
	t->answered = false;
	t->request = (struct nbd_link_request){
		.done = done,
		.type = type,
		.offset = type == NBD_CMD_FLUSH ? 0 : 8192,
		.length = type == NBD_CMD_FLUSH ? 0 : 4096,
		.data = data,
	};
	nbd_link_submit(t->link, &t->request);
	nbd_link_send(t->link);
}

/* Finish the request: its error, after 30 s at the latest. */
static int finish(struct test *t)
{
	int64_t end = clock_ms() + 30000;

	while (!t->answered && clock_ms() < end)
		turn(t, 100);
	assert_true(t->answered);
	return t->error;
}

static int ask(struct test *t, uint16_t type, const void *data)
{
	begin(t, type, data);
	return finish(t);
}

static bool state_is(struct test *t, const char *start)
{
	return !strncmp(nbd_link_state(t->link), start, strlen(start));
}

/* Break the connection, as a killed server would, and let the link see. */
static void cut(struct test *t)
{
	(void)shutdown(t->server.connection, SHUT_RDWR);
	while (state_is(t, NBD_LINK_CONNECTED))
		turn(t, 1000);
}

static void start(struct test *t, const char *description,
		  unsigned dead_timeout_ms)
{
	struct nbd_connect_options options = {
		.timeout_ms = 20000, .silence_ms = 20000, .cancel_fd = -1};
	struct nbd_link_options link = {
		.address = &t->address,
		.export_name = "disk",
		.dead_timeout_ms = dead_timeout_ms,
		.data_max = NBD_LINK_DATA_MAX,
		.export = &t->export,
	};
	char address[80];

	t->server.description = description;
	(void)snprintf(address, sizeof(address), "unix:%s", t->server.path);
	assert_int_equal(nbd_address_resolve(address, &t->address, NULL), 0);
	assert_int_equal(nbd_connect(&t->address, "disk", &options, &link.fd,
				     &t->export, NULL),
			 0);
	assert_int_equal(nbd_link_new(&link, &t->link, NULL), 0);
}

static int setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct server *s = &t->server;

	(void)snprintf(s->dir, sizeof(s->dir), "/tmp/trib-link.XXXXXX");
	if (!mkdtemp(s->dir))
		return -1;
	(void)snprintf(s->path, sizeof(s->path), "%s/s", s->dir);
	memcpy(un.sun_path, s->path, sizeof(s->path));
	s->connection = -1;
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->listener, (struct sockaddr *)&un, sizeof(un)) < 0 ||
	    listen(s->listener, 8) < 0 ||
	    pthread_create(&s->thread, NULL, run_server, s))
		return -1;
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct test *t = *state;
	struct server *s = &t->server;

	nbd_link_free(t->link);
	s->ends = true;
	(void)shutdown(s->listener, SHUT_RDWR);
	(void)pthread_join(s->thread, NULL);
	(void)close(s->listener);
	(void)unlink(s->path);
	(void)rmdir(s->dir);
	free(t);
	return 0;
}

/* ---- tests ---- */

static const uint8_t pattern[4096] = {1, 2, 3, [4095] = 9};

static void reads_what_it_wrote(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), 0);
	assert_memory_equal(t->data, pattern, sizeof(pattern));
}

static void sends_again_what_had_no_answer(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	t->server.behaviour = DROP_REQUESTS;
	begin(t, NBD_CMD_READ, NULL);
	while (state_is(t, NBD_LINK_CONNECTED))
		turn(t, 100);
	t->server.behaviour = ANSWER;
	assert_int_equal(finish(t), 0);
	assert_memory_equal(t->data, pattern, sizeof(pattern));
	assert_true(t->server.connections >= 2);
	assert_true(state_is(t, NBD_LINK_CONNECTED));
}

static void does_not_go_on_with_another_incarnation(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), 0);
	t->server.description = "incarnation=b";
	cut(t);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), -EIO);
	assert_true(state_is(t, NBD_LINK_FAILED));
	/* The link fails for ever, and without asking again. */
	t->server.description = "incarnation=a";
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), -EIO);
	assert_true(state_is(t, NBD_LINK_FAILED));
}

static void ends_for_good_when_it_is_refused(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	t->server.behaviour = REFUSE;
	cut(t);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), -EIO);
	assert_true(state_is(t, NBD_LINK_FAILED));
	assert_non_null(strstr(nbd_link_state(t->link), REFUSED));
}

static void goes_on_without_incarnation_only_when_all_is_flushed(void **state)
{
	struct test *t = *state;

	start(t, NULL, 20000);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
	cut(t);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), 0);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	cut(t);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), -EIO);
	assert_true(state_is(t, NBD_LINK_FAILED));
	assert_int_equal(t->server.requests[NBD_CMD_FLUSH], 1);
}

/* The server is lost for good, with @type under way. Its error. */
static int ask_while_it_is_lost(struct test *t, uint16_t type)
{
	t->server.behaviour = DROP_REQUESTS;
	begin(t, type, NULL);
	while (state_is(t, NBD_LINK_CONNECTED))
		turn(t, 100);
	t->server.behaviour = REFUSE;
	return finish(t);
}

/* The device's other parts are flushed, and nothing is claimed of this one. */
static void flushes_without_a_server_only_what_is_durable(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	assert_false(nbd_link_is_durable(t->link));
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
	assert_true(nbd_link_is_durable(t->link));
	assert_int_equal(ask_while_it_is_lost(t, NBD_CMD_FLUSH), 0);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), -EIO);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
}

static void fails_a_flush_of_what_may_be_lost(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), 0);
	assert_int_equal(ask(t, NBD_CMD_WRITE, pattern), 0);
	assert_false(nbd_link_is_durable(t->link));
	assert_int_equal(ask_while_it_is_lost(t, NBD_CMD_FLUSH), -EIO);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), -EIO);
}

/* The process before may have written. */
static void fails_a_first_flush_without_a_server(void **state)
{
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	assert_false(nbd_link_is_durable(t->link));
	assert_int_equal(ask_while_it_is_lost(t, NBD_CMD_FLUSH), -EIO);
	assert_int_equal(ask(t, NBD_CMD_FLUSH, NULL), -EIO);
}

static void fails_after_the_dead_time_and_works_again_later(void **state)
{
	struct test *t = *state;
	int64_t began;

	start(t, "incarnation=a", 300);
	t->server.behaviour = DROP_REQUESTS;
	began = clock_ms();
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), -EIO);
	assert_in_range(clock_ms() - began, 250, 25000);
	t->server.behaviour = ANSWER;
	while (!state_is(t, NBD_LINK_CONNECTED))
		turn(t, 100);
	assert_int_equal(ask(t, NBD_CMD_READ, NULL), 0);
}

static void drops_a_server_that_breaks_the_protocol(void **state)
{
	static const int behaviours[] = {GARBAGE, UNASKED, LEAVE};
	struct test *t = *state;

	start(t, "incarnation=a", 20000);
	for (size_t i = 0; i < array_size(behaviours); i++) {
		t->server.behaviour = behaviours[i];
		begin(t, NBD_CMD_READ, NULL);
		while (state_is(t, NBD_LINK_CONNECTED))
			turn(t, 100);
		assert_false(t->answered);
		t->server.behaviour = ANSWER;
		assert_int_equal(finish(t), 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(reads_what_it_wrote),
		TEST(sends_again_what_had_no_answer),
		TEST(does_not_go_on_with_another_incarnation),
		TEST(ends_for_good_when_it_is_refused),
		TEST(goes_on_without_incarnation_only_when_all_is_flushed),
		TEST(flushes_without_a_server_only_what_is_durable),
		TEST(fails_a_flush_of_what_may_be_lost),
		TEST(fails_a_first_flush_without_a_server),
		TEST(fails_after_the_dead_time_and_works_again_later),
		TEST(drops_a_server_that_breaks_the_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
