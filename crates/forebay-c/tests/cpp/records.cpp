// Records, broadcasts and lanes in C++: appended and read back, lost messages, and senders in other processes.
#include "check.hpp"
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace std::chrono_literals;

static void records() {
  const std::string path = "/tmp/forebay-cpp-records-" + std::to_string(getpid());
  CHECK(thrown([&] { forebay::record_reader{path.c_str()}; }) == FOREBAY_NOT_FOUND);
  {
    forebay::appender file(path.c_str());
    for (int i = 0; i < 1000; i++) CHECK(file.append("record " + std::to_string(i)));
    file.flush();
    file.wait_durable(60s);
    CHECK(file.totals().accepted == 1000 && file.totals().durable == 1000);
    CHECK(thrown([&] { file.append(std::string(1 << 20, 'x')); }) < 0);
    forebay::appender moved(std::move(file));
    CHECK(moved.append("record 1000") && moved.close().written == 1001);
    CHECK(thrown([&] { moved.append("late"); }) == FOREBAY_MISUSE);
  }
  { forebay::appender(path.c_str()).append("record 1001"); } // written at the end of the scope
  int number = 0;
  forebay::record_reader reader(path.c_str());
  for (std::string_view record : reader) CHECK(record == "record " + std::to_string(number++));
  CHECK(number == 1002 && !reader.next().has_value());
  forebay::record_reader passing(path.c_str());
  auto it = passing.begin();
  for (number = 0; number < 10; number++) CHECK(*it++ == "record " + std::to_string(number));
  CHECK(*++it == "record 11" && *passing.begin() == *it && passing.next() == "record 12" && *it == "record 13");
  FILE *file = std::fopen(path.c_str(), "rb");
  CHECK(file != nullptr && std::fseek(file, 0, SEEK_END) == 0 && truncate(path.c_str(), std::ftell(file) - 1) == 0);
  std::fclose(file);
  CHECK(thrown([&] {
          forebay::record_reader damaged(path.c_str());
          while (damaged.next()) {}
        }) == FOREBAY_DAMAGED);
  unlink(path.c_str());
}

static void broadcasts() {
  auto sender = forebay::broadcast(1 << 16, 16);
  forebay::broadcast_reader reader(sender.descriptor());
  CHECK(thrown([] { forebay::broadcast_reader wrong(-1); }) == FOREBAY_INVALID);
  char buffer[8];
  CHECK(reader.try_receive(buffer, sizeof buffer) == FOREBAY_EMPTY && thrown([&] { reader.receive(1ms); }) == FOREBAY_TIMED_OUT);
  CHECK(sender.send("hello") == 0 && reader.try_receive(buffer, 4) == FOREBAY_TOO_LONG && reader.receive() == "hello");
  const std::string large(5000, 'x');
  CHECK(sender.send(large) == 1 && reader.receive(10s) == large);
  CHECK(sender.try_send(std::string(sender.largest() + 1, 'x')) == FOREBAY_TOO_LONG);
  for (int i = 0; i < 100; i++) sender.send(std::to_string(i));
  CHECK(thrown([&] { reader.receive(); }) == FOREBAY_OVERRUN && reader.lost() >= 84);
  auto moved = std::move(reader);
  CHECK(moved.receive() == std::to_string(moved.lost()));
  CHECK(moved.seek_newest() == 102);
  { const auto ends_here = std::move(sender); }
  CHECK(thrown([&] { moved.receive(10s); }) == FOREBAY_CLOSED);
}

static void lanes() {
  forebay::hub hub;
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    forebay::lane lane(ends[1], 1 << 16, 30s);
    close(ends[1]);
    for (int i = 0; i < 1000; i++) lane.send("message " + std::to_string(i));
    CHECK(lane.try_send(std::string(lane.largest() + 1, 'x')) == FOREBAY_TOO_LONG);
    lane.send(std::string(5000, 'x'), 30s);
    { const auto ends_here = std::move(lane); }
    _exit(0);
  }
  close(ends[1]);
  const auto peer = hub.accept(ends[0], 30s);
  close(ends[0]);
  for (std::uint64_t i = 0; i < 1000; i++) {
    const auto message = hub.receive(30s);
    CHECK(message.peer == peer && message.sequence == i && message.ended == 0);
    CHECK(message.bytes == "message " + std::to_string(i));
  }
  CHECK(hub.receive(30s).bytes.size() == 5000);
  const auto end = hub.receive(30s);
  CHECK(end.peer == peer && end.ended == FOREBAY_CLOSED && end.bytes.empty());
  CHECK(waitpid(child, nullptr, 0) == child);
  char buffer[8];
  forebay_hub_received received;
  CHECK(hub.try_receive(buffer, sizeof buffer, received) == FOREBAY_EMPTY && thrown([&] { hub.expel(peer); }) == FOREBAY_NOT_FOUND);
  hub.close();
  CHECK(thrown([&] { hub.receive(); }) == FOREBAY_CLOSED);
}

int main() {
  lanes(); // first: its child has no handle of the parent but the hub
  records();
  broadcasts();
}
