// The speed test of the course CS 144 as the text "CS 144 Checkpoint 0 - Byte Stream" has it, with the text's best version and with
// forebay::ByteStream, in turns and in one process. Prints the median of each in Gbit/s.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <forebay.hpp>
#include <queue>
#include <random>
#include <string>
#include <vector>

namespace text {

// The text's vector with two indices, and its copies by std::copy: it has `slack` times the capacity, and moves the content to the front
// once the head reaches the mark.
class ByteStream {
public:
  ByteStream(std::uint64_t capacity, double slack)
      : capacity_(capacity), mark_(static_cast<std::uint64_t>(static_cast<double>(capacity) * (slack - 1))),
        buffer_(capacity + mark_) {}

  ByteStream &writer() { return *this; }
  ByteStream &reader() { return *this; }

  void push(const std::string &data) {
    const std::uint64_t size = std::min<std::uint64_t>(data.size(), available_capacity());
    std::copy(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size), buffer_.begin() + static_cast<std::ptrdiff_t>(tail_));
    tail_ += size;
    pushed_ += size;
  }
  void close() { closed_ = true; }
  bool is_closed() const { return closed_; }
  std::uint64_t available_capacity() const { return capacity_ - (tail_ - head_); }
  std::string_view peek() const { return {buffer_.data() + head_, tail_ - head_}; }
  void pop(std::uint64_t len) {
    head_ += std::min(len, bytes_buffered());
    if (head_ >= mark_) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(head_), buffer_.begin() + static_cast<std::ptrdiff_t>(tail_),
                buffer_.begin());
      tail_ -= head_;
      head_ = 0;
    }
  }
  bool is_finished() const { return closed_ && head_ == tail_; }
  std::uint64_t bytes_buffered() const { return tail_ - head_; }

private:
  std::uint64_t capacity_, mark_, head_ = 0, tail_ = 0, pushed_ = 0;
  bool closed_ = false;
  std::vector<char> buffer_;
};

} // namespace text

constexpr std::uint64_t capacity = 32768, write_size = 1500, read_size = 128;

// The critical section of the course's test. With `appended`, what is read is appended to an output, as there; otherwise it is only looked
// at, so that the stream is most of the time.
template <class Stream> double gbit_per_second(Stream bs, const std::string &data, bool appended) {
  std::queue<std::string> split_data;
  for (std::size_t i = 0; i < data.size(); i += write_size) split_data.emplace(data.substr(i, write_size));
  std::string output_data;
  output_data.reserve(data.size());
  std::uint64_t seen = 0;
  const auto start_time = std::chrono::steady_clock::now();
  while (not bs.reader().is_finished()) {
    if (split_data.empty()) {
      if (not bs.writer().is_closed()) {
        bs.writer().close();
      }
    } else if (split_data.front().size() <= bs.writer().available_capacity()) {
      bs.writer().push(std::move(split_data.front()));
      split_data.pop();
    }
    if (bs.reader().bytes_buffered()) {
      auto peeked = bs.reader().peek().substr(0, read_size);
      if (peeked.empty()) {
        std::abort();
      }
      if (appended) {
        output_data += peeked;
      } else {
        seen += static_cast<unsigned char>(peeked[0]);
      }
      bs.reader().pop(peeked.size());
    }
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start_time;
  if (appended ? output_data != data : seen == 0) {
    std::fprintf(stderr, "what was read is not what was written\n");
    std::exit(1);
  }
  return static_cast<double>(data.size()) * 8e-9 / taken.count();
}

int main(int count, char **arguments) {
  const int rounds = count > 1 ? std::max(1, std::atoi(arguments[1])) : 31;
  std::string data(10000000, '\0');
  std::mt19937 random{789};
  for (char &byte : data) byte = static_cast<char>(random());
  for (const bool appended : {true, false}) {
    const double slacks[] = {1.25, 2, 4};
    std::vector<double> rates[4];
    for (int round = 0; round < rounds; round++) {
      for (int side = 0; side < 4; side++) { // another one first in each round
        const int chosen = (side + round) % 4;
        rates[chosen].push_back(chosen == 3 ? gbit_per_second(forebay::ByteStream(capacity), data, appended)
                                            : gbit_per_second(text::ByteStream(capacity, slacks[chosen]), data, appended));
      }
    }
    for (auto &rate : rates) std::sort(rate.begin(), rate.end());
    const auto median = [&](int side) { return rates[side][rates[side].size() / 2]; };
    std::printf("%s\n", appended ? "the course's test" : "without its output");
    double best = 0;
    for (int side = 0; side < 3; side++) {
      best = std::max(best, median(side));
      std::printf("  the text's vector, %4.2f times the capacity  %7.2f Gbit/s\n", slacks[side], median(side));
    }
    std::printf("  forebay::ByteStream                        %7.2f Gbit/s, %.2f times the best of the text\n", median(3),
                median(3) / best);
  }
}
