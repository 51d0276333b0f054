/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver against the rules of the specification, over its sockets.
 *
 *	rules_main DIR mount|block [PART]
 *	rules_main DIR mount-snapshots|block-snapshots [PART]
 *
 * Volumes that can be cut while they are used lie in the pools "raw": their
 * checks are the second form's. The hosts in DIR are up (tests/csi/lib.sh).
 * PART of a name: only checks that have it. Prints TAP; exit 1 when a check
 * failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tests/csi/checks.h"

static enum access access_type;
static bool seen[512]; /* rules with a check in any access type */

static const struct rule *rule_find(const char *name)
{
	for (size_t i = 0; i < n_rules; i++)
		if (strcmp(rules[i].name, name) == 0)
			return &rules[i];
	(void)fprintf(stderr, "there is no rule '%s'\n", name);
	exit(2);
}

/* As each check finds it. */
static void let_all(void)
{
	bool mount = access_type == MOUNT;

	kit_let("name", mount ? "files" : "disk");
	kit_let("mode", "1");
	kit_let("size", "134217728");
	kit_let("access", mount ? "mount.fs_type=" : "block=");
	kit_let("other", mount ? "block=" : "mount.fs_type=");
	kit_let("extents", mount ? "2" : "1");
}

static void ask(const struct check *c)
{
	kit_expect(c->code, kit_call(1, c->words), c->words[0]);
}

static void run_check(const void *context)
{
	const struct check *c = context;

	level_set(c->level);
	if (c->run)
		c->run();
	else
		ask(c);
	holds(scrap(false));
}

static void run_checks(const struct check *checks, size_t n, const char *part)
{
	for (size_t i = 0; i < n; i++) {
		const struct check *c = &checks[i];
		const struct rule *rule = rule_find(c->rule);
		char name[512];

		seen[rule - rules] = true;
		if (c->access != BOTH && c->access != access_type &&
		    !(c->access == ONCE && access_type == MOUNT))
			continue;
		(void)snprintf(name, sizeof(name), "%s%s [%s, %s]",
			       c->access == ONCE      ? ""
			       : access_type == MOUNT ? "mount: "
						      : "block: ",
			       c->name, rule->name,
			       rule->strength == 'M' ? "MUST" : "SHOULD");
		if (part && !strstr(name, part))
			continue;
		if (!kit_run(run_check, c, name)) {
			let_all();
			(void)scrap(true);
		}
	}
}

/* Rules that another program checks: a test of a script. */
static const struct {
	const char *rule, *script, *test;
} elsewhere[] = {
	{"details", "tests/csi/hostile", "def failures_have_no_details("},
	{"endpoint", "tests/system/check_csi.sh",
	 "test_the_endpoint_is_of_the_environment("},
	{"socket-alone", "tests/system/check_csi.sh",
	 "test_nothing_is_made_beside_the_socket("},
	{"fail-fast", "tests/system/check_csi.sh",
	 "test_a_bad_configuration_ends_it_at_once("},
	{"probe-unhealthy", "tests/system/check_csi.sh",
	 "test_probe_says_when_the_records_are_gone("},
	{"secrets-hidden", "tests/system/check_csi.sh",
	 "test_secrets_are_nowhere("},
	{"same-plugin", "tests/system/check_csi.sh",
	 "test_every_mode_has_the_same_capabilities("},
};

static bool file_has(const char *path, const char *text)
{
	char line[512];
	FILE *f = fopen(path, "re");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strncmp(line, text, strlen(text)) == 0;
	if (f)
		(void)fclose(f);
	return found;
}

static void see_elsewhere(void)
{
	for (size_t i = 0; i < array_size(elsewhere); i++) {
		if (!file_has(elsewhere[i].script, elsewhere[i].test))
			kit_fail("%s has no %s)", elsewhere[i].script,
				 elsewhere[i].test);
		seen[rule_find(elsewhere[i].rule) - rules] = true;
	}
}

/* Each rule that applies has a check, and no other has. */
static void every_rule(const void *context)
{
	size_t applying = 0;

	(void)context;
	see_elsewhere();
	for (size_t i = 0; i < n_snapshot_checks; i++)
		seen[rule_find(snapshot_checks[i].rule) - rules] = true;
	for (size_t i = 0; i < n_rules; i++) {
		if (rules[i].because && seen[i])
			kit_fail("'%s' has a check, but does not apply: %s",
				 rules[i].name, rules[i].because);
		if (!rules[i].because && !seen[i])
			kit_fail("'%s' has no check: %s", rules[i].name,
				 rules[i].text);
		applying += !rules[i].because;
	}
	(void)printf("# %zu rules, %zu of them apply here\n", n_rules,
		     applying);
}

static void rules_left_nothing(const void *context)
{
	(void)context;
	level_set(NONE);
	ok(1, "Controller/ListVolumes");
	same(answer("entries.#"), "0");
	ok(1, "Controller/ListSnapshots");
	same(answer("entries.#"), "0");
}

static void run_rules(const char *part)
{
	run_checks(general_checks, n_general_checks, part);
	run_checks(controller_checks, n_controller_checks, part);
	run_checks(node_checks, n_node_checks, part);
	if (!part)
		(void)kit_run(every_rule, NULL, "every rule has its check");
}

static void run_snapshots(const char *part)
{
	kit_use_pool("parameters.poolSelector=raw");
	run_checks(snapshot_checks, n_snapshot_checks, part);
}

static const struct {
	const char *name;
	enum access access;
	void (*run)(const char *part);
} forms[] = {
	{"mount", MOUNT, run_rules},
	{"block", BLOCK, run_rules},
	{"mount-snapshots", MOUNT, run_snapshots},
	{"block-snapshots", BLOCK, run_snapshots},
};

int main(int argc, char **argv)
{
	static const char *const ids[] = {"id",    "snapshot", "base",
					  "group", "member",   "omember",
					  "second"};
	const char *part = argc > 3 ? argv[3] : NULL;
	size_t form = 0;

	while (argc >= 3 && form < array_size(forms) &&
	       strcmp(argv[2], forms[form].name) != 0)
		form++;
	if (argc < 3 || form == array_size(forms)) {
		(void)fprintf(stderr, "see rules_main.c\n");
		return 2;
	}
	access_type = forms[form].access;
	kit_open(argv[1]);
	for (size_t i = 0; i < array_size(ids); i++)
		kit_let(ids[i], GONE_ID);
	let_all();
	forms[form].run(part);
	if (!part)
		(void)kit_run(rules_left_nothing, NULL, "nothing is left");
	kit_close();
	return kit_end();
}
