// Runs one hot operation a given number of times, to count its instructions: as crates/forebay-bench/src/bin/hot.rs does in Rust.
#include <forebay_inline.h>
#include <stdio.h>
#include <stdlib.h>

#define BURST 32
#define KEEP(value) __asm__ volatile("" : : "r"(value) : "memory")

static void ring(uint64_t times, size_t burst) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = sizeof(uint64_t), .capacity = 1024};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  struct forebay_ring_producer_view push;
  struct forebay_ring_consumer_view pop;
  if (forebay_ring_create(&options, &producer, &consumer) != 0 ||
      forebay_ring_producer_open_view(producer, sizeof(uint64_t), &push) != 0 ||
      forebay_ring_consumer_open_view(consumer, sizeof(uint64_t), &pop) != 0) {
    fprintf(stderr, "%s\n", forebay_last_error());
    exit(1);
  }
  uint64_t source[BURST] = {0}, target[BURST];
  if (burst > 1) {
    for (uint64_t i = 0; i < times / burst; i++) {
      KEEP(forebay_ring_push_burst_inline(&push, source, burst, sizeof *source));
      KEEP(forebay_ring_pop_burst_inline(&pop, target, burst, sizeof *target));
    }
  } else {
    for (uint64_t number = 0; number < times; number++) {
      KEEP(forebay_ring_push_inline(&push, &number, sizeof number));
      KEEP(forebay_ring_pop_inline(&pop, target, sizeof *target));
    }
  }
  forebay_ring_producer_destroy(producer);
  forebay_ring_consumer_destroy(consumer);
}

// Pushes 128 bytes, looks at them and releases them.
static void stream(uint64_t times) {
  forebay_stream_writer *writer;
  forebay_stream_reader *reader;
  struct forebay_stream_writer_view push;
  struct forebay_stream_reader_view pop;
  if (forebay_stream_create(NULL, &writer, &reader) != 0 || forebay_stream_writer_open_view(writer, &push) != 0 ||
      forebay_stream_reader_open_view(reader, &pop) != 0) {
    fprintf(stderr, "%s\n", forebay_last_error());
    exit(1);
  }
  const char bytes[128] = {0};
  const void *seen = NULL;
  for (uint64_t i = 0; i < times; i++) {
    KEEP(forebay_stream_push_inline(&push, bytes, sizeof bytes));
    KEEP(forebay_stream_peek_inline(&pop, &seen));
    KEEP(forebay_stream_consume_inline(&pop, sizeof bytes));
  }
  forebay_stream_writer_destroy(writer);
  forebay_stream_reader_destroy(reader);
}

int main(int count, char **arguments) {
  uint64_t times = count == 3 ? strtoull(arguments[2], NULL, 10) : 0;
  if (count == 3 && strcmp(arguments[1], "ring") == 0) {
    ring(times, 1);
  } else if (count == 3 && strcmp(arguments[1], "ring-burst") == 0) {
    ring(times, BURST);
  } else if (count == 3 && strcmp(arguments[1], "stream") == 0) {
    stream(times);
  } else {
    fprintf(stderr, "usage: hot ring|ring-burst|stream TIMES\n");
    return 2;
  }
  return 0;
}
