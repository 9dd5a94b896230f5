// Captures from the source that its argument names, such as eth0 or share:lan, and prints how long the packets are. Ctrl-C ends it.
//
//   cc -std=c11 histogram.c -lforebay -o histogram && ./histogram sim:count=100k,size=imix
#define _XOPEN_SOURCE 700
#include <forebay.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

static forebay_capture *capture;

static void on_signal(int number) {
  (void)number;
  forebay_capture_stop(capture); // may be called in a signal handler
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "sim:count=1000";
  if (forebay_capture_open(name, NULL, &capture) < 0) {
    fprintf(stderr, "%s\n", forebay_last_error());
    return 1;
  }
  struct sigaction action = {.sa_handler = on_signal};
  sigaction(SIGINT, &action, NULL);

  uint64_t lengths[9] = {0}; // below 128, 256, … bytes, and longer ones
  const struct forebay_frame *frames;
  ptrdiff_t count;
  while ((count = forebay_capture_next(capture, &frames, FOREBAY_FOREVER)) > 0) {
    for (ptrdiff_t i = 0; i < count; i++) {
      int place = 0;
      while (place < 8 && frames[i].wire_len >> (7 + place)) place++;
      lengths[place]++;
    }
  }
  if (count != FOREBAY_CLOSED && count != FOREBAY_INTERRUPTED) fprintf(stderr, "%s\n", forebay_last_error());

  for (int place = 0; place < 8; place++) printf("below %5d bytes: %" PRIu64 "\n", 128 << place, lengths[place]);
  printf("longer: %" PRIu64 "\n", lengths[8]);
  struct forebay_counts counts = {.size = sizeof counts};
  if (forebay_capture_finish(capture, &counts) == FOREBAY_OK) {
    printf("received %" PRIu64 ", taken %" PRIu64, counts.received, counts.counted);
    if (counts.kernel != FOREBAY_UNKNOWN) printf(", lost %" PRIu64, counts.kernel + counts.overrun);
    putchar('\n');
  }
  forebay_capture_destroy(capture);
  return 0;
}
