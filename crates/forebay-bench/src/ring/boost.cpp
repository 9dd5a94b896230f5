// Boost's single-producer ring, behind harness.hpp.
#include <boost/lockfree/spsc_queue.hpp>

struct Boost {
    boost::lockfree::spsc_queue<u64> queue;
    explicit Boost(size_t capacity) : queue(capacity) {}
    bool push(u64 number) { return queue.push(number); }
    bool pop(u64 &number) { return queue.pop(number); }
    size_t push_burst(const u64 *numbers, size_t n) { return queue.push(numbers, n); }
    size_t pop_burst(u64 *numbers, size_t n) { return queue.pop(numbers, n); }
};

int main() { return serve<Boost>(); }
