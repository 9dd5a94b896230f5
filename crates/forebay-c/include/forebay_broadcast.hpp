// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A broadcast: one sender that never waits, and readers in any process, which learn what they have lost. Include forebay.hpp.

#ifndef FOREBAY_BROADCAST_HPP
#define FOREBAY_BROADCAST_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// The end of a broadcast that sends. One thread at a time may use it.
class broadcast_sender {
public:
  using owned = handle<forebay_broadcast_sender, forebay_broadcast_sender_destroy>;
  explicit broadcast_sender(owned end) noexcept : handle_(std::move(end)) {}

  // Sends a copy to all readers: its number, or FOREBAY_TOO_LONG. It never waits.
  std::int64_t try_send(std::string_view message) noexcept {
    return forebay_broadcast_send(handle_.get(), message.data(), message.size());
  }
  std::uint64_t send(std::string_view message) { return static_cast<std::uint64_t>(check(try_send(message))); }

  // The longest message, in bytes.
  std::size_t largest() const { return static_cast<std::size_t>(check(forebay_broadcast_largest(handle_.get()))); }
  // By which readers attach, also those in other processes. It belongs to this end: do not close it.
  int descriptor() const { return check(forebay_broadcast_descriptor(handle_.get())); }
  forebay_broadcast_sender *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
};

// A broadcast with room for messages of `data_bytes` bytes, and for `messages` of them; 0 is the default of forebay_broadcast_options.
inline broadcast_sender broadcast(std::size_t data_bytes = 0, std::size_t messages = 0) {
  auto options = sized<forebay_broadcast_options>();
  options.data_bytes = data_bytes;
  options.messages = messages;
  return broadcast_sender(broadcast_sender::owned::make(forebay_broadcast_create, &options));
}

// An end of a broadcast that receives. It begins at the next message. One thread at a time may use it.
class broadcast_reader {
public:
  using owned = handle<forebay_broadcast_reader, forebay_broadcast_reader_destroy>;
  explicit broadcast_reader(int descriptor) {
    handle_ = owned::make(forebay_broadcast_attach, descriptor);
  }

  // Copies the next message: its length, FOREBAY_EMPTY, FOREBAY_CLOSED, FOREBAY_OVERRUN after a loss, or FOREBAY_TOO_LONG, which leaves it.
  std::ptrdiff_t try_receive(void *buffer, std::size_t room, forebay_broadcast_received *received = nullptr) noexcept {
    return receive_once(buffer, room, 0, received);
  }

  // A copy of the next message; waits for it. After a loss it throws FOREBAY_OVERRUN once, and `lost` has grown.
  std::string receive(nanoseconds timeout = forever) {
    std::string message(256, '\0');
    forebay_broadcast_received received{};
    const deadline end(timeout);
    std::ptrdiff_t len;
    while ((len = receive_once(&message[0], message.size(), end.left(), &received)) == FOREBAY_TOO_LONG) {
      message.resize(received.len);
    }
    message.resize(static_cast<std::size_t>(check(len)));
    return message;
  }

  // How many messages this reader has lost.
  std::uint64_t lost() const noexcept { return lost_; }

  // Continues at the oldest message that is kept, or at the next one that is sent, and returns its number.
  std::uint64_t seek_oldest() { return static_cast<std::uint64_t>(check(forebay_broadcast_seek_oldest(handle_.get()))); }
  std::uint64_t seek_newest() { return static_cast<std::uint64_t>(check(forebay_broadcast_seek_newest(handle_.get()))); }
  forebay_broadcast_reader *get() const noexcept { return handle_.get(); }

private:
  std::ptrdiff_t receive_once(void *buffer, std::size_t room, std::int64_t timeout, forebay_broadcast_received *received) noexcept {
    forebay_broadcast_received own{};
    const std::ptrdiff_t len = forebay_broadcast_receive(handle_.get(), buffer, room, timeout, &own);
    lost_ += len == FOREBAY_OVERRUN ? own.lost : 0;
    if (received != nullptr) {
      *received = own;
    }
    return len;
  }

  owned handle_;
  std::uint64_t lost_ = 0;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_BROADCAST_HPP
