// A ring of 64-bit numbers between two threads.
//   gcc -std=c11 -pthread ring.c $(pkg-config --cflags --libs forebay) -o ring && ./ring
#include <forebay.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *produce(void *producer) {
  for (uint64_t i = 1; i <= 1000; i++)
    if (forebay_ring_push_wait(producer, &i, FOREBAY_FOREVER) < 0) break;
  forebay_ring_producer_destroy(producer); // the consumer gets what is in the ring, and then FOREBAY_CLOSED
  return NULL;
}

int main(void) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = sizeof(uint64_t), .capacity = 64};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  if (forebay_ring_create(&options, &producer, &consumer) < 0) {
    fprintf(stderr, "%s\n", forebay_last_error());
    return EXIT_FAILURE;
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, produce, producer) != 0) return EXIT_FAILURE;
  uint64_t number, sum = 0;
  while (forebay_ring_pop_wait(consumer, &number, FOREBAY_FOREVER) == FOREBAY_OK) sum += number;
  pthread_join(thread, NULL);
  forebay_ring_consumer_destroy(consumer);
  printf("sum: %" PRIu64 "\n", sum);
  return sum == 500500 ? EXIT_SUCCESS : EXIT_FAILURE;
}
