/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TREMULA_STRUCT_USER_H
#define TREMULA_STRUCT_USER_H
/*
 * Code shared by the programs struct_user and struct_user_mpi. They are compiled once against the first
 * headers and once against headers in which every struct has one more member, `added_later`
 * (TREMULA_TEST_GROWN). Each runs with the current library and with one that knows that member.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tremula/tremula.h"

static int library_is_grown;

static void expect(int is_true, const char* what) {
  if (is_true) return;
  fprintf(stderr, "expected: %s; tremula_last_error: %s\n", what, tremula_last_error());
  exit(1);
}
static void expect_ok(tremula_status status, const char* call) { expect(status >= 0, call); }

/* A struct, followed by memory that no library may write to. */
#define GUARDED(type, name)  \
  struct {                   \
    type value;              \
    unsigned char guard[64]; \
  } name

static void set_guard(unsigned char* guard) { memset(guard, 0xa5, 64); }
static void expect_guard(const unsigned char* guard) {
  for (int i = 0; i < 64; ++i) expect(guard[i] == 0xa5, "untouched memory after a struct");
}

/* The header's initialiser and a library that knows the member set 42; the application sets 43. */
#ifdef TREMULA_TEST_GROWN
#define SET_ADDED(value) ((value)->added_later = 43)
#define EXPECT_ADDED(value)                                      \
  expect((value)->added_later == (library_is_grown ? 42u : 43u), \
         "the new member to be written by a library that knows it, and by no other")
#else
#define SET_ADDED(value) ((void)(value))
#define EXPECT_ADDED(value) ((void)(value))
#endif

#endif
