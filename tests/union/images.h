/* SPDX-License-Identifier: Apache-2.0 */
/* File systems of a model's place: DIR/NAME, mounted by a loop from NAME.img */
#ifndef TESTS_UNION_IMAGES_H
#define TESTS_UNION_IMAGES_H

#include "base/error.h"

/*
 * Unmount, and wait for its users. 0, or -errno with @err: still mounted.
 */
int image_unmount(const char *dir, const char *name, struct error *err);

/* 0, or -errno with @err. */
int image_mount(const char *dir, const char *name, struct error *err);

#endif
