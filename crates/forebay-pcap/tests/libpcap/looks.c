/* A handle that does not wait. usage: looks DEVICE [outage]
 * Counts its packets to the end; or how often the descriptor becomes readable in half a second after an outage. */
#include <pcap/pcap.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static int packets;

static void count(u_char *user, const struct pcap_pkthdr *header, const u_char *data) {
    (void)user, (void)header, (void)data;
    packets++;
}

static long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Until `other` is readable, or this time has passed. */
static int wakes(pcap_t *handle, int other, int limit) {
    int wakes = 0;
    long end = milliseconds() + limit, left;
    while ((left = end - milliseconds()) > 0) {
        struct pollfd asked[] = {{.fd = pcap_get_selectable_fd(handle), .events = POLLIN}, {.fd = other, .events = POLLIN}};
        poll(asked, 2, left);
        if (asked[1].revents) break;
        if (!asked[0].revents) continue;
        if (wakes++ == 0 && other == 0) {
            printf("down\n");
            fflush(stdout);
        }
        pcap_dispatch(handle, -1, count, NULL);
    }
    return wakes;
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    pcap_t *handle = argc > 1 ? pcap_open_live(argv[1], 96, 0, 10, errors) : NULL;
    if (!handle || pcap_setnonblock(handle, 1, errors)) {
        printf("%s\n", errors);
        return 1;
    }
    if (argc > 2) {
        pcap_get_selectable_fd(handle);
        printf("ready\n");
        fflush(stdout);
        wakes(handle, 0, 20000);
        /* The interface is up again. */
        wakes(handle, -1, 300);
        printf("wakes %d\n", wakes(handle, -1, 500));
    } else {
        int returned;
        while ((returned = pcap_dispatch(handle, -1, count, NULL)) >= 0) {}
        printf("packets %d returned %d\n", packets, returned);
    }
    pcap_close(handle);
    return 0;
}
