/* DPDK's memory pool with a cache of 256 for each thread, behind harness.h. It takes no card and no huge pages. */
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

static struct rte_mempool *pool;

static void set_up(void) {
    char *arguments[] = {"mempool", "--no-huge", "--no-pci", "--no-shconf", "-m", "64", "--lcores", "0",
                         "--no-telemetry", NULL};
    if (rte_eal_init(sizeof arguments / sizeof *arguments - 1, arguments) < 0) exit(1);
    pool = rte_mempool_create("pool", BUFFERS - 1, BYTES, 256, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
    if (!pool) exit(2);
}

/* Without a number of its own a thread has no cache. */
static void begin_thread(void) {
    if (rte_thread_register()) exit(3);
}

/* Whoever gets the number next gets the cache, too; empty, so that it is not one more to hold buffers. */
static void end_thread(void) {
    rte_mempool_cache_flush(rte_mempool_default_cache(pool, rte_lcore_id()), pool);
    rte_thread_unregister();
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
