/* Breaks a loop over a pipe whose packets the filter rejects. Run with two libraries, the output is compared. */
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { BEFORE = 1000, MOST = 300000 };

static pcap_t *handle;
static _Atomic(pcap_t *) opened;
static atomic_int is_over;
static int ends[2];

static void *write_packets(void *unused) {
    unsigned header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 96, 1}, packet[4 + 15] = {1, 0, 60, 60};
    FILE *stream = fdopen(ends[1], "w");
    fwrite(header, sizeof header, 1, stream);
    fflush(stream);
    for (int packets = 0; packets < MOST && !is_over; packets++) {
        fwrite(packet, sizeof packet, 1, stream);
        if (packets == BEFORE) {
            while (!opened) usleep(100);
            pcap_breakloop(handle);
        }
    }
    fclose(stream);
    return unused;
}

static void show(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user, (void)data;
    printf("%u\n", header->caplen);
}

int main(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    struct bpf_program program;
    pthread_t thread;
    if (pipe(ends)) return 1;
    pthread_create(&thread, NULL, write_packets, NULL);
    handle = pcap_fopen_offline(fdopen(ends[0], "r"), errors);
    printf("%d\n", pcap_compile(handle, &program, "udp port 9", 1, 0));
    printf("%d\n", pcap_setfilter(handle, &program));
    opened = handle;
    printf("loop %d\n", pcap_loop(handle, -1, show, NULL));
    is_over = 1;
    while (pcap_loop(handle, -1, show, NULL) == 1) {}
    pthread_join(thread, NULL);
    pcap_freecode(&program);
    pcap_close(handle);
    return 0;
}
