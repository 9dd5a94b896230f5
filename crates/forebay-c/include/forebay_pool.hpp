// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A pool of packets with room in front of the data, for headers. Include forebay.hpp.

#ifndef FOREBAY_POOL_HPP
#define FOREBAY_POOL_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// A packet in 16 bytes, for a ring or a queue between the threads of a process. One copy of it becomes a packet again, once. A descriptor
// that is lost keeps the packet's slot in use.
class descriptor {
public:
  descriptor() noexcept = default;
  explicit descriptor(const forebay_desc &words) noexcept : desc_(words) {}

  // Without touching the packet: the length of its data, the lowest 48 bits of its time, the hash of its flow, and its port.
  std::size_t size() const { return static_cast<std::size_t>(check(forebay_desc_len(&desc_))); }
  std::uint64_t time_ns() const { return static_cast<std::uint64_t>(check(forebay_desc_time_ns(&desc_))); }
  std::uint16_t hash() const { return static_cast<std::uint16_t>(check(forebay_desc_hash(&desc_))); }
  std::uint32_t port() const { return static_cast<std::uint32_t>(check(forebay_desc_port(&desc_))); }
  const forebay_desc &words() const noexcept { return desc_; }

private:
  forebay_desc desc_{};
};

// A packet: it returns to its pool at the end of its scope. One thread at a time may use it.
class packet {
public:
  using owned = handle<forebay_packet, forebay_packet_destroy>;
  explicit packet(owned taken) noexcept : handle_(std::move(taken)) {}

  // The packet of a descriptor, in any thread. It throws FOREBAY_MISUSE if a copy of the descriptor was one before.
  explicit packet(const descriptor &from) {
    handle_ = owned::make(forebay_desc_adopt, &from.words(), std::size_t{1});
  }

  // Turns the packet into a descriptor. This object is then as one that was moved from, unless it throws: FOREBAY_BUSY, if other packets
  // share its slot.
  descriptor describe() {
    forebay_packet *const own = handle_.get();
    forebay_desc words{};
    check(forebay_packet_describe(&own, 1, &words));
    (void)handle_.release();
    return descriptor(words);
  }

  // The data of the first slot, until the next call with this packet.
  std::string_view data() const {
    const void *bytes = nullptr;
    const std::ptrdiff_t len = check(forebay_packet_data(handle_.get(), &bytes));
    return {static_cast<const char *>(bytes), static_cast<std::size_t>(len)};
  }

  // Adds `n` bytes after the data, or in front of it, and returns where they are.
  char *put(std::uint32_t n) { return with(forebay_packet_put, n); }
  char *push(std::uint32_t n) { return with(forebay_packet_push, n); }

  // Removes `n` bytes from the front, and returns where they are.
  const char *pull(std::uint32_t n) {
    const void *bytes = nullptr;
    check(forebay_packet_pull(handle_.get(), n, &bytes));
    return static_cast<const char *>(bytes);
  }

  // Cuts the data to its first `len` bytes.
  void trim(std::uint32_t len) { check(forebay_packet_trim(handle_.get(), len)); }
  std::size_t size() const { return static_cast<std::size_t>(check(forebay_packet_len(handle_.get()))); }
  forebay_packet *get() const noexcept { return handle_.get(); }

private:
  char *with(int (*add)(forebay_packet *, std::uint32_t, void **), std::uint32_t n) {
    void *bytes = nullptr;
    check(add(handle_.get(), n, &bytes));
    return static_cast<char *>(bytes);
  }

  owned handle_;
};

// A pool of `slots` slots. Packets may outlive it.
class pool {
public:
  explicit pool(std::uint32_t slots = 0, std::uint32_t slot_bytes = 0) : pool(options_of(slots, slot_bytes)) {}
  explicit pool(const forebay_pool_options &options) {
    handle_ = owned::make(forebay_pool_create, &options);
  }

  // A packet without data; none if all slots are taken.
  std::optional<packet> try_take() {
    forebay_packet *taken = nullptr;
    const int code = forebay_pool_take(handle_.get(), 0, &taken);
    if (code == FOREBAY_EMPTY) {
      return std::nullopt;
    }
    check(code);
    return packet(packet::owned(taken));
  }

  // A packet without data; waits for a free slot.
  packet take(nanoseconds timeout = forever) {
    return packet(packet::owned::make(forebay_pool_take, handle_.get(), limit(timeout)));
  }
  forebay_pool *get() const noexcept { return handle_.get(); }

private:
  using owned = handle<forebay_pool, forebay_pool_destroy>;

  static forebay_pool_options options_of(std::uint32_t slots, std::uint32_t slot_bytes) {
    auto options = sized<forebay_pool_options>();
    options.slots = slots;
    options.slot_bytes = slot_bytes;
    return options;
  }

  owned handle_;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_POOL_HPP
