/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "cli/doctor/doctor.h"

/* Certificates and logs tolerate some; a minute is no drift but a fault. */
#define CLOCK_NOTICE_MS 2000
#define CLOCK_FAULT_MS  60000

#define SCRUB_OLD_S 691200 /* eight days: its timers are shorter */

#define ROOM_LOW 16 /* the part of a pool that is left, at least */

static void look_at_answer(struct doctor *doctor, const char *subject,
			   const struct node_state *node)
{
	struct doctor_finding *f = doctor_add(doctor, DOCTOR_OK, subject);

	if (node->reachable) {
		(void)snprintf(f->found, sizeof(f->found), "%s",
			       node->record.control_address[0]
				       ? "answers"
				       : "only uses volumes");
		return;
	}
	f->verdict = DOCTOR_FAULT;
	(void)snprintf(f->found, sizeof(f->found), "%s", node->problem);
	(void)strcpy(f->cost, "its extents do not answer, and none are made "
			      "there");
	(void)snprintf(f->mend, sizeof(f->mend),
		       "on %s: systemctl status blockd; network, "
		       "port and certificates of %s",
		       node->record.name, node->record.control_address);
}

static void look_at_version(struct doctor *doctor, const char *subject,
			    const struct node_state *node)
{
	struct doctor_finding *f;

	if (!node->version[0] || strcmp(node->version, TRIBUTARY_VERSION) == 0)
		return;
	f = doctor_add(doctor, DOCTOR_NOTICE, subject);
	(void)snprintf(f->found, sizeof(f->found),
		       "version %s, this command is %s", node->version,
		       TRIBUTARY_VERSION);
	(void)strcpy(f->cost, "what is newer is refused by the older one");
	(void)strcpy(f->mend, "install one version everywhere");
}

static void look_at_clock(struct doctor *doctor, const char *subject,
			  const struct node_state *node)
{
	int64_t apart_ms = llabs(node->clock_ahead_ms);
	struct doctor_finding *f;

	if (!node->clock_known || apart_ms < CLOCK_NOTICE_MS)
		return;
	f = doctor_add(doctor,
		       apart_ms < CLOCK_FAULT_MS ? DOCTOR_NOTICE : DOCTOR_FAULT,
		       subject);
	(void)snprintf(f->found, sizeof(f->found),
		       "its clock is %" PRId64 " s %s this machine's",
		       apart_ms / 1000,
		       node->clock_ahead_ms > 0 ? "ahead of" : "behind");
	(void)strcpy(f->cost, "certificates seem to have ended or not begun; "
			      "times of files differ by node");
	(void)snprintf(f->mend, sizeof(f->mend),
		       "on %s and here: timedatectl set-ntp true",
		       node->record.name);
}

static void look_at_warning(struct doctor *doctor, const char *subject,
			    const struct node_state *node)
{
	struct doctor_finding *f;

	if (!node->warning[0])
		return;
	f = doctor_add(doctor, DOCTOR_NOTICE, subject);
	(void)snprintf(f->found, sizeof(f->found), "%s", node->warning);
	(void)strcpy(f->cost, "nobody reaches the node when it has ended");
	(void)strcpy(f->mend,
		     "make it anew by its authority, and restart its program");
}

static void look_at_pool(struct doctor *doctor, const char *node,
			 const struct node_pool *pool)
{
	struct doctor_finding *f;
	char subject[DOCTOR_SUBJECT_SIZE], free_text[SIZE_TEXT_MAX];

	(void)snprintf(subject, sizeof(subject), "pool %.63s/%.63s", node,
		       pool->name);
	f = doctor_add(doctor, DOCTOR_OK, subject);
	(void)snprintf(f->found, sizeof(f->found), "%s, %s free%s%.300s",
		       pool->state, size_format(free_text, pool->available),
		       pool->message[0] ? ": " : "", pool->message);
	if (!node_pool_is_online(pool)) {
		f->verdict = DOCTOR_FAULT;
		(void)strcpy(f->cost, "its extents give errors or are not "
				      "there; no new one is placed on it");
		(void)snprintf(
			f->mend, sizeof(f->mend),
			"look at the medium; trib pool check %.63s/%.63s", node,
			pool->name);
	} else if (pool->available < pool->capacity / ROOM_LOW) {
		f->verdict = DOCTOR_NOTICE;
		(void)strcpy(f->cost, "it takes few new extents, and writes to "
				      "thin ones may meet a full pool");
		(void)strcpy(f->mend,
			     "delete snapshots or volumes, or add a pool");
	} else if (pool->message[0]) {
		f->verdict = DOCTOR_NOTICE;
	}
}

void doctor_look_at_node(struct doctor *doctor, const struct node_state *node)
{
	char subject[DOCTOR_SUBJECT_SIZE];

	(void)snprintf(subject, sizeof(subject), "node %.63s",
		       node->record.name);
	look_at_answer(doctor, subject, node);
	look_at_version(doctor, subject, node);
	look_at_clock(doctor, subject, node);
	look_at_warning(doctor, subject, node);
	for (size_t i = 0; i < node->n_pools; i++)
		look_at_pool(doctor, node->record.name, &node->pools[i]);
}

static void look_at_volume(struct doctor *doctor, struct cli *cli,
			   const char *name)
{
	char subject[DOCTOR_SUBJECT_SIZE];
	struct volume_status *status = NULL;
	struct error err = {0};
	int r = volume_status_get(cli->volumes, name, &status, &err);

	(void)snprintf(subject, sizeof(subject), "volume %.63s", name);
	/* Deleted since it was listed: no trouble of ours. */
	if (r < 0 && r != -ENOENT)
		(void)snprintf(doctor_add(doctor, DOCTOR_FAULT, subject)->found,
			       DOCTOR_TEXT_SIZE, "%s", error_text(&err));
	for (size_t i = 0; r == 0 && i < status->n_conditions; i++) {
		struct doctor_finding *f = doctor_add(doctor, DOCTOR_FAULT,
						      subject);

		(void)snprintf(f->found, sizeof(f->found), "%.63s: %.400s",
			       status->conditions[i].reason,
			       status->conditions[i].message);
		(void)snprintf(f->mend, sizeof(f->mend),
			       "trib volume show %.63s", name);
	}
	if (r == 0 && status->n_conditions == 0)
		(void)strcpy(doctor_add(doctor, DOCTOR_OK, subject)->found,
			     "ok");
	volume_status_free(status);
}

static void store_fault(struct doctor *doctor, const char *text)
{
	struct doctor_finding *f = doctor_add(doctor, DOCTOR_FAULT, "records");

	(void)snprintf(f->found, sizeof(f->found), "%s", text);
	(void)strcpy(f->cost, "volumes in use go on; nothing is made, mounted "
			      "or deleted");
}

/* Say when records and extents were compared last, on the node longest ago. */
void doctor_look_at_scrub(struct doctor *doctor, const struct node_state *nodes,
			  size_t n)
{
	struct doctor_finding *f;
	int64_t at_s = INT64_MAX;
	uint64_t found = 0;
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const struct node_scrub *scrub = nodes[i].record.scrub;

		if (!nodes[i].record.control_address[0] || nodes[i].lost)
			continue;
		any = true;
		if (!scrub || scrub->at_s < at_s)
			at_s = scrub ? scrub->at_s : 0;
		found += scrub ? scrub->orphans + scrub->missing : 0;
	}
	if (!any)
		return;
	f = doctor_add(doctor, DOCTOR_OK, "scrub");
	if (at_s < clock_wall_s() - SCRUB_OLD_S) {
		f->verdict = DOCTOR_NOTICE;
		(void)snprintf(f->found, sizeof(f->found),
			       "records and extents of a node were not "
			       "compared for %d days",
			       SCRUB_OLD_S / 86400);
		(void)strcpy(f->cost, "space that nobody uses any more, and "
				      "data that is gone, are not noticed");
		(void)strcpy(f->mend, "systemctl enable --now "
				      "tributary-scrub.timer; trib volume "
				      "scrub");
	} else if (found > 0) {
		f->verdict = DOCTOR_NOTICE;
		(void)snprintf(f->found, sizeof(f->found),
			       "extents without a record, or records without "
			       "an extent: %" PRIu64,
			       found);
		(void)strcpy(f->cost, "orphans take space; what is missing is "
				      "lost data");
		(void)strcpy(f->mend, "trib volume orphans");
	} else {
		(void)strcpy(f->found, "records and extents match");
	}
}

void doctor_look_at_cluster(struct doctor *doctor, struct cli *cli)
{
	struct node_state *nodes = NULL;
	struct volume_record **records = NULL;
	size_t n_nodes = 0, n_records = 0;
	char problem[RECORD_TEXT_SIZE] = "";
	struct error err = {0};
	int r;

	if (!cli->volumes) {
		store_fault(doctor, error_text(&cli->store_problem));
		return;
	}
	r = volume_node_list(cli->volumes, &nodes, &n_nodes, &err);
	if (r == 0)
		r = volume_list(cli->volumes, &records, &n_records, problem,
				&err);
	if (r < 0)
		store_fault(doctor, error_text(&err));
	else if (problem[0])
		store_fault(doctor, problem);
	for (size_t i = 0; i < n_nodes; i++)
		doctor_look_at_node(doctor, &nodes[i]);
	doctor_look_at_scrub(doctor, nodes, n_nodes);
	for (size_t i = 0; i < n_records; i++)
		look_at_volume(doctor, cli, records[i]->name);
	volume_records_free(records, n_records);
	node_states_free(nodes, n_nodes);
}
