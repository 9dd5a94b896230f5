// Capture files: written by path and by descriptor, read back, and copied from a capture with its interfaces and counts.
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

static char path[64];

static const struct forebay_frame *read_all(forebay_capture **capture, ptrdiff_t wanted) {
  const struct forebay_frame *frames;
  CHECK_IS(forebay_capture_read(path, NULL, capture), FOREBAY_OK);
  CHECK_IS(forebay_capture_next(*capture, &frames, FOREBAY_FOREVER), wanted);
  return frames;
}

// Two interfaces, directions, losses and a snap length.
static void pcapng(void) {
  struct forebay_writer_options options = {.size = sizeof options, .application = "check", .snaplen = 50};
  forebay_writer *writer;
  CHECK_IS(forebay_writer_create(path, &options, &writer), FOREBAY_OK);
  CHECK_IS(forebay_writer_interface(writer, 1, "eth0"), 0);
  CHECK_IS(forebay_writer_interface(writer, 101, NULL), 1);
  CHECK_IS(forebay_writer_interface(writer, 1, "eth0"), 0); // again
  uint8_t data[60] = {7};
  struct forebay_frame frames[2] = {
      {.data = data, .len = 60, .time_ns = 1000000007, .wire_len = 1500, .direction = 1},
      {.data = data, .len = 20, .time_ns = 1000000008, .interface = 1, .dropped_before = 3, .direction = 2},
  };
  CHECK_IS(forebay_writer_write(writer, frames, 2), FOREBAY_OK);
  struct forebay_writer_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_writer_count(writer, &totals), FOREBAY_OK);
  CHECK(totals.packets == 2 && totals.written == 0);
  CHECK_IS(forebay_writer_flush(writer), FOREBAY_OK);
  CHECK_IS(forebay_writer_count(writer, &totals), FOREBAY_OK);
  CHECK(totals.written == 2 && totals.written_bytes > 70);
  // What is refused; the packet before it is written.
  struct forebay_frame wrong[2] = {frames[0], frames[0]};
  wrong[1].interface = 2;
  CHECK_IS(forebay_writer_write(writer, wrong, 2), FOREBAY_INVALID);
  CHECK(strstr(forebay_last_error(), path) != NULL);
  wrong[0].direction = 3;
  CHECK_IS(forebay_writer_write(writer, wrong, 1), FOREBAY_INVALID);
  static uint8_t long_data[1000001];
  wrong[0] = (struct forebay_frame){.data = long_data, .len = sizeof long_data};
  CHECK_IS(forebay_writer_write(writer, wrong, 1), FOREBAY_TOO_LONG);
  wrong[0].data = NULL;
  CHECK_IS(forebay_writer_write(writer, wrong, 1), FOREBAY_INVALID);
  CHECK_IS(forebay_writer_write(writer, NULL, 1), FOREBAY_INVALID);
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_OK);
  CHECK(totals.packets == 3 && totals.written == 3);
  CHECK_IS(forebay_writer_write(writer, frames, 1), FOREBAY_MISUSE);

  forebay_capture *capture;
  const struct forebay_frame *read = read_all(&capture, 3);
  CHECK(read[0].len == 50 && read[0].wire_len == 1500 && read[0].time_ns == 1000000007 && read[0].data[0] == 7);
  CHECK(read[0].direction == 1 && read[0].interface == 0 && read[0].dropped_before == 0);
  CHECK(read[1].len == 20 && read[1].wire_len == 20 && read[1].dropped_before == 3);
  CHECK(read[1].direction == 2 && read[1].interface == 1);
  CHECK_IS(forebay_capture_link_type(capture, 1), 101);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
}

// The classic format, in a descriptor of the program, after what it has written there itself: nothing.
static void pcap_by_descriptor(void) {
  int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  struct forebay_writer_options options = {.size = sizeof options, .format = FOREBAY_PCAP};
  forebay_writer *writer;
  CHECK(file >= 0);
  CHECK_IS(forebay_writer_open_descriptor(file, &options, &writer), FOREBAY_OK);
  CHECK_IS(forebay_writer_interface(writer, 101, NULL), 0);
  CHECK_IS(forebay_writer_interface(writer, 101, "other"), 0);
  CHECK_IS(forebay_writer_interface(writer, 1, NULL), FOREBAY_INVALID);
  uint8_t data[20] = {0x45};
  struct forebay_frame frame = {.data = data, .len = 20, .time_ns = 5};
  CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_OK);
  CHECK_IS(forebay_writer_close(writer, NULL), FOREBAY_OK);
  CHECK(lseek(file, 0, SEEK_END) == 24 + 16 + 20); // the program's descriptor is open
  close(file);
  forebay_capture *capture;
  CHECK(read_all(&capture, 1)->time_ns == 5);
  CHECK_IS(forebay_capture_link_type(capture, 0), 101);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
}

// A disk that is full: the error, and what was written.
static void full(void) {
  int device = open("/dev/full", O_WRONLY);
  forebay_writer *writer;
  CHECK(device >= 0);
  CHECK_IS(forebay_writer_open_descriptor(device, NULL, &writer), FOREBAY_OK);
  close(device);
  struct forebay_frame frame = {.data = (const uint8_t *)"x", .len = 1};
  CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_OK);
  CHECK(forebay_writer_flush(writer) < 0);
  CHECK(forebay_last_errno() == 28); // ENOSPC
  CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_IO);
  struct forebay_writer_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_IO);
  CHECK(totals.packets == 1 && totals.written == 0);
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_MISUSE);
}

// A capture into a file: bursts as they are, its interface, and its counts.
static void copy(void) {
  forebay_capture *capture;
  forebay_writer *writer;
  CHECK_IS(forebay_capture_open("sim:count=1000,clock=virtual", NULL, &capture), FOREBAY_OK);
  CHECK_IS(forebay_writer_create(path, NULL, &writer), FOREBAY_OK);
  CHECK_IS(forebay_writer_interface_of(writer, capture, 0), 0);
  CHECK_IS(forebay_writer_interface_of(writer, capture, 1), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_writer_interface_of((forebay_writer *)capture, capture, 0), FOREBAY_MISUSE);
  const struct forebay_frame *frames;
  ptrdiff_t count;
  while ((count = forebay_capture_next(capture, &frames, FOREBAY_FOREVER)) > 0)
    CHECK_IS(forebay_writer_write(writer, frames, (size_t)count), FOREBAY_OK);
  struct forebay_counts counts = {.size = sizeof counts};
  CHECK_IS(forebay_capture_finish(capture, &counts), FOREBAY_OK);
  CHECK_IS(forebay_writer_counts(writer, 0, 1, &counts), FOREBAY_OK);
  CHECK_IS(forebay_writer_counts(writer, 1, 1, &counts), FOREBAY_INVALID);
  CHECK_IS(forebay_writer_counts(writer, 0, 1, NULL), FOREBAY_INVALID);
  struct forebay_writer_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_OK);
  CHECK(totals.written == 1000 && counts.counted == 1000);
  CHECK_IS(forebay_capture_destroy(capture), FOREBAY_OK);
  // The last block has these counts.
  FILE *file = fopen(path, "rb");
  uint32_t block[2];
  CHECK(file && fseek(file, -4, SEEK_END) == 0 && fread(block, 4, 1, file) == 1);
  CHECK(fseek(file, -(long)block[0], SEEK_END) == 0 && fread(block, 4, 2, file) == 2);
  CHECK(block[0] == 5); // an interface statistics block
  fclose(file);
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/forebay-c-writer-%ld", (long)getpid());
  pcapng();
  pcap_by_descriptor();
  full();
  copy();
  unlink(path);
  forebay_writer *writer;
  CHECK_IS(forebay_writer_create("/nowhere/a.pcap", NULL, &writer), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_writer_create("/tmp/a.pcap.gz", NULL, &writer), FOREBAY_UNSUPPORTED);
  CHECK_IS(forebay_writer_create(path, NULL, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_writer_open_descriptor(-1, NULL, &writer), FOREBAY_INVALID);
  CHECK_IS(forebay_writer_open_descriptor(1000, NULL, &writer), FOREBAY_IO);
  struct forebay_writer_options options = {.size = sizeof options, .format = 3};
  CHECK_IS(forebay_writer_create(path, &options, &writer), FOREBAY_INVALID);
  CHECK(access(path, F_OK) != 0);
  return 0;
}
