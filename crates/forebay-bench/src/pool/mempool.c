/* DPDK's memory pool with its cache of 256, as a program that takes samples: says "ready", reads
 * "untouched|touched|bursts N" and answers "ns T". It takes no card and no huge pages. */
#include <rte_eal.h>
#include <rte_mempool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static inline void touch(void *buffer, long number) {
    memset(buffer, (unsigned char)number, 64);
    __asm__ volatile("" : : "r"(buffer) : "memory");
}

int main(void) {
    char *arguments[] = {"mempool", "--no-huge", "--no-pci", "--no-shconf", "-m", "64", "--lcores", "0",
                         "--no-telemetry", NULL};
    if (rte_eal_init(sizeof arguments / sizeof *arguments - 1, arguments) < 0) return 1;
    struct rte_mempool *pool = rte_mempool_create("pool", 2047, 2048, 256, 0, NULL, NULL, NULL, NULL, SOCKET_ID_ANY, 0);
    if (!pool) return 2;
    puts("ready");
    fflush(stdout);
    char shape[16];
    long n;
    while (scanf("%15s %ld", shape, &n) == 2) {
        double begun = now();
        if (!strcmp(shape, "untouched")) {
            for (long i = 0; i < n; i++) {
                void *buffer;
                if (rte_mempool_get(pool, &buffer)) return 3;
                __asm__ volatile("" : "+r"(buffer) : : "memory");
                rte_mempool_put(pool, buffer);
            }
        } else if (!strcmp(shape, "touched")) {
            for (long i = 0; i < n; i++) {
                void *buffer;
                if (rte_mempool_get(pool, &buffer)) return 3;
                touch(buffer, i);
                rte_mempool_put(pool, buffer);
            }
        } else {
            void *burst[32];
            for (long i = 0; i < n / 32; i++) {
                if (rte_mempool_get_bulk(pool, burst, 32)) return 3;
                for (int k = 0; k < 32; k++) touch(burst[k], i);
                rte_mempool_put_bulk(pool, burst, 32);
            }
        }
        printf("ns %.0f\n", now() - begun);
        fflush(stdout);
    }
    return 0;
}
