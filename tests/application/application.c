/* SPDX-License-Identifier: Apache-2.0
 * application LIBRARY producer|consumer STEPS OPTIONS: one rank of an application that sets handlers, a signal mask,
 * limits and so on, loads Tremula, opens a session, moves steps and closes the session. After each of these actions it
 * compares its settings with the original ones. Prints whether libfabric and libinfinipath are loaded; exits with 1 if
 * a setting has changed. TREMULA_TEST_ALONE: this rank shares no memory with others, as if alone on its host. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <tremula/tremula.h>
#include <unistd.h>

static void* library;
#define CALL(name, ...) (((__typeof__(&name))dlsym(library, #name))(__VA_ARGS__))
#define TRY(name, ...)                                                      \
  do {                                                                      \
    if (CALL(name, __VA_ARGS__) < 0) fail(#name, CALL(tremula_last_error)); \
  } while (0)

static void fail(const char* what, const char* text) {
  printf("FAILED: %s: %s\n", what, text);
  exit(1);
}

/* ---- settings of the application ---- */

static volatile sig_atomic_t signals_handled;
static volatile sig_atomic_t handled_by;
static void count_signal(int number) {
  (void)number;
  ++signals_handled;
  handled_by = gettid();
}
static void write_dump(int number, siginfo_t* info, void* context) {
  (void)number, (void)info, (void)context;
  _exit(3);
}

/* Changes the settings of the process. Signals get every kind of disposition: default (SIGINT), ignored, handlers with
 * flags and masks. */
static void settle_in(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGRTMIN + 3, &action, NULL);
  action.sa_sigaction = write_dump;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGABRT, &action, NULL);
  signal(SIGHUP, SIG_IGN);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  sigaddset(&mask, SIGPIPE);
  sigprocmask(SIG_SETMASK, &mask, NULL);
  setlocale(LC_ALL, "C.UTF-8");
  setenv("OWN_VARIABLE", "one", 1);
  umask(027);
  const struct rlimit files = {400, 500};
  setrlimit(RLIMIT_NOFILE, &files);
  if (getenv("TREMULA_TEST_ALONE") != NULL) prctl(PR_SET_DUMPABLE, 0);
}

static unsigned long long bits_of(const sigset_t* set) {
  unsigned long long bits = 0;
  for (int number = 1; number < NSIG; ++number)
    if (sigismember(set, number) == 1) bits |= 1ULL << (number - 1);
  return bits;
}

/* Returns all settings, one per line. The caller frees the text. */
static char* inventory(void) {
  char* text = NULL;
  size_t bytes = 0;
  FILE* out = open_memstream(&text, &bytes);
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (sigaction(number, NULL, &action) != 0) continue;
    const int flags = action.sa_flags & ~0x04000000; /* SA_RESTORER belongs to libc */
    fprintf(out, "signal %d handler=%p flags=%x mask=%llx\n", number, *(void**)&action.sa_handler,
            (unsigned)flags, bits_of(&action.sa_mask));
  }
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  fprintf(out, "mask %llx\n", bits_of(&mask));
  for (char** variable = environ; *variable != NULL; ++variable)
    fprintf(out, "variable %s\n", *variable);
  fprintf(out, "locale %s\n", setlocale(LC_ALL, NULL));
  for (int resource = 0; resource < (int)RLIMIT_NLIMITS; ++resource) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) == 0)
      fprintf(out, "limit %d %llu %llu\n", resource, (unsigned long long)limit.rlim_cur,
              (unsigned long long)limit.rlim_max);
  }
  const mode_t creation = umask(0);
  umask(creation);
  char directory[4096];
  fprintf(out, "umask %o\ndirectory %s\ndumpable %d\npriority %d\n", (unsigned)creation,
          getcwd(directory, sizeof directory), prctl(PR_GET_DUMPABLE),
          getpriority(PRIO_PROCESS, 0));
  fclose(out);
  return text;
}

static const char* line_end(const char* text) { return text + strcspn(text, "\n"); }

static void expect_same(const char* before, const char* when) {
  char* const now = inventory();
  if (strcmp(before, now) != 0) {
    const char *was = before, *is = now;
    while (*was != '\0' && *is != '\0') {
      const int was_bytes = (int)(line_end(was) - was), is_bytes = (int)(line_end(is) - is);
      if (was_bytes != is_bytes || strncmp(was, is, (size_t)was_bytes) != 0)
        printf("was: %.*s\nis:  %.*s\n", was_bytes, was, is_bytes, is);
      was = line_end(was) + (*line_end(was) != '\0');
      is = line_end(is) + (*line_end(is) != '\0');
    }
    printf("%s%s", was, is);
    fail(when, "expected the process as it was before Tremula was loaded, found it changed");
  }
  free(now);
}

/* ---- libraries and threads that come with Tremula ---- */

static int is_mapped(const char* name) {
  char line[4096];
  int found = 0;
  FILE* const maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps) != NULL) found |= strstr(line, name) != NULL;
  fclose(maps);
  return found;
}

/* Checks that every thread but this one blocks every signal that can be blocked. */
static void expect_no_thread_takes_signals(const char* when) {
  int threads = 0;
  DIR* const tasks = opendir("/proc/self/task");
  for (struct dirent* task; (task = readdir(tasks)) != NULL;) {
    if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) continue;
    char path[600], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE* const status = fopen(path, "r");
    if (status == NULL) continue; /* it has ended */
    ++threads;
    while (fgets(line, sizeof line, status) != NULL) {
      unsigned long long blocked;
      if (sscanf(line, "SigBlk: %llx", &blocked) != 1) continue;
      sigset_t all;
      sigfillset(&all);
      sigdelset(&all, SIGKILL);
      sigdelset(&all, SIGSTOP);
      if ((blocked & bits_of(&all)) != bits_of(&all))
        fail(when, "a thread of the library takes signals");
    }
    fclose(status);
  }
  closedir(tasks);
  if (threads == 0) fail(when, "expected a thread of the library, found none");
}

/* Checks that a signal that this thread blocks stays pending for this thread, even if there are other threads. */
static void expect_signals_wait_for_this_thread(const char* when) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  signals_handled = 0;
  sigprocmask(SIG_BLOCK, &one, &before);
  kill(getpid(), SIGUSR1);
  const struct timespec moment = {0, 50 * 1000 * 1000};
  nanosleep(&moment, NULL);
  if (signals_handled != 0) fail(when, "another thread has handled a signal of the process");
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (signals_handled != 1 || handled_by != getpid())
    fail(when, "expected the signal on this thread");
}

static void verify(const char* before, const char* when) {
  expect_same(before, when);
  printf("%s libfabric=%d libinfinipath=%d\n", when, is_mapped("libfabric"),
         is_mapped("libinfinipath"));
  fflush(stdout);
}

/* ---- the application ---- */

enum { elements = 300000 }; /* enough to use the copy threads and populated memory */

static void produce(tremula_session* session, const tremula_layout* layout, double* part,
                    size_t count, int steps) {
  tremula_out_stream* out = NULL;
  int field = -1;
  TRY(tremula_out_open, session, "numbers", "{progress: thread}", &out);
  TRY(tremula_out_field, out, "u", TREMULA_F64, layout, &field);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < count; ++i) part[i] = step;
    TRY(tremula_out_begin_step, out);
    TRY(tremula_out_put, out, field, part, count * sizeof *part);
    TRY(tremula_out_end_step, out);
    expect_no_thread_takes_signals("in a step");
  }
  TRY(tremula_out_close, out);
  CALL(tremula_out_free, out);
}

static void consume(tremula_session* session, const tremula_layout* layout, double* part,
                    size_t count, int steps) {
  tremula_in_stream* in = NULL;
  int field = -1, step = 0;
  TRY(tremula_in_open, session, "numbers", NULL, &in);
  TRY(tremula_in_field, in, "u", TREMULA_F64, layout, &field);
  for (;; ++step) {
    const tremula_status status = CALL(tremula_in_begin_step, in);
    if (status < 0) fail("tremula_in_begin_step", CALL(tremula_last_error));
    if (status == TREMULA_END_OF_STREAM) break;
    TRY(tremula_in_get, in, field, part, count * sizeof *part);
    for (size_t i = 0; i < count; ++i)
      if (part[i] != step) fail("tremula_in_get", "a wrong element");
    TRY(tremula_in_end_step, in);
    expect_no_thread_takes_signals("in a step");
  }
  if (step != steps) fail("tremula_in_begin_step", "expected another number of steps");
  TRY(tremula_in_close, in);
  CALL(tremula_in_free, in);
}

int main(int count, char** arguments) {
  if (count != 5) return 2;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char* const role = arguments[2];
  const int steps = atoi(arguments[3]);
  settle_in();
  char* const before = inventory();
  library = dlopen(arguments[1], RTLD_NOW);
  if (library == NULL) fail("dlopen", dlerror());
  verify(before, "loaded");

  tremula_session* session = NULL;
  TRY(tremula_session_open, role, -1, -1, arguments[4], &session);
  verify(before, "opened");
  expect_no_thread_takes_signals("opened");
  expect_signals_wait_for_this_thread("opened");

  char text[64];
  tremula_layout* layout = NULL;
  const int rank = CALL(tremula_session_rank, session), size = CALL(tremula_session_size, session);
  snprintf(text, sizeof text, "shape=%d grid=%d", (int)elements, size);
  TRY(tremula_layout_parse, text, &layout);
  int64_t extent = 0;
  TRY(tremula_layout_local, layout, rank, &extent, NULL, NULL, NULL);
  double* const part = malloc((size_t)extent * sizeof *part);
  (strcmp(role, "producer") == 0 ? produce : consume)(session, layout, part, (size_t)extent, steps);
  verify(before, "moved");
  expect_signals_wait_for_this_thread("moved");

  CALL(tremula_layout_free, layout);
  TRY(tremula_session_close, session);
  verify(before, "closed");
  free(part);
  free(before);
  puts("unchanged");
  return 0;
}
