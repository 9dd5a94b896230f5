/* Uses a device and a file as Zeek does. usage: zeek epoll|poll DEVICE PACKETS FILE
 *
 * Zeek's packet source makes the handle non-blocking, asks for its descriptor once, waits on it with the descriptors of all else, and takes
 * packets with pcap_next_ex until there are none. Files are opened as a FILE*, and are always ready. */
#include <poll.h>
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { BYTES_KEPT = 9216, ROUND = 20 };

static int failed(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    return 1;
}

static void filter(pcap_t *handle) {
    struct bpf_program program;
    if (pcap_compile(handle, &program, "ether proto 0x88b5 and not ether[14:4] > 7", 1, PCAP_NETMASK_UNKNOWN) < 0 ||
        pcap_setfilter(handle, &program) < 0)
        printf("filter: %s\n", pcap_geterr(handle));
    pcap_freecode(&program);
}

static int file(const char *path) {
    char errors[PCAP_ERRBUF_SIZE];
    FILE *stream = fopen(path, "rb");
    pcap_t *handle = stream ? pcap_fopen_offline(stream, errors) : NULL;
    if (!handle) return failed(path, errors);
    printf("file: stream %d descriptor %d selectable %d link %d\n", pcap_file(handle) == stream, pcap_fileno(handle) == fileno(stream),
           pcap_get_selectable_fd(handle) == fileno(stream), pcap_datalink(handle));
    filter(handle);
    struct pcap_pkthdr *header;
    const u_char *data;
    int returned, packets = 0;
    unsigned long bytes = 0;
    while ((returned = pcap_next_ex(handle, &header, &data)) == 1) packets++, bytes += header->len + data[21];
    printf("file: %d packets %lu returned %d\n", packets, bytes, returned);
    struct pcap_stat stats;
    printf("file: stats %d\n", pcap_stats(handle, &stats));
    pcap_close(handle);
    return 0;
}

/* Waits with one of the system calls until the descriptor is readable. It is level-triggered: a round may leave packets. */
static int wait_for(int descriptor, int epoll) {
    struct epoll_event event;
    struct pollfd polled = {.fd = descriptor, .events = POLLIN};
    return epoll >= 0 ? epoll_wait(epoll, &event, 1, 20000) : poll(&polled, 1, 20000);
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE];
    if (argc < 5) return 2;
    int wanted = atoi(argv[3]);
    pcap_t *handle = pcap_create(argv[2], errors);
    if (!handle) return failed(argv[2], errors);
    if (pcap_set_snaplen(handle, BYTES_KEPT) || pcap_set_promisc(handle, 1) || pcap_set_timeout(handle, 1) ||
        pcap_set_buffer_size(handle, 8 << 20) || pcap_activate(handle) || pcap_setnonblock(handle, 1, errors) < 0)
        return failed("open", pcap_geterr(handle));
    filter(handle);
    int descriptor = pcap_get_selectable_fd(handle), epoll = -1;
    printf("descriptor %d same %d link %d\n", descriptor >= 0, descriptor == pcap_get_selectable_fd(handle), pcap_datalink(handle));
    if (strcmp(argv[1], "epoll") == 0) {
        struct epoll_event event = {.events = EPOLLIN};
        epoll = epoll_create1(EPOLL_CLOEXEC);
        printf("watched %d\n", epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event));
    }
    fprintf(stderr, "listening\n");
    int packets = 0, returned = 0, idle = 0;
    unsigned sum = 0;
    while (packets < wanted) {
        int ready = wait_for(descriptor, epoll);
        if (ready <= 0) return failed("wait", ready ? "failed" : "nothing in 20 s");
        struct pcap_pkthdr *header;
        const u_char *data;
        int before = packets;
        for (int round = 0; round < ROUND && packets < wanted; round++) {
            returned = pcap_next_ex(handle, &header, &data);
            if (returned < 0) return failed("next", pcap_geterr(handle));
            if (returned == 0) break;
            sum += data[21];
            packets++;
        }
        idle = packets == before ? idle + 1 : 0;
        if (idle > 1000) return failed("wait", "readable 1000 times without a packet");
    }
    struct pcap_stat stats;
    int failed_stats = pcap_stats(handle, &stats);
    printf("packets %d sum %u stats %d dropped %u\n", packets, sum, failed_stats, stats.ps_drop);
    struct pcap_pkthdr *header;
    const u_char *data;
    printf("then %d\n", pcap_next_ex(handle, &header, &data));
    pcap_close(handle);
    return file(argv[4]);
}
