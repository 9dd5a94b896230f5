// Captures in C++: packets one by one and in bursts, filters, counts, a stop from another thread, and capture files.
#include "check.hpp"
#include <algorithm>
#include <fcntl.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

static void one_by_one() {
  auto capture = forebay::capture::open("sim:clock=virtual,count=1000");
  std::uint64_t packets = 0, last = 0;
  for (const forebay_frame &frame : capture) {
    CHECK(frame.time_ns >= last && forebay::bytes(frame).size() == frame.len && frame.len <= frame.wire_len);
    last = frame.time_ns;
    packets++;
  }
  CHECK(packets == 1000 && capture.link_type() == 1 && capture.next().empty());
  CHECK(thrown([&] { capture.link_type(7); }) == FOREBAY_NOT_FOUND);
  const auto counts = capture.finish();
  CHECK(counts.received == 1000 && counts.counted == 1000 && capture.counts().counted == 1000);
}

#if __cplusplus >= 202002L
static_assert(std::ranges::input_range<forebay::capture &> && std::ranges::input_range<forebay::record_reader &>);
#endif

// More packets than one burst has: a loop goes on where one before it ended, and no packet is passed unseen.
static void iterators() {
  constexpr std::uint64_t count = 20000;
  auto capture = forebay::capture::open("sim:clock=virtual,count=20000");
  auto all = forebay::capture::open("sim:clock=virtual,count=20000");
  std::uint64_t packets = 0, last = 0;
  auto it = capture.begin();
  while (it != capture.end()) {
    const auto copy = it;
    CHECK(copy->time_ns == it->time_ns && it->time_ns >= last);
    last = it->time_ns;
    const forebay_frame frame = *it++;
    CHECK(frame.time_ns == last && frame.data[0] == forebay::bytes(frame)[0]); // also the last one of a burst is lent
    packets++;
  }
  CHECK(packets == count && capture.begin() == capture.end() && capture.finish().counted == count);
  packets = 0;
  for (const auto &frame : all) {
    last = frame.time_ns;
    if (++packets == 100) break;
  }
  CHECK(all.begin()->time_ns == last);
  for (const auto &frame : all) packets += frame.len > 0;
  CHECK(packets == count + 1);
}

static void files() {
  const std::string path = "/tmp/forebay-cpp-writer-" + std::to_string(getpid()) + ".pcapng";
  auto source = forebay::capture::open("sim:clock=virtual,count=1000");
  {
    forebay::writer file(path.c_str());
    CHECK(file.describe(source, 0) == 0 && thrown([&] { file.describe(source, 1); }) == FOREBAY_NOT_FOUND);
    CHECK(file.describe(101, "tun0") == 1 && file.describe(101, "tun0") == 1);
    for (auto packets = source.next(); !packets.empty(); packets = source.next()) file.write(packets);
    forebay_frame frame{};
    frame.data = reinterpret_cast<const std::uint8_t *>("E");
    frame.len = 1;
    frame.interface = 1;
    frame.time_ns = UINT64_C(1) << 60;
    file.write(frame);
    frame.interface = 7;
    CHECK(thrown([&] { file.write(frame); }) == FOREBAY_INVALID);
    file.write(source.finish(), 1);
    file.flush();
    CHECK(file.totals().written == 1001);
    forebay::writer moved(std::move(file));
    CHECK(moved.close().packets == 1001 && thrown([&] { moved.flush(); }) == FOREBAY_MISUSE);
  }
  auto again = forebay::capture::read(path.c_str());
  auto expected = forebay::capture::open("sim:clock=virtual,count=1000");
  for (const auto &frame : again) {
    const auto sent = expected.begin();
    if (sent == expected.end()) {
      CHECK(frame.interface == 1 && forebay::bytes(frame) == "E" && again.link_type(1) == 101);
      break;
    }
    CHECK(forebay::bytes(frame) == forebay::bytes(*sent) && frame.time_ns == sent->time_ns && frame.interface == 0);
    expected.begin()++;
  }
  CHECK(again.finish().counted == 1001);
  // By a descriptor, without a close, and on a full disk.
  const int file = open(path.c_str(), O_RDWR | O_TRUNC);
  auto options = forebay::sized<forebay_writer_options>();
  options.format = FOREBAY_PCAP;
  forebay_frame frame{};
  frame.data = reinterpret_cast<const std::uint8_t *>("payload");
  frame.len = 7;
  { forebay::writer(file, options).write(frame); }
  CHECK(lseek(file, 0, SEEK_END) == 24 + 16 + 7 && close(file) == 0);
  unlink(path.c_str());
  CHECK(thrown([] { forebay::writer("/nowhere/a.pcap"); }) == FOREBAY_NOT_FOUND);
  const int full = open("/dev/full", O_WRONLY);
  forebay::writer refused(full);
  close(full);
  refused.write(frame);
  auto totals = forebay::sized<forebay_writer_totals>();
  CHECK(thrown([&] { refused.close(&totals); }) == FOREBAY_IO && totals.packets == 1 && totals.written == 0);
}

static void filters() {
  const forebay::filter none("len > 100000"), all("len > 0");
  auto options = forebay::sized<forebay_capture_options>();
  options.filter = "len > 100000";
  auto capture = forebay::capture::open("sim:clock=virtual,count=100", options);
  CHECK(capture.begin() == capture.end() && capture.finish().filtered == 100);
  auto packets = forebay::capture::open("sim:clock=virtual,count=100");
  CHECK(std::all_of(packets.begin(), packets.end(), [&](const forebay_frame &frame) { return all.matches(frame) && !none.matches(frame); }));
  CHECK(thrown([] { forebay::filter wrong("no such term ("); }) == FOREBAY_INVALID);
  options.filter = nullptr;
  CHECK(thrown([&] { forebay::capture::read("/no/such/file", options); }) == FOREBAY_NOT_FOUND);
}

static void stopped() {
  auto capture = forebay::capture::open("sim:rate=1kpps");
  forebay::burst packets;
  while (capture.try_next(packets) == FOREBAY_EMPTY) std::this_thread::yield();
  CHECK(!packets.empty() && packets.begin() + packets.size() == packets.end());
  std::thread thread([&] { CHECK(capture.stop() == FOREBAY_OK); });
  for (const auto &frame : capture) CHECK(frame.len > 0);
  thread.join();
  const auto counts = capture.finish();
  CHECK(counts.received == counts.counted + counts.kernel && counts.unread == 0);
}

// From a card into a file, and from there, with an interface that has the number 0 in the capture only.
static void into_a_file() {
  const std::string path = "/tmp/forebay-cpp-capture-" + std::to_string(getpid()) + ".pcapng";
  const auto copy = [&](forebay::capture from, const char *to) {
    forebay::writer file(to);
    CHECK(forebay_writer_interface(file.get(), 1, "another") == 0);
    std::uint64_t packets = 0;
    for (auto burst = from.next(); !burst.empty(); burst = from.next()) {
      file.write(from, burst);
      file.write(from, *burst.begin()); // again
      packets += burst.size() + 1;
    }
    CHECK(from.finish().kernel == 0 && file.counts(from, 7) && file.totals().packets == packets);
    file.flush();
    CHECK(file.close().written == packets);
    CHECK(thrown([&] { file.flush(); }) == FOREBAY_MISUSE);
    return packets;
  };
  const auto packets = copy(forebay::capture::open("sim:clock=virtual,count=100"), path.c_str());
  {
    auto read = forebay::capture::read(path.c_str());
    std::uint64_t found = 0;
    for (const forebay_frame &frame : read) CHECK(frame.interface == 1 && ++found);
    CHECK(found == packets);
  }
  CHECK(copy(forebay::capture::read(path.c_str()), "/dev/null") > packets);
  unlink(path.c_str());
  CHECK(thrown([] { forebay::writer none("/nowhere/a.pcap"); }) == FOREBAY_NOT_FOUND);
}

// It leaves the call, too, and what was taken before is counted once.
static void an_exception_leaves_a_callback() {
  auto capture = forebay::capture::open("sim:clock=virtual,count=100");
  std::uint64_t calls = 0;
  const auto throws = [](void *calls, const forebay_frame *) -> int {
    if (++*static_cast<std::uint64_t *>(calls) == 10) throw std::string("the tenth");
    return 0;
  };
  std::string caught;
  try {
    forebay_capture_each(capture.get(), throws, &calls);
  } catch (const std::string &thrown) {
    caught = thrown;
  }
  CHECK(caught == "the tenth" && capture.counts().counted == 10);
  CHECK(forebay_capture_each(capture.get(), throws, &calls) == 90 && calls == 100);
  const auto counts = capture.finish();
  CHECK(counts.received == 100 && counts.counted == 100 && counts.unread == 0);
}

int main() {
  one_by_one();
  an_exception_leaves_a_callback();
  iterators();
  files();
  into_a_file();
  filters();
  stopped();
}
