// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Files of records, which survive a crash. Include forebay.hpp.

#ifndef FOREBAY_RECORDS_HPP
#define FOREBAY_RECORDS_HPP

namespace forebay {
inline namespace FOREBAY_ERRORS {

// Appends records to a file. One thread at a time may use it. At the end of its scope it writes what is left; `close` also reports errors.
class appender {
public:
  explicit appender(const char *path, const forebay_appender_options &options = sized<forebay_appender_options>()) {
    handle_ = owned::make(forebay_appender_open, path, &options);
  }

  // Appends a copy of a record. False: it was dropped and counted, with `drop_when_full`; otherwise it waits for an empty buffer.
  bool append(std::string_view record) {
    const int code = forebay_appender_append(handle_.get(), record.data(), record.size());
    return code == FOREBAY_FULL ? false : check(code) == 0;
  }

  // Has the accepted records written now.
  void flush() { check(forebay_appender_flush(handle_.get())); }
  // Waits until all accepted records are durable.
  void wait_durable(nanoseconds timeout = forever) { check(forebay_appender_wait_durable(handle_.get(), limit(timeout))); }

  forebay_appender_totals totals() const {
    auto totals = sized<forebay_appender_totals>();
    check(forebay_appender_count(handle_.get(), &totals));
    return totals;
  }

  // Writes what is left, ends the appender, and returns the final counts. If the file failed, it throws, and `counts` says what was written.
  forebay_appender_totals close(forebay_appender_totals *counts = nullptr) {
    return close_owned(handle_, forebay_appender_close, counts);
  }
  forebay_appender *get() const noexcept { return handle_.get(); }

private:
  static int end(forebay_appender *handle) { return forebay_appender_close(handle, nullptr); }
  using owned = handle<forebay_appender, end>;
  owned handle_;
};

// Reads the records of a file: `for (std::string_view record : reader)`. One thread at a time may use it.
class record_reader {
public:
  explicit record_reader(const char *path) {
    handle_ = owned::make(forebay_record_reader_open, path);
  }

  // The next record, until the next call; none at the end. It throws FOREBAY_DAMAGED where the file is, after the records before it.
  std::optional<std::string_view> next() {
    item_.reset();
    forebay_bytes record{};
    const int code = forebay_record_reader_next(handle_.get(), &record);
    if (code == FOREBAY_CLOSED) {
      return std::nullopt;
    }
    check(code);
    return std::string_view(static_cast<const char *>(record.data), record.len);
  }

  using iterator = item_iterator<record_reader, std::string_view>;
  // A second loop goes on at the record where the first one was left.
  iterator begin() noexcept { return iterator(*this); }
  iterator end() noexcept { return iterator(); }
  forebay_record_reader *get() const noexcept { return handle_.get(); }

private:
  friend iterator;
  const std::string_view *item() {
    if (!item_) {
      item_ = next();
    }
    return item_ ? &*item_ : nullptr;
  }
  void pass() {
    item();
    item_.reset();
  }

  using owned = handle<forebay_record_reader, forebay_record_reader_destroy>;
  owned handle_;
  std::optional<std::string_view> item_; // where iterators are, if it was read
};

} // namespace FOREBAY_ERRORS
} // namespace forebay

#endif // FOREBAY_RECORDS_HPP
