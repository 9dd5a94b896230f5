// Captures in C++: packets one by one and in bursts, filters, counts, and a stop from another thread.
#include "check.hpp"
#include <algorithm>
#include <thread>

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

int main() {
  one_by_one();
  filters();
  stopped();
}
