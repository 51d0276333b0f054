/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sidecars of Kubernetes and a kubelet send: of each call the fields
 * that they set, and no other. The sources are those of the versions in
 * deploy/sidecars, with the options of deploy/kustomize, and a kubelet's. The
 * values are ours.
 *
 * A field is written as message.h has it. A value "$word" is a variable, as
 * kit.h has them.
 */
#ifndef TESTS_CSI_RECORDED_H
#define TESTS_CSI_RECORDED_H

#include <stddef.h>

struct recorded {
	const char *name;   /* "provisioner: delete": who asks for what */
	const char *method; /* "Controller/DeleteVolume" */
	const char *fields[20];
};

extern const struct recorded recorded[];
extern const size_t n_recorded;

/* Never NULL: an unknown name ends the process. */
const struct recorded *recorded_find(const char *name);

#endif
