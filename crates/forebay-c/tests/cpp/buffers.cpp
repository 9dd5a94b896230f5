// Rings and streams in C++: between threads, in bursts, with exceptions, and as objects that are moved.
#include "check.hpp"
#include <array>
#include <numeric>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

struct event {
  std::uint64_t number;
  double value;
};

static void rings() {
  auto [in, out] = forebay::ring<event>(100);
  event got{};
  CHECK(out.try_pop(got) == FOREBAY_EMPTY && thrown([&out = out] { out.pop(1ms); }) == FOREBAY_TIMED_OUT);
  for (std::uint64_t i = 0; i < 100; i++) in.push({i, 0.5});
  CHECK(in.try_push({100, 0.5}) == FOREBAY_FULL && in.vacant() == 0 && out.size() == 100);
  CHECK(thrown([&in = in] { in.push({100, 0.5}, 1ms); }) == FOREBAY_TIMED_OUT);
  CHECK(out.pop().number == 0 && out.pop().number == 1);
  auto moved = std::move(out);
  std::array<event, 200> many{};
  CHECK(moved.try_pop_burst(many.data(), many.size()) == 98 && many[97].number == 99 && many[97].value == 0.5);
#if __cplusplus >= 202002L
  CHECK(in.try_push_burst(std::span<const event>(many).first(3)) == 3);
  CHECK(moved.try_pop_burst(std::span<event>(many)) == 3);
#endif
  { const auto ends_here = std::move(in); }
  CHECK(moved.try_pop(got) == FOREBAY_CLOSED && thrown([&moved] { moved.pop(); }) == FOREBAY_CLOSED);
  CHECK(thrown([] { forebay::ring<event>(SIZE_MAX / 2); }) < 0);
}

static void ring_between_threads() {
  constexpr std::uint64_t count = 200000;
  auto [in, out] = forebay::ring<std::uint64_t>(256);
  std::thread thread([in = std::move(in)]() mutable {
    for (std::uint64_t i = 0; i < count; i++) in.push(i);
  });
  for (std::uint64_t i = 0; i < count; i++) CHECK(out.pop() == i);
  CHECK(thrown([&out = out] { out.pop(10s); }) == FOREBAY_CLOSED);
  thread.join();
}

static void streams() {
  auto [in, out] = forebay::stream(1000);
  std::thread thread([in = std::move(in)]() mutable {
    for (int i = 0; i < 20000; i++) in.push("all bytes ");
    in.close();
    CHECK(in.try_push("late") == FOREBAY_CLOSED && thrown([&in] { in.push("late"); }) == FOREBAY_CLOSED);
  });
  std::string all;
  while (out.wait(10s)) {
    const std::string_view some = out.peek().substr(0, 77);
    all += some;
    out.pop(some.size());
  }
  thread.join();
  CHECK(out.end() == FOREBAY_STREAM_CLOSED && all.size() == 200000 && out.peek().empty());
  for (std::size_t at = 0; at < all.size(); at += 10) CHECK(all.compare(at, 10, "all bytes ") == 0);
}

static void errors_have_a_number_and_a_sentence() {
  forebay::producer<event>::owned none;
  try {
    forebay::producer<event> producer(std::move(none));
    CHECK(false);
  } catch (const forebay::error &error) {
    CHECK(error.code() == FOREBAY_MISUSE && std::string(error.what()).find("handle") != std::string::npos);
  }
}

int main() {
  rings();
  ring_between_threads();
  streams();
  errors_have_a_number_and_a_sentence();
}
