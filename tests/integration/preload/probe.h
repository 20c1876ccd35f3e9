// SPDX-License-Identifier: BSD-2-Clause
/* What the parts of preload_probe share. The probe is a C program that knows nothing of Verbena. It
 * asks for Verbena's files in every way that the C library offers. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

/* Prints one line for each check that fails; the exit status counts them. */
void report(bool ok, const char* file, int line, const char* what);
#define CHECK(condition) report((condition), __FILE__, __LINE__, #condition)

/* Checks a call that must succeed and leave errno alone. */
#define CHECK_QUIET(condition)       \
  do {                               \
    errno = 77;                      \
    const bool holds_ = (condition); \
    CHECK(holds_);                   \
    if (holds_) CHECK(errno == 77);  \
  } while (0)

#define DEVICE "/sys/class/infiniband/verbena0"
#define NODE_TYPE DEVICE "/node_type"
#define NODE "/dev/infiniband/uverbs192"

/* Returns whether a descriptor reads "1: CA", and closes it. */
bool reads_node_type(int fd);
/* Returns whether a descriptor looks like the character device 231:384. */
bool looks_like_node(int fd);

/* This program's own file. */
extern const char* own_program;

void probe_paths(void);
void probe_stat(void);
void probe_node(void);
void probe_inherited(int fd);
void probe_threads(void);
void probe_channel(void);
