/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/csi/kit.h"

#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/config.h"
#include "csi/service.h"
#include "tests/csi/recorded.h"

#define TIMEOUT_MS 60000
#define BUFFERS    16

static struct rpc_client *clients[KIT_HOSTS + 1];
static struct kit_answer last;

/* ---- words ---- */

static struct {
	char name[16], value[KIT_TEXT_MAX];
} variables[32];

void kit_let(const char *name, const char *value)
{
	size_t i = 0;

	while (variables[i].name[0] && strcmp(variables[i].name, name) != 0)
		if (++i == array_size(variables))
			abort();
	(void)snprintf(variables[i].name, sizeof(variables[i].name), "%s",
		       name);
	(void)snprintf(variables[i].value, sizeof(variables[i].value), "%s",
		       value);
}

static const char *variable(const char *name, size_t n)
{
	for (size_t i = 0; i < array_size(variables); i++)
		if (strlen(variables[i].name) == n &&
		    strncmp(variables[i].name, name, n) == 0)
			return variables[i].value;
	(void)fprintf(stderr, "no variable $%.*s\n", (int)n, name);
	abort();
}

static size_t expand(const char *text, char *buf, size_t size)
{
	size_t used = 0;

	while (*text) {
		size_t n = 0;

		if (used + 1 >= size)
			abort();
		if (*text != '$') {
			buf[used++] = *text++;
			continue;
		}
		text++;
		while (islower((unsigned char)text[n]))
			n++;
		used += expand(variable(text, n), buf + used, size - used);
		text += n;
	}
	buf[used] = '\0';
	return used;
}

const char *kit_text(const char *text)
{
	static char buffers[BUFFERS][KIT_TEXT_MAX];
	static unsigned next;
	char *buf = buffers[next++ % BUFFERS];

	(void)expand(text, buf, KIT_TEXT_MAX);
	return buf;
}

static void let_host(int host)
{
	char text[8];

	(void)snprintf(text, sizeof(text), "%d", host);
	kit_let("host", text);
}

/* ---- what makes a request a right one ---- */

#define CAPABILITY \
	"volume_capability.$access", "volume_capability.access_mode.mode=$mode"

static const struct {
	const char *method;
	const char *fields[8];
} bases[] = {
	{"Controller/CreateVolume",
	 {"name=$name", "capacity_range.required_bytes=$size",
	  "volume_capabilities.$access",
	  "volume_capabilities.access_mode.mode=$mode",
	  "parameters.minExtents=$extents"}},
	{"Controller/DeleteVolume", {"volume_id=$id"}},
	{"Controller/ControllerPublishVolume",
	 {"volume_id=$id", "node_id=$node", CAPABILITY}},
	{"Controller/ControllerUnpublishVolume",
	 {"volume_id=$id", "node_id=$node"}},
	{"Controller/ValidateVolumeCapabilities",
	 {"volume_id=$id", "volume_capabilities.$access",
	  "volume_capabilities.access_mode.mode=$mode"}},
	{"Controller/ControllerGetVolume", {"volume_id=$id"}},
	{"Controller/ControllerExpandVolume",
	 {"volume_id=$id", "capacity_range.required_bytes=$size", CAPABILITY}},
	{"Controller/ControllerModifyVolume", {"volume_id=$id"}},
	{"Controller/CreateSnapshot",
	 {"source_volume_id=$id", "name=snap-$name"}},
	{"Controller/DeleteSnapshot", {"snapshot_id=$snapshot"}},
	{"Controller/GetSnapshot", {"snapshot_id=$snapshot"}},
	{"GroupController/CreateVolumeGroupSnapshot",
	 {"name=group", "source_volume_ids=$id", "source_volume_ids=$second"}},
	{"GroupController/DeleteVolumeGroupSnapshot",
	 {"group_snapshot_id=$group", "snapshot_ids=$member",
	  "snapshot_ids=$omember"}},
	{"GroupController/GetVolumeGroupSnapshot",
	 {"group_snapshot_id=$group", "snapshot_ids=$member",
	  "snapshot_ids=$omember"}},
	{"SnapshotMetadata/GetMetadataAllocated", {"snapshot_id=$snapshot"}},
	{"SnapshotMetadata/GetMetadataDelta",
	 {"base_snapshot_id=$base", "target_snapshot_id=$snapshot"}},
	{"Node/NodeStageVolume",
	 {"volume_id=$id", "staging_target_path=$staging", CAPABILITY}},
	{"Node/NodeUnstageVolume",
	 {"volume_id=$id", "staging_target_path=$staging"}},
	{"Node/NodePublishVolume",
	 {"volume_id=$id", "staging_target_path=$staging",
	  "target_path=$target", CAPABILITY}},
	{"Node/NodeUnpublishVolume", {"volume_id=$id", "target_path=$target"}},
	{"Node/NodeGetVolumeStats", {"volume_id=$id", "volume_path=$target"}},
	{"Node/NodeExpandVolume",
	 {"volume_id=$id", "volume_path=$target",
	  "staging_target_path=$staging", CAPABILITY}},
};

static const struct rpc_method *method_find(const char *name)
{
	size_t n;
	const struct rpc_method *methods = csi_methods(CSI_MODE_ALL, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(methods[i].path + strlen("/csi.v1."), name) == 0)
			return &methods[i];
	(void)fprintf(stderr, "no method %s\n", name);
	abort();
}

static void set(ProtobufCMessage *m, const char *field)
{
	const char *text = kit_text(field);

	if (message_set(m, text) < 0) {
		(void)fprintf(stderr, "%s has no field '%s'\n",
			      m->descriptor->name, text);
		abort();
	}
}

static const char *pool = "";

void kit_use_pool(const char *field)
{
	pool = field;
}

/* "kubelet: stage"; NULL: @word is a method. */
static const struct recorded *recorded_among(const char *word)
{
	return strchr(word, ':') ? recorded_find(word) : NULL;
}

struct kit_request kit_request_make(int host, const char *const *words)
{
	const struct recorded *from = recorded_among(words[0]);
	const char *method = from ? from->method : words[0];
	struct kit_request request = {.method = method_find(method),
				      .host = host};

	let_host(host);
	request.in = message_new(request.method->in);
	for (size_t i = 0; from && from->fields[i]; i++)
		set(request.in, from->fields[i]);
	for (size_t i = 0; !from && i < array_size(bases); i++)
		for (size_t j = 0; strcmp(bases[i].method, words[0]) == 0 &&
				   bases[i].fields[j];
		     j++)
			set(request.in, bases[i].fields[j]);
	if (pool[0] && strcmp(method, "Controller/CreateVolume") == 0)
		set(request.in, pool);
	for (size_t i = 1; words[i]; i++)
		set(request.in, words[i]);
	return request;
}

/* ---- calls ---- */

static struct kit_stream stream;

const struct kit_stream *kit_streamed(void)
{
	return &stream;
}

/* Both answers of SnapshotMetadata look alike. */
static int see(void *context, const ProtobufCMessage *m_)
{
	const Csi__V1__GetMetadataAllocatedResponse *m = (const void *)m_;

	(void)context;
	stream.messages++;
	if (m->n_block_metadata > stream.most)
		stream.most = m->n_block_metadata;
	stream.wrong |= m->block_metadata_type != 2 ||
			(stream.messages > 1 &&
			 stream.capacity != m->volume_capacity_bytes);
	stream.capacity = m->volume_capacity_bytes;
	for (size_t i = 0; i < m->n_block_metadata; i++) {
		const Csi__V1__BlockMetadata *b = m->block_metadata[i];

		stream.wrong |= b->size_bytes <= 0 ||
				b->byte_offset < stream.end;
		if (stream.ranges++ == 0)
			stream.first_end = b->byte_offset + b->size_bytes;
		stream.end = b->byte_offset + b->size_bytes;
		stream.bytes += b->size_bytes;
	}
	return 0;
}

static int send_stream(const struct kit_request *request, struct error *err)
{
	stream = (struct kit_stream){0};
	return rpc_client_stream(clients[request->host], request->method->path,
				 request->in, request->method->out, TIMEOUT_MS,
				 see, NULL, err);
}

void kit_send(const struct kit_request *request, int timeout_ms,
	      struct kit_answer *ret)
{
	struct error err = {0};
	int r;

	*ret = (struct kit_answer){0};
	if (request->method->server_streams)
		r = send_stream(request, &err);
	else
		r = rpc_client_call(clients[request->host],
				    request->method->path, request->in,
				    request->method->out,
				    timeout_ms ? timeout_ms : TIMEOUT_MS,
				    &ret->message, &err);
	if (r < 0)
		ret->code = rpc_code_from_errno(-r);
	(void)snprintf(ret->text, sizeof(ret->text), "%s",
		       r < 0 ? error_text(&err) : "");
}

struct sender {
	const struct kit_request *request;
	struct kit_answer *answer;
};

static void *send_one(void *sender_)
{
	struct sender *sender = sender_;

	kit_send(sender->request, 0, sender->answer);
	return NULL;
}

void kit_send_both(const struct kit_request *a, const struct kit_request *b,
		   struct kit_answer ret[2])
{
	struct sender other = {b, &ret[1]};
	pthread_t thread;

	if (pthread_create(&thread, NULL, send_one, &other) != 0)
		abort();
	kit_send(a, 0, &ret[0]);
	(void)pthread_join(thread, NULL);
}

void kit_answer_done(struct kit_answer *a)
{
	if (a->message)
		protobuf_c_message_free_unpacked(a->message, NULL);
	a->message = NULL;
}

enum rpc_code kit_call(int host, const char *const *words)
{
	struct kit_request request = kit_request_make(host, words);

	kit_answer_done(&last);
	kit_send(&request, 0, &last);
	protobuf_c_message_free_unpacked(request.in, NULL);
	return last.code;
}

const char *answer(const char *path)
{
	static char buffers[BUFFERS][KIT_TEXT_MAX];
	static unsigned next;

	return message_get(last.message, path, buffers[next++ % BUFFERS],
			   KIT_TEXT_MAX);
}

int64_t answer_number(const char *path)
{
	return strtoll(answer(path), NULL, 10);
}

const char *answer_text(void)
{
	return last.text;
}

void kit_open(const char *dir)
{
	kit_let("dir", dir);
	kit_let("staging", "$dir/host$host/staging/$name");
	kit_let("target", "$dir/host$host/pods/$name");
	kit_let("node", "host$host");
	for (int i = 1; i <= KIT_HOSTS; i++) {
		struct error err = {0};
		char address[128];
		int r;

		let_host(i);
		r = config_endpoint(kit_text("unix://$dir/host$host/csi.sock"),
				    address, sizeof(address), &err);
		if (r == 0)
			r = rpc_client_new(address, NULL, NULL, &clients[i],
					   &err);
		if (r < 0) {
			(void)fprintf(stderr, "%s\n", error_text(&err));
			exit(2);
		}
	}
}

void kit_close(void)
{
	kit_answer_done(&last);
	for (int i = 1; i <= KIT_HOSTS; i++)
		rpc_client_free(clients[i]);
}

/* ---- verdicts ---- */

static jmp_buf out_of_check;
static bool in_check;
static int checks, failures;

void kit_fail(const char *fmt, ...)
{
	va_list args;

	(void)printf("# ");
	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)printf("\n");
	if (!in_check)
		exit(1);
	longjmp(out_of_check, 1);
}

void kit_expect(enum rpc_code want, enum rpc_code got, const char *what)
{
	if (got != want)
		kit_fail("%s: %s, not %s: %s", what, rpc_code_name(got),
			 rpc_code_name(want), last.text);
	/* A person reads the message: it has words, and its object. */
	if (got != RPC_OK && !strchr(last.text, ' '))
		kit_fail("%s: %s says only '%s'", what, rpc_code_name(got),
			 last.text);
}

void kit_same(const char *got, const char *want, const char *what)
{
	if (strcmp(got, want) != 0)
		kit_fail("%s is '%s', not '%s'", what, got, want);
}

bool has_text(const char *text, const char *part)
{
	return strstr(text, part);
}

bool kit_run(void (*check)(const void *context), const void *context,
	     const char *name)
{
	volatile bool passed = false;

	checks++;
	in_check = true;
	if (setjmp(out_of_check) == 0) {
		check(context);
		passed = true;
	}
	in_check = false;
	if (!passed)
		failures++;
	(void)printf("%sok %d - %s\n", passed ? "" : "not ", checks, name);
	(void)fflush(stdout);
	return passed;
}

int kit_end(void)
{
	(void)printf("1..%d\n", checks);
	return failures ? 1 : 0;
}
