// SPDX-License-Identifier: Apache-2.0
/* The C interface as a C99 compiler sees it, without a server: layouts work, errors have words. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tremula/tremula.h"
#include "tremula/tremula_scalapack.h"

static int failures = 0;

static void check(int ok, const char* what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "failed: %s\n  tremula_last_error: %s\n", what, tremula_last_error());
}

int main(void) {
  tremula_layout* layout = NULL;
  int64_t shape[TREMULA_MAX_DIMENSIONS] = {0};
  int64_t extents[TREMULA_MAX_DIMENSIONS] = {0};
  int64_t allocated = 0;
  int64_t global = -1;

  check(strcmp(tremula_version(), TREMULA_TEST_VERSION) == 0,
        "the library tells the project's version");

  check(tremula_layout_parse("shape=10x7 grid=2x1 block=3x7", &layout) == TREMULA_OK,
        "a layout parses");
  check(tremula_layout_dimensions(layout) == 2, "it has two dimensions");
  check(tremula_layout_shape(layout, shape) == TREMULA_OK && shape[0] == 10 && shape[1] == 7,
        "it has its shape");
  /* blocks of 3 rows dealt to two ranks: rank 1 has rows 3 4 5 and 9 */
  check(tremula_layout_local(layout, 1, extents, NULL, NULL, &allocated) == TREMULA_OK &&
            extents[0] == 4 && extents[1] == 7 && allocated == 28,
        "rank 1 holds four rows");
  check(tremula_layout_global_index(layout, 1, 0, 3, &global) == TREMULA_OK && global == 9,
        "the last of them is row 9");
  tremula_layout_free(layout);
  tremula_layout_free(NULL);

  layout = NULL;
  check(tremula_layout_parse("shape=10x7 grid=2", &layout) == TREMULA_INVALID_ARGUMENT,
        "a bad layout is refused");
  check(layout == NULL, "and nothing is returned");
  check(strlen(tremula_last_error()) > 0, "and the error has words");

  if (failures == 0) printf("C interface: all checks passed\n");
  return failures == 0 ? 0 : 1;
}
