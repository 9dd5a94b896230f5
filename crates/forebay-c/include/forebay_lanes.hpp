// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Lanes: messages from processes that are not trusted to one receiver, each over memory of its own. Include forebay.hpp.

#ifndef FOREBAY_LANES_HPP
#define FOREBAY_LANES_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// A message of a lane; or the end of a lane, and then `ended` is FOREBAY_CLOSED, or FOREBAY_DAMAGED if its sender broke the protocol.
struct lane_message {
  std::uint64_t peer;
  std::uint64_t sequence;
  int ended;
  std::string bytes;
};

// The receiving end of lanes. All threads may use it at the same time.
class hub {
public:
  using owned = handle<forebay_hub, forebay_hub_destroy>;
  // The most senders at a time, and the most bytes of a lane; 0 is the default of forebay_hub_options.
  explicit hub(std::size_t max_peers = 0, std::size_t max_lane_bytes = 0) {
    auto options = sized<forebay_hub_options>();
    options.max_peers = max_peers;
    options.max_lane_bytes = max_lane_bytes;
    handle_ = owned::make(forebay_hub_create, &options);
  }

  // Accepts the sender at the other end of a Unix stream socket, which is duplicated: close yours. Returns the sender's number.
  std::uint64_t accept(int socket, nanoseconds timeout = forever) const {
    return static_cast<std::uint64_t>(check(forebay_hub_accept(handle_.get(), socket, limit(timeout))));
  }

  // Copies the next message of any lane: its length, FOREBAY_EMPTY, or as forebay_hub_receive.
  std::ptrdiff_t try_receive(void *buffer, std::size_t room, forebay_hub_received &received) const noexcept {
    return forebay_hub_receive(handle_.get(), buffer, room, 0, &received);
  }

  // The next message of any lane, or the end of a lane; waits for it.
  lane_message receive(nanoseconds timeout = forever) const {
    std::string bytes(256, '\0');
    forebay_hub_received received{};
    const deadline end(timeout);
    std::ptrdiff_t len;
    while ((len = forebay_hub_receive(handle_.get(), &bytes[0], bytes.size(), end.left(), &received)) == FOREBAY_TOO_LONG) {
      bytes.resize(received.len);
    }
    if (len < 0 && received.lane_ended) {
      return {received.peer, received.sequence, static_cast<int>(len), {}};
    }
    bytes.resize(static_cast<std::size_t>(check(len)));
    return {received.peer, received.sequence, 0, std::move(bytes)};
  }

  // Ends the lane of this sender.
  void expel(std::uint64_t peer) const { check(forebay_hub_expel(handle_.get(), peer)); }
  // Ends all lanes. Calls that wait throw FOREBAY_CLOSED.
  void close() const { check(forebay_hub_close(handle_.get())); }
  forebay_hub *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
};

// The sending end of a lane. One thread at a time may use it.
class lane {
public:
  using owned = handle<forebay_lane, forebay_lane_destroy>;
  // A lane to the hub at the other end of a Unix stream socket, which is duplicated: close yours. Waits until the hub accepts it.
  lane(int socket, std::size_t capacity, nanoseconds timeout = forever) {
    handle_ = owned::make(forebay_lane_attach, socket, capacity, limit(timeout));
  }

  // Sends a copy: 0, FOREBAY_FULL, FOREBAY_CLOSED, or FOREBAY_TOO_LONG.
  int try_send(std::string_view message) noexcept {
    return forebay_lane_send(handle_.get(), message.data(), message.size(), 0);
  }

  // Sends a copy, and waits for room.
  void send(std::string_view message, nanoseconds timeout = forever) {
    check(forebay_lane_send(handle_.get(), message.data(), message.size(), limit(timeout)));
  }

  // The longest message, in bytes.
  std::size_t largest() const { return static_cast<std::size_t>(check(forebay_lane_largest(handle_.get()))); }
  forebay_lane *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_LANES_HPP
