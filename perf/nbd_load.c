/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads from an NBD server, or writes, as fast as it answers: one connection,
 * one thread, a fixed number of requests in flight, simple replies (what the
 * kernel's client uses). New requests are sent together, one for each reply
 * that the last recv() brought, so that the client costs less than any
 * server. Ends with one line of JSON.
 *
 * The export is one made by perf/run: every 8-byte little-endian word of a
 * block of 4096 bytes holds the block's number. The first and last word of
 * every reply are checked, and every 64th reply goes into a checksum that
 * depends only on --seed, --count and the data, not on the order of replies.
 * Writes write what is there already, and count in the checksum as reads do.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/options.h"
#include "base/wire/crc32c.h"
#include "base/wire/nbd_wire.h"

#define BLOCK           4096u /* bytes; the pattern's unit */
#define DEPTH_MAX       256u
#define SIZE_MAX_IO     (1u << 20) /* bytes */
#define SUM_EVERY       64u        /* replies */
#define OPTION_DATA_MAX 4096u      /* bytes of an option reply we accept */

struct config {
	bool help, write, sequential;
	char *address;
	char *export;
	uint64_t depth;
	uint64_t size;
	uint64_t count;
	uint64_t seed;
};

static const struct option_row rows[] = {
	{"help", 'h', OPTION_FLAG, offsetof(struct config, help), NULL,
	 "say this", NULL, 0, 0},
	{"address", 'a', OPTION_STRING, offsetof(struct config, address),
	 "HOST:PORT", "the server, or unix:PATH", "127.0.0.1:10809", 0, 0},
	{"export", 'e', OPTION_STRING, offsetof(struct config, export), "NAME",
	 "which export", "", 0, 0},
	{"depth", 'd', OPTION_NUMBER, offsetof(struct config, depth), "N",
	 "requests in flight", "1", 1, DEPTH_MAX},
	{"size", 's', OPTION_SIZE, offsetof(struct config, size), "BYTES",
	 "of one read", "4096", BLOCK, SIZE_MAX_IO},
	{"count", 'n', OPTION_NUMBER, offsetof(struct config, count), "N",
	 "reads to make", "100000", 1, 0},
	{"write", 'w', OPTION_FLAG, offsetof(struct config, write), NULL,
	 "write the pattern instead of reading it", NULL, 0, 0},
	{"sequential", 'q', OPTION_FLAG, offsetof(struct config, sequential),
	 NULL, "one place after the other", NULL, 0, 0},
	{"seed", 'r', OPTION_NUMBER, offsetof(struct config, seed), "N",
	 "of the random offsets", "1", 1, 0},
};

/*
 * Latencies, 16 buckets for each power of two of nanoseconds: at most 6 %
 * off.
 */
#define BUCKETS (64 * 16)
static uint64_t buckets[BUCKETS];

static unsigned bucket_of(uint64_t ns)
{
	unsigned power;

	if (ns < 16)
		return (unsigned)ns;
	power = 63 - (unsigned)__builtin_clzll(ns);
	return (power - 3) * 16 + (unsigned)((ns >> (power - 4)) & 15);
}

static double bucket_us(unsigned bucket)
{
	unsigned power = bucket / 16 + 3;

	if (bucket < 16)
		return bucket / 1e3;
	return (double)((UINT64_C(16) + bucket % 16) << (power - 4)) / 1e3;
}

static double percentile_us(double share, uint64_t count)
{
	uint64_t seen = 0;

	for (unsigned i = 0; i < BUCKETS; i++) {
		seen += buckets[i];
		if ((double)seen >= share * (double)count)
			return bucket_us(i);
	}
	return 0;
}

/* xorshift64*, Vigna 2016 */
static uint64_t random_next(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(2685821657736338717);
}

static int recv_all(int fd, void *data, size_t length, struct error *err)
{
	/* A recv() of nothing would still wait for something. */
	ssize_t n = length ? recv(fd, data, length, MSG_WAITALL) : 0;

	if (n < 0)
		return error_set(err, errno, "receive: %s", strerror(errno));
	if ((size_t)n < length)
		return error_set(err, ECONNRESET, "the server hung up");
	return 0;
}

static int connect_unix(const char *path, int *ret_fd, struct error *err)
{
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sun.sun_path))
		return error_set(err, EINVAL, "'%s' is too long", path);
	memcpy(sun.sun_path, path, strlen(path) + 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		return error_set(err, errno, "connect to '%s': %s", path,
				 strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

static int connect_tcp(const char *address, int *ret_fd, struct error *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	const char *colon = strrchr(address, ':');
	char host[256];
	int one = 1, r;
	auto_close int fd = -1;

	if (!colon || (size_t)(colon - address) >= sizeof(host))
		return error_set(err, EINVAL, "'%s' is no HOST:PORT", address);
	memcpy(host, address, (size_t)(colon - address));
	host[colon - address] = '\0';
	r = getaddrinfo(host, colon + 1, &hints, &found);
	if (r != 0)
		return error_set(err, EINVAL, "'%s': %s", address,
				 gai_strerror(r));
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	r = fd < 0 ? -1 : connect(fd, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	if (r < 0)
		return error_set(err, errno, "connect to '%s': %s", address,
				 strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0)
		return error_set(err, errno, "TCP_NODELAY: %s",
				 strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Ask for the export with NBD_OPT_GO; @ret_size from its NBD_INFO_EXPORT. */
static int ask_export(int fd, const char *name, uint64_t *ret_size,
		      struct error *err)
{
	uint32_t name_length = (uint32_t)strlen(name);
	struct {
		be32 flags;
		struct nbd_wire_option option;
		be32 name_length;
	} head = {
		.flags = be32_make(NBD_FLAG_C_FIXED_NEWSTYLE |
				   NBD_FLAG_C_NO_ZEROES),
		.option = {be64_make(NBD_OPTION_MAGIC), be32_make(NBD_OPT_GO),
			   be32_make(4 + name_length + 2)},
		.name_length = be32_make(name_length),
	};
	be16 no_infos = be16_make(0);
	struct nbd_wire_option_reply reply;
	uint8_t data[OPTION_DATA_MAX + 1];
	bool have_size = false;

	if (fd_write_all(fd, &head, sizeof(head)) < 0 ||
	    fd_write_all(fd, name, name_length) < 0 ||
	    fd_write_all(fd, &no_infos, sizeof(no_infos)) < 0)
		return error_set(err, EPIPE, "the server hung up");
	for (;;) {
		uint32_t length, type;
		int r = recv_all(fd, &reply, sizeof(reply), err);

		if (r < 0)
			return r;
		length = be32_get(reply.length);
		type = be32_get(reply.type);
		if (be64_get(reply.magic) != NBD_OPTION_REPLY_MAGIC ||
		    length > OPTION_DATA_MAX)
			return error_set(err, EPROTO, "bad option reply");
		r = recv_all(fd, data, length, err);
		if (r < 0)
			return r;
		data[length] = '\0';
		if (type == NBD_REP_ACK && have_size)
			return 0;
		if (type != NBD_REP_INFO)
			return error_set(err, ENOENT,
					 "export '%s' refused (%#x): %s", name,
					 type, data);
		if (length == 12 && data[0] == 0 &&
		    data[1] == NBD_INFO_EXPORT) {
			be64 size;

			memcpy(&size, data + 2, sizeof(size));
			*ret_size = be64_get(size);
			have_size = true;
		}
	}
}

static int open_export(const struct config *config, int *ret_fd,
		       uint64_t *ret_size, struct error *err)
{
	struct nbd_wire_greeting greeting;
	auto_close int fd = -1;
	int r;

	if (strncmp(config->address, "unix:", 5) == 0)
		r = connect_unix(config->address + 5, &fd, err);
	else
		r = connect_tcp(config->address, &fd, err);
	if (r < 0)
		return r;
	r = recv_all(fd, &greeting, sizeof(greeting), err);
	if (r < 0)
		return r;
	if (be64_get(greeting.magic) != NBD_MAGIC ||
	    be64_get(greeting.option_magic) != NBD_OPTION_MAGIC ||
	    !(be16_get(greeting.flags) & NBD_FLAG_FIXED_NEWSTYLE))
		return error_set(err, EPROTO, "no fixed newstyle NBD server");
	r = ask_export(fd, config->export, ret_size, err);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

struct request {
	uint64_t block;  /* first of the read */
	uint64_t number; /* number of the read, from 0 */
	int64_t sent_ns;
};

struct load {
	struct config config;
	int fd;
	uint64_t places; /* reads that fit in the export */
	uint64_t random;
	uint64_t sent, done; /* reads */
	uint64_t sum;
	struct request requests[DEPTH_MAX]; /* the cookie is the index */
	unsigned idle[DEPTH_MAX], n_idle;   /* indexes with no request */
	struct nbd_wire_request wire[DEPTH_MAX];
	uint8_t *data; /* of writes: one for each request, or NULL */
	struct iovec parts[2 * DEPTH_MAX];
	uint8_t *buffer;
	size_t filled, capacity; /* bytes of buffer */
};

/* Make the data of a write; as with reads, some count in the checksum. */
static uint8_t *fill_data(struct load *load, unsigned slot)
{
	const struct request *request = &load->requests[slot];
	uint64_t size = load->config.size;
	uint8_t *data = load->data + slot * size;

	for (uint64_t at = 0; at < size; at += sizeof(le64)) {
		le64 word = le64_make(request->block + at / BLOCK);

		memcpy(data + at, &word, sizeof(word));
	}
	if (request->number % SUM_EVERY == 0)
		load->sum += crc32c((uint32_t)request->number, data, size);
	return data;
}

static uint64_t next_place(struct load *load)
{
	return (load->config.sequential ? load->sent
					: random_next(&load->random)) %
	       load->places;
}

/* Send all parts, in as few calls as it takes. */
static int send_parts(struct load *load, unsigned n)
{
	struct iovec *part = load->parts;

	while (n > 0) {
		ssize_t sent = writev(load->fd, part, (int)n);

		if (sent < 0 && errno != EINTR)
			return -errno;
		while (n > 0 && sent >= (ssize_t)part->iov_len) {
			sent -= (ssize_t)part->iov_len;
			part++;
			n--;
		}
		if (n > 0 && sent > 0) {
			part->iov_base = (char *)part->iov_base + sent;
			part->iov_len -= (size_t)sent;
		}
	}
	return 0;
}

/* Send one request for each idle slot, in one write. */
static int load_send(struct load *load, int64_t now, struct error *err)
{
	unsigned n = 0, n_parts = 0;
	uint64_t size = load->config.size;

	while (load->n_idle && load->sent < load->config.count) {
		unsigned slot = load->idle[--load->n_idle];
		struct request *request = &load->requests[slot];
		uint64_t place = next_place(load);

		request->block = place * (size / BLOCK);
		request->number = load->sent++;
		request->sent_ns = now;
		load->wire[n] = (struct nbd_wire_request){
			.magic = be32_make(NBD_REQUEST_MAGIC),
			.type = be16_make(load->data ? NBD_CMD_WRITE
						     : NBD_CMD_READ),
			.cookie = be64_make(slot),
			.offset = be64_make(place * size),
			.length = be32_make((uint32_t)size),
		};
		if (load->data) {
			load->parts[n_parts++] = (struct iovec){
				&load->wire[n], sizeof(load->wire[n])};
			load->parts[n_parts++] = (struct iovec){
				fill_data(load, slot), size};
		}
		n++;
	}
	if (load->data ? send_parts(load, n_parts) < 0
		       : n && fd_write_all(load->fd, load->wire,
					   n * sizeof(*load->wire)) < 0)
		return error_set(err, EPIPE, "the server hung up");
	return 0;
}

static int check_data(struct load *load, const struct request *request,
		      const uint8_t *data, struct error *err)
{
	uint64_t size = load->config.size;
	uint64_t last_block = request->block + size / BLOCK - 1;
	le64 first, last;

	memcpy(&first, data, sizeof(first));
	memcpy(&last, data + size - sizeof(last), sizeof(last));
	if (le64_get(first) != request->block || le64_get(last) != last_block)
		return error_set(err, EILSEQ,
				 "wrong data at block %llu: %llu .. %llu",
				 (unsigned long long)request->block,
				 (unsigned long long)le64_get(first),
				 (unsigned long long)le64_get(last));
	if (request->number % SUM_EVERY == 0)
		load->sum += crc32c((uint32_t)request->number, data, size);
	return 0;
}

/* Take every whole reply out of the buffer. */
static int load_take(struct load *load, int64_t now, struct error *err)
{
	size_t at = 0, whole = sizeof(struct nbd_wire_simple_reply) +
			       (load->data ? 0 : load->config.size);

	while (load->filled - at >= sizeof(struct nbd_wire_simple_reply)) {
		struct nbd_wire_simple_reply reply;
		struct request *request;
		uint64_t slot;
		int r;

		memcpy(&reply, load->buffer + at, sizeof(reply));
		slot = be64_get(reply.cookie);
		if (be32_get(reply.magic) != NBD_SIMPLE_REPLY_MAGIC ||
		    slot >= load->config.depth)
			return error_set(err, EPROTO, "bad reply");
		if (be32_get(reply.error))
			return error_set(err, EIO, "the server says error %u",
					 be32_get(reply.error));
		if (load->filled - at < whole)
			break;
		request = &load->requests[slot];
		r = load->data ? 0
			       : check_data(load, request,
					    load->buffer + at + sizeof(reply),
					    err);
		if (r < 0)
			return r;
		buckets[bucket_of((uint64_t)(now - request->sent_ns))]++;
		load->idle[load->n_idle++] = (unsigned)slot;
		load->done++;
		at += whole;
	}
	memmove(load->buffer, load->buffer + at, load->filled - at);
	load->filled -= at;
	return 0;
}

static int load_run(struct load *load, struct error *err)
{
	int r = load_send(load, clock_ns(), err);

	while (r == 0 && load->done < load->config.count) {
		ssize_t n = recv(load->fd, load->buffer + load->filled,
				 load->capacity - load->filled, 0);
		int64_t now = clock_ns();

		if (n < 0)
			return error_set(err, errno, "receive: %s",
					 strerror(errno));
		if (n == 0)
			return error_set(err, ECONNRESET, "the server hung up");
		load->filled += (size_t)n;
		r = load_take(load, now, err);
		if (r == 0)
			r = load_send(load, now, err);
	}
	return r;
}

static void report(const struct load *load, double seconds)
{
	uint64_t count = load->done, bytes = count * load->config.size;

	printf("{\"reads\": %" PRIu64 ", \"bytes\": %" PRIu64
	       ", \"sum\": \"%" PRIx64 "\", \"seconds\": %.6f, "
	       "\"iops\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
	       "\"p999_us\": %.1f}\n",
	       count, bytes, load->sum, seconds, (double)count / seconds,
	       percentile_us(0.5, count), percentile_us(0.99, count),
	       percentile_us(0.999, count));
}

static int run(const struct config *config, struct error *err)
{
	static struct load load;
	auto_close int fd = -1;
	auto_free uint8_t *buffer = NULL, *data = NULL;
	uint64_t size = 0;
	int64_t start;
	int r;

	if (config->size % BLOCK)
		return error_set(err, EINVAL, "--size: a multiple of %u",
				 BLOCK);
	r = open_export(config, &fd, &size, err);
	if (r < 0)
		return r;
	load.config = *config;
	load.fd = fd;
	load.places = size / config->size;
	load.random = config->seed;
	if (!load.places)
		return error_set(err, EINVAL,
				 "the export is smaller than one read");
	load.capacity = config->depth *
			(sizeof(struct nbd_wire_simple_reply) + config->size);
	buffer = malloc(load.capacity);
	if (!buffer)
		return error_set(err, ENOMEM, "no memory for the replies");
	load.buffer = buffer;
	if (config->write) {
		data = malloc(config->depth * config->size);
		if (!data)
			return error_set(err, ENOMEM, "no memory for data");
		load.data = data;
	}
	for (unsigned i = 0; i < config->depth; i++)
		load.idle[load.n_idle++] = i;
	start = clock_ns();
	r = load_run(&load, err);
	if (r < 0)
		return r;
	report(&load, (double)(clock_ns() - start) / 1e9);
	return 0;
}

int main(int argc, char **argv)
{
	struct config config = {0};
	struct error err = {0};
	int index = 0, r;

	options_defaults(rows, array_size(rows), &config);
	r = options_parse(rows, array_size(rows), &config, argc, argv, &index,
			  &err);
	if (r == 0 && config.help) {
		puts("nbd_load: reads from an NBD server, or writes to it");
		options_help(rows, array_size(rows), stdout);
	} else if (r == 0 && index < argc) {
		r = error_set(&err, EINVAL, "unexpected '%s'", argv[index]);
	} else if (r == 0) {
		r = run(&config, &err);
	}
	if (r < 0)
		fprintf(stderr, "nbd_load: %s\n", error_text(&err));
	options_done(rows, array_size(rows), &config);
	return r < 0;
}
