/* Calls functions of a handle while another thread waits for the bytes of a pipe. Run with two libraries, the output is compared. */
#include <pcap/pcap.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static pcap_t *handle;
static atomic_int packets;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user, (void)header;
    printf("packet %d\n", data[14]);
    packets++;
}

static void *read_all(void *unused) {
    printf("loop %d\n", pcap_loop(handle, -1, count, NULL));
    return unused;
}

static void add(int pipe, int number) {
    struct { unsigned header[4]; u_char data[60]; } packet = {{1, 0, 60, 60}, {[14] = number}};
    if (write(pipe, &packet, sizeof packet) != sizeof packet) printf("not written\n");
}

int main(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    unsigned header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 96, 1};
    int ends[2];
    if (pipe(ends) || write(ends[1], header, sizeof header) != sizeof header) return 1;
    FILE *stream = fdopen(ends[0], "r");
    handle = pcap_fopen_offline(stream, errors);
    pthread_t reader;
    pthread_create(&reader, NULL, read_all, NULL);
    add(ends[1], 1);
    while (packets == 0) usleep(1000);
    int snapshots = 0;
    for (int time = 0; time < 50; time++) {
        snapshots += pcap_snapshot(handle) == 96;
        usleep(1000);
    }
    printf("snapshots %d link %d swapped %d same %d\n", snapshots, pcap_datalink(handle), pcap_is_swapped(handle), pcap_file(handle) == stream);
    struct bpf_program program;
    printf("compile %d\n", pcap_compile(handle, &program, "ether[14] = 3", 1, 0));
    printf("setfilter %d\n", pcap_setfilter(handle, &program));
    pcap_freecode(&program);
    add(ends[1], 2);
    add(ends[1], 3);
    while (packets == 1) usleep(1000);
    close(ends[1]);
    pthread_join(reader, NULL);
    pcap_close(handle);
    return 0;
}
