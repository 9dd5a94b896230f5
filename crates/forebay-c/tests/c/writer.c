// Capture files: written by path and by descriptor, read back, and copied from a capture with its interfaces and counts.
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
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
  CHECK_IS(forebay_writer_interface(writer, 1, NULL), FOREBAY_IO);
  // With a wrong size nothing happens, so the error of the file is not lost.
  struct forebay_writer_totals totals = {.size = 3};
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_INVALID);
  totals.size = sizeof totals;
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_IO);
  CHECK(totals.packets == 1 && totals.written == 0);
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_MISUSE);
}

// A file that may not grow further: an error of the file, not of the packet.
static void limited(void) {
  struct rlimit before, small;
  CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR && getrlimit(RLIMIT_FSIZE, &before) == 0);
  small = before;
  small.rlim_cur = 1000;
  forebay_writer *writer;
  CHECK_IS(forebay_writer_create(path, NULL, &writer), FOREBAY_OK);
  static const uint8_t data[2000];
  struct forebay_frame frame = {.data = data, .len = sizeof data};
  CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_OK);
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_IS(forebay_writer_flush(writer), FOREBAY_IO);
  CHECK(forebay_last_errno() == 27); // EFBIG
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK_IS(forebay_writer_close(writer, NULL), FOREBAY_IO);
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

// Writes a file with these interfaces and a packet of each, whose time is its number; with counts of each if they are wanted.
static void write_interfaces(const char *file, int count, const char *const names[], int with_counts) {
  forebay_writer *writer;
  CHECK_IS(forebay_writer_create(file, NULL, &writer), FOREBAY_OK);
  for (int i = 0; i < count; i++) CHECK_IS(forebay_writer_interface(writer, 1, names[i]), i);
  for (int i = 0; i < count; i++) {
    struct forebay_frame frame = {.data = (const uint8_t *)"x", .len = 1, .time_ns = (uint64_t)i, .interface = (uint32_t)i};
    CHECK_IS(forebay_writer_write(writer, &frame, 1), FOREBAY_OK);
    struct forebay_counts counts = {.size = sizeof counts, .received = 10 + (uint64_t)i, .counted = 1, .kernel = 9 + (uint64_t)i};
    if (with_counts) CHECK_IS(forebay_writer_counts(writer, (uint32_t)i, 5, &counts), FOREBAY_OK);
  }
  CHECK_IS(forebay_writer_close(writer, NULL), FOREBAY_OK);
}

// Captures of several interfaces into one file: the packets keep theirs, although their numbers in the file are others.
static void several_interfaces(void) {
  char first[80], second[80];
  snprintf(first, sizeof first, "%s-1", path);
  snprintf(second, sizeof second, "%s-2", path);
  write_interfaces(first, 2, (const char *const[]){"a", "b"}, 0);
  write_interfaces(second, 2, (const char *const[]){"b", "c"}, 1);
  forebay_writer *writer;
  forebay_capture *captures[2];
  CHECK_IS(forebay_writer_create(path, NULL, &writer), FOREBAY_OK);
  for (int i = 0; i < 2; i++) {
    const struct forebay_frame *frames;
    CHECK_IS(forebay_capture_read(i ? second : first, NULL, &captures[i]), FOREBAY_OK);
    CHECK_IS(forebay_capture_next(captures[i], &frames, FOREBAY_FOREVER), 2);
    CHECK_IS(forebay_writer_write_from(writer, captures[i], frames, 1), FOREBAY_OK);
    CHECK_IS(forebay_writer_write_from(writer, captures[i], frames + 1, 1), FOREBAY_OK); // they are still lent
    struct forebay_frame wrong[2] = {frames[0], frames[0]};
    wrong[1].interface = 2;
    CHECK_IS(forebay_writer_write_from(writer, captures[i], wrong, 2), FOREBAY_INVALID);
    wrong[1].direction = 3;
    CHECK_IS(forebay_writer_write_from(writer, captures[i], wrong + 1, 1), FOREBAY_INVALID);
    CHECK_IS(forebay_capture_next(captures[i], &frames, FOREBAY_FOREVER), FOREBAY_CLOSED);
    CHECK_IS(forebay_capture_finish(captures[i], NULL), FOREBAY_OK);
  }
  CHECK_IS(forebay_writer_write_from(writer, (forebay_capture *)writer, NULL, 0), FOREBAY_MISUSE);
  CHECK_IS(forebay_writer_write_from((forebay_writer *)captures[1], captures[0], NULL, 0), FOREBAY_MISUSE);
  // Sums of two interfaces are those of neither; what a file records of each is known.
  CHECK_IS(forebay_writer_counts_from(writer, captures[0], 7), FOREBAY_UNSUPPORTED);
  CHECK_IS(forebay_writer_counts_from(writer, captures[1], 7), FOREBAY_OK);
  forebay_capture *classic = NULL;
  forebay_writer *plain = NULL;
  CHECK_IS(forebay_writer_create("/tmp/forebay-c-classic.pcap", NULL, &plain), FOREBAY_OK);
  CHECK_IS(forebay_writer_close(plain, NULL), FOREBAY_OK);
  CHECK_IS(forebay_capture_read("/tmp/forebay-c-classic.pcap", NULL, &classic), FOREBAY_OK);
  CHECK_IS(forebay_writer_counts_from(writer, classic, 7), FOREBAY_UNSUPPORTED); // it records none
  CHECK_IS(forebay_capture_destroy(classic), FOREBAY_OK);
  unlink("/tmp/forebay-c-classic.pcap");
  CHECK_IS(forebay_writer_close(writer, NULL), FOREBAY_OK);
  for (int i = 0; i < 2; i++) CHECK_IS(forebay_capture_destroy(captures[i]), FOREBAY_OK);
  // The interfaces are a, b and c; the packet of each refused burst before the wrong one was written.
  const uint32_t interfaces[] = {0, 1, 0, 1, 2, 1}, times[] = {0, 1, 0, 0, 1, 0};
  const struct forebay_frame *read;
  ptrdiff_t count, all = 0;
  CHECK_IS(forebay_capture_read(path, NULL, &captures[0]), FOREBAY_OK);
  while ((count = forebay_capture_next(captures[0], &read, FOREBAY_FOREVER)) > 0)
    for (const struct forebay_frame *end = read + count; read < end; read++, all++)
      CHECK(all < 6 && read->interface == interfaces[all] && read->time_ns == times[all]);
  CHECK_IS(all, 6);
  CHECK_IS(forebay_capture_link_type(captures[0], 2), 1);
  CHECK_IS(forebay_capture_link_type(captures[0], 3), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_capture_destroy(captures[0]), FOREBAY_OK);
  // The last two blocks are the counts of b and c.
  FILE *file = fopen(path, "rb");
  uint32_t block[3], end = 0;
  for (uint32_t wanted = 2; wanted > 0; wanted--) {
    CHECK(file && fseek(file, -4 - (long)end, SEEK_END) == 0 && fread(block, 4, 1, file) == 1);
    end += block[0];
    CHECK(fseek(file, -(long)end, SEEK_END) == 0 && fread(block, 4, 3, file) == 3);
    CHECK(block[0] == 5 && block[2] == wanted); // an interface statistics block
  }
  fclose(file);
  unlink(first);
  unlink(second);
}

// The value of an option in the last block of the file, which is an interface statistics block of interface 0.
static uint64_t counted(uint16_t wanted) {
  uint8_t block[256];
  uint32_t length, head[3];
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, -4, SEEK_END) == 0 && fread(&length, 4, 1, file) == 1 && length <= sizeof block);
  CHECK(fseek(file, -(long)length, SEEK_END) == 0 && fread(block, length, 1, file) == 1);
  fclose(file);
  memcpy(head, block, sizeof head);
  CHECK(head[0] == 5 && head[1] == length && head[2] == 0);
  for (uint32_t at = 20; at + 8 < length;) {
    uint16_t option[2];
    uint64_t value;
    memcpy(option, block + at, sizeof option);
    memcpy(&value, block + at + 4, sizeof value);
    if (option[0] == wanted) return value;
    at += 4 + (option[1] + 3u) / 4 * 4;
  }
  return UINT64_MAX;
}

// Interfaces that are alike, in one source and in two, are one in the file: it gets the sum of their counts, and none replaces another's.
static void equal_interfaces(void) {
  char files[2][80];
  static uint8_t content[1024];
  forebay_writer *writer;
  forebay_capture *captures[2];
  for (int i = 0; i < 2; i++) snprintf(files[i], sizeof files[i], "%s-%d", path, i);
  write_interfaces(files[0], 1, (const char *const[]){"a"}, 1); // received 10, counted 1, lost 9
  // The same file twice is one with two interfaces that are alike.
  FILE *from = fopen(files[0], "rb"), *to = fopen(files[1], "wb");
  size_t length = from ? fread(content, 1, sizeof content, from) : 0;
  CHECK(to && length > 0 && length < sizeof content);
  CHECK(fwrite(content, 1, length, to) == length && fwrite(content, 1, length, to) == length);
  CHECK(fclose(from) == 0 && fclose(to) == 0);
  CHECK_IS(forebay_writer_create(path, NULL, &writer), FOREBAY_OK);
  const uint64_t sums[] = {1, 3}; // of the first capture, and of both
  for (int i = 0; i < 2; i++) {
    const struct forebay_frame *frames;
    ptrdiff_t count;
    CHECK_IS(forebay_capture_read(files[i], NULL, &captures[i]), FOREBAY_OK);
    while ((count = forebay_capture_next(captures[i], &frames, FOREBAY_FOREVER)) > 0)
      CHECK_IS(forebay_writer_write_from(writer, captures[i], frames, (size_t)count), FOREBAY_OK);
    for (int again = 0; again < 2; again++) { // the second time, they replace those of this capture
      CHECK_IS(forebay_writer_counts_from(writer, captures[i], 7), FOREBAY_OK);
      CHECK_IS(forebay_writer_flush(writer), FOREBAY_OK);
      CHECK(counted(6) == 10 * sums[i] && counted(7) == 9 * sums[i] && counted(8) == sums[i]);
    }
  }
  // What one of two does not know is unknown in the sum.
  CHECK(counted(4) == UINT64_MAX);
  struct forebay_writer_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_writer_close(writer, &totals), FOREBAY_OK);
  CHECK(totals.packets == 3);
  for (int i = 0; i < 2; i++) CHECK_IS(forebay_capture_destroy(captures[i]), FOREBAY_OK);
  for (int i = 0; i < 2; i++) unlink(files[i]);
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/forebay-c-writer-%ld", (long)getpid());
  pcapng();
  pcap_by_descriptor();
  full();
  limited();
  copy();
  several_interfaces();
  equal_interfaces();
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
