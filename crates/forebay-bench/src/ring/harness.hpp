// A ring in C or C++ as a program that takes samples: says "ready", reads "pass|work|trips|alone CAPACITY BURST PAUSES CPU CPU N"
// and answers "ns T". The loops are those of runs.rs. A Queue has push(u64), pop(u64 &), push_burst(const u64 *, n) and
// pop_burst(u64 *, n), the last two returning how many.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <immintrin.h>
#include <memory>
#include <thread>

typedef uint64_t u64;

static void expect(bool right) {
    if (!right) exit(5);
}

template <bool PAUSES> static inline void wait_a_little() {
    if (PAUSES) _mm_pause();
}

template <class Queue, bool PAUSES> static inline u64 pop(Queue &queue) {
    u64 number;
    while (!queue.pop(number)) wait_a_little<PAUSES>();
    return number;
}

template <class Queue, bool PAUSES> static inline void push(Queue &queue, u64 number) {
    while (!queue.push(number)) wait_a_little<PAUSES>();
}

enum { BURST = 32 };

// One multiplication and one addition, as step() in runs.rs.
static inline u64 step(u64 state, u64 number) { return state * 0x5851F42D4C957F2D + number; }

static const u64 ADDED = 0x14057B7EF767814F;

template <bool WORKS> static inline u64 next(u64 &state, u64 count) {
    return WORKS ? state = step(state, ADDED) : count;
}

template <bool WORKS> static inline u64 take(u64 found, u64 number) { return WORKS ? step(found, number) : found + number; }

template <bool WORKS> static u64 expected(u64 n) {
    if (!WORKS) return n * (n - 1) / 2;
    u64 made = 0, found = 0;
    for (u64 i = 0; i < n; i++) found = step(found, made = step(made, ADDED));
    return found;
}

template <class Queue, bool PAUSES, bool WORKS>
__attribute__((noinline)) void produce(Queue &queue, u64 n, bool bursts) {
    u64 state = 0;
    if (!bursts) {
        for (u64 i = 0; i < n; i++) push<Queue, PAUSES>(queue, next<WORKS>(state, i));
        return;
    }
    alignas(64) u64 burst[BURST];
    for (u64 i = 0; i < n; i += BURST) {
        for (int k = 0; k < BURST; k++) burst[k] = next<WORKS>(state, i + k);
        for (size_t done = 0; done < BURST;) {
            size_t pushed = queue.push_burst(burst + done, BURST - done);
            if (!pushed) wait_a_little<PAUSES>();
            done += pushed;
        }
    }
}

template <class Queue, bool PAUSES, bool WORKS>
__attribute__((noinline)) u64 consume(Queue &queue, u64 n, bool bursts) {
    u64 found = 0;
    if (!bursts) {
        for (u64 i = 0; i < n; i++) found = take<WORKS>(found, pop<Queue, PAUSES>(queue));
        return found;
    }
    alignas(64) u64 burst[BURST];
    for (u64 i = 0; i < n;) {
        size_t popped = queue.pop_burst(burst, BURST);
        if (!popped) wait_a_little<PAUSES>();
        for (size_t k = 0; k < popped; k++) found = take<WORKS>(found, burst[k]);
        i += popped;
    }
    return found;
}

template <class Queue> __attribute__((noinline)) u64 both(Queue &queue, u64 n, bool bursts) {
    u64 sum = 0;
    if (!bursts) {
        for (u64 i = 0; i < n; i++) {
            u64 number = 0;
            queue.push(i);
            queue.pop(number);
            sum += number;
        }
        return sum;
    }
    alignas(64) u64 in[BURST], out[BURST];
    for (u64 i = 0; i < n; i += BURST) {
        for (int k = 0; k < BURST; k++) in[k] = i + k;
        __asm__ volatile("" : : "r"(in) : "memory");
        queue.push_burst(in, BURST);
        size_t popped = queue.pop_burst(out, BURST);
        for (size_t k = 0; k < popped; k++) sum += out[k];
    }
    return sum;
}

// Runs one half on each processor; the nanoseconds from the first start to the last end.
template <class One, class Other> static double run_pair(int cpu, int other_cpu, One one, Other other) {
    std::atomic<int> ready{0};
    double begun[2], done[2];
    auto half = [&](int which, int on, auto &work) {
        pin(on);
        ready++;
        while (ready < 2) sched_yield();
        begun[which] = now();
        work();
        done[which] = now();
    };
    std::thread thread([&] { half(1, other_cpu, other); });
    half(0, cpu, one);
    thread.join();
    double first = begun[0] < begun[1] ? begun[0] : begun[1], last = done[0] > done[1] ? done[0] : done[1];
    return last - first;
}

template <class Queue, bool PAUSES, bool WORKS>
static double pass(size_t capacity, bool bursts, int cpu, int other_cpu, u64 n) {
    std::unique_ptr<Queue> queue(new Queue(capacity));
    u64 found = 0;
    double ns = run_pair(
        cpu, other_cpu, [&] { produce<Queue, PAUSES, WORKS>(*queue, n, bursts); },
        [&] { found = consume<Queue, PAUSES, WORKS>(*queue, n, bursts); });
    expect(found == expected<WORKS>(n));
    return ns;
}

template <class Queue, bool PAUSES>
static double run(const char *what, size_t capacity, bool bursts, int cpu, int other_cpu, u64 n) {
    if (!strcmp(what, "pass")) return pass<Queue, PAUSES, false>(capacity, bursts, cpu, other_cpu, n);
    if (!strcmp(what, "work")) return pass<Queue, PAUSES, true>(capacity, bursts, cpu, other_cpu, n);
    std::unique_ptr<Queue> queue(new Queue(capacity)), back(new Queue(capacity));
    if (!strcmp(what, "trips"))
        return run_pair(
            cpu, other_cpu,
            [&] {
                for (u64 i = 0; i < n; i++) {
                    push<Queue, PAUSES>(*queue, i);
                    expect(pop<Queue, PAUSES>(*back) == i);
                }
            },
            [&] {
                for (u64 i = 0; i < n; i++) push<Queue, PAUSES>(*back, pop<Queue, PAUSES>(*queue));
            });
    pin(cpu);
    double begun = now();
    u64 sum = both<Queue>(*queue, n, bursts);
    double elapsed = now() - begun;
    expect(sum == n * (n - 1) / 2);
    return elapsed;
}

// A queue that has no bursts: its numbers one after another.
template <class Queue> struct OneByOne : Queue {
    using Queue::Queue;
    size_t push_burst(const u64 *numbers, size_t n) {
        size_t done = 0;
        while (done < n && this->push(numbers[done])) done++;
        return done;
    }
    size_t pop_burst(u64 *numbers, size_t n) {
        size_t done = 0;
        while (done < n && this->pop(numbers[done])) done++;
        return done;
    }
};

template <class Queue> static int serve() {
    puts("ready");
    fflush(stdout);
    char what[8];
    size_t capacity;
    int burst, pauses, cpu, other_cpu;
    u64 n;
    while (scanf("%7s %zu %d %d %d %d %" SCNu64, what, &capacity, &burst, &pauses, &cpu, &other_cpu, &n) == 7) {
        auto way = pauses ? run<Queue, true> : run<Queue, false>;
        printf("ns %.0f\n", way(what, capacity, burst > 1, cpu, other_cpu, n));
        fflush(stdout);
    }
    return 0;
}
