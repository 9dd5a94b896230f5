// atomic_queue's queue of atomic elements between one producer and one consumer, behind harness.hpp. It has no bursts.
#include <atomic_queue/atomic_queue.h>

struct AtomicQueue {
    // A number that the harness never passes marks an empty slot. Then: for throughput, no total order, one producer and one consumer.
    atomic_queue::AtomicQueueB<u64, std::allocator<u64>, ~u64(0), true, false, true> queue;
    explicit AtomicQueue(size_t capacity) : queue(capacity) {}
    bool push(u64 number) { return queue.try_push(number); }
    bool pop(u64 &number) { return queue.try_pop(number); }
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

int main() { return serve<AtomicQueue>(); }
