// The byte stream of the course CS 144: the class of the course is forebay's, by an alias.
#include <forebay.hpp>
#include <iostream>

using forebay::ByteStream;
using forebay::Reader;
using forebay::Writer;

int main() {
  ByteStream stream{1000};
  Writer &writer = stream.writer();
  writer.push("hello, ");
  writer.push(std::string("course"));
  writer.close();
  Reader &reader = stream.reader();
  while (not reader.is_finished()) {
    const auto peeked = reader.peek().substr(0, 4);
    std::cout << peeked;
    reader.pop(peeked.size());
  }
  std::cout << ": " << reader.bytes_popped() << " bytes\n";
}
