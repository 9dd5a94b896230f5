/* Uses devices in every way: `vb` receives what is injected on `va`. Run with two libraries, the output is compared. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <forebay/pcap.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static pcap_t *receiver, *sender;

static void show(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    printf("%s %u/%u number %d recent %d\n", (char *)user, header->caplen, header->len, data[14],
           header->ts.tv_sec > 1600000000 && header->ts.tv_usec < 1000000000);
}

static pcap_t *opened(const char *device, int milliseconds, int immediate) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(device, errors);
    struct pcap_pkthdr *header;
    const u_char *data;
    printf("%s: snapshot %d link %d next_ex %d dispatch %d stats %d\n", device, pcap_snapshot(handle), pcap_datalink(handle),
           pcap_next_ex(handle, &header, &data), pcap_dispatch(handle, 1, show, NULL), pcap_stats(handle, NULL));
    printf("precision %d\n", pcap_set_tstamp_precision(handle, 7));
    printf("set %d %d %d %d %d precision %d\n", pcap_set_snaplen(handle, 96), pcap_set_promisc(handle, 1),
           pcap_set_timeout(handle, milliseconds), pcap_set_buffer_size(handle, 2 << 20),
           pcap_set_immediate_mode(handle, immediate),
           pcap_set_tstamp_precision(handle, PCAP_TSTAMP_PRECISION_NANO));
    printf("activate %d\n", pcap_activate(handle));
    printf("activate again %d\n", pcap_activate(handle));
    printf("set again %d\n", pcap_set_snaplen(handle, 96));
    printf("link %d snapshot %d precision %d\n", pcap_datalink(handle), pcap_snapshot(handle), pcap_get_tstamp_precision(handle));
    return handle;
}

static void inject(int number, int len) {
    u_char frame[1500];
    memset(frame, 0x5a, sizeof frame);
    memcpy(frame, "\2\0\0\0\0\xee\2\0\0\0\0\1\x88\xb5", 14);
    frame[14] = number;
    int sent = pcap_inject(sender, frame, len);
    if (sent != len) printf("inject %d %s\n", sent, pcap_geterr(sender));
}

/* The link types of a device, and those that can be selected. */
static void links(const char *device, int other) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_open_live(device, 96, 0, 20, errors);
    int *list, count = pcap_list_datalinks(handle, &list);
    printf("%s links:", device);
    for (int i = 0; i < count; i++) printf(" %d", list[i]);
    printf(" set %d", pcap_set_datalink(handle, other));
    printf(" set %d %s link %d\n", pcap_set_datalink(handle, DLT_RAW), pcap_geterr(handle), pcap_datalink(handle));
    pcap_free_datalinks(list);
    pcap_close(handle);
}

/* Captures one Ethernet protocol. */
static void one_protocol(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create("vb", errors);
    struct pcap_pkthdr *header;
    const u_char *data;
    u_char frame[60] = "\2\0\0\0\0\xee\2\0\0\0\0\1\x88\xb6";
    printf("protocol %d timeout %d", pcap_set_protocol_linux(handle, 0x88b5), pcap_set_timeout(handle, 20));
    printf(" activate %d\n", pcap_activate(handle));
    for (int i = 0; i < 3; i++) {
        frame[13] ^= 3;
        frame[14] = i;
        pcap_inject(sender, frame, sizeof frame);
    }
    int returned;
    while ((returned = pcap_next_ex(handle, &header, &data)) == 0) {}
    printf("next_ex %d protocol %02x%02x number %d\n", returned, data[12], data[13], data[14]);
    while ((returned = pcap_next_ex(handle, &header, &data)) == 0) {}
    printf("next_ex %d protocol %02x%02x number %d\n", returned, data[12], data[13], data[14]);
    pcap_close(handle);
}

/* The interfaces among the devices, and their networks. */
static void list(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_if_t *all;
    printf("list %d\n", pcap_findalldevs(&all, errors));
    for (pcap_if_t *device = all; device; device = device->next) {
        if (!if_nametoindex(device->name)) continue;
        printf("%s %s flags %x:", device->name, device->description ? device->description : "", device->flags);
        for (pcap_addr_t *address = device->addresses; address; address = address->next) {
            char host[NI_MAXHOST] = "", mask[NI_MAXHOST] = "", broadcast[NI_MAXHOST] = "";
            socklen_t length = sizeof(struct sockaddr_in);
            if (address->addr->sa_family != AF_INET) continue;
            getnameinfo(address->addr, length, host, sizeof host, NULL, 0, NI_NUMERICHOST);
            if (address->netmask) getnameinfo(address->netmask, length, mask, sizeof mask, NULL, 0, NI_NUMERICHOST);
            if (address->broadaddr) getnameinfo(address->broadaddr, length, broadcast, sizeof broadcast, NULL, 0, NI_NUMERICHOST);
            printf(" %s/%s %s", host, mask, broadcast);
        }
        printf("\n");
    }
    pcap_freealldevs(all);
    const char *first = pcap_lookupdev(errors), *names[] = {"lo", "va", "nosuch0"};
    printf("first %s\n", first ? first : errors);
    for (int at = 0; at < 3; at++) {
        bpf_u_int32 network = 1, mask = 1;
        printf("%s: %d", names[at], pcap_lookupnet(names[at], &network, &mask, errors));
        printf(" %x %x\n", network, mask);
    }
}

/* Settings of a device that is not activated yet. */
static void kinds(const char *device) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = pcap_create(device, errors);
    int *types = NULL, count = pcap_list_tstamp_types(handle, &types);
    printf("%s time stamps %d:", device, count);
    for (int at = 0; at < count; at++) printf(" %d", types[at]);
    pcap_free_tstamp_types(types);
    for (int type = -1; type < 6; type++) printf(" set %d", pcap_set_tstamp_type(handle, type));
    printf(" monitor %d %d", pcap_can_set_rfmon(handle), pcap_set_rfmon(handle, 0));
    printf(" activate %d", pcap_activate(handle));
    printf(" monitor %d %d", pcap_can_set_rfmon(handle), pcap_set_rfmon(handle, 0));
    printf(" timeout %d\n", pcap_get_required_select_timeout(handle) != NULL);
    pcap_close(handle);
}

static int is_readable(int milliseconds) {
    struct pollfd asked = {.fd = pcap_get_selectable_fd(receiver), .events = POLLIN};
    return poll(&asked, 1, milliseconds);
}

/* Waits for this number of packets, in calls that return at once. */
static void take(int packets) {
    struct pcap_pkthdr *header;
    const u_char *data;
    while (packets > 0) {
        int returned = pcap_next_ex(receiver, &header, &data);
        if (returned < 0) {
            printf("next_ex %d\n", returned);
            return;
        }
        if (returned == 1) {
            show((u_char *)"next_ex", header, data);
            packets--;
        }
    }
}

static void *breaks(void *handle) {
    usleep(50000);
    pcap_breakloop(handle);
    return NULL;
}

static void *loops(void *handle) {
    pcap_loop(handle, -1, show, (u_char *)"cancelled");
    return NULL;
}

static void by_signal(int number) { (void)number; pcap_breakloop(receiver); }

static void filter(const char *text) {
    struct bpf_program program;
    int compiled = pcap_compile(receiver, &program, text, 1, PCAP_NETMASK_UNKNOWN);
    printf("filter %d %d\n", compiled, compiled == 0 ? pcap_setfilter(receiver, &program) : 0);
    if (compiled == 0) pcap_freecode(&program);
}

int main(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *missing = pcap_create("nosuch0", errors);
    printf("missing %d\n", pcap_activate(missing));
    pcap_close(missing);
    printf("missing %d\n", pcap_open_live("nosuch0", 96, 0, 10, errors) != NULL);

    list();
    kinds("va");
    kinds("lo");
    sender = opened("va", 20, 1);
    links("vb", DLT_DOCSIS);
    links("lo", DLT_EN10MB);
    one_protocol();
    receiver = opened("vb", 20, 1);

    printf("idle %d\n", is_readable(0));
    printf("nonblock %d\n", pcap_setnonblock(receiver, 1, errors));
    printf("nonblock %d\n", pcap_getnonblock(receiver, errors));
    printf("dispatch %d\n", pcap_dispatch(receiver, -1, show, (u_char *)"none"));
    inject(1, 60);
    inject(2, 200);
    printf("readable %d\n", is_readable(5000));
    take(2);
    printf("idle again %d\n", is_readable(0));

    filter("ether[14] >= 10");
    for (int number = 8; number < 14; number++) inject(number, 64);
    take(4);
    printf("filtered %d\n", pcap_dispatch(receiver, -1, show, (u_char *)"none"));
    filter("");

    /* Of a burst, also the packets after the first one are left out. */
    for (int number = 22; number < 26; number++) inject(number, 60);
    take(1);
    printf("direction %d\n", pcap_setdirection(receiver, PCAP_D_OUT));
    inject(20, 60);
    usleep(50000);
    printf("of the other direction %d\n", pcap_dispatch(receiver, -1, show, (u_char *)"none"));
    printf("direction %d\n", pcap_setdirection(receiver, PCAP_D_INOUT));
    inject(21, 60);
    take(1);

    printf("nonblock %d\n", pcap_setnonblock(receiver, 0, errors));
    signal(SIGALRM, by_signal);
    pthread_t thread;
    pthread_create(&thread, NULL, breaks, receiver);
    printf("broken by a thread %d\n", pcap_loop(receiver, -1, show, (u_char *)"loop"));
    pthread_join(thread, NULL);
    void *result;
    pthread_create(&thread, NULL, loops, receiver);
    usleep(50000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
    alarm(1);
    printf("broken by a signal %d\n", pcap_loop(receiver, -1, show, (u_char *)"loop"));
    for (int number = 30; number < 33; number++) inject(number, 60);
    printf("loop %d\n", pcap_loop(receiver, 3, show, (u_char *)"loop"));

    struct pcap_stat stats;
    printf("stats %d\n", pcap_stats(receiver, &stats));
    printf("dropped %u %u\n", stats.ps_drop, stats.ps_ifdrop);
    /* Only on our library. One packet went in the other direction. */
    __typeof__(forebay_pcap_stats64) *exact = dlsym(RTLD_DEFAULT, "forebay_pcap_stats64");
    struct forebay_pcap_stats64 counts = {.size = sizeof counts};
    if (exact && (exact(receiver, &counts) || counts.received != 15 || counts.delivered != 11 || counts.filtered != 4 ||
                  counts.waiting + counts.left_out + counts.kernel + counts.rx_ring + counts.fill_ring + counts.peer +
                  counts.overrun + counts.interface_dropped + counts.outages + counts.outage_ns || counts.size != sizeof counts))
        printf("received %lu delivered %lu filtered %lu\n", counts.received, counts.delivered, counts.filtered);
    /* A program with an older header has fewer counts. */
    struct forebay_pcap_stats64 fewer = {.size = 2 * sizeof(uint64_t), .delivered = 7}, none = {0};
    if (exact && (exact(receiver, &fewer) || fewer.received != 15 || fewer.delivered != 7 || exact(receiver, &none) != PCAP_ERROR))
        printf("size %lu delivered %lu\n", fewer.size, fewer.delivered);
    pcap_dumper_t *dumper = pcap_dump_open(receiver, "/dev/null");
    printf("dumper %d\n", dumper != NULL);
    pcap_dump_close(dumper);
    pcap_close(receiver);
    pcap_close(sender);
    return 0;
}
