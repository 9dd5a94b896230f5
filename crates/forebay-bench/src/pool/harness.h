/* Buffers in C as a program that takes samples: says "ready", reads "untouched|touched|bursts|single|many CPU CPU N" and
 * answers "ns T". The loops are those of mod.rs (the first three) and of across.rs (the last two, in two threads), the link
 * is link.rs's. Whoever comes behind this file says how buffers are taken and returned. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 2048, BUFFERS = 2048, BURST = 32, PLACES = 256 };

static void set_up(void);
static void begin_thread(void);
static void end_thread(void);
static inline void *take(void);
static inline void put_back(void *buffer);
static inline void take_burst(void **burst);
static inline void put_back_burst(void **burst, int n);
/* Where 64 bytes are written to a buffer just taken, and where they are in one received. */
static inline unsigned char *room(void *buffer);
static inline unsigned char *data(void *buffer);

static inline void touch(void *buffer, long number) {
    unsigned char *line = room(buffer);
    memset(line, (unsigned char)number, 64);
    __asm__ volatile("" : : "r"(line) : "memory");
}

static inline void expect(void *buffer, long number) {
    if (*data(buffer) != (unsigned char)number) exit(5);
}

__attribute__((noinline)) static void alone(const char *shape, long n) {
    if (!strcmp(shape, "untouched")) {
        for (long i = 0; i < n; i++) {
            void *buffer = take();
            __asm__ volatile("" : "+r"(buffer) : : "memory");
            put_back(buffer);
        }
    } else if (!strcmp(shape, "touched")) {
        for (long i = 0; i < n; i++) {
            void *buffer = take();
            touch(buffer, i);
            put_back(buffer);
        }
    } else {
        void *burst[BURST];
        for (long i = 0; i < n / BURST; i++) {
            take_burst(burst);
            for (int k = 0; k < BURST; k++) touch(burst[k], i);
            put_back_burst(burst, BURST);
        }
    }
}

static struct {
    _Alignas(128) atomic_ulong tail;
    _Alignas(128) atomic_ulong head;
    _Alignas(128) void *places[PLACES];
} way;

static inline void send(unsigned long *tail, unsigned long *cached_head, void **buffers, unsigned long n) {
    while (n) {
        while (*tail - *cached_head == PLACES) *cached_head = atomic_load_explicit(&way.head, memory_order_acquire);
        unsigned long room = PLACES - (*tail - *cached_head), some = n < room ? n : room;
        for (unsigned long k = 0; k < some; k++) way.places[(*tail)++ % PLACES] = *buffers++;
        atomic_store_explicit(&way.tail, *tail, memory_order_release);
        n -= some;
    }
}

static inline unsigned long receive(unsigned long *head, unsigned long *cached_tail, void **buffers, unsigned long n) {
    while (*cached_tail == *head) *cached_tail = atomic_load_explicit(&way.tail, memory_order_acquire);
    unsigned long filled = *cached_tail - *head, some = n < filled ? n : filled;
    for (unsigned long k = 0; k < some; k++) buffers[k] = way.places[(*head)++ % PLACES];
    atomic_store_explicit(&way.head, *head, memory_order_release);
    return some;
}

__attribute__((noinline)) static void taking(int bursts, long n) {
    unsigned long tail = 0, cached_head = 0;
    void *burst[BURST];
    if (!bursts) {
        for (long i = 0; i < n; i++) {
            void *buffer = take();
            touch(buffer, i);
            send(&tail, &cached_head, &buffer, 1);
        }
        return;
    }
    for (long i = 0; i < n; i += BURST) {
        take_burst(burst);
        for (int k = 0; k < BURST; k++) touch(burst[k], i + k);
        send(&tail, &cached_head, burst, BURST);
    }
}

__attribute__((noinline)) static void returning(int bursts, long n) {
    unsigned long head = 0, cached_tail = 0;
    void *burst[BURST];
    if (!bursts) {
        for (long i = 0; i < n; i++) {
            void *buffer;
            receive(&head, &cached_tail, &buffer, 1);
            expect(buffer, i);
            put_back(buffer);
        }
        return;
    }
    for (long i = 0; i < n;) {
        unsigned long some = receive(&head, &cached_tail, burst, BURST);
        for (unsigned long k = 0; k < some; k++) expect(burst[k], i + k);
        put_back_burst(burst, some);
        i += some;
    }
}

/* One half of a pair: what it does, where, and when it began and was done. */
struct half {
    void (*work)(int bursts, long n);
    int cpu, bursts;
    long n;
    double begun, done;
};

static atomic_int ready;

static void *run_half(void *argument) {
    struct half *half = argument;
    pin(half->cpu);
    begin_thread();
    ready++;
    while (ready < 2) sched_yield();
    half->begun = now();
    half->work(half->bursts, half->n);
    half->done = now();
    end_thread();
    return NULL;
}

/* Runs one half on each processor; the nanoseconds from the first start to the last end. */
static double across(int bursts, int cpu, int other_cpu, long n) {
    struct half halves[2] = {{taking, cpu, bursts, n}, {returning, other_cpu, bursts, n}};
    pthread_t threads[2];
    way.tail = way.head = ready = 0;
    for (int k = 0; k < 2; k++)
        if (pthread_create(&threads[k], NULL, run_half, &halves[k])) exit(6);
    for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
    double first = halves[0].begun < halves[1].begun ? halves[0].begun : halves[1].begun;
    double last = halves[0].done > halves[1].done ? halves[0].done : halves[1].done;
    return last - first;
}

int main(void) {
    set_up();
    puts("ready");
    fflush(stdout);
    char shape[16];
    int cpu, other_cpu;
    long n;
    while (scanf("%15s %d %d %ld", shape, &cpu, &other_cpu, &n) == 4) {
        double took;
        if (!strcmp(shape, "single") || !strcmp(shape, "many")) {
            took = across(*shape == 'm', cpu, other_cpu, n);
        } else {
            pin(cpu);
            double begun = now();
            alone(shape, n);
            took = now() - begun;
        }
        printf("ns %.0f\n", took);
        fflush(stdout);
    }
    return 0;
}
