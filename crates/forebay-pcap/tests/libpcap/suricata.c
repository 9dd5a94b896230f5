/* Uses a device and a file as Suricata does. usage: suricata DEVICE PACKETS FILE
 *
 * Suricata's receiving thread dispatches batches, copies each packet, and adds up what pcap_stats reports. Another thread ends it with
 * pcap_breakloop. Of a file it asks for the FILE*, to follow how far it was read. */
#include <pcap/pcap.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 64 };

static pcap_t *handle;
static int wanted, taken;
static unsigned sum;
static unsigned long bytes;
static sem_t complete;
static u_char copy[65536];

static void packet(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user;
    memcpy(copy, data, header->caplen);
    bytes += header->len;
    sum += copy[21];
    if (++taken == wanted) sem_post(&complete);
}

static void *stopper(void *unused) {
    sem_wait(&complete);
    usleep(20000);
    pcap_breakloop(handle);
    return unused;
}

static int failed(const char *what, const char *why) {
    printf("%s: %s\n", what, why);
    return 1;
}

static int filter(void) {
    struct bpf_program program;
    int failed = pcap_compile(handle, &program, "ether proto 0x88b5", 1, 0) || pcap_setfilter(handle, &program);
    pcap_freecode(&program);
    return failed;
}

static int device(const char *name) {
    char errors[PCAP_ERRBUF_SIZE];
    struct pcap_stat stats;
    pthread_t thread;
    handle = pcap_create(name, errors);
    if (!handle) return failed(name, errors);
    if (pcap_set_snaplen(handle, 1524) || pcap_set_promisc(handle, 1) || pcap_set_timeout(handle, 500) ||
        pcap_set_buffer_size(handle, 4 << 20) || pcap_activate(handle))
        return failed("open", pcap_geterr(handle));
    printf("link %d filter %d\n", pcap_datalink(handle), filter());
    fprintf(stderr, "listening\n");
    pthread_create(&thread, NULL, stopper, NULL);
    int returned;
    while ((returned = pcap_dispatch(handle, BATCH, packet, NULL)) >= 0) {}
    pthread_join(thread, NULL);
    printf("returned %d taken %d sum %u bytes %lu\n", returned, taken, sum, bytes);
    int failed = pcap_stats(handle, &stats);
    printf("stats %d received %d dropped %u %u\n", failed, stats.ps_recv >= (u_int)wanted, stats.ps_drop, stats.ps_ifdrop);
    pcap_close(handle);
    return 0;
}

static int file(const char *path) {
    char errors[PCAP_ERRBUF_SIZE];
    handle = pcap_open_offline(path, errors);
    if (!handle) return failed(path, errors);
    printf("file: stream %d link %d filter %d version %d.%d swapped %d\n", pcap_file(handle) != NULL, pcap_datalink(handle), filter(),
           pcap_major_version(handle), pcap_minor_version(handle), pcap_is_swapped(handle));
    long before = ftell(pcap_file(handle));
    taken = 0, sum = 0, bytes = 0;
    int returned;
    while ((returned = pcap_dispatch(handle, BATCH, packet, NULL)) > 0) {}
    /* The position of the stream moves forward while packets are delivered. */
    printf("file: returned %d taken %d sum %u bytes %lu moved %d\n", returned, taken, sum, bytes, ftell(pcap_file(handle)) > before);
    pcap_close(handle);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    wanted = atoi(argv[2]);
    sem_init(&complete, 0, 0);
    return device(argv[1]) || file(argv[3]);
}
