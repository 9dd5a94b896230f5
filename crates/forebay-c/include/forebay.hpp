// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Forebay's buffers for C++17 and later, over forebay.h: objects that own their handle, can be moved and not copied, and close it at the
// end of their scope. An object that was moved from may only be destroyed, or assigned to. Calls throw forebay::error. Those whose name begins
// with `try_` do not wait for room or content. They are noexcept and return a number of at least 0, or one of the negative numbers of
// `enum forebay_code`; only pool::try_take returns an object or none, and may throw. Without exceptions (-fno-exceptions), a call that would
// throw prints the error and ends the program.

#ifndef FOREBAY_HPP
#define FOREBAY_HPP

#include "forebay_inline.h"
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#if __cplusplus >= 202002L
#include <span>
#endif

// Files of one program may be compiled with and without exceptions: the two kinds of code have different names.
#ifdef __cpp_exceptions
#define FOREBAY_ERRORS throwing
#else
#define FOREBAY_ERRORS aborting
#endif

namespace forebay {
inline namespace FOREBAY_ERRORS {

// What failed, with its number in `enum forebay_code`.
class error : public std::runtime_error {
public:
  error(int code, const char *what, int system) : std::runtime_error(what), code_(code), system_(system) {}
  int code() const noexcept { return code_; }
  // The errno; 0 if the system did not cause it.
  int system() const noexcept { return system_; }

private:
  int code_, system_;
};

[[noreturn]] inline void fail(int code, const char *what, int system) {
#ifdef __cpp_exceptions
  throw error(code, what, system);
#else
  (void)code, (void)system;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
#endif
}

[[noreturn]] inline void fail(int code) {
  // Inline operations set no last error.
  const bool is_plain = code == FOREBAY_FULL || code == FOREBAY_EMPTY || code == FOREBAY_CLOSED;
  fail(code, is_plain ? forebay_strerror(code) : forebay_last_error(), is_plain ? 0 : forebay_last_errno());
}

// The number that a function returned, if it is not the number of an error.
template <class Number> Number check(Number number) {
  if (number < 0) {
    fail(static_cast<int>(number));
  }
  return number;
}

// Owns a handle.
template <class Handle, int (*Destroy)(Handle *)> class handle {
public:
  handle() noexcept = default;
  explicit handle(Handle *owned) noexcept : handle_(owned) {}
  // Owns what a function of the C interface makes from these arguments, and stores through its last one.
  template <class Create, class... Arguments> static handle make(Create create, Arguments... arguments) {
    Handle *made = nullptr;
    check(create(arguments..., &made));
    return handle(made);
  }
  handle(handle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  handle &operator=(handle &&other) noexcept {
    handle moved(std::move(other));
    std::swap(handle_, moved.handle_);
    return *this;
  }
  ~handle() {
    if (handle_ != nullptr) {
      Destroy(handle_);
    }
  }

  Handle *get() const noexcept { return handle_; }
  // Gives the handle up without closing it.
  Handle *release() noexcept { return std::exchange(handle_, nullptr); }

private:
  Handle *handle_ = nullptr;
};

// A structure that begins with its size, with the defaults in all other fields.
template <class Sized> Sized sized() noexcept {
  Sized fresh{};
  fresh.size = sizeof fresh;
  return fresh;
}

// Ends the handle of a file with a call that stores its last counts, also if the file has failed.
template <class Owned, class Handle, class Totals> Totals close_owned(Owned &owned, int (*close)(Handle *, Totals *), Totals *counts) {
  auto totals = sized<Totals>();
  const int code = close(owned.get(), &totals);
  if (code != FOREBAY_BUSY) {
    (void)owned.release();
  }
  if (counts != nullptr) {
    *counts = totals;
  }
  check(code);
  return totals;
}

using nanoseconds = std::chrono::nanoseconds;
// No time limit. Any other negative limit has passed already.
inline constexpr nanoseconds forever = nanoseconds::min();

inline std::int64_t limit(nanoseconds timeout) noexcept {
  return timeout == forever ? FOREBAY_FOREVER : timeout.count() < 0 ? 0 : timeout.count();
}

// The time limit of a call that may wait several times.
class deadline {
public:
  explicit deadline(nanoseconds timeout) noexcept {
    const auto now = clock::now();
    is_endless_ = timeout == forever || timeout > clock::time_point::max() - now;
    end_ = is_endless_ ? now : now + std::max(timeout, nanoseconds(0));
  }
  std::int64_t left() const noexcept {
    return is_endless_ ? FOREBAY_FOREVER : limit(std::max(nanoseconds(end_ - clock::now()), nanoseconds(0)));
  }

private:
  using clock = std::chrono::steady_clock;
  bool is_endless_;
  clock::time_point end_;
};

// Goes over the items of a source, for a range-based `for` and for algorithms. The source has the place: all its iterators are at the
// same item. It looks for the next item when that is used, so `*it++` is valid until then.
template <class Source, class Item> class item_iterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Item;
  using difference_type = std::ptrdiff_t;
  using pointer = const Item *;
  using reference = const Item &;

  // The item that `it++` has passed.
  class passed {
  public:
    explicit passed(const Item &item) : item_(item) {}
    Item operator*() const noexcept { return item_; } // a copy: this object ends with the expression

  private:
    Item item_;
  };

  item_iterator() noexcept = default;
  explicit item_iterator(Source &source) noexcept : source_(&source) {}
  reference operator*() const { return *source_->item(); }
  pointer operator->() const { return source_->item(); }
  item_iterator &operator++() {
    source_->pass();
    return *this;
  }
  passed operator++(int) {
    passed old(**this);
    ++*this;
    return old;
  }
  // Only whether both are at the end.
  bool operator==(const item_iterator &other) const { return has_ended() == other.has_ended(); }
  bool operator!=(const item_iterator &other) const { return !(*this == other); }

private:
  bool has_ended() const { return source_ == nullptr || source_->item() == nullptr; }
  Source *source_ = nullptr;
};

// The end of a ring that pushes elements `T`. One thread at a time may use it.
template <class T> class producer {
  static_assert(std::is_trivially_copyable_v<T>, "a ring copies its elements as bytes");

public:
  using owned = handle<forebay_ring_producer, forebay_ring_producer_destroy>;
  explicit producer(owned end) : handle_(std::move(end)) {
    check(forebay_ring_producer_open_view(handle_.get(), sizeof(T), &view_));
  }

  // Pushes one element: 0, FOREBAY_FULL, or FOREBAY_CLOSED.
  int try_push(const T &element) noexcept { return forebay_ring_push_inline(&view_, &element, sizeof(T)); }

  // Pushes one element, and waits for room.
  void push(const T &element, nanoseconds timeout = forever) {
    if (try_push(element) != 0) {
      check(forebay_ring_push_wait(handle_.get(), &element, limit(timeout)));
    }
  }

  // Pushes as many elements as there is room for: their number, FOREBAY_FULL, or FOREBAY_CLOSED.
  std::ptrdiff_t try_push_burst(const T *elements, std::size_t count) noexcept {
    return forebay_ring_push_burst_inline(&view_, elements, count, sizeof(T));
  }
#if __cplusplus >= 202002L
  std::ptrdiff_t try_push_burst(std::span<const T> elements) noexcept {
    return try_push_burst(elements.data(), elements.size());
  }
#endif

  std::size_t vacant() const { return static_cast<std::size_t>(check(forebay_ring_vacant(handle_.get()))); }
  forebay_ring_producer *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
  forebay_ring_producer_view view_{};
};

// The end of a ring that pops elements `T`. One thread at a time may use it.
template <class T> class consumer {
public:
  using owned = handle<forebay_ring_consumer, forebay_ring_consumer_destroy>;
  explicit consumer(owned end) : handle_(std::move(end)) {
    static_assert(std::is_trivially_copyable_v<T>, "a ring copies its elements as bytes");
    check(forebay_ring_consumer_open_view(handle_.get(), sizeof(T), &view_));
  }

  // Pops one element: 0, FOREBAY_EMPTY, or FOREBAY_CLOSED.
  int try_pop(T &element) noexcept { return forebay_ring_pop_inline(&view_, &element, sizeof(T)); }

  // Pops one element, and waits for it.
  T pop(nanoseconds timeout = forever) {
    T element;
    if (try_pop(element) != 0) {
      check(forebay_ring_pop_wait(handle_.get(), &element, limit(timeout)));
    }
    return element;
  }

  // Pops up to `count` elements: their number, FOREBAY_EMPTY, or FOREBAY_CLOSED.
  std::ptrdiff_t try_pop_burst(T *elements, std::size_t count) noexcept {
    return forebay_ring_pop_burst_inline(&view_, elements, count, sizeof(T));
  }
#if __cplusplus >= 202002L
  std::ptrdiff_t try_pop_burst(std::span<T> elements) noexcept {
    return try_pop_burst(elements.data(), elements.size());
  }
#endif

  std::size_t size() const { return static_cast<std::size_t>(check(forebay_ring_len(handle_.get()))); }
  forebay_ring_consumer *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
  forebay_ring_consumer_view view_{};
};

// A ring of `capacity` elements, all usable; 0 is the default of forebay_ring_options.
template <class T> std::pair<producer<T>, consumer<T>> ring(std::size_t capacity) {
  auto options = sized<forebay_ring_options>();
  options.element_size = sizeof(T);
  options.capacity = capacity;
  forebay_ring_producer *in = nullptr;
  forebay_ring_consumer *out = nullptr;
  check(forebay_ring_create(&options, &in, &out));
  typename producer<T>::owned pushes(in);
  typename consumer<T>::owned pops(out);
  return {producer<T>(std::move(pushes)), consumer<T>(std::move(pops))};
}

// The end of a stream that writes. One thread at a time may use it.
class stream_writer {
public:
  using owned = handle<forebay_stream_writer, forebay_stream_writer_destroy>;
  explicit stream_writer(owned end) : handle_(std::move(end)) {
    check(forebay_stream_writer_open_view(handle_.get(), &view_));
  }

  // Pushes as many bytes as there is room for: their number, FOREBAY_FULL, or FOREBAY_CLOSED.
  std::ptrdiff_t try_push(std::string_view bytes) noexcept {
    return forebay_stream_push_inline(&view_, bytes.data(), bytes.size());
  }

  // Pushes all bytes, and waits for room. It throws if the stream accepts no more; some bytes may be in it.
  // Its text is then the reason that the reader gave.
  void push(std::string_view bytes, nanoseconds timeout = forever) {
    std::optional<deadline> end; // most pushes do not wait, and look at no clock
    while (!bytes.empty()) {
      const std::ptrdiff_t pushed = try_push(bytes);
      if (pushed >= 0) {
        bytes.remove_prefix(static_cast<std::size_t>(pushed));
        continue;
      }
      if (!end) {
        end.emplace(timeout);
      }
      const std::ptrdiff_t vacant = forebay_stream_wait_vacant(handle_.get(), end->left());
      if (vacant < 0) {
        forebay::fail(static_cast<int>(vacant), forebay_last_error(), forebay_last_errno());
      }
    }
  }

  // Ends the stream: its content is complete.
  void close() { check(forebay_stream_close(handle_.get())); }
  // Ends the stream with an error. Its reason is one of `enum forebay_code` and a text; or 0 and null.
  void fail(int code = 0, const char *text = nullptr) { check(forebay_stream_fail(handle_.get(), code, text)); }
  forebay_stream_writer *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
  forebay_stream_writer_view view_{};
};

// The end of a stream that reads. One thread at a time may use it.
class stream_reader {
public:
  using owned = handle<forebay_stream_reader, forebay_stream_reader_destroy>;
  explicit stream_reader(owned end) : handle_(std::move(end)) {
    check(forebay_stream_reader_open_view(handle_.get(), &view_));
  }

  // All bytes that are there now, until the next call of this end. Empty: none, now or any more.
  std::string_view peek() noexcept {
    const void *bytes = nullptr;
    const std::ptrdiff_t filled = forebay_stream_peek_inline(&view_, &bytes);
    return filled > 0 ? std::string_view(static_cast<const char *>(bytes), static_cast<std::size_t>(filled))
                      : std::string_view();
  }

  // Removes the first `count` bytes, and returns how many there were.
  std::size_t pop(std::size_t count) { return static_cast<std::size_t>(check(forebay_stream_consume_inline(&view_, count))); }

  // Waits until there are bytes. False: there will be none any more; see `end`. It throws when the time is over.
  bool wait(nanoseconds timeout = forever) {
    const std::ptrdiff_t filled = forebay_stream_wait_filled(handle_.get(), limit(timeout));
    return filled == FOREBAY_CLOSED ? false : check(filled) > 0;
  }

  // How the stream has ended: one of `enum forebay_stream_end`. Bytes may still be in it.
  int end() const { return check(forebay_stream_ending(handle_.get())); }
  forebay_stream_reader *get() const noexcept { return handle_.get(); }

private:
  owned handle_;
  forebay_stream_reader_view view_{};
};

// A stream of bytes between two threads, with room for `capacity` bytes; 0 is the default of forebay_stream_options.
inline std::pair<stream_writer, stream_reader> stream(std::size_t capacity) {
  auto options = sized<forebay_stream_options>();
  options.capacity_bytes = capacity;
  forebay_stream_writer *in = nullptr;
  forebay_stream_reader *out = nullptr;
  check(forebay_stream_create(&options, &in, &out));
  stream_writer::owned writes(in);
  stream_reader::owned reads(out);
  return {stream_writer(std::move(writes)), stream_reader(std::move(reads))};
}

} // namespace FOREBAY_ERRORS
} // namespace forebay

#include "forebay_broadcast.hpp"
#include "forebay_byte_stream.hpp"
#include "forebay_capture.hpp"
#include "forebay_lanes.hpp"
#include "forebay_pool.hpp"
#include "forebay_queue.hpp"
#include "forebay_records.hpp"
#include "forebay_writer.hpp"

#endif // FOREBAY_HPP
