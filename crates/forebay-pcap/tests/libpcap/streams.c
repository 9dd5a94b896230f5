/* Uses streams that are the program's, too. Run with two libraries, the output is compared. usage: streams OUTPUT < INPUT */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pcap/pcap.h>
#include <string.h>

static void reads_standard_input(void) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    struct pcap_pkthdr *header;
    const u_char *data;
    pcap_t *handle = pcap_fopen_offline(stdin, errors);
    printf("stdin: next_ex %d", pcap_next_ex(handle, &header, &data));
    pcap_close(handle);
    printf(" open %d\n", fcntl(0, F_GETFD) >= 0);
}

/* A file that another program continues. */
static void reads_a_growing_file(const char *path) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    unsigned header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 96, 1}, packet[4 + 15] = {1, 0, 60, 60};
    struct pcap_pkthdr *found;
    const u_char *data;
    FILE *stream = fopen(path, "w");
    fwrite(header, sizeof header, 1, stream);
    fwrite(packet, sizeof packet, 1, stream);
    fflush(stream);
    pcap_t *handle = pcap_open_offline(path, errors);
    printf("growing: %d", pcap_next_ex(handle, &found, &data));
    printf(" %d", pcap_next_ex(handle, &found, &data));
    fwrite(packet, sizeof packet, 1, stream);
    fflush(stream);
    printf(" %d", pcap_next_ex(handle, &found, &data));
    clearerr(pcap_file(handle));
    printf(" %d", pcap_next_ex(handle, &found, &data));
    printf(" %d\n", pcap_next_ex(handle, &found, &data));
    pcap_close(handle);
    fclose(stream);
}

static void writes_packets_without_bytes(const char *path) {
    struct pcap_pkthdr header = {.len = 60};
    pcap_t *handle = pcap_open_dead(DLT_EN10MB, 96);
    pcap_dumper_t *dumper = pcap_dump_open(handle, path);
    pcap_dump((u_char *)dumper, &header, NULL);
    printf("empty packet: %ld\n", pcap_dump_ftell(dumper));
    /* Older programs use it as a stream. */
    FILE *stream = (FILE *)dumper;
    printf("stream: %d %ld %d\n", fflush(stream), ftell(stream), stream == pcap_dump_file(dumper));
    pcap_dump_close(dumper);
    pcap_close(handle);
}

/* Two packets do not fit, a third one would. */
static void stops_at_an_error(void) {
    static char room[120];
    static const u_char data[60];
    struct pcap_pkthdr header = {.caplen = 60, .len = 60}, small = {.caplen = 1, .len = 1};
    FILE *stream = fmemopen(room, sizeof room, "w");
    setvbuf(stream, NULL, _IONBF, 0);
    pcap_t *handle = pcap_open_dead(DLT_EN10MB, 96);
    pcap_dumper_t *dumper = pcap_dump_fopen(handle, stream);
    pcap_dump((u_char *)dumper, &header, data);
    pcap_dump((u_char *)dumper, &header, data);
    printf("full: failed %d", ferror(stream) != 0);
    fseek(stream, 100, SEEK_SET);
    pcap_dump((u_char *)dumper, &small, data);
    printf(" at %ld\n", pcap_dump_ftell(dumper));
    pcap_dump_close(dumper);
    pcap_close(handle);
}

/* Link types whose numbers differ on BSD and macOS. */
static void keeps_link_types(const char *path) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    int links[] = {149, 246, 258, 11, 12, 15, 16, 19, 147};
    for (unsigned at = 0; at < sizeof links / sizeof *links; at++) {
        unsigned header[6] = {0};
        pcap_t *handle = pcap_open_dead(links[at], 96);
        pcap_dumper_t *dumper = pcap_dump_open(handle, path);
        if (dumper) pcap_dump_close(dumper);
        pcap_close(handle);
        FILE *stream = fopen(path, "r");
        if (fread(header, sizeof header, 1, stream) != 1) printf("no header ");
        fclose(stream);
        handle = pcap_open_offline(path, errors);
        printf("link %d: %u %d\n", links[at], header[5], pcap_datalink(handle));
        pcap_close(handle);
    }
}

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    reads_standard_input();
    reads_a_growing_file(argv[1]);
    writes_packets_without_bytes(argv[1]);
    stops_at_an_error();
    keeps_link_types(argv[1]);
    return 0;
}
