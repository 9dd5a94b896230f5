// DPDK's ring between one producer and one consumer, behind harness.hpp. Its memory is ours: it needs no environment.
#include <rte_ring.h>

struct RteRing {
    rte_ring *ring;
    explicit RteRing(size_t capacity) {
        // Its size is a power of two, of which one slot stays empty.
        ring = (rte_ring *)aligned_alloc(4096, (rte_ring_get_memsize(capacity) + 4095) / 4096 * 4096);
        if (!ring || rte_ring_init(ring, "ring", capacity, RING_F_SP_ENQ | RING_F_SC_DEQ)) exit(6);
    }
    ~RteRing() { free(ring); }
    bool push(u64 number) { return !rte_ring_sp_enqueue(ring, (void *)number); }
    bool pop(u64 &number) { return !rte_ring_sc_dequeue(ring, (void **)&number); }
    size_t push_burst(const u64 *numbers, size_t n) {
        return rte_ring_sp_enqueue_burst(ring, (void *const *)numbers, n, nullptr);
    }
    size_t pop_burst(u64 *numbers, size_t n) { return rte_ring_sc_dequeue_burst(ring, (void **)numbers, n, nullptr); }
};

int main() { return serve<RteRing>(); }
