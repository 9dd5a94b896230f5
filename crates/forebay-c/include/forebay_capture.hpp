// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Packets of interfaces, files, shares and the simulated card, and filters. Include forebay.hpp.

#ifndef FOREBAY_CAPTURE_HPP
#define FOREBAY_CAPTURE_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// The bytes of a packet that were kept.
inline std::string_view bytes(const forebay_frame &frame) noexcept {
  return {reinterpret_cast<const char *>(frame.data), frame.len};
}

// A compiled filter in the language of libpcap. Any number of threads may use it.
class filter {
public:
  // For packets of this link type; 1 is Ethernet.
  explicit filter(const char *expression, std::uint16_t link_type = 1) {
    handle_ = owned::make(forebay_filter_compile, expression, link_type);
  }

  bool matches(std::string_view packet, std::uint32_t wire_len) const {
    return check(forebay_filter_matches(handle_.get(), packet.data(), packet.size(), wire_len)) == 1;
  }
  bool matches(const forebay_frame &frame) const { return matches(bytes(frame), frame.wire_len); }
  forebay_filter *get() const noexcept { return handle_.get(); }

private:
  using owned = handle<forebay_filter, forebay_filter_destroy>;
  owned handle_;
};

// Packets that a capture lends until its next call.
class burst {
public:
  burst() noexcept = default;
  burst(const forebay_frame *frames, std::size_t count) noexcept : frames_(frames), count_(count) {}
  const forebay_frame *begin() const noexcept { return frames_; }
  const forebay_frame *end() const noexcept { return frames_ + count_; }
  std::size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }

private:
  const forebay_frame *frames_ = nullptr;
  std::size_t count_ = 0;
};

// A source of packets: `for (const forebay_frame &frame : capture)` until it has ended or was stopped. One thread at a time may take packets,
// and must have ended before the object does.
class capture {
public:
  // An interface (`eth0`, `any`, `xdp:eth0`), the packets that a capture shares (`share:NAME`), or the simulated card (`sim`).
  static capture open(const char *name, const forebay_capture_options &options = sized<forebay_capture_options>()) {
    return capture(forebay_capture_open, name, options);
  }
  // A capture file, also a compressed one; `-` is standard input.
  static capture read(const char *path, const forebay_capture_options &options = sized<forebay_capture_options>()) {
    return capture(forebay_capture_read, path, options);
  }

  // Stores the packets that have arrived: their number, FOREBAY_EMPTY, FOREBAY_CLOSED, or FOREBAY_INTERRUPTED after a stop.
  std::ptrdiff_t try_next(burst &packets) noexcept { return next_within(packets, 0); }

  // The packets that have arrived; waits for the first one. None: the source has ended, or was stopped.
  burst next(nanoseconds timeout = forever) {
    burst packets;
    const std::ptrdiff_t count = next_within(packets, limit(timeout));
    if (count != FOREBAY_CLOSED && count != FOREBAY_INTERRUPTED) {
      check(count);
    }
    return packets;
  }

  // Detaches it from its source: packets received so far can still be taken. Any thread may call it, and a signal handler.
  int stop() const noexcept { return forebay_capture_stop(handle_.get()); }

  // The link type of an interface as in capture files; 1 is Ethernet.
  int link_type(std::uint32_t interface = 0) const { return check(forebay_capture_link_type(handle_.get(), interface)); }

  // The counts so far; after `finish`, those at the end.
  forebay_counts counts() const { return counted(forebay_capture_counts); }
  // Ends the capture. Packets that are lent are lent no more.
  forebay_counts finish() {
    lent_ = burst();
    at_ = nullptr;
    return counted(forebay_capture_finish);
  }

  // Goes over the packets, burst by burst. A second loop goes on at the packet where the first one was left.
  using iterator = item_iterator<capture, forebay_frame>;
  iterator begin() noexcept { return iterator(*this); }
  iterator end() noexcept { return iterator(); }
  forebay_capture *get() const noexcept { return handle_.get(); }

private:
  using owned = handle<forebay_capture, forebay_capture_destroy>;
  using opener = int (*)(const char *, const forebay_capture_options *, forebay_capture **);
  capture(opener open_it, const char *name, const forebay_capture_options &options) {
    handle_ = owned::make(open_it, name, &options);
  }

  friend iterator;
  const forebay_frame *item() {
    if (at_ == lent_.end()) {
      const burst packets = next();
      at_ = packets.begin();
      lent_ = packets;
    }
    return at_ == lent_.end() ? nullptr : at_;
  }
  void pass() {
    if (item() != nullptr) {
      ++at_;
    }
  }

  std::ptrdiff_t next_within(burst &packets, std::int64_t timeout) noexcept {
    lent_ = burst();
    at_ = nullptr;
    const forebay_frame *frames = nullptr;
    const std::ptrdiff_t count = forebay_capture_next(handle_.get(), &frames, timeout);
    packets = count > 0 ? burst(frames, static_cast<std::size_t>(count)) : burst();
    return count;
  }

  forebay_counts counted(int (*count)(forebay_capture *, forebay_counts *)) const {
    auto counts = sized<forebay_counts>();
    check(count(handle_.get(), &counts));
    return counts;
  }

  owned handle_;
  burst lent_; // to iterators, which are at `at_`
  const forebay_frame *at_ = nullptr;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_CAPTURE_HPP
