// moodycamel's ReaderWriterQueue, kept from growing, behind harness.hpp. It has no bursts.
#include <readerwriterqueue/readerwriterqueue.h>

struct Moodycamel {
    moodycamel::ReaderWriterQueue<u64> queue;
    explicit Moodycamel(size_t capacity) : queue(capacity) {}
    bool push(u64 number) { return queue.try_enqueue(number); }
    bool pop(u64 &number) { return queue.try_dequeue(number); }
    size_t push_burst(const u64 *numbers, size_t n) {
        size_t done = 0;
        while (done < n && push(numbers[done])) done++;
        return done;
    }
    size_t pop_burst(u64 *numbers, size_t n) {
        size_t done = 0;
        while (done < n && pop(numbers[done])) done++;
        return done;
    }
};

int main() { return serve<Moodycamel>(); }
