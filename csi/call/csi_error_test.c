/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sidecars of Kubernetes make of our codes: docs/sidecars.md. Each of
 * their functions is one here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/csi_error.h"

static void answers_each_error_with_its_code(void **state)
{
	static const struct {
		const char *method;
		int error;
		enum rpc_code code;
	} rows[] = {
		{"CreateVolume", ENOSPC, RPC_RESOURCE_EXHAUSTED},
		{"CreateVolume", EEXIST, RPC_ALREADY_EXISTS},
		{"CreateVolume", ENOENT, RPC_INVALID_ARGUMENT},
		{"CreateVolume", EBUSY, RPC_ABORTED},
		{"CreateVolume", ERANGE, RPC_OUT_OF_RANGE},
		{"DeleteVolume", EBUSY, RPC_FAILED_PRECONDITION},
		{"DeleteVolume", ENOENT, RPC_NOT_FOUND},
		{"NodeStageVolume", EBUSY, RPC_FAILED_PRECONDITION},
		{"NodeStageVolume", EHOSTUNREACH, RPC_UNAVAILABLE},
		{"NodeStageVolume", ETIMEDOUT, RPC_UNAVAILABLE},
		{"NodeStageVolume", EAGAIN, RPC_ABORTED},
		{"NodeStageVolume", ECANCELED, RPC_ABORTED},
		{"NodeStageVolume", EUCLEAN, RPC_FAILED_PRECONDITION},
		{"NodePublishVolume", EUCLEAN, RPC_FAILED_PRECONDITION},
		{"NodeExpandVolume", EUCLEAN, RPC_INTERNAL},
		{"NodeStageVolume", EACCES, RPC_INTERNAL},
		{"NodeStageVolume", ENOMEM, RPC_INTERNAL},
	};

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++)
		assert_int_equal(csi_code(rows[i].method, -rows[i].error),
				 rows[i].code);
	/* A failure is never told as a success. */
	for (int e = 0; e < 140; e++)
		assert_int_not_equal(csi_code("Probe", -e), RPC_OK);
}

/* Errors after which the record may have something that was begun. */
static const int begun[] = {EAGAIN, ECANCELED, EHOSTUNREACH, ESTALE, ETIMEDOUT};

/* Errors of a request that cannot be carried out: nothing was begun. */
static const int impossible[] = {E2BIG,  EEXIST, EINVAL,
				 ENOSPC, ERANGE, EOPNOTSUPP};

static bool still_runs(enum rpc_code code)
{
	return code == RPC_CANCELLED || code == RPC_DEADLINE_EXCEEDED ||
	       code == RPC_UNAVAILABLE || code == RPC_ABORTED;
}

/* external-provisioner: checkError(). A final error of a claim that is deleted
 * ends in no DeleteVolume. */
static bool provisioner_takes_as_final(enum rpc_code code)
{
	return !still_runs(code);
}

/* external-snapshotter: isCSIFinalError(); external-resizer: IsFinalError(). */
static bool others_take_as_final(enum rpc_code code)
{
	return !still_runs(code) && code != RPC_RESOURCE_EXHAUSTED;
}

/* external-resizer: IsInfeasibleError(). The claim may be lowered then. */
static bool resizer_takes_as_infeasible(enum rpc_code code)
{
	return code == RPC_INVALID_ARGUMENT || code == RPC_OUT_OF_RANGE ||
	       code == RPC_NOT_FOUND;
}

static void what_was_begun_is_asked_for_again(void **state)
{
	static const char *const methods[] = {
		"CreateVolume", "CreateSnapshot", "ControllerExpandVolume",
		"ControllerModifyVolume", "CreateVolumeGroupSnapshot"};

	(void)state;
	for (size_t m = 0; m < array_size(methods); m++)
		for (size_t i = 0; i < array_size(begun); i++) {
			enum rpc_code code = csi_code(methods[m], -begun[i]);

			assert_false(provisioner_takes_as_final(code));
			assert_false(others_take_as_final(code));
		}
}

/* Or a claim that nobody wants any more is tried for ever. */
static void what_is_impossible_ends(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(impossible); i++) {
		int e = impossible[i];

		assert_true(provisioner_takes_as_final(
			csi_code("CreateVolume", -e)));
		/* The specification wants RESOURCE_EXHAUSTED of a full pool. */
		if (e != ENOSPC)
			assert_true(others_take_as_final(
				csi_code("CreateSnapshot", -e)));
		assert_true(others_take_as_final(
				    csi_code("ControllerModifyVolume", -e)) ||
			    e == ENOSPC);
	}
}

static void a_size_that_cannot_be_is_infeasible(void **state)
{
	static const int sizes[] = {E2BIG, EINVAL, ENOSPC, ERANGE, EOPNOTSUPP};

	(void)state;
	for (size_t i = 0; i < array_size(sizes); i++)
		assert_true(resizer_takes_as_infeasible(
			csi_code("ControllerExpandVolume", -sizes[i])));
	/* Any other error may be over some day. */
	for (int e = 1; e < 140; e++) {
		bool of_size = false;

		for (size_t i = 0; i < array_size(sizes); i++)
			of_size |= sizes[i] == e;
		if (!of_size && e != ENAMETOOLONG)
			assert_false(resizer_takes_as_infeasible(
				csi_code("ControllerExpandVolume", -e)));
	}
}

/*
 * external-resizer: inUseError(). It would wait until no pod has the volume,
 * and volumes grow while they are used.
 */
static void growth_never_waits_for_its_pods(void **state)
{
	(void)state;
	for (int e = 1; e < 140; e++)
		assert_int_not_equal(csi_code("ControllerExpandVolume", -e),
				     RPC_FAILED_PRECONDITION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_each_error_with_its_code),
		cmocka_unit_test(what_was_begun_is_asked_for_again),
		cmocka_unit_test(what_is_impossible_ends),
		cmocka_unit_test(a_size_that_cannot_be_is_infeasible),
		cmocka_unit_test(growth_never_waits_for_its_pods),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
