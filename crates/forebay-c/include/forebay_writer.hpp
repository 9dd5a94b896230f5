// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Capture files to be written, pcapng and pcap. Include forebay.hpp.

#ifndef FOREBAY_WRITER_HPP
#define FOREBAY_WRITER_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// A capture file being written. One thread at a time may use it. At the end of its scope it writes what is left; `close` also reports errors.
class writer {
public:
  // Makes the file, or truncates it. The end of its name selects the format, unless `options` does.
  explicit writer(const char *path, const forebay_writer_options &options = sized<forebay_writer_options>()) {
    handle_ = owned::make(forebay_writer_create, path, &options);
  }
  // Writes to a duplicate of a descriptor: of a file, a pipe or a socket that blocks.
  explicit writer(int descriptor, const forebay_writer_options &options = sized<forebay_writer_options>()) {
    handle_ = owned::make(forebay_writer_open_descriptor, descriptor, &options);
  }

  // Describes an interface, and returns its number for packets. Without any, packets have interface 0, which is Ethernet.
  std::uint32_t describe(std::uint16_t link_type, const char *name = nullptr) {
    return static_cast<std::uint32_t>(check(forebay_writer_interface(handle_.get(), link_type, name)));
  }
  // The same for an interface of a capture, with all that is known of it.
  std::uint32_t describe(const capture &source, std::uint32_t interface) {
    return static_cast<std::uint32_t>(check(forebay_writer_interface_of(handle_.get(), source.get(), interface)));
  }

  // Writes packets of a capture, and describes their interfaces.
  void write(const capture &source, const burst &packets) {
    check(forebay_writer_write_from(handle_.get(), source.get(), packets.begin(), packets.size()));
  }
  void write(const capture &source, const forebay_frame &packet) {
    check(forebay_writer_write_from(handle_.get(), source.get(), &packet, 1));
  }

  // Writes the counts of each interface of a capture, usually after its `finish`. False: it counts the packets of several together.
  bool counts(const capture &source, std::uint64_t time_ns) {
    const int code = forebay_writer_counts_from(handle_.get(), source.get(), time_ns);
    return code != FOREBAY_UNSUPPORTED && check(code) == 0;
  }

  // Writes packets with numbers of interfaces that `describe` returned. If it throws FOREBAY_INVALID or FOREBAY_TOO_LONG, those before the refused one are written.
  void write(const forebay_frame &frame) { check(forebay_writer_write(handle_.get(), &frame, 1)); }
  void write(const burst &packets) { check(forebay_writer_write(handle_.get(), packets.begin(), packets.size())); }

  // Writes the counts of an interface, usually those of `capture::finish`.
  void write(const forebay_counts &counts, std::uint64_t time_ns, std::uint32_t interface = 0) {
    check(forebay_writer_counts(handle_.get(), interface, time_ns, &counts));
  }

  // Hands all packets to the operating system, so that they survive the end of this process.
  void flush() { check(forebay_writer_flush(handle_.get())); }

  forebay_writer_totals totals() const {
    auto totals = sized<forebay_writer_totals>();
    check(forebay_writer_count(handle_.get(), &totals));
    return totals;
  }

  // Writes what is left, ends the writer, and returns the final counts. If the file failed, it throws, and `counts` says what was written.
  forebay_writer_totals close(forebay_writer_totals *counts = nullptr) { return close_owned(handle_, forebay_writer_close, counts); }
  forebay_writer *get() const noexcept { return handle_.get(); }

private:
  static int end(forebay_writer *handle) { return forebay_writer_close(handle, nullptr); }
  using owned = handle<forebay_writer, end>;
  owned handle_;
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_WRITER_HPP
