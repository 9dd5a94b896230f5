// Lanes: two processes send to a hub; one is killed.
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t sender(forebay_hub *hub, const char *text, int dies, int64_t *peer) {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[0]);
    forebay_lane *lane;
    CHECK_IS(forebay_lane_attach(ends[1], 1 << 16, 30 * SECOND, &lane), FOREBAY_OK);
    close(ends[1]);
    for (int i = 0; i < 1000; i++) CHECK_IS(forebay_lane_send(lane, text, strlen(text), FOREBAY_FOREVER), FOREBAY_OK);
    static char large[1 << 17];
    CHECK_IS(forebay_lane_send(lane, large, sizeof large, FOREBAY_FOREVER), FOREBAY_TOO_LONG);
    if (dies) raise(SIGKILL);
    CHECK_IS(forebay_lane_destroy(lane), FOREBAY_OK);
    _exit(0);
  }
  close(ends[1]);
  *peer = forebay_hub_accept(hub, ends[0], 30 * SECOND);
  CHECK(*peer >= 0);
  close(ends[0]);
  return child;
}

int main(void) {
  forebay_hub *hub;
  CHECK_IS(forebay_hub_create(NULL, &hub), FOREBAY_OK);
  char buffer[16];
  struct forebay_hub_received received;
  CHECK_IS(forebay_hub_receive(hub, buffer, sizeof buffer, 0, &received), FOREBAY_EMPTY);
  CHECK_IS(forebay_hub_accept(hub, -1, 0), FOREBAY_INVALID);
  CHECK_IS(forebay_hub_expel(hub, 77), FOREBAY_NOT_FOUND);
  int64_t peers[2];
  pid_t children[2] = {sender(hub, "left", 0, &peers[0]), sender(hub, "right", 1, &peers[1])};
  int got[2] = {0, 0}, ended = 0;
  while (ended < 2) {
    if (forebay_hub_arm(hub) == 1) {
      struct pollfd wait = {.fd = forebay_hub_descriptor(hub), .events = POLLIN};
      CHECK(poll(&wait, 1, 30000) == 1);
    }
    intptr_t len = forebay_hub_receive(hub, buffer, sizeof buffer, 0, &received);
    if (len > 0) {
      int which = received.peer == (uint64_t)peers[1];
      CHECK(memcmp(buffer, which ? "right" : "left", (size_t)len) == 0);
      CHECK(received.sequence == (uint64_t)got[which]++);
    } else if (received.lane_ended) {
      CHECK_IS(len, FOREBAY_CLOSED);
      ended++;
    } else {
      CHECK_IS(len, FOREBAY_EMPTY);
    }
  }
  CHECK(got[0] == 1000 && got[1] == 1000);
  for (int i = 0; i < 2; i++) CHECK(waitpid(children[i], NULL, 0) == children[i]);
  CHECK_IS(forebay_hub_close(hub), FOREBAY_OK);
  CHECK_IS(forebay_hub_receive(hub, buffer, sizeof buffer, FOREBAY_FOREVER, &received), FOREBAY_CLOSED);
  CHECK_IS(forebay_hub_destroy(hub), FOREBAY_OK);
  return 0;
}
