// atomic_queue's queue of atomic elements between one producer and one consumer, behind harness.hpp.
#include <atomic_queue/atomic_queue.h>

struct AtomicQueue {
    // A number that the harness never passes marks an empty slot. Then: for throughput, no total order, one producer and one consumer.
    atomic_queue::AtomicQueueB<u64, std::allocator<u64>, ~u64(0), true, false, true> queue;
    explicit AtomicQueue(size_t capacity) : queue(capacity) {}
    bool push(u64 number) { return queue.try_push(number); }
    bool pop(u64 &number) { return queue.try_pop(number); }
};

int main() { return serve<OneByOne<AtomicQueue>>(); }
