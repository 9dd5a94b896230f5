/* Takes packets as programs with an event loop do: waits on the descriptor, and calls nothing before it is readable.
 * usage: waits DEVICE|FILE FILTER PACKETS [fork|direction] */
#include <errno.h>
#include <pcap/pcap.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <unistd.h>

static void count(u_char *packets, const struct pcap_pkthdr *header, const u_char *data) {
    (void)header, (void)data;
    ++*(int *)packets;
}

/* 1: readable. */
static int wait_for(int epoll, int fd, int milliseconds) {
    struct epoll_event event;
    struct pollfd asked = {.fd = fd, .events = POLLIN};
    return epoll < 0 ? poll(&asked, 1, milliseconds) : epoll_wait(epoll, &event, 1, milliseconds);
}

int main(int argc, char **argv) {
    char errors[PCAP_ERRBUF_SIZE] = "";
    if (argc < 4) return 1;
    int is_file = strchr(argv[1], '/') != NULL;
    pcap_t *handle = is_file ? pcap_open_offline(argv[1], errors) : pcap_open_live(argv[1], 200, 0, 20, errors);
    struct bpf_program program;
    if (!handle || pcap_setnonblock(handle, 1, errors) != -is_file || pcap_compile(handle, &program, argv[2], 1, 0)) {
        printf("%s %s\n", errors, handle ? pcap_geterr(handle) : "");
        return 1;
    }
    const char *mode = argc > 4 ? argv[4] : "";
    if (!strcmp(mode, "direction")) pcap_setdirection(handle, PCAP_D_IN);
    int fd = pcap_get_selectable_fd(handle), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && errno == EPERM) epoll = -1; /* A regular file. */
    pcap_setfilter(handle, &program);
    pcap_freecode(&program);
    /* A fork may cause one wake without a packet. */
    int limit = atoi(argv[3]), packets = 0, empty = !strcmp(mode, "fork") ? -1 : 0, code = 0;
    if (!strcmp(mode, "fork")) {
        pid_t child = fork();
        if (child) {
            pcap_close(handle);
            waitpid(child, &code, 0);
            return WEXITSTATUS(code);
        }
    }
    printf("ready\n");
    fflush(stdout);
    while (packets < limit && code >= 0) {
        if (wait_for(epoll, fd, 20000) != 1) {
            printf("not readable\n");
            break;
        }
        int before = packets;
        code = pcap_dispatch(handle, 3, count, (u_char *)&packets);
        if (code == 0) {
            if (epoll < 0) break;
            empty++;
        }
        if (code > 0 && code != packets - before) printf("dispatch %d\n", code);
        if (packets > before) printf("got %d\n", packets);
        fflush(stdout);
    }
    printf("packets %d empty %d idle %d code %d\n", packets, empty > 0 ? empty : 0, code < 0 || wait_for(epoll, fd, 0) == 0, code);
    pcap_close(handle);
    return 0;
}
