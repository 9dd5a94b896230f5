// Records: appended, made durable, read back, continued, and cut where the file is damaged.
#include "check.h"
#include <unistd.h>

static char path[64];

static void append(int from, int to) {
  forebay_appender *appender;
  CHECK_IS(forebay_appender_open(path, NULL, &appender), FOREBAY_OK);
  for (int i = from; i < to; i++) {
    char record[32];
    int len = snprintf(record, sizeof record, "record %d", i);
    CHECK_IS(forebay_appender_append(appender, record, (size_t)len), FOREBAY_OK);
  }
  CHECK_IS(forebay_appender_flush(appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_wait_durable(appender, 60 * SECOND), FOREBAY_OK);
  struct forebay_appender_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_appender_count(appender, &totals), FOREBAY_OK);
  CHECK(totals.accepted == (uint64_t)(to - from) && totals.durable == totals.accepted && totals.dropped == 0);
  static char large[1 << 20];
  CHECK(forebay_appender_append(appender, large, sizeof large) < 0);
  CHECK_IS(forebay_appender_close(appender, &totals), FOREBAY_OK);
  CHECK(totals.written == (uint64_t)(to - from));
  CHECK_IS(forebay_appender_append(appender, "x", 1), FOREBAY_MISUSE);
}

// Returns how the file ended.
static int read_all(int *records) {
  forebay_record_reader *reader;
  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_OK);
  struct forebay_bytes record;
  int code;
  *records = 0;
  while ((code = forebay_record_reader_next(reader, &record)) == FOREBAY_OK) {
    char wanted[32];
    int len = snprintf(wanted, sizeof wanted, "record %d", (*records)++);
    CHECK(record.len == (size_t)len && memcmp(record.data, wanted, record.len) == 0);
  }
  CHECK_IS(forebay_record_reader_next(reader, &record), code); // again
  CHECK_IS(forebay_record_reader_destroy(reader), FOREBAY_OK);
  return code;
}

struct entry {
  uint64_t time;
  uint32_t key[4];
};

// Records of one size: one by one, many at once and in place; and files that know their size.
static void sized(void) {
  forebay_appender *appender;
  forebay_record_reader *reader;
  CHECK_IS(forebay_appender_open_sized(path, sizeof(struct entry), NULL, &appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_record_size(appender), sizeof(struct entry));
  struct entry entries[1000] = {{0}};
  for (uint32_t i = 0; i < 1000; i++) entries[i] = (struct entry){.time = i, .key = {i, 1, 2, 3}};
  CHECK_IS(forebay_appender_append_burst(appender, entries, 998), 998);
  CHECK_IS(forebay_appender_append(appender, &entries[998], sizeof(struct entry)), FOREBAY_OK);
  CHECK_IS(forebay_appender_append(appender, &entries[998], 8), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_append_burst(appender, entries, SIZE_MAX / 8), FOREBAY_TOO_LONG);
  void *room;
  CHECK_IS(forebay_appender_commit(appender), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_reserve(appender, 8, &room), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_reserve(appender, sizeof(struct entry), &room), FOREBAY_OK);
  memset(room, 0xff, sizeof(struct entry)); // another call abandons it
  CHECK_IS(forebay_appender_flush(appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_commit(appender), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_reserve(appender, sizeof(struct entry), &room), FOREBAY_OK);
  memcpy(room, &entries[999], sizeof(struct entry));
  CHECK_IS(forebay_appender_commit(appender), FOREBAY_OK);
  struct forebay_appender_totals totals = {.size = sizeof totals};
  CHECK_IS(forebay_appender_close(appender, &totals), FOREBAY_OK);
  CHECK(totals.written == 1000);

  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_OK);
  CHECK_IS(forebay_record_reader_record_size(reader), sizeof(struct entry));
  struct forebay_bytes record;
  for (int i = 0; i < 1000; i++) {
    CHECK_IS(forebay_record_reader_next(reader, &record), FOREBAY_OK);
    CHECK(record.len == sizeof(struct entry) && memcmp(record.data, &entries[i], record.len) == 0);
  }
  CHECK_IS(forebay_record_reader_next(reader, &record), FOREBAY_CLOSED);
  CHECK_IS(forebay_record_reader_record_size(reader), sizeof(struct entry));
  CHECK_IS(forebay_record_reader_destroy(reader), FOREBAY_OK);

  // The size of the file, and others.
  CHECK_IS(forebay_appender_open_sized(path, 0, NULL, &appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_record_size(appender), sizeof(struct entry));
  CHECK_IS(forebay_appender_close(appender, NULL), FOREBAY_OK);
  CHECK_IS(forebay_appender_open_sized(path, 12, NULL, &appender), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_open(path, NULL, &appender), FOREBAY_INVALID);
  unlink(path);

  // Any length, in place: the room has this length and no more.
  CHECK_IS(forebay_appender_open_sized(path, 0, NULL, &appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_record_size(appender), 0);
  CHECK_IS(forebay_appender_append_burst(appender, entries, 1), FOREBAY_INVALID);
  CHECK_IS(forebay_appender_reserve(appender, 5, &room), FOREBAY_OK);
  memcpy(room, "place", 5);
  CHECK_IS(forebay_appender_commit(appender), FOREBAY_OK);
  CHECK_IS(forebay_appender_close(appender, NULL), FOREBAY_OK);
  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_OK);
  CHECK_IS(forebay_record_reader_next(reader, &record), FOREBAY_OK);
  CHECK(record.len == 5 && memcmp(record.data, "place", 5) == 0);
  CHECK_IS(forebay_record_reader_record_size(reader), 0);
  CHECK_IS(forebay_record_reader_destroy(reader), FOREBAY_OK);
  unlink(path);
}

// Records of other sizes, among them one of a byte and one that is longer than the default of the options.
static void of_size(uint32_t size, int count) {
  forebay_appender *appender;
  forebay_record_reader *reader;
  // It limits records of any length only.
  struct forebay_appender_options options = {.size = sizeof options, .record_bytes = SIZE_MAX};
  CHECK(forebay_appender_open(path, &options, &appender) < 0);
  CHECK_IS(forebay_appender_open_sized(path, size, &options, &appender), FOREBAY_OK);
  uint8_t *record = malloc(size);
  for (int i = 0; i < count; i++) {
    memset(record, i + 1, size);
    CHECK_IS(forebay_appender_append(appender, record, size), FOREBAY_OK);
  }
  // With a wrong size nothing happens.
  struct forebay_appender_totals totals = {.size = 3};
  CHECK_IS(forebay_appender_close(appender, &totals), FOREBAY_INVALID);
  totals.size = sizeof totals;
  CHECK_IS(forebay_appender_close(appender, &totals), FOREBAY_OK);
  CHECK(totals.written == (uint64_t)count);
  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_OK);
  struct forebay_bytes read;
  for (int i = 0; i < count; i++) {
    CHECK_IS(forebay_record_reader_next(reader, &read), FOREBAY_OK);
    memset(record, i + 1, size);
    CHECK(read.len == size && memcmp(read.data, record, size) == 0);
    CHECK_IS(forebay_record_reader_record_size(reader), size);
  }
  CHECK_IS(forebay_record_reader_next(reader, &read), FOREBAY_CLOSED);
  CHECK_IS(forebay_record_reader_destroy(reader), FOREBAY_OK);
  free(record);
  unlink(path);
}

// Records without a byte have a length, too.
static void empty(void) {
  forebay_appender *appender;
  forebay_record_reader *reader;
  CHECK_IS(forebay_appender_open(path, NULL, &appender), FOREBAY_OK);
  for (int i = 0; i < 3; i++) CHECK_IS(forebay_appender_append(appender, "x", i == 1), FOREBAY_OK);
  CHECK_IS(forebay_appender_close(appender, NULL), FOREBAY_OK);
  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_OK);
  struct forebay_bytes read;
  for (int i = 0; i < 3; i++) {
    CHECK_IS(forebay_record_reader_next(reader, &read), FOREBAY_OK);
    CHECK(read.len == (i == 1));
  }
  CHECK_IS(forebay_record_reader_next(reader, &read), FOREBAY_CLOSED);
  CHECK_IS(forebay_record_reader_destroy(reader), FOREBAY_OK);
  unlink(path);
}

int main(void) {
  snprintf(path, sizeof path, "/tmp/forebay-c-records-%ld", (long)getpid());
  sized();
  of_size(1, 1000);
  of_size(7, 1000);
  of_size(100000, 20);
  empty();
  forebay_record_reader *reader;
  CHECK_IS(forebay_record_reader_open(path, &reader), FOREBAY_NOT_FOUND);
  CHECK(strstr(forebay_last_error(), path) != NULL);
  int records;
  append(0, 1000);
  CHECK_IS(read_all(&records), FOREBAY_CLOSED);
  CHECK_IS(records, 1000);
  append(1000, 1500);
  CHECK_IS(read_all(&records), FOREBAY_CLOSED);
  CHECK_IS(records, 1500);
  // The last block is incomplete: the records before it stay.
  FILE *file = fopen(path, "rb");
  CHECK(file && fseek(file, 0, SEEK_END) == 0);
  long len = ftell(file);
  fclose(file);
  CHECK(truncate(path, len - 1) == 0);
  CHECK_IS(read_all(&records), FOREBAY_DAMAGED);
  CHECK(records >= 1000 && records < 1500);
  unlink(path);
  return 0;
}
