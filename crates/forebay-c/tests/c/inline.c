// The inline operations: alone, mixed with the library's functions for the same end, between threads, and with an end that sleeps.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <forebay_inline.h>
#include <pthread.h>
#include <time.h>

#define NUMBERS UINT64_C(60000)

struct ring {
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  struct forebay_ring_producer_view push;
  struct forebay_ring_consumer_view pop;
};

static struct ring ring_of(size_t element_size, size_t capacity) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = element_size, .capacity = capacity};
  struct ring ring;
  CHECK_IS(forebay_ring_create(&options, &ring.producer, &ring.consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_open_view(ring.producer, element_size, &ring.push), FOREBAY_OK);
  CHECK_IS(forebay_ring_consumer_open_view(ring.consumer, element_size, &ring.pop), FOREBAY_OK);
  return ring;
}

// Elements of 24 bytes do not divide a page, so some of them cross the seam. Each operation is inline or a call, by turns that differ.
static void both_kinds_of_operation_are_one_end(void) {
  struct element {
    uint64_t number, twice, thrice;
  } in, out;
  struct ring ring = ring_of(sizeof in, 5);
  CHECK_IS(forebay_ring_producer_open_view(ring.producer, 8, &ring.push), FOREBAY_INVALID);
  uint64_t pushed = 0, popped = 0, turn = 1;
  while (popped < NUMBERS / 10) {
    turn = turn * UINT64_C(6364136223846793005) + 1442695040888963407;
    in = (struct element){pushed, 2 * pushed, 3 * pushed};
    int code = turn >> 63 ? forebay_ring_push_inline(&ring.push, &in, sizeof in) : forebay_ring_push(ring.producer, &in);
    CHECK_IS(code, pushed - popped < 5 ? FOREBAY_OK : FOREBAY_FULL);
    pushed += code == FOREBAY_OK;
    if (turn >> 61 & 1) {
      code = turn >> 62 & 1 ? forebay_ring_pop_inline(&ring.pop, &out, sizeof out) : forebay_ring_pop(ring.consumer, &out);
      CHECK_IS(code, FOREBAY_OK);
      CHECK(out.number == popped && out.twice == 2 * popped && out.thrice == 3 * popped);
      popped++;
    } else if (pushed - popped == 5) {
      struct element all[9];
      ptrdiff_t n = turn >> 62 & 1 ? forebay_ring_pop_burst_inline(&ring.pop, all, 9, sizeof *all)
                                   : forebay_ring_pop_burst(ring.consumer, all, 9);
      CHECK_IS(n, 5);
      for (int i = 0; i < 5; i++) CHECK(all[i].number == popped + (uint64_t)i && all[i].thrice == 3 * all[i].number);
      popped += 5;
    }
  }
  CHECK_IS(forebay_ring_pushed(ring.producer), pushed);
  CHECK_IS(forebay_ring_len(ring.consumer), pushed - popped);
  while (forebay_ring_pop_inline(&ring.pop, &out, sizeof out) == FOREBAY_OK) popped++;
  CHECK(pushed == popped);
  // Destroyed after inline operations only: the consumer sees all of them, then the end.
  for (uint64_t i = 0; i < 4; i++) CHECK_IS(forebay_ring_push_inline(&ring.push, &in, sizeof in), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(ring.producer), FOREBAY_OK);
  for (uint64_t i = 0; i < 4; i++) CHECK_IS(forebay_ring_pop_inline(&ring.pop, &out, sizeof out), FOREBAY_OK);
  CHECK_IS(forebay_ring_pop_inline(&ring.pop, &out, sizeof out), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_pop_burst_inline(&ring.pop, &out, 1, sizeof out), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_consumer_destroy(ring.consumer), FOREBAY_OK);
}

static void an_end_that_is_gone_closes_the_ring(void) {
  struct ring ring = ring_of(1, 4096);
  char byte = 'a';
  for (int i = 0; i < 100; i++) {
    CHECK_IS(forebay_ring_push_inline(&ring.push, &byte, 1), FOREBAY_OK);
    CHECK_IS(forebay_ring_pop_inline(&ring.pop, &byte, 1), FOREBAY_OK);
  }
  // The consumer has only popped inline. What it gave back stays given back.
  CHECK_IS(forebay_ring_consumer_destroy(ring.consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_vacant(ring.producer), 4096);
  for (int i = 0; i < 4096; i++) CHECK_IS(forebay_ring_push_inline(&ring.push, &byte, 1), FOREBAY_OK);
  CHECK_IS(forebay_ring_push_inline(&ring.push, &byte, 1), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_push_burst_inline(&ring.push, &byte, 1, 1), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_producer_destroy(ring.producer), FOREBAY_OK);
}

// Pops inline, and sleeps in the library when there is nothing.
static void *pop_all(void *argument) {
  struct ring *ring = argument;
  uint64_t expected = 0, many[16];
  while (expected < NUMBERS) {
    ptrdiff_t popped = expected % 3 ? forebay_ring_pop_burst_inline(&ring->pop, many, 16, sizeof *many)
                                    : forebay_ring_pop_inline(&ring->pop, many, sizeof *many);
    if (popped == FOREBAY_EMPTY) {
      CHECK(forebay_ring_wait_filled(ring->consumer, 1, 10 * SECOND) >= 1);
      continue;
    }
    popped = expected % 3 ? popped : 1;
    CHECK(popped > 0);
    for (ptrdiff_t i = 0; i < popped; i++) CHECK(many[i] == expected++);
  }
  return NULL;
}

static void a_sleeping_end_is_woken(size_t capacity, uint64_t pause_every) {
  struct ring ring = ring_of(sizeof(uint64_t), capacity);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, pop_all, &ring) == 0);
  for (uint64_t i = 0; i < NUMBERS;) {
    int code = forebay_ring_push_inline(&ring.push, &i, sizeof i);
    if (code == FOREBAY_FULL) {
      CHECK(forebay_ring_wait_vacant(ring.producer, 1, 10 * SECOND) >= 1);
      continue;
    }
    CHECK_IS(code, FOREBAY_OK);
    if (++i % pause_every == 0) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); // the consumer falls asleep
  }
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_IS(forebay_ring_producer_destroy(ring.producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_consumer_destroy(ring.consumer), FOREBAY_OK);
}

static void streams(void) {
  struct forebay_stream_options options = {.size = sizeof options, .capacity_bytes = 10};
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  CHECK_IS(forebay_stream_create(&options, &writer, &reader), FOREBAY_OK);
  struct forebay_stream_writer_view push;
  struct forebay_stream_reader_view pop;
  CHECK_IS(forebay_stream_writer_open_view(writer, &push), FOREBAY_OK);
  CHECK_IS(forebay_stream_reader_open_view(reader, &pop), FOREBAY_OK);
  char got[16];
  const void *bytes;
  CHECK_IS(forebay_stream_pop_inline(&pop, got, 3), FOREBAY_EMPTY);
  for (int round = 0; round < 2000; round++) {
    CHECK_IS(forebay_stream_push_inline(&push, "hello, world", 12), 10);
    CHECK_IS(forebay_stream_push_inline(&push, "x", 1), FOREBAY_FULL);
    CHECK_IS(forebay_stream_peek_inline(&pop, &bytes), 10);
    CHECK(memcmp(bytes, "hello, wor", 10) == 0);
    CHECK_IS(forebay_stream_pop_inline(&pop, got, 3), 3);
    CHECK(memcmp(got, "hel", 3) == 0);
    CHECK_IS(forebay_stream_push(writer, "ab", 2), 2);
    CHECK_IS(forebay_stream_consume(reader, 4), 4);
    CHECK_IS(forebay_stream_peek_inline(&pop, &bytes), 5);
    CHECK(memcmp(bytes, "worab", 5) == 0);
    CHECK_IS(forebay_stream_consume_inline(&pop, 100), 5);
  }
  CHECK_IS(forebay_stream_push_inline(&push, "end", 3), 3);
  CHECK_IS(forebay_stream_close(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_push_inline(&push, "more", 4), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_pop_inline(&pop, got, 16), 3);
  CHECK_IS(forebay_stream_pop_inline(&pop, got, 16), FOREBAY_CLOSED);
  CHECK_IS(forebay_stream_popped(reader), 12 * 2000 + 3);
  CHECK_IS(forebay_stream_writer_destroy(writer), FOREBAY_OK);
  CHECK_IS(forebay_stream_reader_destroy(reader), FOREBAY_OK);
}

int main(void) {
  both_kinds_of_operation_are_one_end();
  an_end_that_is_gone_closes_the_ring();
  a_sleeping_end_is_woken(1024, 1000);
  a_sleeping_end_is_woken(2, NUMBERS);
  streams();
  return 0;
}
