/* DPDK's memory pool with a cache of 256 for each thread, behind dpdk.h: bare buffers. */
static void set_up(void) {
    begin_eal();
    pool = rte_mempool_create("pool", BUFFERS - 1, BYTES, 256, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
    if (!pool) exit(2);
}

static inline void *take(void) {
    void *buffer;
    if (rte_mempool_get(pool, &buffer)) exit(7);
    return buffer;
}

static inline void put_back(void *buffer) { rte_mempool_put(pool, buffer); }

static inline void take_burst(void **burst) {
    if (rte_mempool_get_bulk(pool, burst, BURST)) exit(7);
}

static inline void put_back_burst(void **burst, int n) { rte_mempool_put_bulk(pool, burst, n); }

static inline unsigned char *room(void *buffer) { return buffer; }

static inline unsigned char *data(void *buffer) { return buffer; }
