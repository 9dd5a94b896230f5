// Captures from a source into a file, with its losses. Ctrl-C ends it.
//
//   cc -std=c11 record.c -lforebay -o record && ./record sim:count=100k,size=imix a.pcapng
#define _XOPEN_SOURCE 700
#include <forebay.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

static forebay_capture *capture;

static void on_signal(int number) {
  (void)number;
  forebay_capture_stop(capture); // may be called in a signal handler
}

static int failed(void) {
  fprintf(stderr, "%s\n", forebay_last_error());
  return 1;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "sim:count=1000";
  const char *path = argc > 2 ? argv[2] : "/dev/null";
  forebay_writer *writer;
  if (forebay_capture_open(name, NULL, &capture) < 0 || forebay_writer_create(path, NULL, &writer) < 0) return failed();
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGINT, &action, NULL);

  const struct forebay_frame *frames;
  ptrdiff_t count;
  while ((count = forebay_capture_next(capture, &frames, FOREBAY_FOREVER)) > 0)
    if (forebay_writer_write_from(writer, capture, frames, (size_t)count) < 0) return failed();
  if (count != FOREBAY_CLOSED && count != FOREBAY_INTERRUPTED) failed();

  struct forebay_counts counts = {.size = sizeof counts};
  if (forebay_capture_finish(capture, &counts) < 0) failed();
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  int code = forebay_writer_counts_from(writer, capture, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
  if (code < 0 && code != FOREBAY_UNSUPPORTED) failed(); // unsupported: several interfaces, counted together
  struct forebay_writer_totals totals = {.size = sizeof totals};
  if (forebay_writer_close(writer, &totals) < 0) failed();
  printf("received %" PRIu64 ", written %" PRIu64 "\n", counts.received, totals.written);
  forebay_capture_destroy(capture);
  return 0;
}
