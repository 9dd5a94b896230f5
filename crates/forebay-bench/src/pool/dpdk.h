/* What both pools of DPDK's need, behind harness.h: it takes no card and no huge pages; and a thread's number and cache. */
#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mempool.h>

static struct rte_mempool *pool;

static void begin_eal(void) {
    char *arguments[] = {"mempool", "--no-huge", "--no-pci", "--no-shconf", "-m", "64", "--lcores", "0",
                         "--no-telemetry", NULL};
    if (rte_eal_init(sizeof arguments / sizeof *arguments - 1, arguments) < 0) exit(1);
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

