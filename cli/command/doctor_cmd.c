/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command/command.h"
#include "cli/doctor/doctor.h"
#include "cli/text/json.h"
#include "cli/text/table.h"

static const char *const verdicts[] = {
	[DOCTOR_OK] = "ok",
	[DOCTOR_NOTICE] = "notice",
	[DOCTOR_FAULT] = "fault",
};

static struct json_object *findings_json(const struct doctor *doctor)
{
	struct json_object *object = json_object_new_object();
	struct json_object *all = json_object_new_array();

	for (size_t i = 0; i < doctor->n; i++) {
		const struct doctor_finding *f = &doctor->findings[i];
		struct json_object *one = json_object_new_object();

		json_put_text(one, "verdict", verdicts[f->verdict]);
		json_put_text(one, "subject", f->subject);
		json_put_text(one, "found", f->found);
		json_put_text(one, "cost", f->cost);
		json_put_text(one, "mend", f->mend);
		json_object_array_add(all, one);
	}
	json_object_object_add(object, "findings", all);
	return object;
}

static void findings_print(const struct doctor *doctor)
{
	struct table *table = table_new("VERDICT", "SUBJECT", "FOUND", NULL);

	for (size_t i = 0; i < doctor->n; i++) {
		const struct doctor_finding *f = &doctor->findings[i];

		table_cell(table, "%s", verdicts[f->verdict]);
		table_cell(table, "%s", f->subject);
		table_cell(table, "%s", f->found);
	}
	table_print(table, stdout);
	for (size_t i = 0; i < doctor->n; i++) {
		const struct doctor_finding *f = &doctor->findings[i];

		if (f->verdict == DOCTOR_OK)
			continue;
		(void)printf("\n%s: %s\n", f->subject, f->found);
		if (f->cost[0])
			(void)printf("  cost: %s\n", f->cost);
		if (f->mend[0])
			(void)printf("  mend: %s\n", f->mend);
	}
}

int doctor_run(struct cli *cli, struct error *err)
{
	struct doctor doctor = {0};
	size_t faults = 0;

	doctor_look_at_host(&doctor);
	if (!cli->options.only_host)
		doctor_look_at_cluster(&doctor, cli);
	for (size_t i = 0; i < doctor.n; i++)
		faults += doctor.findings[i].verdict == DOCTOR_FAULT;
	if (!cli_answer(cli, findings_json(&doctor)))
		findings_print(&doctor);
	free(doctor.findings);
	/* Also for a script that looks at nothing else. */
	return faults ? error_set(err, EUCLEAN, "faults: %zu", faults) : 0;
}
