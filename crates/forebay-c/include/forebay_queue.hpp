// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Queues of messages of any length, between threads and between processes. Include forebay.hpp.

#ifndef FOREBAY_QUEUE_HPP
#define FOREBAY_QUEUE_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// The sending end of a queue. All threads may use it at the same time.
class sender {
public:
  using owned = handle<forebay_sender, forebay_sender_destroy>;
  explicit sender(owned end) noexcept : handle_(std::move(end)) {}

  // Sends a copy: 0, FOREBAY_FULL, FOREBAY_CLOSED, FOREBAY_TOO_LONG, or FOREBAY_TIMED_OUT if others held the queue for 10 ms.
  int try_send(std::string_view message) const noexcept {
    return forebay_sender_send(handle_.get(), message.data(), message.size(), 0);
  }

  // Sends a copy, and waits for room.
  void send(std::string_view message, nanoseconds timeout = forever) const {
    check(forebay_sender_send(handle_.get(), message.data(), message.size(), limit(timeout)));
  }

  // Another sending end of the same queue.
  sender clone() const {
    return sender(owned::make(forebay_sender_clone, handle_.get()));
  }

  void close() const { check(forebay_sender_close(handle_.get())); }
  forebay_sender *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
};

// A message in the queue. Its room is reused once this object and all messages before it are gone.
class message {
public:
  using owned = handle<forebay_loan, forebay_loan_release>;
  message(const forebay_message &taken, owned loan) noexcept : message_(taken), loan_(std::move(loan)) {}

  std::string_view view() const noexcept { return {static_cast<const char *>(message_.data), message_.len}; }
  std::uint64_t sequence() const noexcept { return message_.sequence; }
  // It was delivered before, to a process that died.
  bool redelivered() const noexcept { return message_.redelivered != 0; }

private:
  forebay_message message_;
  owned loan_;
};

// The receiving end of a queue. All threads may use it at the same time.
class receiver {
public:
  using owned = handle<forebay_receiver, forebay_receiver_destroy>;
  explicit receiver(owned end) noexcept : handle_(std::move(end)) {}

  // Copies the next message: its length, FOREBAY_EMPTY, FOREBAY_CLOSED, FOREBAY_TIMED_OUT if others held the
  // queue for 10 ms, or FOREBAY_TOO_LONG, which leaves it in the queue.
  std::ptrdiff_t try_receive(void *buffer, std::size_t room) const noexcept {
    return forebay_receiver_receive(handle_.get(), buffer, room, 0, nullptr);
  }

  // Takes the next message in place, and waits for it.
  message take(nanoseconds timeout = forever) const {
    forebay_message taken{};
    auto loan = message::owned::make(forebay_receiver_take, handle_.get(), limit(timeout), &taken);
    return message(taken, std::move(loan));
  }

  // A copy of the next message.
  std::string receive(nanoseconds timeout = forever) const { return std::string(take(timeout).view()); }

  // Another receiving end of the same queue.
  receiver clone() const {
    return receiver(owned::make(forebay_receiver_clone, handle_.get()));
  }

  void close() const { check(forebay_receiver_close(handle_.get())); }
  forebay_receiver *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
};

// A queue between the threads of a process, with both its ends. A capacity of 0 is the default of forebay_queue_options.
class queue {
public:
  explicit queue(std::size_t capacity) : queue(ends_of(capacity)) {}

  // False: there is no room. As `put` and `get` of a circular buffer, but each `get` returns what one `put` stored.
  bool put(const void *data, std::size_t size) noexcept {
    return sender_.try_send({static_cast<const char *>(data), size}) == 0;
  }
  // False: there is no message; or the next one is longer than `size`, and stays; or it was shorter, and is lost.
  bool get(void *data, std::size_t size) noexcept {
    return receiver_.try_receive(data, size) == static_cast<std::ptrdiff_t>(size);
  }

  const sender &send_end() const noexcept { return sender_; }
  const receiver &receive_end() const noexcept { return receiver_; }

private:
  using ends = std::pair<sender::owned, receiver::owned>;
  explicit queue(ends both) noexcept : sender_(std::move(both.first)), receiver_(std::move(both.second)) {}

  static ends ends_of(std::size_t capacity) {
    auto options = sized<forebay_queue_options>();
    options.capacity_bytes = capacity;
    forebay_sender *in = nullptr;
    auto out = receiver::owned::make(forebay_queue_create, &options, &in);
    return {sender::owned(in), std::move(out)};
  }

  sender sender_;
  receiver receiver_;
};

// A queue between processes, by its name.
class shared_queue {
public:
  static shared_queue create(const char *name, std::size_t capacity) {
    auto options = sized<forebay_queue_options>();
    options.capacity_bytes = capacity;
    return shared_queue(owned::make(forebay_shared_queue_create, name, &options));
  }
  static shared_queue attach(const char *name) {
    return shared_queue(owned::make(forebay_shared_queue_attach, name));
  }

  sender send_end() const {
    return sender(sender::owned::make(forebay_shared_queue_sender, handle_.get()));
  }
  receiver receive_end() const {
    return receiver(receiver::owned::make(forebay_shared_queue_receiver, handle_.get()));
  }
  forebay_shared_queue *get() const noexcept { return handle_.get(); }

private:
  using owned = handle<forebay_shared_queue, forebay_shared_queue_destroy>;
  explicit shared_queue(owned made) noexcept : handle_(std::move(made)) {}
  owned handle_;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_QUEUE_HPP
