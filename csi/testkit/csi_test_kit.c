/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/testkit/csi_test_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/process.h"

#define CALL_TIMEOUT_MS 60000

void kit_start(struct kit *kit, enum csi_mode mode)
{
	struct volume_config config = {.node = "host1",
				       .call_timeout_ms = 10000};
	const char *addresses[1];
	struct rpc_server_options options = {
		.addresses = addresses, .n_addresses = 1, .context = &kit->csi};

	log_setup("csi_test", LOG_LEVEL_ERROR);
	*kit = (struct kit){.dir = "/tmp/trib-csi-test.XXXXXX"};
	assert_non_null(mkdtemp(kit->dir));
	(void)snprintf(kit->address, sizeof(kit->address), "unix:%s/csi.sock",
		       kit->dir);
	(void)snprintf(kit->store, sizeof(kit->store), "local:%s/records.db",
		       kit->dir);
	config.store = kit->store;
	config.run_dir = kit->dir;
	addresses[0] = kit->address;
	options.methods = csi_methods(mode, &options.n_methods);
	if (csi_init(&kit->csi, mode, &config, &kit->err) < 0 ||
	    rpc_server_start(&options, &kit->server, &kit->err) < 0 ||
	    rpc_client_new(kit->address, NULL, NULL, &kit->client, &kit->err) <
		    0)
		fail_msg("%s", error_text(&kit->err));
}

void kit_stop(struct kit *kit)
{
	const char *const argv[] = {"rm", "-rf", "--one-file-system", kit->dir,
				    NULL};

	rpc_client_free(kit->client);
	rpc_server_stop(kit->server, 1000);
	csi_done(&kit->csi);
	assert_int_equal(process_must(argv, 10000, NULL), 0);
}

/* As the driver answers, so that the errno it sends tells the code. */
static enum rpc_code code_of(int r)
{
	return r < 0 ? rpc_code_from_errno(-r) : RPC_OK;
}

enum rpc_code kit_call(struct kit *kit, const char *method, const void *in,
		       void *ret)
{
	const struct rpc_method *methods;
	ProtobufCMessage *reply = NULL;
	char path[96];
	size_t n;
	int r;

	methods = csi_methods(kit->csi.mode, &n);
	(void)snprintf(path, sizeof(path), "/csi.v1.%s", method);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(methods[i].path, path) != 0)
			continue;
		kit->err = (struct error){0};
		r = rpc_client_call(kit->client, path, in, methods[i].out,
				    CALL_TIMEOUT_MS, ret ? &reply : NULL,
				    &kit->err);
		if (r == 0 && ret)
			*(ProtobufCMessage **)ret = reply;
		return code_of(r);
	}
	fail_msg("no method %s", path);
	return RPC_UNKNOWN;
}

void kit_refused(struct kit *kit, const char *method, const void *in,
		 enum rpc_code code, const char *text)
{
	enum rpc_code got = kit_call(kit, method, in, NULL);

	if (got != code)
		fail_msg("%s: %s, not %s: %s", method, rpc_code_name(got),
			 rpc_code_name(code), error_text(&kit->err));
	if (!strstr(kit->err.msg, text))
		fail_msg("%s: does not say '%s': %s", method, text,
			 kit->err.msg);
}
