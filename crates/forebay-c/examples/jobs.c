// A queue between two processes: `jobs work NAME` does what `jobs give NAME TEXT...` asks for.
//   gcc -std=c11 jobs.c $(pkg-config --cflags --libs forebay) -o jobs
//   ./jobs work fax &
//   ./jobs give fax one two three
// A worker may be killed at any time: another one gets the job that it held, marked as "again".
#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS INT64_C(1000000000)

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, forebay_last_error());
  return EXIT_FAILURE;
}

static int work(forebay_shared_queue *queue) {
  forebay_receiver *receiver;
  if (forebay_shared_queue_receiver(queue, &receiver) < 0) return failed("receiving");
  for (;;) {
    struct forebay_message job;
    forebay_loan *loan;
    int code = forebay_receiver_take(receiver, 10 * SECONDS, &job, &loan);
    if (code == FOREBAY_TIMED_OUT || code == FOREBAY_CLOSED) break;
    if (code < 0) return failed("taking a job");
    if (job.len == 0) {
      forebay_loan_release(loan);
      break;
    }
    printf("%s%.*s\n", job.redelivered ? "again: " : "", (int)job.len, (const char *)job.data);
    fflush(stdout);
    forebay_loan_release(loan); // done: it is not delivered again
  }
  forebay_receiver_destroy(receiver);
  return EXIT_SUCCESS;
}

static int give(forebay_shared_queue *queue, int count, char **texts) {
  forebay_sender *sender;
  if (forebay_shared_queue_sender(queue, &sender) < 0) return failed("sending");
  for (int i = 0; i < count; i++)
    if (forebay_sender_send(sender, texts[i], strlen(texts[i]), 10 * SECONDS) < 0) return failed("sending");
  if (forebay_sender_send(sender, "", 0, 10 * SECONDS) < 0) return failed("sending"); // the end
  forebay_sender_destroy(sender);
  return EXIT_SUCCESS;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: jobs work NAME | jobs give NAME TEXT...\n");
    return 2;
  }
  const char *name = arguments[2];
  forebay_shared_queue *queue;
  int code = forebay_shared_queue_create(name, NULL, &queue);
  if (code == FOREBAY_EXISTS) code = forebay_shared_queue_attach(name, &queue);
  if (code < 0) return failed(name);
  int works = strcmp(arguments[1], "work") == 0;
  code = works ? work(queue) : give(queue, count - 3, arguments + 3);
  forebay_shared_queue_destroy(queue);
  if (works) forebay_shared_queue_remove(name);
  return code;
}
