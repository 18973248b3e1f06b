// SPDX-License-Identifier: Apache-2.0
/* The C interface as a C99 compiler sees it, without a server: layouts work, errors have texts. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tremula/tremula.h"
#include "tremula/tremula_scalapack.h"

static int failures = 0;

static void check(int ok, const char *what) {
  if (ok) return;
  ++failures;
  fprintf(stderr, "failed: %s\n  tremula_last_error: %s\n", what, tremula_last_error());
}

/* Checks that a 10 x 7 array has the same hash in three layouts: rows split over two ranks, columns
 * on one rank, and points in descending order. */
static void check_hashes(void) {
  static double rows[2][5 * 7], whole[70];
  tremula_layout *two = NULL, *one = NULL;
  uint64_t of_rank[2] = {0, 0}, of_all = 0;
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 7; ++j) rows[i / 5][i % 5 * 7 + j] = whole[j * 10 + i] = 100 * i + j;
  check(tremula_layout_parse("shape=10x7 grid=2x1", &two) == TREMULA_OK &&
            tremula_layout_parse("shape=10x7 grid=1x1 store=column", &one) == TREMULA_OK,
        "both layouts parse");
  for (int r = 0; r < 2; ++r)
    check(tremula_layout_hash(two, r, TREMULA_F64, rows[r], sizeof rows[r], &of_rank[r]) ==
              TREMULA_OK,
          "a part has a hash");
  check(tremula_layout_hash(one, 0, TREMULA_F64, whole, sizeof whole, &of_all) == TREMULA_OK &&
            of_all != 0 && of_rank[0] + of_rank[1] == of_all,
        "the sum over the ranks is the same for both layouts");
  const int64_t extents[] = {10, 7};
  int64_t points[70];
  double backwards[70];
  uint64_t of_points = 0;
  tremula_layout *listed = NULL, *copies = NULL;
  for (int i = 0; i < 70; ++i) {
    points[i] = 69 - i;
    const int row = (69 - i) / 7;
    backwards[i] = 100 * row + (69 - i) % 7;
  }
  check(tremula_layout_of_points(2, extents, 1, 0, 70, points, &listed) == TREMULA_OK &&
            tremula_layout_of_points(2, extents, 1, TREMULA_COPIES, 70, points, &copies) ==
                TREMULA_OK &&
            tremula_layout_hash(listed, 0, TREMULA_F64, backwards, sizeof backwards, &of_points) ==
                TREMULA_OK &&
            of_points == of_all,
        "points have the same hash");
  check(tremula_layout_hash(listed, 7, TREMULA_F64, backwards, sizeof backwards, &of_points) ==
                TREMULA_OK &&
            of_points == of_all,
        "points have the hash of the rank that made the layout, whichever rank is named");
  check(
      tremula_layout_hash(listed, 7, TREMULA_F64, NULL, 0, &of_points) == TREMULA_INVALID_ARGUMENT,
      "a null buffer is refused");
  int64_t extents_of_7[2] = {0, 0}, allocated = 0;
  check(tremula_layout_local(listed, 7, extents_of_7, NULL, NULL, &allocated) == TREMULA_OK &&
            extents_of_7[1] == 70 && allocated == 70,
        "points have the part of the rank that made the layout, whichever rank is named");
  check(tremula_layout_hash(copies, 0, TREMULA_F64, backwards, sizeof backwards, &of_points) ==
            TREMULA_UNSUPPORTED,
        "listed copies have no hash: none of them is the first copy");
  check(strstr(tremula_last_error(), "lists without copies") != NULL, "the error names the copies");
  tremula_layout *changing = NULL;
  check(tremula_layout_parse("shape=*x7 grid=2x1", &changing) == TREMULA_OK &&
            tremula_layout_hash(changing, 0, TREMULA_F64, whole, sizeof whole, &of_points) ==
                TREMULA_UNSUPPORTED,
        "an extent that changes has no hash, whatever the buffer");
  tremula_layout_free(changing);
  tremula_layout *sums = NULL;
  check(tremula_layout_parse("shape=10x7 mesh=2 sum=0", &sums) == TREMULA_OK &&
            tremula_layout_hash(sums, 0, TREMULA_F64, whole, sizeof whole, &of_points) ==
                TREMULA_UNSUPPORTED,
        "partial sums have no hash: they are not elements");
  tremula_layout_free(sums);
  tremula_layout_free(listed);
  tremula_layout_free(copies);
  whole[69] += 1;
  check(tremula_layout_hash(one, 0, TREMULA_F64, whole, sizeof whole, &of_all) == TREMULA_OK &&
            of_rank[0] + of_rank[1] != of_all,
        "a different element changes the hash");
  check(
      tremula_layout_hash(one, 0, TREMULA_F64, whole, 69 * 8, &of_all) == TREMULA_INVALID_ARGUMENT,
      "a buffer that is too short is refused");
  tremula_layout_free(one);
  tremula_layout_free(two);
}

int main(void) {
  tremula_layout *layout = NULL;
  int64_t shape[TREMULA_MAX_DIMENSIONS] = {0};
  int64_t extents[TREMULA_MAX_DIMENSIONS] = {0};
  int64_t allocated = 0;
  int64_t global = -1;

  check(strcmp(tremula_version(), TREMULA_TEST_VERSION) == 0,
        "the library returns the project's version");

  check(tremula_layout_parse("shape=10x7 grid=2x1 block=3x7", &layout) == TREMULA_OK,
        "a layout parses");
  check(tremula_layout_dimensions(layout) == 2, "the layout has two dimensions");
  check(tremula_layout_shape(layout, shape) == TREMULA_OK && shape[0] == 10 && shape[1] == 7,
        "the layout returns its shape");
  /* blocks of 3 rows on two ranks: rank 1 has rows 3, 4, 5 and 9 */
  check(tremula_layout_local(layout, 1, extents, NULL, NULL, &allocated) == TREMULA_OK &&
            extents[0] == 4 && extents[1] == 7 && allocated == 28,
        "rank 1 holds four rows");
  check_hashes();
  check(tremula_layout_global_index(layout, 1, 0, 3, &global) == TREMULA_OK && global == 9,
        "the last row of rank 1 is row 9");
  tremula_layout_free(layout);
  tremula_layout_free(NULL);

  /* row-major blocks of 2x2 ranks to column-major ones: ranks 1 and 2 swap */
  {
    tremula_layout *from = NULL, *to = NULL, *kept = NULL;
    tremula_update update;
    int process[4] = {-1, -1, -1, -1};
    int64_t before = -1, after = -1;
    check(tremula_layout_parse("shape=4x4 grid=2x2", &from) == TREMULA_OK &&
              tremula_layout_parse("shape=4x4 grid=2x2 ranks=column", &to) == TREMULA_OK,
          "two layouts parse");
    update = tremula_update_init(from, to, TREMULA_F32);
    check(tremula_relabel(&update, 1, sizeof update, 4, NULL, 1, process, &before, &after) ==
                  TREMULA_OK &&
              process[0] == 0 && process[1] == 2 && process[2] == 1 && process[3] == 3 &&
              before == 32 && after == 0,
          "relabeling keeps everything where it is");
    check(tremula_relabel(&update, 1, sizeof update, 4, NULL, 0, process, NULL, NULL) == TREMULA_OK,
          "and the pointers to the bytes before and after may be null");
    check(tremula_layout_relabeled(to, process, 4, &kept) == TREMULA_OK &&
              strcmp(tremula_layout_text(kept),
                     "shape=4x4 grid=2x2 ranks=column members=0/2/1/3") == 0,
          "the relabeled layout names its members");

    /* a struct that was never initialised, and an array with a stride below its struct's size */
    {
      const size_t wrong[] = {0, sizeof update - 1, ~(size_t)0};
      size_t k;
      for (k = 0; k < sizeof wrong / sizeof wrong[0]; ++k) {
        update.size = wrong[k];
        check(tremula_relabel(&update, 1, sizeof update, 4, NULL, 1, process, NULL, NULL) ==
                      TREMULA_INVALID_ARGUMENT &&
                  strstr(tremula_last_error(), "tremula_update.size: expected") != NULL &&
                  strstr(tremula_last_error(), "tremula_update_init") != NULL,
              "a size that no initialiser sets is refused by name");
      }
      update.size = sizeof update;
      check(tremula_relabel(&update, 1, sizeof update - 8, 4, NULL, 1, process, NULL, NULL) ==
                    TREMULA_INVALID_ARGUMENT &&
                strstr(tremula_last_error(), "stride") != NULL,
            "a stride that is less than the size is refused");
    }
    tremula_layout_free(from);
    tremula_layout_free(to);
    tremula_layout_free(kept);
  }

  layout = NULL;
  check(tremula_layout_parse("shape=10x7 grid=2", &layout) == TREMULA_INVALID_ARGUMENT,
        "a bad layout is refused");
  check(layout == NULL, "and nothing is returned");
  check(strlen(tremula_last_error()) > 0, "and the error has a text");

  if (failures == 0) printf("C interface: all checks passed\n");
  return failures == 0 ? 0 : 1;
}
