// Queues: copies, in place, bursts, many threads, watches, ends and loans that end in any order, and other processes.
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void copies_and_loans(void) {
  forebay_sender *sender;
  forebay_receiver *receiver;
  struct forebay_queue_options options = {.size = sizeof options, .capacity_bytes = 4096};
  CHECK_IS(forebay_queue_create(&options, &sender, &receiver), FOREBAY_OK);
  char buffer[16];
  struct forebay_received received;
  CHECK_IS(forebay_receiver_receive(receiver, buffer, sizeof buffer, 0, NULL), FOREBAY_EMPTY);
  CHECK_IS(forebay_receiver_receive(receiver, buffer, sizeof buffer, 1000, NULL), FOREBAY_TIMED_OUT);
  CHECK_IS(forebay_sender_send(sender, "hello", 5, 0), FOREBAY_OK);
  CHECK_IS(forebay_receiver_receive(receiver, buffer, 4, 0, &received), FOREBAY_TOO_LONG);
  CHECK_IS(received.len, 5);
  CHECK_IS(forebay_receiver_receive(receiver, buffer, sizeof buffer, FOREBAY_FOREVER, &received), 5);
  CHECK(memcmp(buffer, "hello", 5) == 0 && received.sequence == 0 && received.redelivered == 0);
  static char large[1 << 16];
  CHECK((size_t)forebay_sender_largest(sender) < sizeof large);
  CHECK_IS(forebay_sender_send(sender, large, sizeof large, FOREBAY_FOREVER), FOREBAY_TOO_LONG);

  // In place, and a burst of copies.
  struct forebay_room room;
  forebay_reservation *reservation, *abandoned;
  CHECK_IS(forebay_sender_reserve(sender, 3, 0, &room, &reservation), FOREBAY_OK);
  CHECK(room.len == 3 && room.sequence == 1);
  CHECK_IS(forebay_receiver_receive(receiver, buffer, sizeof buffer, 0, NULL), FOREBAY_EMPTY);
  memcpy(room.data, "abc", 3);
  CHECK_IS(forebay_reservation_commit(reservation), FOREBAY_OK);
  CHECK_IS(forebay_reservation_commit(reservation), FOREBAY_MISUSE);
  CHECK_IS(forebay_sender_reserve(sender, 100, 0, &room, &abandoned), FOREBAY_OK);
  CHECK_IS(forebay_reservation_abandon(abandoned), FOREBAY_OK);
  struct forebay_bytes burst[] = {{"one", 3}, {"", 0}, {"three", 5}};
  CHECK_IS(forebay_sender_send_burst(sender, burst, 3), 3);
  struct forebay_message message, messages[8];
  forebay_loan *loan, *several;
  CHECK_IS(forebay_receiver_take(receiver, 0, &message, &loan), FOREBAY_OK);
  CHECK(message.len == 3 && memcmp(message.data, "abc", 3) == 0 && message.sequence == 1);
  CHECK_IS(forebay_receiver_take_burst(receiver, 0, messages, 8, &several), 3);
  CHECK(messages[2].len == 5 && memcmp(messages[2].data, "three", 5) == 0 && messages[1].len == 0);
  CHECK_IS(forebay_receiver_take_burst(receiver, 0, messages, 0, &several), FOREBAY_INVALID);

  struct forebay_queue_stats stats = {.size = sizeof stats};
  CHECK_IS(forebay_sender_stats(sender, &stats), FOREBAY_OK);
  CHECK(stats.size == sizeof stats && stats.reserved == 6 && stats.aborted == 1);

  // The ends end first: the messages stay.
  forebay_receiver *other;
  CHECK_IS(forebay_receiver_clone(receiver, &other), FOREBAY_OK);
  CHECK_IS(forebay_receiver_destroy(receiver), FOREBAY_OK);
  CHECK_IS(forebay_sender_destroy(sender), FOREBAY_OK);
  CHECK_IS(forebay_receiver_receive(other, buffer, sizeof buffer, FOREBAY_FOREVER, NULL), FOREBAY_CLOSED);
  CHECK_IS(forebay_receiver_destroy(other), FOREBAY_OK);
  CHECK(memcmp(message.data, "abc", 3) == 0 && memcmp(messages[0].data, "one", 3) == 0);
  CHECK_IS(forebay_loan_release(several), FOREBAY_OK);
  CHECK_IS(forebay_loan_release(several), FOREBAY_MISUSE);
  CHECK_IS(forebay_loan_release(loan), FOREBAY_OK);
}

enum { THREADS = 3, EACH = 20000 };

static void *sends(void *sender) {
  for (uint64_t i = 1; i <= EACH; i++) CHECK_IS(forebay_sender_send(sender, &i, sizeof i, FOREBAY_FOREVER), FOREBAY_OK);
  return NULL;
}

static void *receives(void *receiver) {
  static _Thread_local uint64_t sum;
  uint64_t number;
  while (forebay_receiver_receive(receiver, &number, sizeof number, FOREBAY_FOREVER, NULL) == sizeof number) sum += number;
  return (void *)(uintptr_t)sum;
}

// All threads share one handle of each end.
static void many_threads(void) {
  forebay_sender *sender;
  forebay_receiver *receiver;
  CHECK_IS(forebay_queue_create(NULL, &sender, &receiver), FOREBAY_OK);
  pthread_t senders[THREADS], receivers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&senders[i], NULL, sends, sender) == 0);
    CHECK(pthread_create(&receivers[i], NULL, receives, receiver) == 0);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(senders[i], NULL);
  CHECK_IS(forebay_sender_close(sender), FOREBAY_OK);
  uint64_t sum = 0;
  for (int i = 0; i < THREADS; i++) {
    void *part;
    pthread_join(receivers[i], &part);
    sum += (uintptr_t)part;
  }
  CHECK(sum == (uint64_t)THREADS * EACH * (EACH + 1) / 2);
  CHECK_IS(forebay_receiver_destroy(receiver), FOREBAY_OK);
  CHECK_IS(forebay_sender_destroy(sender), FOREBAY_OK);
}

static void watches(void) {
  forebay_sender *sender;
  forebay_receiver *receiver;
  forebay_watch *watch;
  CHECK_IS(forebay_queue_create(NULL, &sender, &receiver), FOREBAY_OK);
  CHECK_IS(forebay_receiver_watch(receiver, &watch), FOREBAY_OK);
  CHECK_IS(forebay_watch_arm(watch), 1);
  struct pollfd wait = {.fd = forebay_watch_descriptor(watch), .events = POLLIN};
  CHECK(poll(&wait, 1, 0) == 0);
  CHECK_IS(forebay_sender_send(sender, "x", 1, 0), FOREBAY_OK);
  CHECK(poll(&wait, 1, 10000) == 1);
  CHECK_IS(forebay_watch_arm(watch), 0);
  CHECK_IS(forebay_receiver_destroy(receiver), FOREBAY_OK);
  CHECK_IS(forebay_sender_destroy(sender), FOREBAY_OK);
  CHECK_IS(forebay_watch_destroy(watch), FOREBAY_OK);
}

// A child takes messages and is killed while it holds one: the message is delivered again, and marked.
static void processes(void) {
  char name[64];
  snprintf(name, sizeof name, "c-test-%ld", (long)getpid());
  forebay_shared_queue *queue, *again;
  CHECK_IS(forebay_shared_queue_create("not/a name", NULL, &queue), FOREBAY_INVALID);
  CHECK_IS(forebay_shared_queue_attach(name, &queue), FOREBAY_NOT_FOUND);
  CHECK(forebay_last_errno() != 0);
  CHECK_IS(forebay_shared_queue_create(name, NULL, &queue), FOREBAY_OK);
  CHECK_IS(forebay_shared_queue_create(name, NULL, &again), FOREBAY_EXISTS);
  intptr_t needed = forebay_shared_queue_list(NULL, 0);
  CHECK(needed > (intptr_t)strlen(name));
  forebay_sender *sender;
  forebay_receiver *receiver;
  CHECK_IS(forebay_shared_queue_sender(queue, &sender), FOREBAY_OK);
  CHECK_IS(forebay_shared_queue_receiver(queue, &receiver), FOREBAY_OK);
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  struct forebay_message message;
  forebay_loan *loan;
  if (child == 0) {
    // What it inherited is not its own.
    CHECK_IS(forebay_sender_send(sender, "x", 1, 0), FOREBAY_MISUSE);
    CHECK_IS(forebay_shared_queue_attach(name, &queue), FOREBAY_OK);
    CHECK_IS(forebay_shared_queue_receiver(queue, &receiver), FOREBAY_OK);
    CHECK_IS(forebay_receiver_take(receiver, FOREBAY_FOREVER, &message, &loan), FOREBAY_OK);
    CHECK(write(ready[1], message.data, 5) == 5);
    for (;;) pause();
  }
  CHECK_IS(forebay_sender_send(sender, "first", 5, FOREBAY_FOREVER), FOREBAY_OK);
  char got[5];
  CHECK(read(ready[0], got, 5) == 5 && memcmp(got, "first", 5) == 0);
  CHECK_IS(forebay_shared_queue_processes(queue), 2);
  CHECK_IS(forebay_receiver_take(receiver, 0, &message, &loan), FOREBAY_EMPTY);
  CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
  CHECK_IS(forebay_receiver_take(receiver, 10 * SECOND, &message, &loan), FOREBAY_OK);
  CHECK(message.redelivered == 1 && message.len == 5 && memcmp(message.data, "first", 5) == 0);
  CHECK_IS(forebay_loan_release(loan), FOREBAY_OK);

  // Another process sends to one that waits in poll.
  forebay_watch *watch;
  CHECK_IS(forebay_receiver_watch(receiver, &watch), FOREBAY_OK);
  CHECK_IS(forebay_watch_arm(watch), 1);
  child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK_IS(forebay_shared_queue_attach(name, &queue), FOREBAY_OK);
    CHECK_IS(forebay_shared_queue_sender(queue, &sender), FOREBAY_OK);
    CHECK_IS(forebay_sender_send(sender, "polled", 6, FOREBAY_FOREVER), FOREBAY_OK);
    _exit(0);
  }
  struct pollfd wait = {.fd = forebay_watch_descriptor(watch), .events = POLLIN};
  CHECK(poll(&wait, 1, 30000) == 1);
  char polled[6];
  CHECK_IS(forebay_receiver_receive(receiver, polled, sizeof polled, 10 * SECOND, NULL), 6);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  CHECK_IS(forebay_watch_destroy(watch), FOREBAY_OK);

  CHECK_IS(forebay_shared_queue_remove(name), FOREBAY_OK);
  CHECK_IS(forebay_shared_queue_remove(name), FOREBAY_NOT_FOUND);
  CHECK_IS(forebay_shared_queue_destroy(queue), FOREBAY_OK);
  CHECK_IS(forebay_sender_send(sender, "later", 5, 0), FOREBAY_OK); // its ends stay
  CHECK_IS(forebay_sender_destroy(sender), FOREBAY_OK);
  CHECK_IS(forebay_receiver_destroy(receiver), FOREBAY_OK);

  // Without a name.
  CHECK_IS(forebay_shared_queue_create(NULL, NULL, &queue), FOREBAY_OK);
  CHECK_IS(forebay_shared_queue_from_descriptor(forebay_shared_queue_descriptor(queue), &again), FOREBAY_OK);
  CHECK_IS(forebay_shared_queue_from_descriptor(-1, &again), FOREBAY_INVALID);
  CHECK(forebay_shared_queue_from_descriptor(ready[0], &again) < 0);
  CHECK_IS(forebay_shared_queue_destroy(queue), FOREBAY_OK);
}

int main(void) {
  copies_and_loans();
  many_threads();
  watches();
  processes();
  return 0;
}
