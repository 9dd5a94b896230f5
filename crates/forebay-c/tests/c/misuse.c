// What a program does wrong is an error code, never a crash.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void null_and_sizes(void) {
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(NULL, NULL, &consumer), FOREBAY_INVALID);
  CHECK_IS(forebay_ring_create(NULL, &producer, NULL), FOREBAY_INVALID);
  CHECK(strstr(forebay_last_error(), "consumer") != NULL);
  CHECK_IS(forebay_ring_push(NULL, "x"), FOREBAY_MISUSE);
  CHECK_IS(forebay_ring_producer_destroy(NULL), FOREBAY_MISUSE);
  struct forebay_ring_options options = {.size = 0, .capacity = 1};
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_INVALID);
  CHECK(strstr(forebay_last_error(), "sizeof") != NULL);
  options.size = sizeof options - 1;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_INVALID);
  options.size = SIZE_MAX;
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_INVALID);
  // A program that was compiled for a later version: what it does not use is accepted.
  struct {
    struct forebay_ring_options known;
    uint64_t later;
  } larger = {.known = {.size = sizeof larger, .capacity = 1}};
  CHECK_IS(forebay_ring_create(&larger.known, &producer, &consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
  larger.later = 1;
  CHECK_IS(forebay_ring_create(&larger.known, &producer, &consumer), FOREBAY_UNSUPPORTED);
  options = (struct forebay_ring_options){.size = sizeof options, .reserved = 1};
  CHECK_IS(forebay_ring_create(&options, &producer, &consumer), FOREBAY_UNSUPPORTED);
  // Too large, in each way.
  options = (struct forebay_ring_options){.size = sizeof options, .element_size = SIZE_MAX, .capacity = SIZE_MAX};
  CHECK(forebay_ring_create(&options, &producer, &consumer) < 0);
  options = (struct forebay_ring_options){.size = sizeof options, .capacity = SIZE_MAX / 8};
  CHECK(forebay_ring_create(&options, &producer, &consumer) < 0);
}

static void closed_and_wrong(void) {
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(NULL, &producer, &consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_push(producer, NULL), FOREBAY_INVALID);
  CHECK_IS(forebay_ring_push_burst(producer, NULL, 0), 0);
  CHECK_IS(forebay_ring_push_burst(producer, "x", SIZE_MAX), FOREBAY_INVALID);
  // Another kind.
  CHECK_IS(forebay_ring_pop((forebay_ring_consumer *)(void *)producer, &(char){0}), FOREBAY_MISUSE);
  CHECK_IS(forebay_ring_consumer_destroy((forebay_ring_consumer *)(void *)producer), FOREBAY_MISUSE);
  CHECK_IS(forebay_stream_close((forebay_stream_writer *)(void *)producer), FOREBAY_MISUSE);
  CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_OK); // is still there
  // Made up.
  int local = 0;
  CHECK_IS(forebay_ring_push((forebay_ring_producer *)(void *)&local, "x"), FOREBAY_MISUSE);
  for (uintptr_t bits = 1; bits; bits <<= 1) {
    forebay_ring_producer *wrong = (forebay_ring_producer *)((uintptr_t)producer ^ bits);
    CHECK_IS(forebay_ring_push(wrong, "x"), FOREBAY_MISUSE);
  }
  // Closed, twice, and after others have taken the place.
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_MISUSE);
  CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_MISUSE);
  forebay_ring_producer *others[100];
  forebay_ring_consumer *their[100];
  for (int i = 0; i < 100; i++) CHECK_IS(forebay_ring_create(NULL, &others[i], &their[i]), FOREBAY_OK);
  CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_MISUSE);
  for (int i = 0; i < 100; i++) {
    CHECK_IS(forebay_ring_producer_destroy(others[i]), FOREBAY_OK);
    CHECK_IS(forebay_ring_consumer_destroy(their[i]), FOREBAY_OK);
  }
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
}

static void *pops(void *consumer) {
  char byte;
  int code;
  do code = forebay_ring_pop_wait(consumer, &byte, FOREBAY_FOREVER);
  while (code == FOREBAY_BUSY); // the other thread was inside
  CHECK_IS(code, FOREBAY_OK);
  return NULL;
}

static void two_threads_at_one_end(void) {
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(NULL, &producer, &consumer), FOREBAY_OK);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, pops, consumer) == 0);
  // Until the other thread waits inside.
  while (forebay_ring_len(consumer) != FOREBAY_BUSY) continue;
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_BUSY);
  CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_OK);
  pthread_join(thread, NULL);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
}

static _Atomic(void *) current;

// Is inside the handle for a moment, again and again; it has another kind, so that nothing happens.
static void *disturbs(void *unused) {
  (void)unused;
  void *handle;
  while ((handle = current)) CHECK(forebay_loan_release(handle) < 0);
  return NULL;
}

// A handle that ends with its call does all of it or nothing, whatever another thread does with it.
static void all_or_nothing(void) {
  enum { MESSAGES = 20000 };
  forebay_sender *sender;
  forebay_receiver *receiver;
  CHECK_IS(forebay_queue_create(NULL, &sender, &receiver), FOREBAY_OK);
  struct forebay_room room;
  forebay_reservation *reservation;
  pthread_t thread;
  for (int i = 0; i < MESSAGES; i++) {
    CHECK_IS(forebay_sender_reserve(sender, 1, FOREBAY_FOREVER, &room, &reservation), FOREBAY_OK);
    current = reservation;
    if (i == 0) CHECK(pthread_create(&thread, NULL, disturbs, NULL) == 0);
    *(char *)room.data = 'x';
    int code;
    do code = forebay_reservation_commit(reservation);
    while (code == FOREBAY_BUSY);
    CHECK_IS(code, FOREBAY_OK);
    CHECK_IS(forebay_receiver_receive(receiver, &(char){0}, 1, 0, NULL), 1);
  }
  current = NULL;
  pthread_join(thread, NULL);
  CHECK_IS(forebay_sender_destroy(sender), FOREBAY_OK);
  CHECK_IS(forebay_receiver_destroy(receiver), FOREBAY_OK);
}

static void forked(void) {
  forebay_ring_producer *producer;
  forebay_ring_consumer *consumer;
  CHECK_IS(forebay_ring_create(NULL, &producer, &consumer), FOREBAY_OK);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_MISUSE);
    CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_MISUSE);
    // Its own ring works, and has no handle of the parent.
    forebay_ring_producer *own;
    forebay_ring_consumer *other;
    CHECK_IS(forebay_ring_create(NULL, &own, &other), FOREBAY_OK);
    CHECK(own != producer);
    CHECK_IS(forebay_ring_push(own, "x"), FOREBAY_OK);
    CHECK_IS(forebay_ring_len(other), 1);
    _exit(0);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK_IS(forebay_ring_len(consumer), 0);
  CHECK_IS(forebay_ring_push(producer, "x"), FOREBAY_OK);
  CHECK_IS(forebay_ring_producer_destroy(producer), FOREBAY_OK);
  CHECK_IS(forebay_ring_consumer_destroy(consumer), FOREBAY_OK);
}

int main(void) {
  CHECK_IS(forebay_interface(), FOREBAY_INTERFACE);
  CHECK(strcmp(forebay_strerror(FOREBAY_FULL), "there is no room now") == 0);
  CHECK(forebay_strerror(-1000) != NULL && forebay_version() != NULL);
  null_and_sizes();
  closed_and_wrong();
  two_threads_at_one_end();
  all_or_nothing();
  forked();
  return 0;
}
