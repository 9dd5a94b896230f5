// Queues and pools in C++: copies and messages in place, many senders, a queue by its name, and packets that go back by themselves.
#include "check.hpp"
#include <thread>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;

static void queues() {
  forebay::queue queue(4096);
  char buffer[16];
  CHECK(!queue.get(buffer, 5) && queue.put("hello", 5) && queue.put("world", 5));
  CHECK(queue.get(buffer, 5) && std::string_view(buffer, 5) == "hello");
  {
    const auto message = queue.receive_end().take();
    CHECK(message.view() == "world" && message.sequence() == 1 && !message.redelivered());
  }
  CHECK(thrown([&] { queue.receive_end().take(1ms); }) == FOREBAY_TIMED_OUT);
  CHECK(queue.send_end().try_send(std::string(100000, 'x')) == FOREBAY_TOO_LONG);
  int sent = 0;
  while (queue.put("many bytes", 10)) sent++;
  CHECK(sent > 100 && queue.send_end().try_send("x") == FOREBAY_FULL);
  queue.send_end().close();
  for (; sent > 0; sent--) CHECK(queue.receive_end().receive() == "many bytes");
  CHECK(thrown([&] { queue.receive_end().receive(); }) == FOREBAY_CLOSED);
}

static void many_senders() {
  forebay::queue queue(1 << 16);
  std::vector<std::thread> threads;
  for (char name : {'a', 'b', 'c'}) {
    threads.emplace_back([name, end = queue.send_end().clone()] {
      for (int i = 0; i < 5000; i++) end.send(name + std::to_string(i));
    });
  }
  int next[3] = {0, 0, 0};
  for (int i = 0; i < 15000; i++) {
    const std::string got = queue.receive_end().receive(10s);
    CHECK(std::stoi(got.substr(1)) == next[got[0] - 'a']++); // each sender's messages arrive in order
  }
  for (auto &thread : threads) thread.join();
}

static void shared_queues() {
  const std::string name = "forebay-cpp-test-" + std::to_string(getpid());
  CHECK(thrown([&] { forebay::shared_queue::attach(name.c_str()); }) == FOREBAY_NOT_FOUND);
  const auto made = forebay::shared_queue::create(name.c_str(), 1 << 16);
  const auto found = forebay::shared_queue::attach(name.c_str());
  CHECK(thrown([&] { forebay::shared_queue::create(name.c_str(), 1 << 16); }) == FOREBAY_EXISTS);
  const auto out = found.receive_end();
  made.send_end().send("across");
  CHECK(out.receive(10s) == "across");
  CHECK(forebay_shared_queue_remove(name.c_str()) == FOREBAY_OK);
}

static void pools() {
  forebay::pool pool(2, 2048);
  {
    auto packet = pool.take();
    std::memcpy(packet.put(7), "payload", 7);
    std::memcpy(packet.push(3), "hd:", 3);
    CHECK(packet.data() == "hd:payload" && packet.size() == 10);
    CHECK(std::string_view(packet.pull(3), 3) == "hd:" && packet.data() == "payload");
    packet.trim(3);
    CHECK(packet.data() == "pay" && thrown([&] { packet.put(100000); }) < 0);
    const auto other = pool.try_take();
    CHECK(other.has_value() && !pool.try_take().has_value());
    CHECK(thrown([&] { pool.take(1ms); }) == FOREBAY_TIMED_OUT);
  }
  CHECK(pool.try_take().has_value()); // both went back
}

static void descriptors() {
  static_assert(sizeof(forebay::descriptor) == 16);
  forebay::pool pool(8, 2048);
  auto [in, out] = forebay::ring<forebay::descriptor>(64);
  std::thread thread([&pool, in = std::move(in)]() mutable {
    for (int i = 0; i < 1000; i++) {
      auto packet = pool.take(60s);
      const auto text = std::to_string(i);
      std::memcpy(packet.put(static_cast<std::uint32_t>(text.size())), text.data(), text.size());
      auto facts = forebay::sized<forebay_packet_facts>();
      CHECK(forebay_packet_get_facts(packet.get(), &facts) == FOREBAY_OK);
      facts.time_ns = static_cast<std::uint64_t>(i);
      facts.hash = static_cast<std::uint16_t>(i * 7);
      CHECK(forebay_packet_set_facts(packet.get(), &facts) == FOREBAY_OK);
      in.push(packet.describe());
      CHECK(packet.get() == nullptr && thrown([&] { packet.describe(); }) == FOREBAY_MISUSE);
    }
  });
  for (int i = 0; i < 1000; i++) {
    const auto descriptor = out.pop(60s);
    const auto text = std::to_string(i);
    CHECK(descriptor.size() == text.size() && descriptor.time_ns() == static_cast<std::uint64_t>(i));
    CHECK(descriptor.hash() == static_cast<std::uint16_t>(i * 7));
    const forebay::packet packet(descriptor);
    CHECK(packet.data() == text && thrown([&] { forebay::packet again(descriptor); }) == FOREBAY_MISUSE);
  }
  thread.join();
  std::vector<forebay::packet> all;
  while (auto packet = pool.try_take()) all.push_back(std::move(*packet));
  CHECK(all.size() == 8 && thrown([] { forebay::packet none{forebay::descriptor()}; }) == FOREBAY_MISUSE);
}

int main() {
  queues();
  many_senders();
  shared_queues();
  pools();
  descriptors();
}
