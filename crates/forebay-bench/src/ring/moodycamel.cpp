// moodycamel's ReaderWriterQueue, kept from growing, behind harness.hpp.
#include <readerwriterqueue/readerwriterqueue.h>

struct Moodycamel {
    moodycamel::ReaderWriterQueue<u64> queue;
    explicit Moodycamel(size_t capacity) : queue(capacity) {}
    bool push(u64 number) { return queue.try_enqueue(number); }
    bool pop(u64 &number) { return queue.try_dequeue(number); }
};

int main() { return serve<OneByOne<Moodycamel>>(); }
