/* Uses streams that are the program's, too. Run with two libraries, the output is compared. usage: streams OUTPUT < INPUT */
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

int main(int argc, char **argv) {
    if (argc < 2) return 1;
    reads_standard_input();
    reads_a_growing_file(argv[1]);
    return 0;
}
