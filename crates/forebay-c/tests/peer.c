// One side of a shared queue or of a lane, for tests with programs in other languages at the other side. Compiles as C and as C++.
//   peer send NAME FIRST COUNT      sends the numbers from FIRST on, eight bytes each in the machine's order
//   peer receive NAME COUNT         receives that many, and prints each; COUNT 0: until the queue is closed
//   peer lane FIRST COUNT           sends the numbers through a lane over the socket that is its standard input
//   peer hub                        prints the numbers from the lane over the socket that is its standard input, until the lane has ended
#include <forebay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, forebay_last_error());
  return 1;
}

static int send_all(forebay_shared_queue *queue, unsigned long long first, unsigned long long count) {
  forebay_sender *sender;
  if (forebay_shared_queue_sender(queue, &sender) != FOREBAY_OK) return failed("sender");
  for (uint64_t number = first; number < first + count; number++) {
    if (forebay_sender_send(sender, &number, sizeof number, FOREBAY_FOREVER) != FOREBAY_OK) return failed("send");
  }
  return forebay_sender_destroy(sender) == FOREBAY_OK ? 0 : failed("destroy");
}

static int receive_all(forebay_shared_queue *queue, unsigned long long count) {
  forebay_receiver *receiver;
  if (forebay_shared_queue_receiver(queue, &receiver) != FOREBAY_OK) return failed("receiver");
  for (unsigned long long i = 0; count == 0 || i < count; i++) {
    uint64_t number;
    ptrdiff_t len = forebay_receiver_receive(receiver, &number, sizeof number, FOREBAY_FOREVER, NULL);
    if (len == FOREBAY_CLOSED && count == 0) break;
    if (len != (ptrdiff_t)sizeof number) return failed("receive");
    printf("%llu\n", (unsigned long long)number);
    fflush(stdout); // what was printed was received, also if this process is killed
  }
  return forebay_receiver_destroy(receiver) == FOREBAY_OK ? 0 : failed("destroy");
}

// Closes the socket once the library has its own: otherwise it would keep the lane open.
static int send_lane(unsigned long long first, unsigned long long count) {
  forebay_lane *lane;
  if (forebay_lane_attach(STDIN_FILENO, 1 << 16, FOREBAY_FOREVER, &lane) != FOREBAY_OK) return failed("attach");
  close(STDIN_FILENO);
  for (uint64_t number = first; number < first + count; number++) {
    if (forebay_lane_send(lane, &number, sizeof number, FOREBAY_FOREVER) != FOREBAY_OK) return failed("send");
  }
  return forebay_lane_destroy(lane) == FOREBAY_OK ? 0 : failed("destroy");
}

static int receive_lane(void) {
  forebay_hub *hub;
  if (forebay_hub_create(NULL, &hub) != FOREBAY_OK) return failed("hub");
  if (forebay_hub_accept(hub, STDIN_FILENO, FOREBAY_FOREVER) < 0) return failed("accept");
  close(STDIN_FILENO);
  for (;;) {
    uint64_t number;
    struct forebay_hub_received received;
    ptrdiff_t len = forebay_hub_receive(hub, &number, sizeof number, FOREBAY_FOREVER, &received);
    if (len == FOREBAY_CLOSED && received.lane_ended) break;
    if (len != (ptrdiff_t)sizeof number) return failed("receive");
    printf("%llu\n", (unsigned long long)number);
    fflush(stdout);
  }
  return forebay_hub_destroy(hub) == FOREBAY_OK ? 0 : failed("destroy");
}

int main(int count, char **arguments) {
  if (count == 2 && strcmp(arguments[1], "hub") == 0) return receive_lane();
  if (count == 4 && strcmp(arguments[1], "lane") == 0) {
    return send_lane(strtoull(arguments[2], NULL, 10), strtoull(arguments[3], NULL, 10));
  }
  int sends = count == 5 && strcmp(arguments[1], "send") == 0;
  if (!sends && (count != 4 || strcmp(arguments[1], "receive") != 0)) {
    fprintf(stderr, "usage: peer send NAME FIRST COUNT, receive NAME COUNT, lane FIRST COUNT, or hub\n");
    return 2;
  }
  forebay_shared_queue *queue;
  if (forebay_shared_queue_attach(arguments[2], &queue) != FOREBAY_OK) return failed("attach");
  unsigned long long last = strtoull(arguments[count - 1], NULL, 10);
  int code = sends ? send_all(queue, strtoull(arguments[3], NULL, 10), last) : receive_all(queue, last);
  return forebay_shared_queue_destroy(queue) == FOREBAY_OK ? code : failed("destroy");
}
