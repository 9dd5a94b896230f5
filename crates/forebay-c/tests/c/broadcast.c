// A broadcast: readers in this process and in another one, lost messages, and the end.
#include "check.h"
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  forebay_broadcast_sender *sender;
  forebay_broadcast_reader *reader, *wrong;
  struct forebay_broadcast_options options = {.size = sizeof options, .data_bytes = 1 << 16, .messages = 16};
  CHECK_IS(forebay_broadcast_create(&options, &sender), FOREBAY_OK);
  CHECK_IS(forebay_broadcast_attach(forebay_broadcast_descriptor(sender), &reader), FOREBAY_OK);
  CHECK_IS(forebay_broadcast_attach(0, &wrong) < 0, 1);
  char buffer[8];
  struct forebay_broadcast_received received;
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, NULL), FOREBAY_EMPTY);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 1000, NULL), FOREBAY_TIMED_OUT);
  CHECK_IS(forebay_broadcast_send(sender, "hello", 5), 0);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, 4, 0, &received), FOREBAY_TOO_LONG);
  CHECK(received.len == 5);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, FOREBAY_FOREVER, &received), 5);
  CHECK(memcmp(buffer, "hello", 5) == 0 && received.sequence == 0);
  static char large[1 << 16];
  CHECK_IS(forebay_broadcast_send(sender, large, sizeof large), FOREBAY_TOO_LONG);

  // A reader that waits in another process, with a broadcast that it did not make.
  int fd = dup(forebay_broadcast_descriptor(sender));
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid_t child = fork();
  if (child == 0) {
    CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, NULL), FOREBAY_MISUSE);
    CHECK_IS(forebay_broadcast_attach(fd, &reader), FOREBAY_OK);
    CHECK(write(ready[1], "r", 1) == 1);
    CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 30 * SECOND, NULL), 5);
    CHECK(memcmp(buffer, "child", 5) == 0);
    _exit(0);
  }
  CHECK(read(ready[0], buffer, 1) == 1);
  CHECK_IS(forebay_broadcast_send(sender, "child", 5), 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);

  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, NULL), 5);
  CHECK_IS(forebay_broadcast_reader_arm(reader), 1);
  struct pollfd wait = {.fd = forebay_broadcast_reader_descriptor(reader), .events = POLLIN};
  CHECK(poll(&wait, 1, 0) == 0);
  CHECK_IS(forebay_broadcast_send(sender, "poll", 4), 2);
  CHECK(poll(&wait, 1, 30000) == 1);
  CHECK_IS(forebay_broadcast_reader_arm(reader), 0);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, NULL), 4);

  // More than is kept: the reader learns how many it lost.
  for (int i = 0; i < 100; i++) CHECK(forebay_broadcast_send(sender, &i, sizeof i) == i + 3);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, &received), FOREBAY_OVERRUN);
  uint64_t lost = received.lost, got = 0;
  CHECK(lost >= 84);
  CHECK_IS(forebay_broadcast_sender_destroy(sender), FOREBAY_OK);
  while (forebay_broadcast_receive(reader, buffer, sizeof buffer, FOREBAY_FOREVER, &received) == sizeof(int)) got++;
  CHECK(lost + got == 100);
  CHECK_IS(forebay_broadcast_receive(reader, buffer, sizeof buffer, 0, NULL), FOREBAY_CLOSED);
  CHECK(forebay_broadcast_seek_oldest(reader) >= 0);
  CHECK_IS(forebay_broadcast_seek_newest(reader), 103);
  CHECK_IS(forebay_broadcast_reader_destroy(reader), FOREBAY_OK);
  return 0;
}
