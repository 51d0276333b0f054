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
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/store/kube/api/kube_config.h"
#include "volume/store/kube/api/kube_yaml.h"

static char directory[64];

static const char *file(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void put(const char *name, const char *text)
{
	assert_int_equal(file_replace(AT_FDCWD, file(name), text, strlen(text),
				      0600, NULL),
			 0);
}

static int begin(void **state)
{
	(void)state;
	(void)unsetenv("KUBERNETES_SERVICE_HOST");
	(void)unsetenv("KUBERNETES_SERVICE_PORT");
	(void)unsetenv("KUBECONFIG");
	strcpy(directory, "/tmp/kube-config-test.XXXXXX");
	return mkdtemp(directory) ? 0 : -1;
}

static int end(void **state)
{
	static const char *const names[] = {"config", "token", "namespace",
					    "ca.crt"};

	(void)state;
	for (size_t i = 0; i < array_size(names); i++)
		(void)unlink(file(names[i]));
	return rmdir(directory);
}

#define CONFIG(cluster, user)                                           \
	"apiVersion: v1\nkind: Config\ncurrent-context: one\n"          \
	"clusters:\n- name: c\n  cluster: " cluster "\n"                \
	"users:\n- {name: other, user: {}}\n- name: u\n  user: " user   \
	"\ncontexts:\n"                                                 \
	"- {name: one, context: {cluster: c, user: u, namespace: n}}\n" \
	"- {name: two, context: {cluster: c, user: other}}\n"

#define SERVER "{server: https://h:6443/}"

static void a_kubeconfig_gives_server_user_and_namespace(void **state)
{
	struct kube_config config;
	char *token = NULL;
	char location[160];

	(void)state;
	put("config",
	    CONFIG("{server: 'https://h:6443/', certificate-authority: ca.crt}",
		   "{token: abc.def, client-certificate-data: QUI=,"
		   " client-key: /k}"));
	(void)snprintf(location, sizeof(location), ",kubeconfig=%s",
		       file("config"));
	assert_int_equal(kube_config_load(location, &config, NULL), 0);
	assert_string_equal(config.server, "https://h:6443");
	assert_string_equal(config.name_space, "n");
	assert_string_equal(config.ca.path, file("ca.crt"));
	assert_string_equal(config.certificate.data, "AB");
	assert_string_equal(config.key.path, "/k");
	assert_int_equal(kube_config_token(&config, &token, NULL), 0);
	assert_string_equal(token, "abc.def");
	http_secret_free(token);
	kube_config_done(&config);

	(void)snprintf(location, sizeof(location),
		       "mine,kubeconfig=%s,context=two", file("config"));
	assert_int_equal(kube_config_load(location, &config, NULL), 0);
	assert_string_equal(config.name_space, "mine");
	assert_int_equal(kube_config_token(&config, &token, NULL), 0);
	assert_null(token);
	kube_config_done(&config);

	assert_int_equal(setenv("KUBECONFIG", file("config"), 1), 0);
	assert_int_equal(kube_config_load("", &config, NULL), 0);
	assert_string_equal(config.name_space, "n");
	kube_config_done(&config);
}

static void a_kubeconfig_may_be_json(void **state)
{
	struct kube_config config;

	(void)state;
	put("config", "{\"current-context\": \"x\", \"clusters\": [{\"name\": "
		      "\"x\", \"cluster\": {\"server\": \"https://h\"}}],\n"
		      "\"users\": [{\"name\": \"x\", \"user\": {}}], "
		      "\"contexts\": [{\"name\": \"x\", \"context\": "
		      "{\"cluster\": \"x\", \"user\": \"x\"}}]}");
	assert_int_equal(
		kube_config_load_file(file("config"), NULL, &config, NULL), 0);
	assert_string_equal(config.server, "https://h");
	assert_string_equal(config.name_space, "default");
	kube_config_done(&config);
}

static void what_is_wrong_in_a_kubeconfig_is_said(void **state)
{
	static const struct {
		const char *text, *said;
	} rows[] = {
		{"a: [", "line"},
		{"a: &x 1\nb: *x\n", "alias"},
		{"x: 1\n---\ny: 2\n", "document"},
		{"[]", "current-context"},
		{"{}", "current-context"},
		{"{current-context: x}", "contexts is missing"},
		{"{current-context: x, contexts: []}", "has no 'x'"},
		{CONFIG("{}", "{}"), "server"},
		{CONFIG("{server: http://h}", "{}"), "https://"},
		{CONFIG("{server: 'https://a@h'}", "{}"), "https://"},
		{CONFIG("{server: https://h, insecure-skip-tls-verify: true}",
			"{}"),
		 "insecure"},
		{CONFIG("{server: https://h, certificate-authority-data: '%'}",
			"{}"),
		 "base64"},
		{CONFIG("{server: https://h, certificate-authority-data: AAAA}",
			"{}"),
		 "base64"},
		{CONFIG(SERVER, "{exec: {command: x}}"), "exec"},
		{CONFIG(SERVER, "{password: hush}"), "password"},
		{CONFIG(SERVER, "{client-key: k}"), "go together"},
		{CONFIG(SERVER, "{token: [1]}"), "token"},
	};
	struct kube_config config;

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++) {
		struct error err = {0};

		put("config", rows[i].text);
		assert_int_equal(kube_config_load_file(file("config"), NULL,
						       &config, &err),
				 -EINVAL);
		if (!strstr(err.msg, rows[i].said))
			fail_msg("row %zu: '%s' is not in: %s", i, rows[i].said,
				 err.msg);
		assert_null(strstr(err.msg, "hush"));
	}
}

static void a_location_with_an_unknown_word_is_refused(void **state)
{
	struct kube_config config;
	struct error err = {0};

	(void)state;
	assert_int_equal(kube_config_load("n,colour=red", &config, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "colour"));
	assert_non_null(strstr(err.msg, "context=NAME"));
	put("config", CONFIG(SERVER, "{}"));
	assert_int_equal(setenv("KUBECONFIG", file("config"), 1), 0);
	assert_int_equal(kube_config_load("a/b", &config, &err), -EINVAL);
	kube_config_done(&config);
	assert_int_equal(kube_config_load("Up", &config, &err), -EINVAL);
	kube_config_done(&config);
}

static void a_pod_is_its_service_account(void **state)
{
	struct kube_config config;
	struct error err = {0};
	char *token;

	(void)state;
	assert_int_equal(kube_config_load_pod(directory, &config, &err),
			 -ENOENT);
	assert_int_equal(setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1), 0);
	assert_int_equal(setenv("KUBERNETES_SERVICE_PORT", "443", 1), 0);
	put("namespace", "tributary\n");
	put("token", "one\n");
	assert_int_equal(kube_config_load_pod(directory, &config, NULL), 0);
	assert_string_equal(config.server, "https://[fd00::1]:443");
	assert_string_equal(config.name_space, "tributary");
	assert_string_equal(config.ca.path, file("ca.crt"));
	assert_int_equal(kube_config_token(&config, &token, NULL), 0);
	assert_string_equal(token, "one");
	http_secret_free(token);
	/* The token is read each time. */
	put("token", "two");
	assert_int_equal(kube_config_token(&config, &token, NULL), 0);
	assert_string_equal(token, "two");
	http_secret_free(token);
	put("token", "evil\r\nX-Header: 1");
	assert_int_equal(kube_config_token(&config, &token, NULL), 0);
	assert_string_equal(token, "evil");
	http_secret_free(token);
	put("token", "evil token");
	assert_int_equal(kube_config_token(&config, &token, &err), -EINVAL);
	assert_null(strstr(err.msg, "evil"));
	kube_config_done(&config);
}

static void deep_yaml_is_refused(void **state)
{
	struct json_object *root = NULL;
	char text[64] = "";

	(void)state;
	memset(text, '[', KUBE_YAML_DEPTH_MAX + 1);
	memset(text + KUBE_YAML_DEPTH_MAX + 1, ']', KUBE_YAML_DEPTH_MAX + 1);
	assert_int_equal(kube_yaml_parse(text, strlen(text), &root, NULL),
			 -EINVAL);
	assert_int_equal(
		kube_yaml_parse(text + 1, strlen(text) - 2, &root, NULL), 0);
	json_object_put(root);
	assert_int_equal(kube_yaml_parse("a: \"\\0\"", 8, &root, NULL),
			 -EINVAL);
	assert_int_equal(kube_yaml_parse("", 0, &root, NULL), -EINVAL);
}

#define CONFIG_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONFIG_TEST(a_kubeconfig_gives_server_user_and_namespace),
		CONFIG_TEST(a_kubeconfig_may_be_json),
		CONFIG_TEST(what_is_wrong_in_a_kubeconfig_is_said),
		CONFIG_TEST(a_location_with_an_unknown_word_is_refused),
		CONFIG_TEST(a_pod_is_its_service_account),
		CONFIG_TEST(deep_yaml_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
