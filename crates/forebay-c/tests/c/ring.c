// A ring of bytes and of structures: single elements, bursts, in place, waiting, and an end that goes away first.
#include "check.h"
#include <poll.h>
#include <pthread.h>

struct event {
  uint64_t time;
  uint32_t kind;
  uint32_t value;
};

static void single_and_bursts(void) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = sizeof(struct event), .capacity = 3};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_OK);
  struct event event = {1, 2, 3}, got = {0, 0, 0};
  CHECK_IS(forebay_ring_pop(consumer, &got), FOREBAY_EMPTY);
  CHECK_IS(forebay_ring_pop_wait(consumer, &got, 0), FOREBAY_EMPTY);
  CHECK_IS(forebay_ring_push(producer, &event), FOREBAY_OK);
  CHECK_IS(forebay_ring_len(consumer), 1);
  CHECK_IS(forebay_ring_pop(consumer, &got), FOREBAY_OK);
  CHECK(got.time == 1 && got.kind == 2 && got.value == 3);
  // Exactly as many as its capacity, for many rounds past its end.
  for (uint64_t round = 0; round < 1000; round++) {
    struct event many[5] = {{round, 0, 0}, {round, 1, 0}, {round, 2, 0}, {round, 3, 0}, {round, 4, 0}}, back[5];
    CHECK_IS(forebay_ring_push_burst(producer, many, 5), 3);
    CHECK_IS(forebay_ring_push(producer, many), FOREBAY_FULL);
    CHECK_IS(forebay_ring_push_wait(producer, many, 1000), FOREBAY_TIMED_OUT);
    CHECK_IS(forebay_ring_push_wait(producer, many, 0), FOREBAY_FULL);
    CHECK_IS(forebay_ring_vacant(producer), 0);
    CHECK_IS(forebay_ring_pop_burst(consumer, back, 5), 3);
    CHECK(memcmp(many, back, 3 * sizeof *many) == 0);
  }
  CHECK_IS(forebay_ring_pushed(producer), 3001);
  CHECK_IS(forebay_ring_popped(consumer), 3001);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_pop(consumer, &got), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_pop_wait(consumer, &got, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
}

static void in_place(void) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = sizeof(struct event), .capacity = 8};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_OK);
  for (uint32_t round = 0; round < 1000; round++) {
    void *slots;
    CHECK_IS(forebay_ring_reserve(producer, 5, &slots), 5);
    CHECK((uintptr_t)slots % _Alignof(struct event) == 0);
    struct event *events = slots;
    for (uint32_t i = 0; i < 5; i++) events[i] = (struct event){round, i, 7};
    CHECK_IS(forebay_ring_commit(producer, 6), FOREBAY_INVALID); // vacant, but not reserved
    CHECK_IS(forebay_ring_commit(producer, 4), FOREBAY_OK);
    CHECK_IS(forebay_ring_commit(producer, 2), FOREBAY_INVALID);
    const void *elements;
    CHECK_IS(forebay_ring_peek(consumer, 100, &elements), 4);
    const struct event *seen = elements;
    for (uint32_t i = 0; i < 4; i++) CHECK(seen[i].time == round && seen[i].kind == i && seen[i].value == 7);
    CHECK_IS(forebay_ring_release(consumer, 1), 1);
    CHECK_IS(forebay_ring_release(consumer, 100), 3);
    CHECK_IS(forebay_ring_peek(consumer, 1, &elements), FOREBAY_EMPTY);
  }
  // The producer learns that nobody reads.
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
  void *slots;
  intptr_t some;
  while ((some = forebay_ring_reserve(producer, 8, &slots)) > 0) CHECK_IS(forebay_ring_commit(producer, (size_t)some), FOREBAY_OK);
  CHECK_IS(some, FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_wait_vacant(producer, 1, FOREBAY_FOREVER), FOREBAY_CLOSED);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
}

enum { MANY = 100000 };

static void *pushes(void *producer) {
  for (uint32_t i = 0; i < MANY; i++) CHECK_IS(forebay_ring_push_wait(producer, &i, FOREBAY_FOREVER), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  return NULL;
}

static void two_threads(void) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = sizeof(uint32_t), .capacity = 64};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_OK);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, pushes, producer) == 0);
  uint32_t next = 0;
  while (forebay_ring_wait_filled(consumer, 1, FOREBAY_FOREVER) > 0) {
    const void *elements;
    intptr_t some = forebay_ring_peek(consumer, SIZE_MAX, &elements);
    CHECK(some > 0);
    for (intptr_t i = 0; i < some; i++) CHECK(((const uint32_t *)elements)[i] == next++);
    CHECK_IS(forebay_ring_release(consumer, (size_t)some), some);
  }
  CHECK(next == MANY);
  pthread_join(thread, NULL);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
}

static void waits_in_poll(void) {
  struct forebay_ring_options options = {.size = sizeof options, .element_size = 12, .capacity = 2};
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_OK);
  char element[12] = "element";
  CHECK_IS(forebay_ring_producer_arm(producer), 0);
  CHECK_IS(forebay_ring_consumer_arm(consumer), 1);
  struct pollfd wait = {.fd = forebay_ring_consumer_descriptor(consumer), .events = POLLIN};
  CHECK(poll(&wait, 1, 0) == 0);
  CHECK_IS(forebay_ring_push(producer, element), FOREBAY_OK);
  CHECK(poll(&wait, 1, 30000) == 1);
  CHECK_IS(forebay_ring_consumer_arm(consumer), 0);
  CHECK_IS(forebay_ring_push(producer, element), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_arm(producer), 1);
  wait.fd = forebay_ring_producer_descriptor(producer);
  CHECK_IS(forebay_ring_release(consumer, 2), 2);
  CHECK(poll(&wait, 1, 30000) == 1);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_arm(producer), 0);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
}

int main(void) {
  waits_in_poll();
  single_and_bursts();
  in_place();
  two_threads();
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(NULL, &producer, &consumer), FOREBAY_OK); // a ring of 1024 bytes
  CHECK_IS(forebay_ring_push_burst(producer, "hello", 5), 5);
  char text[6] = "";
  CHECK_IS(forebay_ring_pop_burst(consumer, text, 6), 5);
  CHECK(strcmp(text, "hello") == 0);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  return 0;
}
