// A stream: bytes in and out, in place, its ends, and waiting in poll.
#include "check.h"
#include <poll.h>
#include <pthread.h>

static void ends(void) {
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  struct forebay_stream_options options = {.size = sizeof options, .capacity_bytes = 4};
  CHECK_IS(forebay_stream_create(&options, &writer, &reader), FOREBAY_OK);
  const void *bytes;
  CHECK_IS(forebay_stream_peek(reader, &bytes), FOREBAY_EMPTY);
  CHECK_IS(forebay_stream_push(writer, "abcdef", 6), 4);
  CHECK_IS(forebay_stream_push(writer, "ef", 2), FOREBAY_FULL);
  CHECK_IS(forebay_stream_wait_vacant(writer, 1000), FOREBAY_TIMED_OUT);
  CHECK_IS(forebay_stream_peek(reader, &bytes), 4);
  CHECK(memcmp(bytes, "abcd", 4) == 0);
  CHECK_IS(forebay_stream_consume(reader, 3), 3);
  void *room;
  CHECK_IS(forebay_stream_reserve(writer, 10, &room), 3);
  memcpy(room, "xy", 2);
  CHECK_IS(forebay_stream_commit(writer, 2), FOREBAY_OK);
  CHECK_IS(forebay_stream_commit(writer, 2), FOREBAY_INVALID);
  CHECK_IS(forebay_stream_reserve(writer, 0, &room), 0);
  CHECK_IS(forebay_stream_commit(writer, 1), FOREBAY_INVALID); // there is room, but it was not reserved
  CHECK_IS(forebay_stream_close(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_push(writer, "z", 1), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_ending(reader), FOREBAY_STREAM_CLOSED);
  char rest[8];
  CHECK_IS(forebay_stream_pop(reader, rest, sizeof rest), 3);
  CHECK(memcmp(rest, "dxy", 3) == 0);
  CHECK_IS(forebay_stream_pop(reader, rest, sizeof rest), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_wait_filled(reader, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_pushed(writer), 6);
  CHECK_IS(forebay_stream_popped(reader), 6);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);

  CHECK_IS(forebay_stream_create(NULL, &writer, &reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_ending(reader), FOREBAY_STREAM_WRITER_GONE);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);

  CHECK_IS(forebay_stream_create(NULL, &writer, &reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_reader_fail(reader, 1, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_stream_reader_fail(reader, 0, NULL), FOREBAY_OK);
  CHECK_IS(forebay_stream_push(writer, "z", 1), FOREBAY_CLOSED);
  int code = 1;
  CHECK_IS(forebay_stream_writer_reason(writer, &code), FOREBAY_OK);
  CHECK_IS(code, 0);
  CHECK_IS(forebay_stream_wait_vacant(writer, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_ending(reader), FOREBAY_STREAM_FAILED);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
}

static void reason(void) {
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  CHECK_IS(forebay_stream_create(NULL, &writer, &reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_push(writer, "half", 4), 4);
  CHECK_IS(forebay_stream_fail(writer, FOREBAY_DAMAGED, "the page ends here"), FOREBAY_OK);
  char rest[8];
  CHECK_IS(forebay_stream_pop(reader, rest, sizeof rest), 4);
  CHECK_IS(forebay_stream_pop(reader, rest, sizeof rest), FOREBAY_CLOSED);
  CHECK(strstr(forebay_last_error(), "the page ends here") != NULL);
  int code = 0;
  CHECK_IS(forebay_stream_reader_reason(reader, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_stream_reader_reason(reader, &code), FOREBAY_OK);
  CHECK_IS(code, FOREBAY_DAMAGED);
  CHECK(strstr(forebay_last_error(), "the page ends here") != NULL);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
}

// The end that waits gets the reason, too; with a limit of 0 it does not wait.
static void reason_for_the_writer(void) {
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  CHECK_IS(forebay_stream_create(NULL, &writer, &reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_wait_filled(reader, 0), FOREBAY_EMPTY);
  CHECK_IS(forebay_stream_wait_filled(reader, 1000), FOREBAY_TIMED_OUT);
  void *room;
  intptr_t some = forebay_stream_reserve(writer, SIZE_MAX, &room);
  CHECK_IS(forebay_stream_commit(writer, (size_t)some), FOREBAY_OK);
  CHECK_IS(forebay_stream_wait_vacant(writer, 0), FOREBAY_FULL);
  CHECK_IS(forebay_stream_wait_vacant(writer, 1000), FOREBAY_TIMED_OUT);
  CHECK_IS(forebay_stream_reader_fail(reader, FOREBAY_MISUSE, "no more of this"), FOREBAY_OK);
  CHECK_IS(forebay_stream_wait_vacant(writer, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK(strstr(forebay_last_error(), "no more of this") != NULL);
  int code = 0;
  CHECK_IS(forebay_stream_writer_reason(writer, &code), FOREBAY_OK);
  CHECK_IS(code, FOREBAY_MISUSE);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
}

enum { MANY = 200000 };

static void *writes(void *writer) {
  unsigned char bytes[100];
  for (size_t sent = 0; sent < MANY;) {
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)((sent + i) % 251);
    size_t len = sizeof bytes < MANY - sent ? sizeof bytes : MANY - sent;
    intptr_t pushed = forebay_stream_push(writer, bytes, len);
    if (pushed == FOREBAY_FULL) {
      CHECK(forebay_stream_wait_vacant(writer, FOREBAY_FOREVER) > 0);
    } else {
      CHECK(pushed > 0);
      sent += (size_t)pushed;
    }
  }
  CHECK_IS(forebay_stream_close(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
  return NULL;
}

static void waits_in_poll(void) {
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  struct forebay_stream_options options = {.size = sizeof options, .capacity_bytes = 1000};
  CHECK_IS(forebay_stream_create(&options, &writer, &reader), FOREBAY_OK);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, writes, writer) == 0);
  size_t got = 0;
  for (;;) {
    if (forebay_stream_reader_arm(reader) == 1) {
      struct pollfd wait = {.fd = forebay_stream_reader_descriptor(reader), .events = POLLIN};
      CHECK(poll(&wait, 1, 10000) == 1);
    }
    const void *bytes;
    intptr_t some = forebay_stream_peek(reader, &bytes);
    if (some == FOREBAY_CLOSED) break;
    for (intptr_t i = 0; i < some; i++) CHECK(((const unsigned char *)bytes)[i] == (unsigned char)((got + (size_t)i) % 251));
    if (some > 0) {
      CHECK_IS(forebay_stream_consume(reader, (size_t)some), some);
      got += (size_t)some;
    }
  }
  CHECK(got == MANY);
  pthread_join(thread, NULL);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);
}

int main(void) {
  ends();
  reason();
  reason_for_the_writer();
  waits_in_poll();
  return 0;
}
