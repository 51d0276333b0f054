/* SPDX-License-Identifier: Apache-2.0 */
/* Calls at the same time. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

/* ---- two at once ---- */

struct background {
	struct kit kit; /* what a call needs, with an err of its own */
	pthread_t thread;
	struct create create;
	enum rpc_code code;
};

static void *background_create(void *b_)
{
	struct background *b = b_;

	b->code = kit_call(&b->kit, CREATE, &b->create.in, NULL);
	return NULL;
}

static void background_start(struct background *b, struct test *t,
			     const char *name)
{
	b->kit.client = t->kit.client;
	b->kit.csi.mode = t->kit.csi.mode;
	create_init(&b->create, name, 64 * MIB);
	assert_int_equal(pthread_create(&b->thread, NULL, background_create, b),
			 0);
}

/* Until an operation runs in the driver, or none does. */
static void wait_for_work(struct test *t, bool wanted)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	bool works = !wanted;

	for (int i = 0; i < 1500 && works != wanted; i++) {
		(void)nanosleep(&pause, NULL);
		pthread_mutex_lock(&t->kit.csi.locks.lock);
		works = t->kit.csi.locks.first;
		pthread_mutex_unlock(&t->kit.csi.locks.lock);
	}
	assert_true(works == wanted);
}

static void the_second_call_for_a_volume_is_aborted(void **state)
{
	struct test *t = *state;
	struct background b = {0};
	struct create c = {0};

	/* As long as may be: it ends when there is nothing to wait for. */
	atomic_store(&t->nodes[0].pause_ms, 4000);
	atomic_store(&t->nodes[1].pause_ms, 4000);
	background_start(&b, t, "slow");
	wait_for_work(t, true);
	create_init(&c, "slow", 64 * MIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ABORTED, "CreateVolume");
	assert_int_equal(delete_volume(t, "slow"), RPC_ABORTED);
	atomic_store(&t->nodes[0].pause_ms, 0);
	atomic_store(&t->nodes[1].pause_ms, 0);
	assert_int_equal(pthread_join(b.thread, NULL), 0);
	assert_int_equal(b.code, RPC_OK);
	free(created(t, &c, 64 * MIB));
	assert_int_equal(extents(t), 1);
}

static void many_at_once_get_what_there_is_and_no_more(void **state)
{
	enum { MANY = 64 };
	struct test *t = *state;
	struct background *all = calloc(MANY, sizeof(*all));
	char(*names)[16] = calloc(MANY, sizeof(*names));
	size_t ok = 0, full = 0, busy = 0;

	for (size_t i = 0; i < MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "many-%zu", i);
		background_start(&all[i], t, names[i]);
	}
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(pthread_join(all[i].thread, NULL), 0);
		ok += all[i].code == RPC_OK;
		full += all[i].code == RPC_RESOURCE_EXHAUSTED;
		busy += all[i].code == RPC_ABORTED ||
			all[i].code == RPC_UNAVAILABLE;
	}
	/* 5 GiB hold 80 of 64 MiB. */
	assert_int_equal(ok + full + busy, MANY);
	assert_int_equal(full, 0);
	assert_int_equal(ok, MANY);
	assert_int_equal(extents(t), MANY);
	assert_int_equal(fake_node_free(&t->nodes[0]) +
				 fake_node_free(&t->nodes[1]),
			 GIB);
	free(all);
	free(names);
}

static void stops_for_a_client_that_has_gone_and_a_repeat_goes_on(void **state)
{
	struct test *t = *state;
	struct volume_record *record = NULL;
	struct create c = {0};
	struct error err = {0};
	char uid[UUID_TEXT_SIZE];
	int deadline_ms = 200;

	atomic_store(&t->nodes[0].pause_ms, 1500);
	atomic_store(&t->nodes[1].pause_ms, 1500);
	create_init(&c, "pvc-1", 4 * GIB);
	/* Again, if it had gone before anything was begun. */
	while (volume_get(t->kit.csi.volumes, "pvc-1", &record, NULL) < 0) {
		assert_true(deadline_ms < 10000);
		assert_int_equal(
			rpc_client_call(
				t->kit.client, "/csi.v1." CREATE, &c.in.base,
				&csi__v1__create_volume_response__descriptor,
				deadline_ms, NULL, &err),
			-ETIMEDOUT);
		wait_for_work(t, false);
		deadline_ms *= 2;
	}
	assert_int_equal(record->phase, VOLUME_CREATING);
	(void)strcpy(uid, record->uid);
	volume_record_free(record);
	atomic_store(&t->nodes[0].pause_ms, 0);
	atomic_store(&t->nodes[1].pause_ms, 0);
	free(created(t, &c, 4 * GIB));
	assert_int_equal(extents(t), 2);
	assert_int_equal(volume_get(t->kit.csi.volumes, "pvc-1", &record, NULL),
			 0);
	assert_int_equal(record->phase, VOLUME_READY);
	assert_string_equal(record->uid, uid);
	volume_record_free(record);
}

/* A look at the record and what follows it are two steps. */
static void another_volume_of_that_name_is_left_alone(void **state)
{
	struct test *t = *state;
	struct volume_context *volumes = t->kit.csi.volumes;
	static const char other[] = "data@0c6f9d5e-1111-4222-8333-abcdefabcdef";
	struct volume_publish_request publish = {.name = other,
						 .node = "host1"};
	char *id = make_volume(t, "data", 64 * MIB);
	struct volume_record *record = NULL;

	assert_int_equal(volume_publish(volumes, &publish, NULL, NULL),
			 -ENOENT);
	publish.name = id;
	assert_int_equal(volume_publish(volumes, &publish, NULL, NULL), 0);
	assert_int_equal(volume_resize(volumes, other, 128 * MIB, NULL, NULL),
			 -ENOENT);
	assert_int_equal(volume_unpublish(volumes, other, NULL, NULL), 0);
	assert_int_equal(volume_delete(volumes, other, NULL), 0);
	assert_int_equal(volume_get(volumes, "data", &record, NULL), 0);
	assert_int_equal(record->n_attachments, 1);
	assert_int_equal(record->spec.capacity, 64 * MIB);
	volume_record_free(record);
	/* No volume is made under such a name. */
	assert_int_equal(
		volume_create(
			volumes,
			&(struct volume_create_request){
				.name = other,
				.spec = &(struct volume_spec){.capacity = 64 *
									  MIB}},
			NULL, NULL),
		-EINVAL);
	assert_int_equal(volume_unpublish(volumes, id, NULL, NULL), 0);
	assert_int_equal(volume_resize(volumes, id, 128 * MIB, NULL, NULL), 0);
	assert_int_equal(volume_delete(volumes, id, NULL), 0);
	assert_int_equal(volume_get(volumes, "data", &record, NULL), -ENOENT);
	free(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_second_call_for_a_volume_is_aborted),
		TEST(many_at_once_get_what_there_is_and_no_more),
		TEST(stops_for_a_client_that_has_gone_and_a_repeat_goes_on),
		TEST(another_volume_of_that_name_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
