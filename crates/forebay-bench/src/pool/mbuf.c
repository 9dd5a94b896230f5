/* DPDK's packets, behind dpdk.h: like ours they have headroom, a length and a count of who shares them, in front of the bytes. */
#include <rte_mbuf.h>

static void set_up(void) {
    begin_eal();
    pool = rte_pktmbuf_pool_create("pool", BUFFERS - 1, 256, 0, BYTES, SOCKET_ID_ANY);
    if (!pool) exit(2);
}

static inline void *take(void) {
    struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
    if (!packet) exit(7);
    return packet;
}

static inline void put_back(void *buffer) { rte_pktmbuf_free(buffer); }

static inline void take_burst(void **burst) {
    if (rte_pktmbuf_alloc_bulk(pool, (struct rte_mbuf **)burst, BURST)) exit(7);
}

static inline void put_back_burst(void **burst, int n) { rte_pktmbuf_free_bulk((struct rte_mbuf **)burst, n); }

static inline unsigned char *room(void *buffer) { return (unsigned char *)rte_pktmbuf_append(buffer, 64); }

static inline unsigned char *data(void *buffer) { return rte_pktmbuf_mtod((struct rte_mbuf *)buffer, unsigned char *); }
