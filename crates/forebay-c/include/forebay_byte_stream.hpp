// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A byte stream for one thread, with the calls of the course CS 144 ("Computer Networking: a byte stream"). Include forebay.hpp.

#ifndef FOREBAY_BYTE_STREAM_HPP
#define FOREBAY_BYTE_STREAM_HPP

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

namespace forebay {
inline namespace FOREBAY_ERRORS {

// The memory of a ByteStream, and what both ends know. The memory is mapped twice, so that the content is always one array.
class ByteStreamState {
public:
  explicit ByteStreamState(std::uint64_t capacity) : capacity_(capacity) {
    forebay_mirror *mirror = nullptr;
    void *base = nullptr;
    std::size_t seam = 0;
    check(forebay_mirror_create(std::max<std::uint64_t>(capacity, 1), &mirror, &base, &seam));
    mirror_ = handle<forebay_mirror, forebay_mirror_destroy>(mirror);
    base_ = static_cast<char *>(base);
    seam_ = seam;
  }

  // An object that was moved from has no room and is empty.
  ByteStreamState(ByteStreamState &&other) noexcept { swap(other); }
  ByteStreamState &operator=(ByteStreamState &&other) noexcept {
    ByteStreamState moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~ByteStreamState() = default;

  void set_error() noexcept { error_ = true; }
  bool has_error() const noexcept { return error_; }

protected:
  void swap(ByteStreamState &other) noexcept {
    std::swap(mirror_, other.mirror_);
    std::swap(base_, other.base_);
    std::swap(seam_, other.seam_);
    std::swap(capacity_, other.capacity_);
    std::swap(head_, other.head_);
    std::swap(len_, other.len_);
    std::swap(pushed_, other.pushed_);
    std::swap(closed_, other.closed_);
    std::swap(error_, other.error_);
  }

  handle<forebay_mirror, forebay_mirror_destroy> mirror_{};
  char *base_ = nullptr;
  std::uint64_t seam_ = 0; // where the second view begins
  std::uint64_t capacity_ = 0;
  std::uint64_t head_ = 0; // of the content, in either view; a push moves it back into the first one
  std::uint64_t len_ = 0;
  std::uint64_t pushed_ = 0;
  bool closed_ = false;
  bool error_ = false;
};

// The calls of the end that writes.
class Writer : public ByteStreamState {
public:
  using ByteStreamState::ByteStreamState;

  // Pushes as much of `data` as there is room for, and returns how much. A closed stream accepts nothing.
  std::uint64_t push(std::string_view data) noexcept {
    const std::uint64_t pushed = closed_ ? 0 : std::min<std::uint64_t>(data.size(), available_capacity());
    if (pushed == 0) {
      return 0;
    }
    if (head_ >= seam_) {
      head_ -= seam_;
    }
    // The compiler may take the two views for different memory, and move what the caller read or will read past the copy.
    __asm__ volatile("" ::: "memory");
    forebay_copy(base_ + head_ + len_, data.data(), pushed);
    __asm__ volatile("" ::: "memory");
    len_ += pushed;
    pushed_ += pushed;
    return pushed;
  }

  void close() noexcept { closed_ = true; }
  bool is_closed() const noexcept { return closed_; }
  std::uint64_t available_capacity() const noexcept { return capacity_ - len_; }
  std::uint64_t bytes_pushed() const noexcept { return pushed_; }
};

// The calls of the end that reads.
class Reader : protected Writer {
public:
  using Writer::Writer;
  using Writer::has_error;
  using Writer::set_error;

  // The whole content. It is valid until the next push or pop.
  std::string_view peek() const noexcept { return {base_ + head_, len_}; }

  // Removes the first `len` bytes, or all if there are fewer, and returns how many.
  std::uint64_t pop(std::uint64_t len) noexcept {
    const std::uint64_t popped = std::min(len, len_);
    head_ += popped;
    len_ -= popped;
    return popped;
  }

  bool is_finished() const noexcept { return closed_ && len_ == 0; }
  std::uint64_t bytes_buffered() const noexcept { return len_; }
  std::uint64_t bytes_popped() const noexcept { return pushed_ - len_; }
};

// Both ends. It can be moved, not copied; `writer()` and `reader()` are references into it.
class ByteStream : public Reader {
public:
  // Throws `error` if there is no memory.
  explicit ByteStream(std::uint64_t capacity) : Reader(capacity) {}

  Writer &writer() noexcept { return *this; }
  const Writer &writer() const noexcept { return *this; }
  Reader &reader() noexcept { return *this; }
  const Reader &reader() const noexcept { return *this; }

  using Writer::available_capacity;
  using Writer::bytes_pushed;
  using Writer::close;
  using Writer::is_closed;
  using Writer::push;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_BYTE_STREAM_HPP
