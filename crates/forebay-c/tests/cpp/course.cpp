// A byte stream of the course CS 144 by an alias: the calls, the accessors, moves, and a comparison with a plain string.
#include "check.hpp"
#include <random>
#include <utility>

using forebay::ByteStream;
using forebay::Reader;
using forebay::Writer;

static_assert(sizeof(Reader) == sizeof(ByteStream) && sizeof(Writer) == sizeof(ByteStream));
static_assert(std::is_nothrow_move_constructible_v<ByteStream> && !std::is_copy_constructible_v<ByteStream>);

// As the course declares it.
void read(Reader &reader, std::uint64_t max_len, std::string &out);

void read(Reader &reader, std::uint64_t max_len, std::string &out) {
  out.clear();
  while (reader.bytes_buffered() > 0 && out.size() < max_len) {
    auto view = reader.peek();
    CHECK(!view.empty());
    view = view.substr(0, max_len - out.size());
    out += view;
    reader.pop(view.size());
  }
}

// Keeps a stream as a member, as later parts of the course do.
class Holder {
public:
  explicit Holder(ByteStream &&output) : output_(std::move(output)) {}
  Reader &reader() { return output_.reader(); }
  const Reader &reader() const { return output_.reader(); }
  const Writer &writer() const { return output_.writer(); }
  void insert(std::string data) { output_.writer().push(std::move(data)); }

private:
  ByteStream output_;
};

static void one_write() {
  ByteStream stream{15};
  CHECK(!stream.writer().is_closed() && !stream.reader().is_finished());
  CHECK(stream.writer().available_capacity() == 15 && stream.reader().peek().empty());
  stream.writer().push(std::string("cat"));
  stream.writer().push("");
  CHECK(stream.writer().bytes_pushed() == 3 && stream.writer().available_capacity() == 12);
  const ByteStream &seen = stream;
  CHECK(seen.reader().bytes_buffered() == 3 && seen.reader().peek() == "cat");
  stream.writer().close();
  stream.writer().push("late");
  CHECK(stream.writer().is_closed() && !stream.reader().is_finished() && stream.writer().bytes_pushed() == 3);
  std::string out;
  read(stream.reader(), 2, out);
  CHECK(out == "ca" && stream.reader().bytes_popped() == 2);
  stream.reader().pop(10);
  CHECK(stream.reader().is_finished() && stream.reader().bytes_popped() == 3 && !stream.has_error());
  stream.reader().set_error();
  CHECK(stream.has_error() && stream.writer().has_error() && stream.reader().has_error());
}

static void capacity_is_exact() {
  ByteStream two{2}, none{0};
  CHECK(two.push("abc") == 2 && two.push("d") == 0 && two.peek() == "ab" && two.pop(1) == 1);
  CHECK(two.push("cd") == 1 && two.peek() == "bc" && two.available_capacity() == 0);
  CHECK(none.push("x") == 0 && none.peek().empty() && none.available_capacity() == 0);
  CHECK(thrown([] { ByteStream{UINT64_MAX}; }) < 0);
}

static void moves() {
  ByteStream stream{4096};
  stream.push("hello");
  ByteStream moved{std::move(stream)};
  CHECK(moved.peek() == "hello");
  ByteStream other{3};
  other.push("abc");
  other = std::move(moved);
  CHECK(other.peek() == "hello" && other.available_capacity() == 4091);
  Holder holder{std::move(other)};
  holder.insert(" world");
  CHECK(holder.reader().peek() == "hello world" && holder.writer().bytes_pushed() == 11);
}

// Random pushes and pops beside a string, around the end of the memory many times.
static void all_bytes_arrive_in_order(std::uint64_t capacity) {
  std::mt19937_64 random{capacity};
  ByteStream stream{capacity};
  std::string expected;
  std::uint64_t pushed = 0, popped = 0;
  while (pushed < 40 * capacity + 1000) {
    std::string data(random() % (2 * capacity), '\0');
    for (char &byte : data) byte = static_cast<char>(random());
    const auto fits = std::min<std::uint64_t>(data.size(), capacity - expected.size());
    CHECK(stream.push(data) == fits);
    expected.append(data, 0, fits);
    pushed += fits;
    for (auto times = random() % 4; times > 0; times--) {
      const auto n = random() % (capacity + 1), there = std::min<std::uint64_t>(n, expected.size());
      CHECK(stream.peek() == expected && stream.pop(n) == there);
      expected.erase(0, there);
      popped += there;
    }
    CHECK(stream.bytes_pushed() == pushed && stream.bytes_popped() == popped);
    CHECK(stream.bytes_buffered() == expected.size() && stream.available_capacity() == capacity - expected.size());
  }
}

int main() {
  one_write();
  capacity_is_exact();
  moves();
  for (const std::uint64_t capacity : {1, 7, 4096, 5000, 8192}) all_bytes_arrive_in_order(capacity);
}
