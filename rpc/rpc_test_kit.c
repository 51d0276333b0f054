/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_test_kit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/process.h"

static int do_wait(struct rpc_call *call, int ms)
{
	struct kit_seen *seen = rpc_context(call);
	struct pollfd fd = {.fd = rpc_cancel_fd(call), .events = POLLIN};

	if (poll(&fd, 1, ms) <= 0)
		return 0;
	if (!rpc_cancelled(call))
		return -EPROTO; /* the descriptor and the flag disagree */
	atomic_fetch_add(&seen->cancelled, 1);
	return -ECANCELED;
}

static int do_error(const char *rest, struct error *err)
{
	int code = (int)strtol(rest, NULL, 10);

	return error_set(err, code, "%s", strchr(rest, ':') + 1);
}

static int do_fail(struct rpc_call *call, const char *rest)
{
	enum rpc_code code = (enum rpc_code)strtol(rest, NULL, 10);

	return rpc_fail(call, code, "%s", strchr(rest, ':') + 1);
}

static int dispatch(struct rpc_call *call, const char *name,
		    Tributary__V1__Extent *out, struct error *err)
{
	const char *rest = strchr(name, ':');
	size_t n;

	rest = rest ? rest + 1 : "";
	if (strncmp(name, "echo:", 5) == 0) {
		out->name = rpc_strdup(call, rest);
	} else if (strncmp(name, "error:", 6) == 0) {
		return do_error(rest, err);
	} else if (strncmp(name, "fail:", 5) == 0) {
		return do_fail(call, rest);
	} else if (strncmp(name, "wait:", 5) == 0) {
		return do_wait(call, (int)strtol(rest, NULL, 10));
	} else if (strncmp(name, "alloc:", 6) == 0) {
		n = strtoul(rest, NULL, 10);
		memset(rpc_alloc(call, n), 1, n);
	} else if (strncmp(name, "long:", 5) == 0) {
		n = strtoul(rest, NULL, 10);
		out->message = rpc_printf(call, "%0*d", (int)n, 0);
	} else {
		return error_set(err, ENOENT, "no extent '%s'", name);
	}
	return 0;
}

static int get_extent(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	struct kit_seen *seen = rpc_context(call);
	int r;

	atomic_fetch_add(&seen->calls, 1);
	r = dispatch(call, ((const Tributary__V1__GetExtentRequest *)in)->name,
		     (Tributary__V1__Extent *)out, err);
	atomic_fetch_add(&seen->ended, 1);
	return r;
}

static int list_extents(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ListExtentsRequest *request = (const void *)in;
	struct kit_seen *seen = rpc_context(call);
	bool ever = strcmp(request->pool, "ever") == 0;
	bool stuck = strcmp(request->pool, "stuck") == 0;
	unsigned long n = stuck ? 3 : strtoul(request->pool, NULL, 10);
	int r = 0;

	(void)out; /* a stream's answer goes by rpc_send() */
	atomic_fetch_add(&seen->calls, 1);
	for (unsigned long i = 0; r == 0 && (ever || i < n); i++) {
		Tributary__V1__Extent extent = TRIBUTARY__V1__EXTENT__INIT;

		extent.size = i;
		extent.name = rpc_printf(call, "extent-%lu", i);
		r = rpc_send(call, &extent.base);
		if (r == 0)
			atomic_fetch_add(&seen->sent, 1);
		if (ever && r == 0)
			r = do_wait(call, 5);
	}
	if (r == -ECANCELED)
		atomic_fetch_add(&seen->cancelled, 1);
	atomic_fetch_add(&seen->ended, 1);
	return stuck && r == 0 ? error_set(err, ESTALE, "stuck") : r;
}

static int create_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ListPoolsReply *request = (const void *)in;
	struct kit_seen *seen = rpc_context(call);

	(void)err;
	atomic_fetch_add(&seen->calls, 1);
	((Tributary__V1__Extent *)out)->size = request->n_pools;
	return 0;
}

const struct rpc_method kit_methods[] = {
	{"/tributary.v1.Blockd/GetExtent",
	 &tributary__v1__get_extent_request__descriptor,
	 &tributary__v1__extent__descriptor, get_extent, false},
	{"/tributary.v1.Blockd/ListExtents",
	 &tributary__v1__list_extents_request__descriptor,
	 &tributary__v1__extent__descriptor, list_extents, true},
	{"/tributary.v1.Blockd/CreateExtent",
	 &tributary__v1__list_pools_reply__descriptor,
	 &tributary__v1__extent__descriptor, create_extent, false},
	{"/tributary.v1.Blockd/DeleteExtent",
	 &tributary__v1__delete_extent_request__descriptor,
	 &tributary__v1__empty__descriptor, NULL, false},
};
const size_t kit_n_methods = array_size(kit_methods);

void kit_make(struct kit *kit)
{
	*kit = (struct kit){.dir = "/tmp/rpc-test-XXXXXX"};
	assert_non_null(mkdtemp(kit->dir));
	(void)snprintf(kit->address, sizeof(kit->address), "unix:%s/sock",
		       kit->dir);
	kit->addresses[0] = kit->address;
	kit->options = (struct rpc_server_options){
		.addresses = kit->addresses,
		.n_addresses = 1,
		.methods = kit_methods,
		.n_methods = kit_n_methods,
		.context = &kit->seen,
	};
}

int kit_setup(void **state)
{
	struct kit *kit = malloc(sizeof(*kit));

	kit_make(kit);
	*state = kit;
	return 0;
}

int kit_teardown(void **state)
{
	kit_done(*state);
	free(*state);
	return 0;
}

void kit_start(struct kit *kit)
{
	if (rpc_server_start(&kit->options, &kit->server, &kit->err) < 0)
		fail_msg("start: %s", kit->err.msg);
	if (!kit->client && rpc_client_new(kit->addresses[0], NULL, NULL,
					   &kit->client, &kit->err) < 0)
		fail_msg("client: %s", kit->err.msg);
}

void kit_stop(struct kit *kit)
{
	rpc_server_stop(kit->server, 1000);
	kit->server = NULL;
}

void kit_done(struct kit *kit)
{
	const char *const rm[] = {"rm", "-rf", kit->dir, NULL};

	rpc_client_free(kit->client);
	kit_stop(kit);
	assert_int_equal(process_must(rm, 10000, NULL), 0);
}

int kit_get(struct kit *kit, const char *name, int timeout_ms,
	    Tributary__V1__Extent **ret)
{
	Tributary__V1__GetExtentRequest in =
		TRIBUTARY__V1__GET_EXTENT_REQUEST__INIT;

	in.name = (char *)name;
	return rpc_client_call(kit->client, kit_methods[0].path, &in.base,
			       kit_methods[0].out, timeout_ms,
			       (ProtobufCMessage **)ret, &kit->err);
}

bool kit_unreachable(struct kit *kit, const char *text)
{
	int64_t end = clock_ms() + 30000;

	while (clock_ms() < end) {
		if (kit_get(kit, "echo:x", 800, NULL) == -EHOSTUNREACH &&
		    strstr(kit->err.msg, kit->address) &&
		    strstr(kit->err.msg, text))
			return true;
	}
	return false;
}

bool kit_eventually(atomic_int *value, int least)
{
	int64_t end = clock_ms() + 30000;

	while (atomic_load(value) < least) {
		if (clock_ms() > end)
			return false;
		(void)usleep(1000);
	}
	return true;
}
