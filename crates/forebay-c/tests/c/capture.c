// Packets of the simulated card by batch and by callback, a stop by a signal handler, filters, counts, a file, and misuse.
#include "check.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static forebay_capture *stopped;

static void on_signal(int number) {
  (void)number;
  forebay_capture_stop(stopped);
}

static void *interrupts(void *argument) {
  pthread_kill(*(pthread_t *)argument, SIGUSR1);
  return NULL;
}

static int first_ten(void *context, const struct forebay_frame *frame) {
  CHECK(frame->len == 60 && frame->wire_len == 60 && frame->data[12] == 8);
  // The capture is in use.
  struct forebay_counts counts = {.size = sizeof counts};
  CHECK_IS(forebay_capture_counts(stopped, &counts), FOREBAY_BUSY);
  CHECK_IS(forebay_capture_destroy(stopped), FOREBAY_BUSY); // It stays, with the frame.
  return ++*(int *)context == 10;
}

static uint64_t sum(const struct forebay_counts *c) {
  uint64_t peer = c->peer == FOREBAY_UNKNOWN ? 0 : c->peer;
  return c->counted + c->filtered + c->unread + c->kernel + c->rx_ring + c->fill_ring + peer + c->overrun;
}

static int is_readable(forebay_capture *capture, int milliseconds) {
  struct pollfd wait = {.fd = forebay_capture_descriptor(capture), .events = POLLIN};
  CHECK(wait.fd >= 0);
  return poll(&wait, 1, milliseconds);
}

// A loop around poll, until the source ends; and a stop.
static void in_poll(void) {
  forebay_capture *capture;
  const struct forebay_frame *frames;
  CHECK_IS(forebay_capture_open("sim:rate=20pps,count=3", NULL, &capture), FOREBAY_OK);
  ptrdiff_t count, all = 0;
  while ((count = forebay_capture_next(capture, &frames, 0)) > 0 || count == FOREBAY_EMPTY) {
    if (count > 0) all += count;
    else if (forebay_capture_arm(capture) == 1) CHECK_IS(is_readable(capture, 60000), 1);
  }
  CHECK_IS(count, FOREBAY_CLOSED);
  CHECK_IS(all, 3);
  CHECK_IS(forebay_capture_arm(capture), 0);
  CHECK_IS(forebay_capture_finish(capture, NULL), FOREBAY_OK);
  CHECK_IS(forebay_capture_arm(capture), FOREBAY_CLOSED);
  CHECK_IS(forebay_capture_descriptor(capture), FOREBAY_CLOSED);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_disarm(capture), FOREBAY_MISUSE);

  // A stop, and no packet within minutes.
  CHECK_IS(forebay_capture_open("sim:rate=1bit", NULL, &capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_next(capture, &frames, 0), FOREBAY_EMPTY);
  CHECK_IS(forebay_capture_arm(capture), 1);
  CHECK_IS(is_readable(capture, 0), 0);
  CHECK_IS(forebay_capture_disarm(capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_stop(capture), FOREBAY_OK);
  CHECK_IS(is_readable(capture, 0), 1);
  CHECK_IS(forebay_capture_next(capture, &frames, 0), FOREBAY_INTERRUPTED);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
}

// A file that is damaged after its second packet: that is an error, and the counts stay.
static void of_a_damaged_file(void) {
  char path[64];
  snprintf(path, sizeof path, "/tmp/forebay-c-capture-%ld", (long)getpid());
  forebay_writer *writer;
  CHECK_IS(forebay_writer_create(path, NULL, &writer), FOREBAY_OK);
  uint8_t data[60] = {0};
  struct forebay_frame frame = {.data = data, .len = 60};
  for (int i = 0; i < 3; i++) CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_OK);
  struct forebay_writer_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_OK);
  CHECK(truncate(path, (off_t)totals.written_bytes - 10) == 0);
  forebay_capture *capture;
  CHECK_IS(forebay_capture_read(path, NULL, &capture), FOREBAY_OK);
  struct forebay_counts counts = {.size = sizeof counts}, again = counts;
  const struct forebay_frame *frames;
  CHECK_IS(forebay_capture_next(capture, &frames, FOREBAY_FOREVER), 2);
  CHECK_IS(forebay_capture_next(capture, &frames, FOREBAY_FOREVER), FOREBAY_DAMAGED);
  forebay_capture_finish(capture, &counts);
  CHECK(counts.received == 2 && counts.counted == 2 && counts.unread == 0);
  CHECK_IS(forebay_capture_counts(capture, &again), FOREBAY_OK);
  CHECK(memcmp(&counts, &again, sizeof counts) == 0);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  unlink(path);
}

int main(void) {
  in_poll();
  of_a_damaged_file();
  forebay_capture *capture;
  const struct forebay_frame *frames;
  struct forebay_counts counts = {.size = sizeof counts};

  // By batch, with a filter that the library applies.
  struct forebay_capture_options options = {.size = sizeof options, .filter = "udp and less 60"};
  CHECK_IS(forebay_capture_open("sim:count=1000,clock=virtual", &options, &capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_link_type(capture, 0), 1);
  CHECK_IS(forebay_capture_link_type(capture, 1), FOREBAY_NOT_FOUND);
  ptrdiff_t got, all = 0;
  uint64_t last = 0;
  while ((got = forebay_capture_next(capture, &frames, FOREBAY_FOREVER)) > 0) {
    for (ptrdiff_t i = 0; i < got; i++) {
      CHECK(frames[i].len == 60 && frames[i].time_ns >= last && frames[i].interface == 0);
      last = frames[i].time_ns;
    }
    all += got;
  }
  CHECK_IS(got, FOREBAY_CLOSED);
  CHECK(all == 1000 && frames == NULL);
  CHECK_IS(forebay_capture_counts(capture, &counts), FOREBAY_OK);
  CHECK(counts.received == 1000 && counts.counted == 1000 && counts.interface_dropped == FOREBAY_UNKNOWN);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_MISUSE);
  // In a signal handler it leaves everything else of the thread alone.
  char before[200];
  CHECK_IS(forebay_capture_read("/no/such/file", NULL, &capture), FOREBAY_NOT_FOUND);
  snprintf(before, sizeof before, "%s", forebay_last_error());
  errno = 77;
  CHECK_IS(forebay_capture_stop(NULL), FOREBAY_MISUSE);
  CHECK(errno == 77 && strcmp(forebay_last_error(), before) == 0);

  // By callback, which stops. The rest is unread, and every packet is counted once.
  options.filter = "greater 61";
  CHECK_IS(forebay_capture_open("sim:count=100,clock=virtual", &options, &capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_next(capture, &frames, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_capture_finish(capture, &counts), FOREBAY_OK);
  CHECK(counts.received == 100 && counts.filtered == 100 && sum(&counts) == 100);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_open("sim:rate=1G,count=100000,clock=virtual", NULL, &stopped), FOREBAY_OK);
  int calls = 0;
  CHECK_IS(forebay_capture_each(stopped, first_ten, &calls), 10);
  counts.size = 3; // then it goes on
  CHECK_IS(forebay_capture_finish(stopped, &counts), FOREBAY_INVALID);
  counts.size = sizeof counts;
  CHECK_IS(forebay_capture_next(stopped, &frames, 0) > 0, 1);
  CHECK_IS(forebay_capture_finish(stopped, &counts), FOREBAY_OK);
  CHECK(calls == 10 && counts.counted > 10 && counts.received == sum(&counts));
  CHECK_IS(forebay_capture_each(stopped, first_ten, &calls), FOREBAY_CLOSED);
  struct forebay_counts at_end = counts;
  CHECK_IS(forebay_capture_counts(stopped, &counts), FOREBAY_OK);
  CHECK(memcmp(&counts, &at_end, sizeof counts) == 0);
  CHECK_IS(forebay_capture_destroy(stopped), FOREBAY_OK);

  // Time limits, and a signal handler that stops a wait.
  CHECK_IS(forebay_capture_open("sim:rate=1bit", NULL, &stopped), FOREBAY_OK); // a packet in 11 minutes
  CHECK_IS(forebay_capture_next(stopped, &frames, 0), FOREBAY_EMPTY);
  CHECK_IS(forebay_capture_next(stopped, &frames, SECOND / 1000), FOREBAY_TIMED_OUT);
  struct sigaction action = {.sa_handler = on_signal};
  CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
  pthread_t self = pthread_self(), other;
  CHECK(pthread_create(&other, NULL, interrupts, &self) == 0);
  while ((got = forebay_capture_next(stopped, &frames, FOREBAY_FOREVER)) > 0) {
  }
  CHECK_IS(got, FOREBAY_INTERRUPTED);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK_IS(forebay_capture_destroy(stopped), FOREBAY_OK);

  // A file: a header of the classic format and a packet.
  char name[] = "/tmp/forebay-c-\xff-XXXXXX"; // not UTF-8
  int fd = mkstemp(name);
  const uint32_t header[] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1, 7, 8, 4, 60, 0x01020304};
  CHECK(fd >= 0 && write(fd, header, sizeof header) == sizeof header && close(fd) == 0);
  CHECK_IS(forebay_capture_read(name, NULL, &capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_next(capture, &frames, FOREBAY_FOREVER), 1);
  CHECK(frames->len == 4 && frames->wire_len == 60 && frames->data[0] == 4 && frames->time_ns == 7000008000);
  CHECK_IS(forebay_capture_next(capture, &frames, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  CHECK(truncate(name, 10) == 0);
  CHECK_IS(forebay_capture_read(name, NULL, &capture), FOREBAY_DAMAGED);
  CHECK(unlink(name) == 0);
  CHECK_IS(forebay_capture_read(name, NULL, &capture), FOREBAY_NOT_FOUND);

  // Filters, alone.
  forebay_filter *filter;
  CHECK_IS(forebay_filter_compile("ether[0] = 7", 1, &filter), FOREBAY_OK);
  const unsigned char packet[60] = {7};
  CHECK_IS(forebay_filter_matches(filter, packet, sizeof packet, 60), 1);
  CHECK_IS(forebay_filter_matches(filter, packet + 1, 59, 59), 0);
  CHECK_IS(forebay_filter_matches(filter, NULL, 0, 0), 0);
  CHECK_IS(forebay_filter_destroy(filter), FOREBAY_OK);
  CHECK_IS(forebay_filter_matches(filter, packet, sizeof packet, 60), FOREBAY_MISUSE);
  CHECK_IS(forebay_filter_compile("tcp prot 80", 1, &filter), FOREBAY_INVALID);
  CHECK(strstr(forebay_last_error(), "proto") != NULL);

  // Misuse.
  CHECK_IS(forebay_capture_open("share:no-such-share", NULL, &capture), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_capture_open("no-such-if0", NULL, &capture), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_capture_open(NULL, NULL, &capture), FOREBAY_INVALID);
  CHECK_IS(forebay_capture_open("sim", NULL, NULL), FOREBAY_INVALID);
  options.reserved = 1;
  CHECK_IS(forebay_capture_open("sim", &options, &capture), FOREBAY_UNSUPPORTED);
  options.size = 7;
  CHECK_IS(forebay_capture_open("sim", &options, &capture), FOREBAY_INVALID);
  CHECK_IS(forebay_capture_open("sim:count=1", NULL, &capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_each(capture, NULL, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_capture_next(capture, NULL, 0), FOREBAY_INVALID);
  counts.size = 3;
  CHECK_IS(forebay_capture_counts(capture, &counts), FOREBAY_INVALID);
  CHECK_IS(forebay_filter_matches((forebay_filter *)capture, packet, sizeof packet, 60), FOREBAY_MISUSE);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  return 0;
}
