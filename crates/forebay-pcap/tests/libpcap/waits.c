/* Takes packets as programs with an event loop do: waits on the descriptor, and calls nothing before it is readable.
 * usage: waits DEVICE|FILE FILTER PACKETS [fork|direction|late|after|threadless|sandboxed] */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <unistd.h>

static void count(u_char *packets, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)packets;
}

/* 1: readable. */
static int wait_for(int epoll, int fd, int milliseconds) {
    struct epoll_event event;
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    return epoll < 0 ? poll(&asked, 1, milliseconds) : epoll_wait(epoll, &event, 1, milliseconds);
}

/* No memory is left for the stack of a thread. */
static void allow_no_threads(void) {
    unsigned long pages = 0;
    FILE *sizes = fopen("/proc/self/statm", "r");
    if (fscanf(sizes, "%lu", &pages) != 1) printf("no size\n");
    fclose(sizes);
    struct rlimit limit = {pages * 4096 + (1 << 20), RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &limit);
}

/* Nothing can be opened any more, and poll accepts no descriptor. */
static void allow_no_descriptors(void) {
    struct rlimit limit = {0, 0};
    setrlimit(RLIMIT_NOFILE, &limit);
}

static long used_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    if (argc < 4) return 1;
    int is_file = strchr(argv[1], '/') != NULL;
    const char *mode = argc > 4 ? argv[4] : "";
    int is_late = !strcmp(mode, "late"), is_after = !strcmp(mode, "after");
    pcap_t *handle = is_file ? pcap_open_offline(argv[1], errors) : pcap_open_live(argv[1], 200, 0, is_late ? 100 : 20, errors);
    struct bpf_program program;
    if (!handle || pcap_setnonblock(handle, 1, errors) != -is_file || pcap_compile(handle, &program, argv[2], 1, 0)) {
        printf("%s %s\n", errors, handle ? pcap_geterr(handle) : "");
        return 1;
    }
    if (!strcmp(mode, "threadless")) allow_no_threads();
    if (!strcmp(mode, "direction")) pcap_setdirection(handle, PCAP_D_IN);
    if (is_after) {
        /* Asks for the descriptor only after it has read packets. */
        pcap_setfilter(handle, &program);
        printf("opened\n");
        fflush(stdout);
        for (int taken = 0; taken < 2;) pcap_dispatch(handle, 1, count, (u_char *)&taken);
    }
    int fd = pcap_get_selectable_fd(handle), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && errno == EPERM) epoll = -1; /* A regular file. */
    if (is_late) {
        printf("opened\n");
        fflush(stdout);
        getchar();
    }
    if (!is_after) pcap_setfilter(handle, &program);
    pcap_freecode(&program);
    /* A fork may cause one wake without a packet. */
    int limit = atoi(argv[3]), packets = 0, empty = !strcmp(mode, "fork") ? -1 : 0, code = 0;
    if (!strcmp(mode, "fork")) {
        pid_t child = fork();
        if (child) {
            pcap_close(handle);
            waitpid(child, &code, 0);
            return WEXITSTATUS(code);
        }
    }
    /* The kernel hands over what came before the filter. */
    if ((is_late || is_after) && wait_for(epoll, fd, 300)) printf("readable\n");
    long before = used_ms();
    if (!strcmp(mode, "sandboxed")) allow_no_descriptors();
    printf("ready\n");
    fflush(stdout);
    while (packets < limit && code >= 0) {
        if (wait_for(epoll, fd, 20000) != 1) {
            printf("not readable\n");
            break;
        }
        int earlier = packets;
        code = pcap_dispatch(handle, 3, count, (u_char *)&packets);
        if (code == 0) {
            if (epoll < 0) break;
            empty++;
        }
        if (code > 0 && code != packets - earlier) printf("dispatch %d\n", code);
        if (packets > earlier) printf("got %d\n", packets);
        fflush(stdout);
    }
    if (strstr("threadless sandboxed", mode) && *mode && used_ms() > before + 200) printf("busy\n");
    printf("packets %d empty %d idle %d code %d\n", packets, empty > 0 ? empty : 0, code < 0 || wait_for(epoll, fd, 0) == 0, code);
    pcap_close(handle);
    return 0;
}
