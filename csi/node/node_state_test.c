/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "csi/node/node_state.h"

#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name

static char dir[64], sub[80];

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/trib-csi-state.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(sub, sizeof(sub), "%s/csi", dir);
	return 0;
}

static int teardown(void **state)
{
	const char *const argv[] = {"rm", "-rf", "--one-file-system", dir,
				    NULL};

	(void)state;
	return process_must(argv, 10000, NULL);
}

struct requests {
	stage_request stage;
	publish_request publish;
	Csi__V1__VolumeCapability cap;
	Csi__V1__VolumeCapability__AccessMode mode;
	Csi__V1__VolumeCapability__MountVolume mount;
	Csi__V1__NodeStageVolumeRequest__SecretsEntry stage_secret,
		*stage_secrets[1];
	Csi__V1__NodePublishVolumeRequest__SecretsEntry publish_secret,
		*publish_secrets[1];
	Csi__V1__NodePublishVolumeRequest__VolumeContextEntry context[2],
		*contexts[2];
};

static void requests_init(struct requests *r)
{
	csi__v1__node_stage_volume_request__init(&r->stage);
	csi__v1__node_publish_volume_request__init(&r->publish);
	csi__v1__volume_capability__init(&r->cap);
	csi__v1__volume_capability__access_mode__init(&r->mode);
	csi__v1__volume_capability__mount_volume__init(&r->mount);
	csi__v1__node_stage_volume_request__secrets_entry__init(
		&r->stage_secret);
	csi__v1__node_publish_volume_request__secrets_entry__init(
		&r->publish_secret);
	r->cap.access_mode = &r->mode;
	r->mode.mode = MODE(SINGLE_NODE_WRITER);
	r->cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	r->cap.mount = &r->mount;
	r->stage.volume_id = "data";
	r->stage.staging_target_path = "/staging";
	r->stage.volume_capability = &r->cap;
	r->stage_secret.key = "k";
	r->stage_secret.value = "hunter2";
	r->stage_secrets[0] = &r->stage_secret;
	r->stage.secrets = r->stage_secrets;
	r->stage.n_secrets = 1;
	r->publish.volume_id = "data";
	r->publish.staging_target_path = "/staging";
	r->publish.target_path = "/a";
	r->publish.volume_capability = &r->cap;
	r->publish_secret.key = "k";
	r->publish_secret.value = "hunter2";
	r->publish_secrets[0] = &r->publish_secret;
	r->publish.secrets = r->publish_secrets;
	r->publish.n_secrets = 1;
	for (int i = 0; i < 2; i++) {
		csi__v1__node_publish_volume_request__volume_context_entry__init(
			&r->context[i]);
		r->context[i].key = i ? "two" : "one";
		r->context[i].value = "v";
		r->contexts[i] = &r->context[i];
	}
	r->publish.volume_context = r->contexts;
	r->publish.n_volume_context = 2;
}

static node_state *load(void)
{
	node_state *state = NULL;

	assert_int_equal(node_state_load(sub, "data", &state, NULL), 0);
	return state;
}

static void remembers_everything_but_secrets(void **unused)
{
	node_state *state = load(); /* there is no directory yet */
	struct requests r;
	char *data;
	size_t length;
	char path[128];

	(void)unused;
	requests_init(&r);
	assert_null(state->stage);
	assert_int_equal(node_state_set_stage(state, &r.stage, NULL), 0);
	assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	r.publish.target_path = "/b";
	assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	assert_int_equal(node_state_save(sub, "data", state, NULL), 0);
	node_state_free(state);

	state = load();
	assert_true(stage_request_equal(state->stage, &r.stage));
	assert_int_equal(state->stage->n_secrets, 0);
	assert_int_equal(state->n_published, 2);
	assert_true(publish_request_equal(node_state_find(state, "/a"),
					  &r.publish));
	assert_int_equal(node_state_find(state, "/b")->n_secrets, 0);
	assert_null(node_state_find(state, "/c"));
	node_state_free(state);

	(void)snprintf(path, sizeof(path), "%s/data.volume", sub);
	assert_int_equal(
		file_read(AT_FDCWD, path, 1 << 20, &data, &length, NULL), 0);
	assert_null(memmem(data, length, "hunter2", 7));
	free(data);
}

static void a_file_goes_when_there_is_nothing_to_remember(void **unused)
{
	node_state *state = load();
	struct requests r;
	struct stat st;
	char path[128];

	(void)unused;
	requests_init(&r);
	(void)snprintf(path, sizeof(path), "%s/data.volume", sub);
	assert_int_equal(node_state_set_stage(state, &r.stage, NULL), 0);
	assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	assert_int_equal(node_state_save(sub, "data", state, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	node_state_remove(state, "/a");
	node_state_clear_stage(state);
	assert_int_equal(node_state_save(sub, "data", state, NULL), 0);
	assert_int_equal(stat(path, &st), -1);
	node_state_free(state);
}

static void tells_apart_what_was_asked_for(void **unused)
{
	struct requests a, b;
	char *flags[] = {"ro", "noexec"};

	(void)unused;
	requests_init(&a);
	requests_init(&b);
	b.publish.target_path = "/b";
	b.publish.n_secrets = 0;
	assert_true(publish_request_equal(&a.publish, &b.publish));
	b.contexts[0] = &b.context[1]; /* the order of a map means nothing */
	b.contexts[1] = &b.context[0];
	assert_true(publish_request_equal(&a.publish, &b.publish));
	b.context[0].value = "w";
	assert_false(publish_request_equal(&a.publish, &b.publish));
	requests_init(&b);
	b.publish.readonly = 1;
	assert_false(publish_request_equal(&a.publish, &b.publish));
	requests_init(&b);
	b.mode.mode = MODE(SINGLE_NODE_MULTI_WRITER);
	assert_false(publish_request_equal(&a.publish, &b.publish));
	assert_false(stage_request_equal(&a.stage, &b.stage));
	requests_init(&b);
	b.mount.mount_flags = flags;
	b.mount.n_mount_flags = 2;
	assert_false(stage_request_equal(&a.stage, &b.stage));
	requests_init(&b);
	b.stage.volume_id = "other";
	assert_false(stage_request_equal(&a.stage, &b.stage));
}

static void refuses_a_file_that_is_damaged(void **unused)
{
	static const char *const bad[] = {"\xff\xff", "\x0a\x00", "\x12\x00",
					  "\x0a\x7f"};
	struct error err = {0};
	node_state *state;

	(void)unused;
	assert_int_equal(mkdir(sub, 0700), 0);
	for (size_t i = 0; i < 4; i++) {
		auto_close int fd = open(sub, O_RDONLY | O_DIRECTORY);

		assert_int_equal(
			file_replace(fd, "data.volume", bad[i], 2, 0600, NULL),
			0);
		assert_int_equal(node_state_load(sub, "data", &state, &err),
				 -EBADMSG);
		assert_non_null(strstr(err.msg, "data.volume"));
	}
}

static void bounds_the_publications_of_a_volume(void **unused)
{
	node_state *state = load();
	struct requests r;
	char path[32];

	(void)unused;
	requests_init(&r);
	r.publish.target_path = path;
	for (int i = 0; i < NODE_PUBLISHED_MAX; i++) {
		(void)snprintf(path, sizeof(path), "/pod-%d", i);
		assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	}
	assert_int_equal(node_state_add(state, &r.publish, NULL), 0);
	(void)strcpy(path, "/one-more");
	assert_int_equal(node_state_add(state, &r.publish, NULL), -E2BIG);
	assert_int_equal(node_state_save(sub, "data", state, NULL), 0);
	node_state_free(state);
	state = load();
	assert_int_equal(state->n_published, NODE_PUBLISHED_MAX);
	node_state_free(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(remembers_everything_but_secrets),
		TEST(a_file_goes_when_there_is_nothing_to_remember),
		TEST(tells_apart_what_was_asked_for),
		TEST(refuses_a_file_that_is_damaged),
		TEST(bounds_the_publications_of_a_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
