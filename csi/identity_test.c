/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "csi/call/parameters.h"
#include "csi/config.h"
#include "csi/testkit/csi_test_kit.h"

static const char *const services[] = {"Identity", "Controller",
				       "GroupController", "SnapshotMetadata",
				       "Node"};

static void tells_its_name_and_version(void **state)
{
	Csi__V1__GetPluginInfoRequest in =
		CSI__V1__GET_PLUGIN_INFO_REQUEST__INIT;
	Csi__V1__GetPluginInfoResponse *reply;
	struct kit kit;

	(void)state;
	kit_start(&kit, CSI_MODE_CONTROLLER);
	assert_int_equal(kit_call(&kit, "Identity/GetPluginInfo", &in, &reply),
			 0);
	assert_string_equal(reply->name, "union.csi.union.io");
	assert_true(strlen(reply->name) <= 63);
	assert_string_equal(reply->vendor_version, TRIBUTARY_VERSION);
	kit_free(reply);
	kit_stop(&kit);
}

static void has_the_same_capabilities_in_every_mode(void **state)
{
	Csi__V1__GetPluginCapabilitiesRequest in =
		CSI__V1__GET_PLUGIN_CAPABILITIES_REQUEST__INIT;
	struct kit kit;

	(void)state;
	for (enum csi_mode mode = CSI_MODE_ALL; mode <= CSI_MODE_NODE; mode++) {
		Csi__V1__GetPluginCapabilitiesResponse *reply;

		kit_start(&kit, mode);
		assert_int_equal(kit_call(&kit,
					  "Identity/GetPluginCapabilities", &in,
					  &reply),
				 0);
		assert_int_equal(reply->n_capabilities, 5);
		assert_int_equal(
			reply->capabilities[0]->service->type,
			CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__CONTROLLER_SERVICE);
		assert_int_equal(
			reply->capabilities[1]->service->type,
			CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__VOLUME_ACCESSIBILITY_CONSTRAINTS);
		assert_int_equal(
			reply->capabilities[2]->service->type,
			CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__GROUP_CONTROLLER_SERVICE);
		assert_int_equal(
			reply->capabilities[3]->service->type,
			CSI__V1__PLUGIN_CAPABILITY__SERVICE__TYPE__SNAPSHOT_METADATA_SERVICE);
		assert_int_equal(
			reply->capabilities[4]->volume_expansion->type,
			CSI__V1__PLUGIN_CAPABILITY__VOLUME_EXPANSION__TYPE__ONLINE);
		kit_free(reply);
		kit_stop(&kit);
	}
}

static void probes_what_it_needs(void **state)
{
	Csi__V1__ProbeRequest in = CSI__V1__PROBE_REQUEST__INIT;
	Csi__V1__ProbeResponse *reply;
	struct kit kit;

	(void)state;
	kit_start(&kit, CSI_MODE_CONTROLLER);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(kit_call(&kit, "Identity/Probe", &in, &reply),
				 0);
		assert_true(!reply->ready || reply->ready->value);
		kit_free(reply);
	}
	kit_stop(&kit);
}

static void serves_on_a_socket_for_its_owner_alone(void **state)
{
	struct kit kit;
	struct stat st;

	(void)state;
	kit_start(&kit, CSI_MODE_ALL);
	assert_int_equal(stat(kit.address + strlen("unix:"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	kit_stop(&kit);
}

/* Every method of the specification is there, or says that it is not. */
static void answers_what_it_has_not_with_unimplemented(void **state)
{
	size_t n, unimplemented = 0;
	const struct rpc_method *methods;
	struct kit kit;

	(void)state;
	kit_start(&kit, CSI_MODE_NODE);
	methods = csi_methods(CSI_MODE_NODE, &n);
	assert_int_equal(n, 32);
	for (size_t i = 0; i < n; i++) {
		ProtobufCMessage *in = calloc(1, methods[i].in->sizeof_message);
		bool controller = strstr(methods[i].path, "Controller/") ||
				  strstr(methods[i].path, "Metadata/");

		protobuf_c_message_init(methods[i].in, in);
		if (controller)
			assert_null(methods[i].handler);
		if (!methods[i].handler && !methods[i].server_streams) {
			kit_refused(&kit, methods[i].path + strlen("/csi.v1."),
				    in, RPC_UNIMPLEMENTED, "no method");
			unimplemented++;
		}
		free(in);
	}
	assert_true(unimplemented >= 19);
	kit_stop(&kit);
	for (size_t i = 0; i < array_size(services); i++) {
		size_t has = 0;

		for (size_t k = 0; k < n; k++)
			has += !!strstr(methods[k].path, services[i]);
		assert_true(has > 0);
	}
}

static void takes_the_endpoint_from_flag_or_environment(void **state)
{
	static const char *const good[] = {
		"unix:///csi/csi.sock", "unix:/csi/csi.sock", "/csi/csi.sock"};
	static const char *const bad[] = {"",
					  "csi.sock",
					  "unix://csi/csi.sock",
					  "unix:///csi/csi",
					  "tcp:a:1.sock",
					  "unix:////csi.sock",
					  "unix:csi.sock",
					  "/.sock"};
	char *argv[] = {"trib-csi", NULL, NULL};
	struct config config;
	struct error err = {0};
	char text[128];

	(void)state;
	for (size_t i = 0; i < array_size(good); i++) {
		assert_int_equal(
			config_endpoint(good[i], text, sizeof(text), NULL), 0);
		assert_string_equal(text, "unix:/csi/csi.sock");
	}
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(
			config_endpoint(bad[i], text, sizeof(text), NULL),
			-EINVAL);

	(void)unsetenv(CSI_ENDPOINT_VARIABLE);
	assert_int_equal(config_load(&config, 1, argv, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "CSI_ENDPOINT"));
	config_done(&config);
	(void)setenv(CSI_ENDPOINT_VARIABLE, "unix:///env.sock", 1);
	assert_int_equal(config_load(&config, 1, argv, &err), 0);
	assert_string_equal(config.address, "unix:/env.sock");
	assert_int_equal(config.mode, CSI_MODE_ALL);
	config_done(&config);
	argv[1] = "--endpoint=unix:///flag.sock";
	assert_int_equal(config_load(&config, 2, argv, &err), 0);
	assert_string_equal(config.address, "unix:/flag.sock");
	config_done(&config);
	argv[1] = "--mode=nod";
	assert_int_equal(config_load(&config, 2, argv, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "controller, node or all"));
	config_done(&config);
	argv[1] = "what";
	assert_int_equal(config_load(&config, 2, argv, &err), -EINVAL);
	config_done(&config);
}

static void the_manual_has_every_parameter(void **state)
{
	auto_free char *manual = NULL;
	auto_free char *table = NULL;
	size_t length;
	FILE *out;

	(void)state;
	if (file_read(AT_FDCWD, "docs/storageclass.md", 1 << 20, &manual,
		      &length, NULL) < 0)
		fail_msg("run at the top of the tree: no docs/storageclass.md");
	out = open_memstream(&table, &length);
	parameters_describe(out);
	(void)fclose(out);
	if (!strstr(manual, table))
		fail_msg("docs/storageclass.md has another table than "
			 "trib-csi --parameters");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_its_name_and_version),
		cmocka_unit_test(has_the_same_capabilities_in_every_mode),
		cmocka_unit_test(probes_what_it_needs),
		cmocka_unit_test(serves_on_a_socket_for_its_owner_alone),
		cmocka_unit_test(answers_what_it_has_not_with_unimplemented),
		cmocka_unit_test(the_manual_has_every_parameter),
		cmocka_unit_test(takes_the_endpoint_from_flag_or_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
