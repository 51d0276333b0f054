/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>

struct doctor_finding *doctor_add(struct doctor *doctor,
				  enum doctor_verdict verdict,
				  const char *subject)
{
	struct doctor_finding *f;

	f = realloc(doctor->findings, (doctor->n + 1) * sizeof(*f));
	if (!f) {
		(void)fputs("trib doctor: out of memory\n", stderr);
		exit(EXIT_FAILURE);
	}
	doctor->findings = f;
	f = &f[doctor->n++];
	*f = (struct doctor_finding){.verdict = verdict};
	(void)snprintf(f->subject, sizeof(f->subject), "%s", subject);
	return f;
}
