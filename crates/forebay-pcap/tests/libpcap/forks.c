/* Reads a device in a child, and then in the parent. Or one of the two closes it while it has a packet, and then the other reads it.
   usage: forks DEVICE [parent|child] */
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void count(u_char *packets, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)packets;
}

static void take(const char *what, pcap_t *handle, int wanted) {
    int packets = 0, returned = pcap_loop(handle, wanted, count, (u_char *)&packets);
    printf("%s: loop %d packets %d %s\n", what, returned, packets, pcap_geterr(handle));
    fflush(stdout);
    pcap_close(handle);
}

/* More packets than fit in its buffer. */
static int read_after_close(const char *device, const char *reader) {
    char errors[PCAP_ERRBUF_SIZE];
    struct pcap_pkthdr header;
    pcap_t *handle = pcap_create(device, errors);
    if (!handle || pcap_set_buffer_size(handle, 1 << 20) || pcap_set_timeout(handle, 20) || pcap_activate(handle)) return 1;
    while (!pcap_next(handle, &header)) {}
    int closed[2];
    char end;
    if (pipe(closed)) return 1;
    pid_t child = fork();
    if (!strcmp(reader, child ? "parent" : "child")) {
        close(closed[1]);
        if (read(closed[0], &end, 1)) return 1;
        take(reader, handle, 50000);
    } else {
        pcap_close(handle);
        close(closed[1]);
    }
    if (child) wait(NULL);
    return 0;
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "no device";
    if (argc > 2) return read_after_close(argv[1], argv[2]);
    pcap_t *handle = argc > 1 ? pcap_open_live(argv[1], 96, 0, 20, errors) : NULL;
    if (!handle) return printf("%s\n", errors), 1;
    pcap_get_selectable_fd(handle);
    if (!fork()) {
        take("child", handle, 20);
        _exit(0);
    }
    wait(NULL);
    take("parent", handle, 20);
    return 0;
}
