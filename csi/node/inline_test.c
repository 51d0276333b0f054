/* SPDX-License-Identifier: Apache-2.0 */
/* What a pod's spec may ask of its inline volume. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/node/inline.h"

#define ID                                                               \
	"csi-0123456789abcdef0123456789abcdef0123456789abcdef0123456789" \
	"abcdef"
#define PAIRS_MAX 8

typedef Csi__V1__NodePublishVolumeRequest__VolumeContextEntry entry;

/* A request that is right; tests change it. */
struct asked {
	publish_request in;
	Csi__V1__VolumeCapability cap;
	Csi__V1__VolumeCapability__MountVolume mount;
	Csi__V1__VolumeCapability__AccessMode mode;
	entry entries[PAIRS_MAX], *list[PAIRS_MAX];
	struct request request;
	struct error err;
};

static void asked_add(struct asked *a, const char *key, const char *value)
{
	entry *e = &a->entries[a->in.n_volume_context];

	assert_true(a->in.n_volume_context < PAIRS_MAX);
	csi__v1__node_publish_volume_request__volume_context_entry__init(e);
	e->key = (char *)key;
	e->value = (char *)value;
	a->list[a->in.n_volume_context++] = e;
}

static void asked_init(struct asked *a)
{
	*a = (struct asked){0};
	csi__v1__node_publish_volume_request__init(&a->in);
	csi__v1__volume_capability__init(&a->cap);
	csi__v1__volume_capability__mount_volume__init(&a->mount);
	csi__v1__volume_capability__access_mode__init(&a->mode);
	a->mode.mode =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
	a->cap.access_mode = &a->mode;
	a->cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	a->cap.mount = &a->mount;
	a->in.volume_capability = &a->cap;
	a->in.volume_id = ID;
	a->in.volume_context = a->list;
	asked_add(a, "csi.storage.k8s.io/ephemeral", "true");
}

static int asked_read(struct asked *a)
{
	return inline_read(&a->request, &a->in, "host1", &a->err);
}

static void refused(struct asked *a, int error, const char *text)
{
	assert_int_equal(asked_read(a), -error);
	assert_non_null(strstr(a->err.msg, text));
	request_done(&a->request);
}

static void the_kubelet_says_which_volume_is_inline(void **state)
{
	struct asked a;

	(void)state;
	asked_init(&a);
	assert_int_equal(inline_is_asked(&a.in, NULL), 1);
	a.entries[0].value = "false";
	assert_int_equal(inline_is_asked(&a.in, NULL), 0);
	a.entries[0].value = "yes";
	assert_int_equal(inline_is_asked(&a.in, &a.err), -EINVAL);
	a.in.n_volume_context = 0;
	assert_int_equal(inline_is_asked(&a.in, NULL), 0);
}

static void takes_a_size_and_the_parameters_of_a_class(void **state)
{
	struct asked a;

	(void)state;
	asked_init(&a);
	assert_int_equal(asked_read(&a), 0);
	assert_int_equal(a.request.spec.capacity, REQUEST_SIZE_DEFAULT);
	request_done(&a.request);
	asked_init(&a);
	asked_add(&a, "size", "5Gi");
	asked_add(&a, "createPolicy", "ff");
	asked_add(&a, "placement", "local");
	asked_add(&a, "csi.storage.k8s.io/pod.name", "web-0");
	asked_add(&a, "csi.storage.k8s.io/pvc/name", "data-0");
	asked_add(&a, "csi.storage.k8s.io/of-a-later-release", "any");
	assert_int_equal(asked_read(&a), 0);
	/* Of a claim, which a pod's own volume is not. */
	assert_null(labels_get(&a.request.labels, "csi.union.io/pvc-name"));
	assert_int_equal(a.request.spec.capacity, 5 * GIB);
	assert_string_equal(a.request.spec.policy, "ff");
	assert_string_equal(a.request.spec.local_node, "host1");
	assert_string_equal(labels_get(&a.request.labels, CSI_LABEL_NAME), ID);
	assert_string_equal(labels_get(&a.request.labels, CSI_LABEL_INLINE),
			    "host1");
	assert_string_equal(
		labels_get(&a.request.labels, "csi.union.io/pod-name"),
		"web-0");
	request_done(&a.request);
}

static void refuses_what_a_pod_may_not_say(void **state)
{
	static const struct {
		const char *key, *value;
		int error;
		const char *text;
	} bad[] = {
		{"size", "", EINVAL, "size"},
		{"size", "-1", EINVAL, "size"},
		{"size", "0", ERANGE, "size"},
		{"size", "2EiB", ERANGE, "size"},
		{"Size", "5Gi", EINVAL, "not known"},
		{"layout", "raid", EINVAL, "union, linear"},
		{"nodes", "../x", EINVAL, "name"},
		{"csi.storage.k8s.io/fstype", "zfs", EINVAL, "ext4"},
		{"csi.union.io/inline-node", "host2", EINVAL, "not known"},
		{"csi.union.io/name", "pvc-1", EINVAL, "not known"},
	};
	struct asked a;

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		asked_init(&a);
		asked_add(&a, bad[i].key, bad[i].value);
		refused(&a, bad[i].error, bad[i].text);
	}
}

static void is_a_file_system_that_its_node_writes(void **state)
{
	static const int modes[] = {
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_READER_ONLY,
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_READER_ONLY,
		CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_MULTI_WRITER};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct asked a;

	(void)state;
	asked_init(&a);
	a.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	a.cap.block = &block;
	refused(&a, EINVAL, "block");
	for (size_t i = 0; i < array_size(modes); i++) {
		asked_init(&a);
		a.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		refused(&a, EINVAL, "mode");
	}
}

static void other_volumes_have_none_of_its_attributes(void **state)
{
	struct asked a;

	(void)state;
	asked_init(&a);
	asked_add(&a, "storage.kubernetes.io/csiProvisionerIdentity", "x");
	assert_null(inline_attribute(a.list, a.in.n_volume_context));
	asked_add(&a, "size", "5Gi");
	assert_string_equal(inline_attribute(a.list, a.in.n_volume_context),
			    "size");
	a.entries[2].key = "fsType";
	assert_string_equal(inline_attribute(a.list, a.in.n_volume_context),
			    "fsType");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kubelet_says_which_volume_is_inline),
		cmocka_unit_test(takes_a_size_and_the_parameters_of_a_class),
		cmocka_unit_test(refuses_what_a_pod_may_not_say),
		cmocka_unit_test(is_a_file_system_that_its_node_writes),
		cmocka_unit_test(other_volumes_have_none_of_its_attributes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
