/* Reads a device in a child, and then in the parent. usage: forks DEVICE */
#include <pcap/pcap.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void count(u_char *packets, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)packets;
}

static void take(const char *what, pcap_t *handle) {
    int packets = 0, returned = pcap_loop(handle, 20, count, (u_char *)&packets);
    printf("%s: loop %d packets %d %s\n", what, returned, packets, pcap_geterr(handle));
    fflush(stdout);
    pcap_close(handle);
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "no device";
    pcap_t *handle = argc > 1 ? pcap_open_live(argv[1], 96, 0, 20, errors) : NULL;
    if (!handle) return printf("%s\n", errors), 1;
    pcap_get_selectable_fd(handle);
    if (!fork()) {
        take("child", handle);
        _exit(0);
    }
    wait(NULL);
    take("parent", handle);
    return 0;
}
